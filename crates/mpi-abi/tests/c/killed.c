/* A rank is killed in the middle of a collective call, named by its number: the others are told, and none waits for ever. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 3000 };
static int rank, size, a[16 * COUNT], b[16 * COUNT], counts[16], places[16];
static MPI_Comm comm;

static int later(int code, MPI_Request *request) {
    return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

static int collective(int which) {
    MPI_Request request;
    int value, error;
    switch (which) {
    case 0: return MPI_Barrier(comm);
    case 1: return MPI_Bcast(a, COUNT, MPI_INT, 0, comm) | MPI_Bcast(a, COUNT, MPI_INT, size - 1, comm);
    case 2: return MPI_Gather(a, COUNT, MPI_INT, b, COUNT, MPI_INT, 0, comm) | MPI_Barrier(comm);
    case 3: return MPI_Scatter(a, COUNT, MPI_INT, b, COUNT, MPI_INT, 0, comm) | MPI_Barrier(comm);
    case 4: return MPI_Allgather(a, COUNT, MPI_INT, b, COUNT, MPI_INT, comm);
    case 5: return MPI_Alltoall(a, COUNT, MPI_INT, b, COUNT, MPI_INT, comm);
    case 6: return MPI_Alltoallv(a, counts, places, MPI_INT, b, counts, places, MPI_INT, comm);
    case 7: return MPI_Reduce(a, b, COUNT, MPI_INT, MPI_SUM, 0, comm) | MPI_Barrier(comm);
    case 8: return MPI_Allreduce(a, b, COUNT, MPI_INT, MPI_SUM, comm);
    case 9: return MPI_Allreduce(a, b, 8 * COUNT, MPI_INT, MPI_SUM, comm);
    case 10: return MPI_Reduce_scatter_block(a, b, COUNT, MPI_INT, MPI_SUM, comm);
    case 11: return MPI_Scan(a, b, COUNT, MPI_INT, MPI_SUM, comm) | MPI_Barrier(comm);
    case 12: return later(MPI_Iallreduce(a, b, COUNT, MPI_INT, MPI_SUM, comm, &request), &request);
    case 13: return later(MPI_Ialltoall(a, COUNT, MPI_INT, b, COUNT, MPI_INT, comm, &request), &request);
    case 14: return later(MPI_Ibarrier(comm, &request), &request);
    case 15:
        /* Not a collective: anybody could send, but one of them is gone. */
        error = MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &request);
        return later(error, &request);
    case 17:
        /* Nor is this: whoever only looks is told, too. */
        for (int flag = 0; !flag;)
            if ((error = MPI_Iprobe(MPI_ANY_SOURCE, 1, comm, &flag, MPI_STATUS_IGNORE)) != MPI_SUCCESS) return error;
        return MPI_SUCCESS;
    case 18:
        for (int flag = 0; !flag;) {
            MPI_Message message;
            if ((error = MPI_Improbe(MPI_ANY_SOURCE, 1, comm, &flag, &message, MPI_STATUS_IGNORE)) != MPI_SUCCESS) return error;
        }
        return MPI_SUCCESS;
    default: return MPI_Comm_dup(comm, &comm);
    }
}

int main(int argc, char **argv) {
    int which = argc > 1 ? atoi(argv[1]) : 0, code = MPI_SUCCESS;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < size; i++) counts[i] = COUNT, places[i] = i * COUNT;
    MPI_Barrier(comm);
    if ((which == 15 || which > 16) && rank == 1) raise(SIGKILL);
    for (int turn = 0; code == MPI_SUCCESS; turn++) {
        if (rank == 1 && turn == 20) raise(SIGKILL);
        code = collective(which);
    }
    printf("rank %d was told\n", rank);
    fflush(stdout);
    _Exit(0);
}
