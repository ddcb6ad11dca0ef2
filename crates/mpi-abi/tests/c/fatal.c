/* The default error handler says what is wrong and ends the program. */
#include "check.h"

int main(void)
{
    int size;
    MUST(MPI_Init(NULL, NULL));
    MPI_Comm_size(MPI_COMM_NULL, &size);
    printf("not reached\n");
    return 0;
}
