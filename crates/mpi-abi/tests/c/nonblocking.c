/* Operations that go on meanwhile: non-blocking and persistent collectives, neighbours, idup, isendrecv, generalized requests. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, failures;
static MPI_Comm comm;

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)

enum { LONG = 50021 };

/* Many at once, and they end in any order. */
static void many(void) {
    MPI_Request requests[12];
    int n = 0, sum = 0, mine = rank + 1, scanned = 0, before = -5, from_all[64], to_all[64], came[64], gathered[64], part = -1;
    int *longer = malloc(sizeof(int) * LONG), *total = malloc(sizeof(int) * LONG), root_says = rank == size - 1 ? 77 : 0;
    for (int i = 0; i < LONG; i++) longer[i] = i + rank;
    for (int i = 0; i < size; i++) to_all[i] = 100 * rank + i;
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[n++]);
    MPI_Iallreduce(longer, total, LONG, MPI_INT, MPI_MAX, comm, &requests[n++]);
    MPI_Ibcast(&root_says, 1, MPI_INT, size - 1, comm, &requests[n++]);
    MPI_Iallgather(&mine, 1, MPI_INT, from_all, 1, MPI_INT, comm, &requests[n++]);
    MPI_Ialltoall(to_all, 1, MPI_INT, came, 1, MPI_INT, comm, &requests[n++]);
    MPI_Iscan(&mine, &scanned, 1, MPI_INT, MPI_SUM, comm, &requests[n++]);
    MPI_Iexscan(&mine, &before, 1, MPI_INT, MPI_SUM, comm, &requests[n++]);
    MPI_Igather(&mine, 1, MPI_INT, gathered, 1, MPI_INT, 0, comm, &requests[n++]);
    MPI_Iscatter(to_all, 1, MPI_INT, &part, 1, MPI_INT, 0, comm, &requests[n++]);
    MPI_Ibarrier(comm, &requests[n++]);
    while (n > 0) {
        int which;
        MPI_Waitany(10, requests, &which, MPI_STATUS_IGNORE);
        if (which == MPI_UNDEFINED) break;
        CHECK(requests[which] == MPI_REQUEST_NULL);
        n--;
    }
    int good = sum == size * (size + 1) / 2 && root_says == 77 && scanned == (rank + 1) * (rank + 2) / 2;
    good &= before == (rank == 0 ? -5 : rank * (rank + 1) / 2) && part == rank;
    for (int i = 0; i < LONG; i++) good &= total[i] == i + size - 1;
    for (int i = 0; i < size; i++) good &= from_all[i] == i + 1 && came[i] == 100 * i + rank && (rank || gathered[i] == i + 1);
    CHECK(good);
    free(longer); free(total);
}

/* Rank 0 begins each call and only then lets the others begin it; what is in place is combined once. */
static void apart(void) {
    int in[64], out[64], sum = size * (size + 1) / 2;
    /* So many that the communicator has what it needs for short ways of blocking calls. */
    for (int i = 0; i < 8; i++) MPI_Barrier(comm);
    for (int call = 0; call < 10; call++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int good = 1;
        if (rank) MPI_Recv(NULL, 0, MPI_INT, 0, call, comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < size; i++) in[i] = 100 * (rank + 1) + i;
        for (int i = 0; i < 64; i++) out[i] = rank + 1;
        if (call == 0) MPI_Ibarrier(comm, &request);
        if (call == 1) MPI_Ibcast(out, 1, MPI_INT, 0, comm, &request);
        if (call == 2) MPI_Ireduce(rank ? out : MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, 0, comm, &request);
        if (call == 3) MPI_Iallreduce(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, comm, &request);
        if (call == 4) MPI_Iscan(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, comm, &request);
        if (call == 5) MPI_Ireduce_scatter_block(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, comm, &request);
        if (call == 6) MPI_Igather(in, 1, MPI_INT, out, 1, MPI_INT, 0, comm, &request);
        if (call == 7) MPI_Iscatter(in, 1, MPI_INT, out, 1, MPI_INT, 0, comm, &request);
        if (call == 8) MPI_Iallgather(in, 1, MPI_INT, out, 1, MPI_INT, comm, &request);
        if (call == 9) MPI_Ialltoall(in, 1, MPI_INT, out, 1, MPI_INT, comm, &request);
        for (int to = 1; rank == 0 && to < size; to++) MPI_Send(NULL, 0, MPI_INT, to, call, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (call == 1) good = out[0] == 1;
        if (call == 2 && !rank) good = out[0] == sum;
        if (call == 3 || call == 5) good = out[0] == sum;
        if (call == 4) good = out[0] == (rank + 1) * (rank + 2) / 2;
        if (call == 7) good = out[0] == 100 + rank;
        for (int i = 0; i < size; i++) {
            if ((call == 6 && !rank) || call == 8) good &= out[i] == 100 * (i + 1);
            if (call == 9) good &= out[i] == 100 * (i + 1) + rank;
        }
        CHECK(good);
    }
    /* Nothing happens before a persistent one is started. */
    MPI_Request request;
    int total = rank + 1;
    if (rank) MPI_Recv(NULL, 0, MPI_INT, 0, 99, comm, MPI_STATUS_IGNORE);
    MPI_Allreduce_init(MPI_IN_PLACE, &total, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    for (int to = 1; rank == 0 && to < size; to++) MPI_Send(NULL, 0, MPI_INT, to, 99, comm);
    for (int turn = 0; turn < 3; turn++) {
        total = rank + turn;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(total == size * (size - 1) / 2 + size * turn);
    }
    MPI_Request_free(&request);
}

static void again(void) {
    MPI_Request sum, all;
    int mine = 0, total, list[64];
    MPI_Allreduce_init(&mine, &total, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &sum);
    MPI_Allgather_init(&mine, 1, MPI_INT, list, 1, MPI_INT, comm, MPI_INFO_NULL, &all);
    for (int turn = 0; turn < 20; turn++) {
        mine = rank * turn;
        /* Started in one order here and in the other there. */
        MPI_Start(rank % 2 ? &sum : &all);
        MPI_Start(rank % 2 ? &all : &sum);
        MPI_Wait(&all, MPI_STATUS_IGNORE);
        MPI_Wait(&sum, MPI_STATUS_IGNORE);
        int good = total == turn * size * (size - 1) / 2;
        for (int i = 0; i < size; i++) good &= list[i] == i * turn;
        CHECK(good && sum != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&sum);
    MPI_Request_free(&all);
}

static void neighbours(void) {
    MPI_Comm ring, line, graph;
    int periodic = 1, open = 0, dims = size, out[2] = {10 * rank, 10 * rank + 1}, in[2] = {-1, -1};
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Cart_create(comm, 1, &dims, &periodic, 0, &ring);
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
    CHECK(in[0] == 10 * last + 1 && in[1] == 10 * next);
    MPI_Cart_create(comm, 1, &dims, &open, 0, &line);
    in[0] = in[1] = -1;
    MPI_Request request;
    MPI_Ineighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, line, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in[0] == (rank ? rank - 1 : -1) && in[1] == (rank + 1 < size ? rank + 1 : -1));
    int source = last, target = next, got = -1;
    MPI_Dist_graph_create_adjacent(comm, 1, &source, MPI_UNWEIGHTED, 1, &target, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, graph);
    CHECK(got == last);
    MPI_Comm_free(&ring); MPI_Comm_free(&line); MPI_Comm_free(&graph);
}

static void copies(void) {
    MPI_Comm one, two;
    MPI_Request requests[2];
    MPI_Comm_idup(comm, &one, &requests[0]);
    MPI_Comm_idup(comm, &two, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    int a = rank, b = -1, next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Status status;
    MPI_Request both;
    MPI_Isendrecv(&a, 1, MPI_INT, next, 3, &b, 1, MPI_INT, last, 3, one, &both);
    MPI_Wait(&both, &status);
    CHECK(b == last);
    MPI_Isendrecv_replace(&a, 1, MPI_INT, next, 4, last, 4, two, &both);
    MPI_Wait(&both, &status);
    CHECK(a == last);
    MPI_Comm_free(&one); MPI_Comm_free(&two);
}

static int freed;
static int query(void *extra, MPI_Status *status) {
    MPI_Status_set_elements(status, MPI_INT, *(int *)extra);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = 9;
    return MPI_SUCCESS;
}
static int gone(void *extra) { (void)extra; freed++; return MPI_SUCCESS; }
static int cancel(void *extra, int complete) { (void)extra; (void)complete; return MPI_SUCCESS; }

static void general(void) {
    MPI_Request request;
    MPI_Status status;
    int extra = 5, flag = 1, count = 0;
    MPI_Grequest_start(query, gone, cancel, &extra, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 5 && status.MPI_TAG == 9 && freed == 1 && request == MPI_REQUEST_NULL);
}

static void parts(void) {
    MPI_Request out, in;
    double data[8] = {0}, came[8];
    int next = (rank + 1) % size, last = (rank + size - 1) % size, flag = 0;
    MPI_Psend_init(data, 4, 2, MPI_DOUBLE, next, 1, comm, MPI_INFO_NULL, &out);
    MPI_Precv_init(came, 4, 2, MPI_DOUBLE, last, 1, comm, MPI_INFO_NULL, &in);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Start(&in);
        MPI_Start(&out);
        for (int part = 3; part >= 0; part--) {
            data[2 * part] = data[2 * part + 1] = rank + turn + part;
            MPI_Pready(part, out);
        }
        while (!flag) MPI_Parrived(in, 3, &flag);
        MPI_Wait(&out, MPI_STATUS_IGNORE);
        MPI_Wait(&in, MPI_STATUS_IGNORE);
        for (int part = 0; part < 4; part++) CHECK(came[2 * part] == last + turn + part);
    }
    MPI_Request_free(&out);
    MPI_Request_free(&in);
}

int main(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    many();
    apart();
    again();
    neighbours();
    copies();
    general();
    parts();
    MPI_Comm_free(&comm);
    printf("rank %d: %d failures\n", rank, failures);
    MPI_Finalize();
    return failures != 0;
}
