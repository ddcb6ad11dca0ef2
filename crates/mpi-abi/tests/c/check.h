/* What the programs here share: error classes as numbers, and a way to start with errors returned. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                  \
    do {                                                            \
        int code_ = (call);                                         \
        if (code_ != MPI_SUCCESS) {                                 \
            printf("line %d: %s gave %d\n", __LINE__, #call, code_); \
            exit(1);                                                \
        }                                                           \
    } while (0)

/* The error class of a call that is expected to fail. */
static inline int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static inline void begin(void)
{
    MUST(MPI_Init(NULL, NULL));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}
