/* Two threads on each rank, each with a communicator of its own, send and receive at the same time. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { ROUNDS = 200, LONG = 5000 };
static int rank, size;

struct work { MPI_Comm comm; int salt, failures; };

static void *talk(void *argument) {
    struct work *work = argument;
    int out[LONG], in[LONG];
    for (int round = 0; round < ROUNDS; round++) {
        int len = round % 10 ? 3 : LONG, sum = 0, one = 1;
        for (int i = 0; i < len; i++) out[i] = rank + work->salt + round + i;
        MPI_Request r;
        MPI_Irecv(in, len, MPI_INT, (rank + size - 1) % size, 1, work->comm, &r);
        MPI_Send(out, len, MPI_INT, (rank + 1) % size, 1, work->comm);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (in[len - 1] != (rank + size - 1) % size + work->salt + round + len - 1) work->failures++;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, work->comm);
        if (sum != size) work->failures++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    struct work work[2] = {{.salt = 1000}, {.salt = 500000}};
    pthread_t threads[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &work[i].comm);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, talk, &work[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    int failures = work[0].failures + work[1].failures + (provided != MPI_THREAD_MULTIPLE);
    for (int i = 0; i < 2; i++) MPI_Comm_free(&work[i].comm);
    printf("rank %d of %d: %d failures\n", rank, size, failures);
    MPI_Finalize();
    return failures != 0;
}
