/* Each process has another number of sessions, one after the other. */
#include <mpi.h>
#include <stdio.h>

static int failures;

#define CHECK(what) do { if (!(what)) { failures++; printf("line %d: %s\n", __LINE__, #what); } } while (0)

static int talk(const char *set, const char *tag) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, sum = -1;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, set, &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Comm_free(&comm);
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
    return rank;
}

int main(void) {
    int rank = talk("mpi://WORLD", "all");
    for (int more = 0; more < rank; more++) CHECK(talk("mpi://SELF", "alone") == 0);
    CHECK(talk("mpi://WORLD", "all again") == rank);
    for (int more = 0; more < rank; more++) CHECK(talk("mpi://SELF", "alone again") == 0);
    printf("rank %d: %d failures\n", rank, failures);
    return failures != 0;
}
