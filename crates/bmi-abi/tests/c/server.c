/* A server: what a request asks for is sent, or received and summed. One thread, one context, many clients. */
#include <bmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

static bmi_context_id context;

static void fail(const char *what, int code)
{
    fprintf(stderr, "server: %s: %d\n", what, code);
    exit(1);
}

/* Waits for one operation. */
static int finish(int posted, bmi_op_id_t op, bmi_size_t *size)
{
    int count = 0, ret;
    bmi_error_code_t error = 0;
    if (posted != 0)
        return posted < 0 ? posted : 0;
    while (count == 0) {
        ret = BMI_test(op, &count, &error, size, NULL, 100, context);
        if (ret < 0)
            fail("BMI_test", ret);
    }
    return error;
}

static void serve(const struct BMI_unexpected_info *info)
{
    struct request request;
    bmi_op_id_t op;
    bmi_size_t size = 0;
    char *bytes;
    int ret;
    memcpy(&request, info->buffer, sizeof request);
    bytes = BMI_memalloc(info->addr, request.size + 1, BMI_SEND);
    if (bytes == NULL)
        fail("BMI_memalloc", 0);
    if (request.what == READ) {
        fill(bytes, request.size, request.seed);
        ret = BMI_post_send(&op, info->addr, bytes, request.size, BMI_PRE_ALLOC, info->tag, NULL, context, NULL);
        ret = finish(ret, op, &size);
    } else {
        struct answer answer;
        ret = BMI_post_recv(&op, info->addr, bytes, request.size, &size, BMI_PRE_ALLOC, info->tag, NULL, context, NULL);
        ret = finish(ret, op, &size);
        answer.size = size;
        answer.sum = sum(bytes, size);
        if (ret == 0) {
            ret = BMI_post_send(&op, info->addr, &answer, sizeof answer, BMI_EXT_ALLOC, info->tag, NULL, context, NULL);
            ret = finish(ret, op, &size);
        }
    }
    /* A client that is gone, or gave up, is no reason to stop. */
    if (ret != 0 && ret != -BMI_ECONNRESET && ret != -BMI_ECANCEL)
        fail("serving", ret);
    BMI_memfree(info->addr, bytes, request.size + 1, BMI_SEND);
}

int main(int argc, char **argv)
{
    int port, ret, count, served = 0, quit = 0;
    struct BMI_unexpected_info info[4];
    (void)argc;
    ret = BMI_initialize("bmi_tcp", argv[1], BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC);
    if (ret < 0)
        fail("BMI_initialize", ret);
    ret = BMI_open_context(&context);
    if (ret < 0)
        fail("BMI_open_context", ret);
    ret = BMI_get_info(0, BMI_TCP_GET_PORT, &port);
    if (ret < 0)
        fail("BMI_get_info", ret);
    printf("%d\n", port);
    fflush(stdout);
    while (!quit) {
        ret = BMI_testunexpected(4, &count, info, 200);
        if (ret < 0)
            fail("BMI_testunexpected", ret);
        for (int i = 0; i < count; i++) {
            if (info[i].error_code == 0 && info[i].size == sizeof(struct request)) {
                int what = ((struct request *)info[i].buffer)->what;
                if (what == QUIT)
                    quit = 1;
                else
                    serve(&info[i]);
            }
            /* Both ways are allowed. */
            if (served++ % 2)
                free(info[i].buffer);
            else
                BMI_unexpected_free(info[i].addr, info[i].buffer);
        }
    }
    BMI_close_context(context);
    if (BMI_finalize() != 0)
        fail("BMI_finalize", 0);
    printf("good bye\n");
    return 0;
}
