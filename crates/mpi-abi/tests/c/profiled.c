/* A profiling layer: the program's own MPI_Comm_size stands in front of the library's. */
#include "check.h"

static int calls;

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    calls++;
    return PMPI_Comm_size(comm, size);
}

int main(void)
{
    int size;
    begin();
    MUST(MPI_Comm_size(MPI_COMM_WORLD, &size));
    printf("size %d, calls %d\n", size, calls);
    MUST(PMPI_Comm_size(MPI_COMM_WORLD, &size));
    printf("size %d, calls %d\n", size, calls);
    MUST(MPI_Finalize());
    return 0;
}
