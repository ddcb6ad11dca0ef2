/* The last rank dies with the lock of the first one's memory: the others get it all the same. Needs one host. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int rank, size, *memory;
    MPI_Win win;
    MPI_Init(NULL, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (rank == size - 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        usleep(100000);
        raise(SIGKILL);
    }
    int one = 1;
    if (MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win) == MPI_SUCCESS
        && MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win) == MPI_SUCCESS && MPI_Win_unlock(0, win) == MPI_SUCCESS)
        printf("rank %d had the lock\n", rank);
    fflush(stdout);
    /* Without those that are gone nothing can be ended in common. */
    _exit(0);
}
