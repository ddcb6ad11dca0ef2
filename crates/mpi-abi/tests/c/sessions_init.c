/* MPI_Init after a session has ended, and a session that outlasts MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>

static int failures;

#define CHECK(what) do { if (!(what)) { failures++; printf("line %d: %s\n", __LINE__, #what); } } while (0)

static void sum_up(MPI_Comm comm) {
    int rank, size, sum = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK(sum == size * (size - 1) / 2);
}

static void sum_up_in(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Group_free(&group);
    sum_up(comm);
    MPI_Comm_free(&comm);
}

int main(void) {
    MPI_Session session;
    int rank, flag = -1;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    sum_up_in(session, "before");
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
    MPI_Initialized(&flag);
    CHECK(!flag);
    CHECK(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sum_up(MPI_COMM_WORLD);
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    MPI_Finalized(&flag);
    CHECK(flag);
    sum_up_in(session, "after");
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
    printf("rank %d: %d failures\n", rank, failures);
    return failures != 0;
}
