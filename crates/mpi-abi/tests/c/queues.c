/* Many messages nobody has asked for, and many receives no message has come for: in order, and none is lost. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, failures;

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)

/* Kilobytes of memory this process has. */
static long resident(void) {
    long pages = 0, size = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A flood at a rank that does something else: it keeps what its credit allows, and the rest waits at the sender. */
static void flood(int messages) {
    long before = resident();
    if (rank == 0) {
        for (int i = 0; i < messages; i++) MPI_Send(&i, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
        usleep(300000);
        int value, in_order = 1;
        for (int i = 0; i < messages; i++) {
            MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            in_order &= value == i;
        }
        CHECK(in_order);
        CHECK(resident() - before < 64 * 1024);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Receives for as many tags, and messages in the opposite order. */
static void reversed(int receives) {
    int *values = malloc(sizeof(int) * receives);
    MPI_Request *requests = malloc(sizeof(MPI_Request) * receives);
    if (rank == 1) {
        for (int i = 0; i < receives; i++) {
            values[i] = -1;
            MPI_Irecv(&values[i], 1, MPI_INT, 0, i, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = receives - 1; i >= 0; i--) MPI_Send(&i, 1, MPI_INT, 1, i, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Waitall(receives, requests, MPI_STATUSES_IGNORE);
        int good = 1;
        for (int i = 0; i < receives; i++) good &= values[i] == i;
        CHECK(good);
    }
    free(values); free(requests);
}

/* A send that nobody has taken can be taken back; one that has been taken arrives. */
static void cancelled(void) {
    enum { LONG = 100000 };
    int *data = calloc(LONG, sizeof(int)), flag = -1;
    MPI_Request request;
    MPI_Status status;
    if (rank == 0) {
        MPI_Issend(data, LONG, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag == 1);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iprobe(0, 5, MPI_COMM_WORLD, &flag, &status);
        CHECK(flag == 0);
    }
    free(data);
}

int main(int argc, char **argv) {
    int messages = argc > 1 ? atoi(argv[1]) : 200000, receives = argc > 2 ? atoi(argv[2]) : 10000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    flood(messages);
    reversed(receives);
    cancelled();
    printf("rank %d: %d failures\n", rank, failures);
    MPI_Finalize();
    return failures != 0;
}
