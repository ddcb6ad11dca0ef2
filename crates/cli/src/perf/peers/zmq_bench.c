/* The measurements of `barewire perf compare` over ZeroMQ: a PAIR socket between two processes, the same work, on command.
 *
 * Usage: zmq_bench shm|tcp DIR. Commands are lines in DIR/command: "number verb bytes count window warm-up"; the parent answers in
 * DIR/answer with "number nanoseconds-per-operation". */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static int rank;
static void *pair;
static char *out, *in;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void send_one(size_t bytes) {
    if (zmq_send(pair, out, bytes, 0) < 0) _exit(3);
}

static void receive_one(size_t bytes) {
    if (zmq_recv(pair, in, bytes, 0) < 0) _exit(3);
}

static double latency(size_t bytes, long count) {
    double start = now();
    for (long i = 0; i < count; i++) {
        if (rank == 0) send_one(bytes);
        receive_one(bytes);
        if (rank != 0) send_one(bytes);
    }
    return (now() - start) / count / 2;
}

static double rate(size_t bytes, long count, long window) {
    long windows = (count + window - 1) / window;
    double start = now();
    for (long w = 0; w < windows; w++) {
        for (long i = 0; i < window; i++) {
            if (rank == 0) send_one(bytes);
            else receive_one(bytes);
        }
        if (rank == 0) receive_one(0);
        else send_one(0);
    }
    return (now() - start) / (windows * window);
}

static double run(const char *verb, size_t bytes, long count, long window) {
    return strcmp(verb, "latency") ? rate(bytes, count, window) : latency(bytes, count);
}

static void meet(void) {
    if (rank == 0) send_one(0);
    receive_one(0);
    if (rank != 0) send_one(0);
}

static void serve(const char *folder) {
    char path[4096], temporary[4200], line[256], verb[32];
    long seen = 0;
    for (;;) {
        long number = 0, count = 0, window = 1, warm_up = 1;
        unsigned long bytes = 0;
        snprintf(path, sizeof path, "%s/command", folder);
        FILE *f = fopen(path, "r");
        if (f) {
            if (fgets(line, sizeof line, f) &&
                sscanf(line, "%ld %31s %lu %ld %ld %ld", &number, verb, &bytes, &count, &window, &warm_up) < 2)
                number = 0;
            fclose(f);
        }
        /* Whoever asks is gone. */
        if (!f && access(folder, F_OK) != 0) return;
        if (number <= seen) {
            usleep(500);
            continue;
        }
        seen = number;
        if (!strcmp(verb, "quit")) return;
        if (window < 1) window = 1;
        meet();
        run(verb, bytes, warm_up + 1, window);
        meet();
        double each = run(verb, bytes, count, window);
        if (rank != 0) continue;
        snprintf(temporary, sizeof temporary, "%s/answer.new", folder);
        snprintf(path, sizeof path, "%s/answer", folder);
        f = fopen(temporary, "w");
        if (!f) _exit(3);
        fprintf(f, "%ld %.3f\n", number, each);
        fclose(f);
        rename(temporary, path);
    }
}

int main(int argc, char **argv) {
    char address[4200];
    if (argc < 3) return 2;
    snprintf(address, sizeof address, "ipc://%s/socket", argv[2]);
    int port = 20000 + getpid() % 20000;
    if (!strcmp(argv[1], "tcp")) snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
    out = calloc(1, 9 << 20);
    in = calloc(1, 9 << 20);
    pid_t child = fork();
    rank = child == 0;
    if (rank) prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* ZeroMQ moves data in a thread of its own: both of a process stay on its processor. */
    if (getenv("BENCH_PIN")) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    void *context = zmq_ctx_new();
    pair = zmq_socket(context, ZMQ_PAIR);
    int none = 0;
    zmq_setsockopt(pair, ZMQ_LINGER, &none, sizeof none);
    if ((rank == 0 ? zmq_bind(pair, address) : zmq_connect(pair, address)) != 0) return 3;
    serve(argv[2]);
    zmq_close(pair);
    zmq_ctx_term(context);
    if (rank == 0) waitpid(child, NULL, 0);
    return 0;
}
