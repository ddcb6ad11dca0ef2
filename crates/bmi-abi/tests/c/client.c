/* A client: reads and writes of many lengths, lists, threads, and calls that must fail. */
#include <bmi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol.h"

#define CHECK(what) check((what), #what, __LINE__)

static BMI_addr_t server;

static void check(int good, const char *what, int line)
{
    if (!good) {
        fprintf(stderr, "client: line %d: %s\n", line, what);
        exit(1);
    }
}

/* Waits for one operation with testcontext. */
static int finish(int posted, bmi_op_id_t op, bmi_size_t *size, void *expected, bmi_context_id context)
{
    int count = 0;
    bmi_error_code_t error = 0;
    bmi_op_id_t ended;
    void *user;
    if (posted != 0)
        return posted < 0 ? posted : 0;
    while (count == 0)
        CHECK(BMI_testcontext(1, &ended, &count, &error, size, &user, 100, context) == 0);
    CHECK(ended == op && user == expected);
    return error;
}

static int ask(int what, int seed, int64_t size, bmi_msg_tag_t tag, bmi_context_id context)
{
    struct request request = { what, seed, size };
    bmi_op_id_t op;
    int ret = BMI_post_sendunexpected(&op, server, &request, sizeof request, BMI_EXT_ALLOC, tag, &request, context, NULL);
    return finish(ret, op, NULL, &request, context);
}

/* Reads into one buffer, or four. */
static int read_some(int64_t size, int seed, bmi_msg_tag_t tag, int list, bmi_context_id context)
{
    char *bytes = malloc(size + 1), *right = malloc(size + 1);
    bmi_size_t got = -1, sizes[4];
    void *parts[4];
    bmi_op_id_t op;
    int ret = ask(READ, seed, size, tag, context);
    memset(bytes, 0xee, size + 1);
    if (ret == 0 && list) {
        for (int i = 0; i < 4; i++) {
            sizes[i] = i < 3 ? size / 4 : size - 3 * (size / 4);
            parts[i] = bytes + i * (size / 4);
        }
        ret = BMI_post_recv_list(&op, server, parts, sizes, 4, size, &got, BMI_EXT_ALLOC, tag, bytes, context, NULL);
        ret = finish(ret, op, &got, bytes, context);
    } else if (ret == 0) {
        ret = BMI_post_recv(&op, server, bytes, size, &got, BMI_EXT_ALLOC, tag, bytes, context, NULL);
        ret = finish(ret, op, &got, bytes, context);
    }
    if (ret == 0) {
        fill(right, size, seed);
        CHECK(got == size);
        CHECK(memcmp(bytes, right, size) == 0);
        CHECK(bytes[size] == (char)0xee);
    }
    free(bytes);
    free(right);
    return ret;
}

static int write_some(int64_t size, int seed, bmi_msg_tag_t tag, bmi_context_id context)
{
    char *bytes = BMI_memalloc(server, size, BMI_SEND);
    const void *parts[2] = { bytes, bytes + size / 2 };
    bmi_size_t got, sizes[2] = { size / 2, size - size / 2 };
    struct answer answer;
    bmi_op_id_t op;
    int ret = ask(WRITE, seed, size, tag, context);
    fill(bytes, size, seed);
    if (ret == 0) {
        ret = BMI_post_send_list(&op, server, parts, sizes, 2, size, BMI_PRE_ALLOC, tag, bytes, context, NULL);
        ret = finish(ret, op, &got, bytes, context);
    }
    if (ret == 0) {
        ret = BMI_post_recv(&op, server, &answer, sizeof answer, &got, BMI_EXT_ALLOC, tag, &answer, context, NULL);
        ret = finish(ret, op, &got, &answer, context);
    }
    if (ret == 0) {
        CHECK(answer.size == size);
        CHECK(answer.sum == sum(bytes, size));
    }
    CHECK(BMI_memfree(server, bytes, size, BMI_SEND) == 0);
    return ret;
}

static int talk(bmi_msg_tag_t tag)
{
    static const int64_t sizes[] = { 0, 1, 400, 4096, 16384, 16385, 262144, 3000001 };
    bmi_context_id context;
    CHECK(BMI_open_context(&context) == 0);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int ret = read_some(sizes[i], i, tag, i % 2, context);
        if (ret != 0)
            return ret;
        CHECK(write_some(sizes[i], i, tag, context) == 0);
    }
    BMI_close_context(context);
    return 0;
}

static void *talk_alone(void *tag)
{
    CHECK(talk((bmi_msg_tag_t)(intptr_t)tag) == 0);
    return NULL;
}

static void threads(void)
{
    pthread_t thread[3];
    for (intptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&thread[i], NULL, talk_alone, (void *)(i + 100)) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

static void errors(const char *url)
{
    bmi_context_id context, closed;
    bmi_op_id_t op, other;
    bmi_size_t size;
    bmi_error_code_t error;
    BMI_addr_t addr;
    int count, value;
    char *name, bytes[100];
    void *memory, *user;
    CHECK(BMI_open_context(&context) == 0 && BMI_open_context(&closed) == 0);
    /* Memory. */
    memory = BMI_memalloc(server, 100, BMI_RECV);
    CHECK(memory != NULL && BMI_memfree(server, memory, 100, BMI_RECV) == 0);
    CHECK(BMI_memfree(server, memory, 100, BMI_RECV) == -BMI_EINVAL);
    CHECK(BMI_unexpected_free(server, bytes) == -BMI_EINVAL);
    CHECK(BMI_memalloc(server, -1, BMI_RECV) == NULL);
    /* Arguments. */
    CHECK(BMI_post_send(&op, server, bytes, -1, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send(&op, server, NULL, 10, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send(NULL, server, bytes, 10, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send(&op, 12345, bytes, 10, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send(&op, server, bytes, 10, BMI_EXT_ALLOC, 0, NULL, 12345, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_sendunexpected(&op, server, bytes, 16385, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EMSGSIZE);
    CHECK(BMI_addr_lookup(&addr, "gm://somewhere") == -BMI_EADDRNTFD);
    CHECK(BMI_addr_lookup(&addr, NULL) == -BMI_EINVAL);
    /* Cancelled, and cancelled again after it was told. */
    CHECK(BMI_post_recv(&op, server, bytes, 100, &size, BMI_EXT_ALLOC, 9, &op, context, NULL) == 0);
    CHECK(BMI_post_recv(&other, server, bytes, 100, &size, BMI_EXT_ALLOC, 9, &other, closed, NULL) == 0);
    CHECK(BMI_test(op, &count, &error, &size, &user, 0, closed) == -BMI_EINVAL && count == 0);
    CHECK(BMI_cancel(op, context) == 0);
    CHECK(BMI_testsome(1, &op, &count, &value, &error, &size, &user, 1000, context) == 0);
    CHECK(count == 1 && value == 0 && error == -BMI_ECANCEL && user == &op);
    CHECK(BMI_cancel(op, context) == -BMI_EINVAL);
    CHECK(BMI_test(op, &count, &error, &size, &user, 0, context) == -BMI_EINVAL);
    /* A context that is closed. */
    BMI_close_context(closed);
    BMI_close_context(closed);
    CHECK(BMI_test(other, &count, &error, &size, &user, 0, closed) == -BMI_EINVAL);
    CHECK(BMI_testcontext(1, &op, &count, &error, &size, &user, 0, closed) == -BMI_EINVAL);
    /* Information. */
    CHECK(BMI_get_info(0, BMI_CHECK_INIT, NULL) == 0);
    CHECK(BMI_get_info(0, BMI_CHECK_MAXSIZE, &value) == 0 && value > 1 << 20);
    CHECK(BMI_get_info(0, BMI_GET_UNEXP_SIZE, &value) == 0 && value == 16384);
    CHECK(BMI_get_info(0, BMI_TCP_GET_PORT, &value) == -BMI_EINVAL);
    CHECK(BMI_get_info(0, BMI_TRANSPORT_METHODS_STRING, &name) == 0 && strcmp(name, "bmi_tcp") == 0);
    free(name);
    CHECK(BMI_get_info(0, 99, &value) == -BMI_ENOSYS && BMI_set_info(0, 99, NULL) == -BMI_ENOSYS);
    value = 1;
    CHECK(BMI_set_info(0, BMI_FORCEFUL_CANCEL_MODE, &value) == 0);
    CHECK(strcmp(BMI_addr_rev_lookup(server), url) == 0 && BMI_addr_rev_lookup(999) == NULL);
    CHECK(strcmp(BMI_addr_rev_lookup_unexpected(server), url) == 0);
    CHECK(BMI_query_addr_range(server, "tcp://127.0.0.0", 8) == 1);
    CHECK(BMI_query_addr_range(server, "tcp://10.0.0.0", 8) == 0);
    /* Nobody listens there. */
    CHECK(BMI_addr_lookup(&addr, "tcp://127.0.0.1:1") == 0);
    value = BMI_post_send(&op, addr, bytes, 10, BMI_EXT_ALLOC, 0, NULL, context, NULL);
    CHECK(finish(value, op, &size, NULL, context) == -BMI_ECONNREFUSED);
    CHECK(BMI_set_info(addr, BMI_DROP_ADDR, NULL) == 0 && BMI_set_info(addr, BMI_DROP_ADDR, NULL) == -BMI_EINVAL);
    BMI_close_context(context);
}

/* Says when it is served, when its server is lost, and when it is served again. */
static void patient(void)
{
    struct timespec pause = { 0, 20 * 1000 * 1000 };
    bmi_context_id context;
    int ret;
    CHECK(BMI_open_context(&context) == 0);
    CHECK(read_some(100000, 1, 1, 1, context) == 0);
    puts("served");
    fflush(stdout);
    while ((ret = read_some(100000, 2, 2, 0, context)) == 0)
        nanosleep(&pause, NULL);
    CHECK(ret == -BMI_ECONNRESET || ret == -BMI_ECONNREFUSED);
    puts("lost");
    fflush(stdout);
    while ((ret = read_some(100000, 3, 3, 1, context)) != 0) {
        CHECK(ret == -BMI_ECONNRESET || ret == -BMI_ECONNREFUSED);
        nanosleep(&pause, NULL);
    }
    puts("served again");
    BMI_close_context(context);
}

int main(int argc, char **argv)
{
    int ret;
    CHECK(argc == 3);
    CHECK(BMI_get_info(0, BMI_CHECK_INIT, NULL) == -BMI_ENETDOWN);
    CHECK(BMI_finalize() == -BMI_ENODEV);
    ret = BMI_initialize(NULL, NULL, 0);
    if (ret != 0)
        return 1;
    CHECK(BMI_initialize("bmi_tcp", NULL, 0) == 0 && BMI_finalize() == 0);
    CHECK(BMI_addr_lookup(&server, argv[2]) == 0);
    if (strcmp(argv[1], "talk") == 0) {
        ret = talk(7);
        if (ret == -BMI_ECONNREFUSED) {
            fprintf(stderr, "refused\n");
            return 1;
        }
        CHECK(ret == 0);
    } else if (strcmp(argv[1], "threads") == 0) {
        threads();
    } else if (strcmp(argv[1], "errors") == 0) {
        errors(argv[2]);
    } else if (strcmp(argv[1], "patient") == 0) {
        patient();
        return BMI_finalize() == 0 ? 0 : 1;
    } else {
        bmi_context_id context;
        CHECK(BMI_open_context(&context) == 0);
        CHECK(ask(QUIT, 0, 0, 0, context) == 0);
    }
    CHECK(BMI_finalize() == 0);
    CHECK(BMI_finalize() == -BMI_ENODEV);
    puts("all good");
    return 0;
}
