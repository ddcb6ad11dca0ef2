/* A large parallel read: every client asks every server, gets an answer, and then 10 MB in messages of 256 KiB, which the
   client takes in four buffers of 64 KiB. What both versions of the benchmark agree on. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REQUEST = 25, ANSWER = 400, STRIPE = 64 << 10, PIECES = 4, MESSAGE = STRIPE * PIECES, MESSAGES = 40, WINDOW = 8 };

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static inline void fail(const char *what, long code)
{
    fprintf(stderr, "%s: %ld\n", what, code);
    exit(1);
}
