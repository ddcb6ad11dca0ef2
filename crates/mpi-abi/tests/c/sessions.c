/* A program that never calls MPI_Init: two sessions, one after the other ends, and a communicator of each. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(what) do { if (!(what)) { failures++; printf("line %d: %s\n", __LINE__, #what); } } while (0)

static int talk(MPI_Session session, const char *set, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, members, sum = -1;
    CHECK(MPI_Group_from_session_pset(session, set, &group) == MPI_SUCCESS);
    MPI_Group_size(group, &members);
    CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    CHECK(size == members);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Comm_free(&comm);
    return rank;
}

int main(void) {
    MPI_Session first, second;
    MPI_Info info;
    char level[64] = "";
    int there, initialized = -1, rank;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    CHECK(MPI_Session_init(info, MPI_ERRORS_RETURN, &first) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second) == MPI_SUCCESS);
    MPI_Session_get_info(first, &info);
    MPI_Info_get(info, "thread_level", sizeof level - 1, level, &there);
    CHECK(there && !strcmp(level, "MPI_THREAD_MULTIPLE"));
    MPI_Info_free(&info);
    rank = talk(first, "mpi://WORLD", "first");
    CHECK(MPI_Session_finalize(&first) == MPI_SUCCESS && first == MPI_SESSION_NULL);
    CHECK(talk(second, "mpi://world", "second") == rank);
    CHECK(talk(second, "mpi://SELF", "alone") == 0);
    MPI_Initialized(&initialized);
    CHECK(!initialized);
    CHECK(MPI_Session_finalize(&second) == MPI_SUCCESS);
    printf("rank %d: %d failures\n", rank, failures);
    return failures != 0;
}
