/* The parallel read of pattern.h over BMI.
     read_pattern_bmi server URL CLIENTS READS     serves and prints its port
     read_pattern_bmi client READS URL...          prints seconds and bytes, after one read to warm up */
#include <bmi.h>

#include "pattern.h"

static bmi_context_id context;

/* One stream of messages, at either end. */
struct stream {
    BMI_addr_t addr;
    bmi_msg_tag_t tag;
    int posted, ended, answered;
    char *memory, answer[ANSWER];
};

static void step(struct stream *stream, int receive, int stripes)
{
    while (stream->posted < MESSAGES && stream->posted - stream->ended < WINDOW) {
        bmi_op_id_t op;
        bmi_size_t size, sizes[PIECES] = { STRIPE, STRIPE, STRIPE, STRIPE };
        int ret;
        if (receive) {
            void *parts[PIECES];
            for (int i = 0; i < PIECES; i++)
                parts[i] = stream->memory + (size_t)((stream->posted * PIECES + i) * stripes) * STRIPE;
            ret = BMI_post_recv_list(&op, stream->addr, parts, sizes, PIECES, MESSAGE, &size, BMI_EXT_ALLOC, stream->tag, stream, context, NULL);
        } else {
            ret = BMI_post_send(&op, stream->addr, stream->memory, MESSAGE, BMI_PRE_ALLOC, stream->tag, stream, context, NULL);
        }
        if (ret < 0)
            fail("post", ret);
        stream->posted++;
        stream->ended += ret;
    }
}

static void serve(char *url, int clients, int reads)
{
    int port, ended = 0, posted = 0;
    char *memory;
    struct stream *streams = calloc(clients * reads, sizeof *streams);
    if (BMI_initialize("bmi_tcp", url, BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC) < 0 || BMI_open_context(&context) < 0)
        fail("initialize", 0);
    BMI_get_info(0, BMI_TCP_GET_PORT, &port);
    printf("%d\n", port);
    fflush(stdout);
    memory = BMI_memalloc(0, MESSAGE, BMI_SEND);
    memset(memory, 7, MESSAGE);
    while (ended < clients * reads) {
        struct BMI_unexpected_info info[8];
        bmi_op_id_t ids[32], op;
        bmi_error_code_t errors[32];
        bmi_size_t sizes[32];
        void *users[32];
        int count, ret;
        BMI_testunexpected(8, &count, info, 0);
        for (int i = 0; i < count; i++) {
            struct stream *stream = &streams[posted++];
            stream->addr = info[i].addr;
            stream->tag = info[i].tag;
            stream->memory = memory;
            ret = BMI_post_send(&op, info[i].addr, stream->answer, ANSWER, BMI_EXT_ALLOC, info[i].tag, NULL, context, NULL);
            if (ret < 0)
                fail("answer", ret);
            BMI_unexpected_free(info[i].addr, info[i].buffer);
            step(stream, 0, 1);
            ended += stream->ended == MESSAGES;
        }
        ret = BMI_testcontext(32, ids, &count, errors, sizes, users, 10, context);
        if (ret < 0)
            fail("testcontext", ret);
        for (int i = 0; i < count; i++) {
            struct stream *stream = users[i];
            if (errors[i] != 0)
                fail("send", errors[i]);
            if (stream == NULL)
                continue;
            stream->ended++;
            step(stream, 0, 1);
            ended += stream->ended == MESSAGES;
        }
    }
    BMI_finalize();
}

static void read_all(struct stream *streams, int servers, int round)
{
    int ended = 0;
    for (int i = 0; i < servers; i++) {
        char request[REQUEST] = "read";
        bmi_op_id_t op;
        bmi_size_t size;
        int ret;
        streams[i].posted = streams[i].ended = streams[i].answered = 0;
        streams[i].tag = round;
        ret = BMI_post_recv(&op, streams[i].addr, streams[i].answer, ANSWER, &size, BMI_EXT_ALLOC, round, &streams[i], context, NULL);
        if (ret < 0)
            fail("post answer", ret);
        ret = BMI_post_sendunexpected(&op, streams[i].addr, request, REQUEST, BMI_EXT_ALLOC, round, NULL, context, NULL);
        if (ret < 0)
            fail("request", ret);
    }
    while (ended < servers) {
        bmi_op_id_t ids[32];
        bmi_error_code_t errors[32];
        bmi_size_t sizes[32];
        void *users[32];
        int count, ret = BMI_testcontext(32, ids, &count, errors, sizes, users, 10, context);
        if (ret < 0)
            fail("testcontext", ret);
        for (int i = 0; i < count; i++) {
            struct stream *stream = users[i];
            if (errors[i] != 0)
                fail("receive", errors[i]);
            if (stream == NULL)
                continue;
            if (stream->answered)
                stream->ended++;
            stream->answered = 1;
            step(stream, 1, servers);
            ended += stream->ended == MESSAGES;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "server") == 0) {
        serve(argv[2], atoi(argv[3]), atoi(argv[4]) + 1);
    } else if (argc >= 4 && strcmp(argv[1], "client") == 0) {
        int reads = atoi(argv[2]), servers = argc - 3;
        char *memory = malloc((size_t)servers * MESSAGES * MESSAGE);
        struct stream *streams = calloc(servers, sizeof *streams);
        double began;
        if (BMI_initialize(NULL, NULL, 0) < 0 || BMI_open_context(&context) < 0)
            fail("initialize", 0);
        for (int i = 0; i < servers; i++) {
            streams[i].memory = memory + (size_t)i * STRIPE;
            if (BMI_addr_lookup(&streams[i].addr, argv[3 + i]) < 0)
                fail("lookup", 0);
        }
        read_all(streams, servers, 0);
        began = now();
        for (int round = 1; round <= reads; round++)
            read_all(streams, servers, round);
        printf("%f %ld\n", now() - began, (long)reads * servers * MESSAGES * MESSAGE);
        BMI_finalize();
    } else {
        fail("usage", argc);
    }
    return 0;
}
