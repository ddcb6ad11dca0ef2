/* Intercommunicators: made, merged, split, and every collective between their two groups. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size, failures;

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)

static void collectives(MPI_Comm inter, int low) {
    int mine, here, there, all[64], parts[64];
    MPI_Comm_rank(inter, &mine);
    MPI_Comm_size(inter, &here);
    MPI_Comm_remote_size(inter, &there);
    MPI_Barrier(inter);
    int root = low ? (mine == here - 1 ? MPI_ROOT : MPI_PROC_NULL) : there - 1;
    int data = low ? 42 : 0, value = 10 * mine + low, got = -1, total = low ? -1 : 0;
    MPI_Bcast(&data, 1, MPI_INT, root, inter);
    CHECK(data == 42 || (low && root == MPI_PROC_NULL));
    memset(all, -1, sizeof all);
    MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, inter);
    int good = 1;
    for (int i = 0; i < there; i++) good &= all[i] == 10 * i + !low;
    CHECK(good);
    for (int i = 0; i < there; i++) parts[i] = 1000 * mine + i;
    MPI_Alltoall(parts, 1, MPI_INT, all, 1, MPI_INT, inter);
    for (int i = 0; i < there; i++) good &= all[i] == 1000 * i + mine;
    CHECK(good);
    MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, inter);
    CHECK(total == 10 * there * (there - 1) / 2 + there * !low);
    total = -1;
    MPI_Reduce(&value, &total, 1, MPI_INT, MPI_SUM, root, inter);
    CHECK(total == (root == MPI_ROOT ? 10 * there * (there - 1) / 2 : -1));
    MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, root, inter);
    if (root == MPI_ROOT) for (int i = 0; i < there; i++) good &= all[i] == 10 * i;
    CHECK(good);
    MPI_Request request;
    MPI_Iscatter(parts, 1, MPI_INT, &got, 1, MPI_INT, root, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == (low ? -1 : 1000 * (there - 1) + mine));
    int sent = 5 * rank, came = -1;
    if (mine < there) {
        MPI_Sendrecv(&sent, 1, MPI_INT, mine, 0, &came, 1, MPI_INT, mine, 0, inter, MPI_STATUS_IGNORE);
        CHECK(came >= 0 && came % 5 == 0 && came != sent);
    }
}

int main(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1) {
        MPI_Comm half, inter, copy, merged, part;
        int low = rank < size / 2, place, flag;
        MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? size / 2 : 0, 7, &inter);
        MPI_Comm_test_inter(inter, &flag);
        CHECK(flag);
        collectives(inter, low);
        MPI_Comm_dup(inter, &copy);
        collectives(copy, low);
        MPI_Comm_free(&copy);
        MPI_Intercomm_merge(inter, low, &merged);
        MPI_Comm_rank(merged, &place);
        CHECK(place == (low ? size - size / 2 + rank : rank - size / 2));
        int sum = 0;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
        CHECK(sum == size * (size - 1) / 2);
        MPI_Comm_free(&merged);
        int mine, everybody;
        MPI_Comm_rank(inter, &mine);
        MPI_Comm_split(inter, mine % 2, 0, &part);
        if (part != MPI_COMM_NULL) {
            MPI_Comm_remote_size(part, &everybody);
            CHECK(everybody > 0);
            MPI_Barrier(part);
            MPI_Comm_free(&part);
        }
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    printf("rank %d: %d failures\n", rank, failures);
    MPI_Finalize();
    return failures != 0;
}
