/* The measurements that `barewire perf compare` runs on every MPI: the same work, on command, so that rounds can alternate.
 *
 * Usage: mpi_bench DIR. Commands are lines in DIR/command: "number verb bytes count window warm-up"; a verb may
 * have a layer and a slash in front. Rank 0 answers in DIR/answer with "number nanoseconds-per-operation", and for `spread` quantiles. Between commands the ranks sleep, so that nobody disturbs the others. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;
static char *out, *in;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* One way between ranks 0 and 1. */
static double latency(int bytes, long count) {
    double start = now();
    for (long i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (now() - start) / count / 2;
}

/* Messages from rank 0 to rank 1, `window` at a time, each window answered by an empty message. */
static double rate(int bytes, long count, int window) {
    static MPI_Request requests[4096];
    if (window > 4096) window = 4096;
    double start = now();
    for (long done = 0; done < count; done += window) {
        if (rank == 0) {
            for (int i = 0; i < window; i++) MPI_Isend(out, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[i]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(in, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int i = 0; i < window; i++) MPI_Irecv(in, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[i]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Send(out, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        }
    }
    return (now() - start) / count;
}

/* The same with blocking calls, as most programs are written: what comes early waits for its receive. */
static double stream(int bytes, long count, int window) {
    double start = now();
    for (long done = 0; done < count; done += window) {
        if (rank == 0) {
            for (int i = 0; i < window; i++) MPI_Send(out, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
            MPI_Recv(in, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int i = 0; i < window; i++) MPI_Recv(in, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        }
    }
    return (now() - start) / count;
}

/* Both ranks send to each other at once: what one such exchange takes. */
static double exchange(int bytes, long count) {
    double start = now();
    for (long i = 0; i < count && rank < 2; i++)
        MPI_Sendrecv(out, bytes, MPI_BYTE, 1 - rank, 1, in, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return (now() - start) / count;
}

/* One way between ranks 0 and 1, received from anybody, or probed for first as by who does not know how much comes. */
static double unknown(int bytes, long count, int probes) {
    MPI_Status status;
    double start = now();
    for (long i = 0; i < 2 * count && rank < 2; i++) {
        if (i % 2 == rank) {
            MPI_Send(out, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
        } else if (probes) {
            int length;
            MPI_Probe(1 - rank, 1, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &length);
            MPI_Recv(in, length, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        }
    }
    return (now() - start) / count / 2;
}

/* From rank 0 into rank 1's memory and out of it; each access is over before the next. */
static double one_sided(const char *verb, int bytes, long count) {
    static MPI_Win window = MPI_WIN_NULL;
    char *memory;
    int locked = !strcmp(verb, "locked");
    if (window == MPI_WIN_NULL) MPI_Win_allocate(8 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    double start = now();
    if (rank == 0) {
        if (!locked) MPI_Win_lock_all(0, window);
        for (long i = 0; i < count; i++) {
            if (locked) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
            if (!strcmp(verb, "put")) MPI_Put(out, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
            else if (!strcmp(verb, "get")) MPI_Get(in, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
            else MPI_Accumulate(out, bytes / 8, MPI_DOUBLE, 1, 0, bytes / 8, MPI_DOUBLE, MPI_SUM, window);
            if (locked) MPI_Win_unlock(1, window);
            else MPI_Win_flush(1, window);
        }
        if (!locked) MPI_Win_unlock_all(window);
    }
    double end = now();
    MPI_Barrier(MPI_COMM_WORLD);
    return (end - start) / count;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every single trip between ranks 0 and 1; what reading the clock takes is taken off. */
static double *spread(int bytes, long count) {
    double *trips = malloc(count * sizeof *trips), own = 1e9;
    for (int i = 0; i < 100; i++) {
        double start = now(), each = now() - start;
        if (each < own) own = each;
    }
    double last = now();
    for (long i = 0; i < count; i++) {
        latency(bytes, 1);
        double end = now();
        /* `latency` reads the clock twice itself. */
        trips[i] = (end - last - 3 * own) / 2;
        last = end;
    }
    qsort(trips, count, sizeof *trips, by_size);
    return trips;
}

/* A token once round all ranks. */
static double ring(int bytes, long count) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    double start = now();
    for (long i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, next, 4, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, next, 4, MPI_COMM_WORLD);
        }
    }
    return (now() - start) / count;
}

/* Both neighbours at once. */
static double halo(int bytes, long count) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Request r[4];
    double start = now();
    for (long i = 0; i < count; i++) {
        MPI_Irecv(in, bytes, MPI_BYTE, before, 5, MPI_COMM_WORLD, &r[0]);
        MPI_Irecv(in + bytes, bytes, MPI_BYTE, next, 6, MPI_COMM_WORLD, &r[1]);
        MPI_Isend(out, bytes, MPI_BYTE, next, 5, MPI_COMM_WORLD, &r[2]);
        MPI_Isend(out, bytes, MPI_BYTE, before, 6, MPI_COMM_WORLD, &r[3]);
        MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    }
    return (now() - start) / count;
}

static double collective(const char *verb, int bytes, long count) {
    double start = now();
    for (long i = 0; i < count; i++) {
        if (!strcmp(verb, "barrier")) MPI_Barrier(MPI_COMM_WORLD);
        else if (!strcmp(verb, "bcast")) MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        else if (!strcmp(verb, "allreduce")) MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else if (!strcmp(verb, "alltoall")) MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        else if (!strcmp(verb, "reduce")) MPI_Reduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        else if (!strcmp(verb, "scan")) MPI_Scan(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else if (!strcmp(verb, "reduce-scatter")) MPI_Reduce_scatter_block(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else if (!strcmp(verb, "gather")) MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        else if (!strcmp(verb, "scatter")) MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        else if (!strcmp(verb, "allgather")) MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        else if (!strcmp(verb, "ibcast")) {
            MPI_Request request;
            MPI_Ibcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    return (now() - start) / count;
}

static double run(const char *verb, int bytes, long count, int window) {
    if (!strcmp(verb, "latency")) return latency(bytes, count);
    if (!strcmp(verb, "rate")) return rate(bytes, count, window);
    if (!strcmp(verb, "stream")) return stream(bytes, count, window);
    if (!strcmp(verb, "exchange")) return exchange(bytes, count);
    if (!strcmp(verb, "anybody") || !strcmp(verb, "probe")) return unknown(bytes, count, verb[0] == 'p');
    if (!strcmp(verb, "put") || !strcmp(verb, "get") || !strcmp(verb, "accumulate") || !strcmp(verb, "locked"))
        return one_sided(verb, bytes, count);
    if (!strcmp(verb, "turn")) return ring(bytes, count);
    if (!strcmp(verb, "halo")) return halo(bytes, count);
    return collective(verb, bytes, count);
}

static const int mille[] = {10, 50, 250, 500, 750, 900, 950, 990, 999};
static const char *const names[] = {"p1", "p5", "p25", "p50", "p75", "p90", "p95", "p99", "p999"};

int main(int argc, char **argv) {
    char path[4096], line[256], word[64], *verb = word;
    long seen = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2) MPI_Abort(MPI_COMM_WORLD, 2);
    out = malloc((size_t)(8 << 20) * (size > 4 ? 2 : 1));
    in = malloc((size_t)(8 << 20) * (size > 4 ? 2 : 1));
    memset(out, 0, 8 << 20);
    memset(in, 0, 8 << 20);
    /* PIN=1: rank r to the r-th processor, as every program under comparison does. */
    if (getenv("BENCH_PIN")) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    for (;;) {
        long number = 0, count = 0, warm_up = -1;
        int bytes = 0, window = 0;
        snprintf(path, sizeof path, "%s/command", argv[1]);
        FILE *f = fopen(path, "r");
        if (f) {
            if (fgets(line, sizeof line, f) && sscanf(line, "%ld %63s %d %ld %d %ld", &number, word, &bytes, &count, &window, &warm_up) < 2)
                number = 0;
            fclose(f);
        }
        /* Whoever asks is gone. */
        if (!f && access(argv[1], F_OK) != 0) break;
        if (number <= seen) {
            usleep(10000);
            continue;
        }
        seen = number;
        verb = strchr(word, '/') ? strchr(word, '/') + 1 : word;
        if (!strcmp(verb, "quit")) break;
        int trips = !strcmp(verb, "spread");
        MPI_Barrier(MPI_COMM_WORLD);
        run(trips ? "latency" : verb, bytes, warm_up < 0 ? count / 10 + 1 : warm_up + 1, window ? window : 1);
        MPI_Barrier(MPI_COMM_WORLD);
        double *sorted = trips ? spread(bytes, count) : NULL;
        double each = trips ? sorted[count / 2] : run(verb, bytes, count, window ? window : 1);
        if (rank == 0) {
            char temporary[4200];
            snprintf(temporary, sizeof temporary, "%s/answer.new", argv[1]);
            snprintf(path, sizeof path, "%s/answer", argv[1]);
            f = fopen(temporary, "w");
            fprintf(f, "%ld %.3f", number, each);
            for (size_t i = 0; trips && i < sizeof mille / sizeof *mille; i++)
                fprintf(f, " %s=%.3f", names[i], sorted[(count - 1) * mille[i] / 1000]);
            fprintf(f, "\n");
            fclose(f);
            rename(temporary, path);
        }
        free(sorted);
    }
    MPI_Finalize();
    return 0;
}
