/* What a blocking send has sent arrives though its sender makes no further call: the receiver says so by a file, not a message. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 200000 };
static const int lengths[] = {8, 5000, 65536, MOST};

int main(int argc, char **argv) {
    static char data[MOST];
    char path[4096];
    int rank, failures = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 40; round++) {
        int length = lengths[round % 4], late = 1;
        snprintf(path, sizeof path, "%s.%d", argv[1], round);
        if (rank == 1) {
            memset(data, round, length);
            /* The first of two goes at once, the second may be kept to be bundled. */
            for (int i = 0; i < 2; i++)
                MPI_Send(data, length, MPI_CHAR, 0, i, MPI_COMM_WORLD);
            for (int i = 0; i < 20000 && late; i++, usleep(late * 1000))
                late = access(path, F_OK) != 0;
            unlink(path);
        } else if (rank == 0) {
            for (int i = 0; i < 2; i++)
                MPI_Recv(data, length, MPI_CHAR, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            late = data[0] != round || data[length - 1] != round;
            fclose(fopen(path, "w"));
        }
        if (rank < 2 && late) {
            printf("rank %d: round %d did not arrive\n", rank, round);
            failures++;
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Finalize();
    if (rank == 0) printf("all arrived\n");
    return failures != 0;
}
