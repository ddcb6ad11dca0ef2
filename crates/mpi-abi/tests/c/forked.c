/* A child that a rank has forked gets an error where it would take its parent's messages, which are there for the parent afterwards. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { MESSAGES = 50 };

int main(void)
{
    int rank, number, status = 0, refused = 0;
    begin();
    MUST(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    if (rank == 1)
        for (int i = 0; i < MESSAGES; i++)
            MUST(MPI_Send(&i, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    /* What was sent before is on its way now. */
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        pid_t child = fork();
        if (child == 0) {
            /* What its parent had taken by then it has a copy of; nothing else is its. */
            refused += MPI_Recv(&number, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
            refused += MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
            refused += MPI_Send(&number, 1, MPI_INT, 1, 1, MPI_COMM_WORLD) != MPI_SUCCESS;
            _exit(refused);
        }
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 3)
            printf("the child ended with %#x\n", status);
        for (int i = 0; i < MESSAGES; i++) {
            MUST(MPI_Recv(&number, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (number != i)
                printf("message %d says %d\n", i, number);
        }
        printf("all are there\n");
    }
    MUST(MPI_Barrier(MPI_COMM_WORLD));
    MUST(MPI_Finalize());
    return 0;
}
