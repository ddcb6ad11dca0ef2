/* Rank 0 waits for rank 1, which takes its time, while rank 2 sends it something else all along. With an argument, threads may all call. */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv)
{
    int rank, number = 0, provided;
    (void)argv;
    MUST(MPI_Init_thread(NULL, NULL, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided));
    MUST(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    if (rank == 0) {
        MUST(MPI_Recv(&number, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < 100; i++)
            MUST(MPI_Recv(&number, 1, MPI_INT, 2, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        for (int i = 0; i < 100; i++) {
            usleep(10000);
            if (rank == 2)
                MUST(MPI_Send(&number, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
        }
        if (rank == 1)
            MUST(MPI_Send(&number, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    }
    MUST(MPI_Finalize());
    return 0;
}
