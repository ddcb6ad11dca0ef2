/* Calls with something wrong: the right class of error, no effect, and nothing left behind. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, failures;

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)
#define FAILS(call, expected) CHECK(class_of(call) == (expected))

static int class_of(int code) {
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* A call that fails has ended: what arrives later does not get into its buffers. */
static void failed_calls_have_ended(void) {
    enum { LENGTH = 10 };
    int mine[LENGTH] = {0}, *all = malloc(sizeof(int) * LENGTH * size);
    if (rank == 0)
        FAILS(MPI_Gather(mine, LENGTH, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    else
        MPI_Gather(mine, LENGTH, MPI_INT, NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
    memset(all, 0x55, sizeof(int) * LENGTH * size);
    for (int i = 0; i < 3; i++) MPI_Barrier(MPI_COMM_WORLD);
    int same = 1;
    for (size_t i = 0; i < sizeof(int) * LENGTH * size; i++) same &= ((char *)all)[i] == 0x55;
    CHECK(same);
    free(all);
}

static void buffers(void) {
    int all[64], mine[64];
    for (int i = 0; i < 64; i++) all[i] = mine[i] = rank;
    MPI_Comm comm = MPI_COMM_WORLD;
    FAILS(MPI_Allreduce(all, all, 4, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Scan(all, all, 4, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Exscan(all, all, 4, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter_block(all, all, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Allgather(&all[rank], 1, MPI_INT, all, 1, MPI_INT, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoall(all, 1, MPI_INT, all, 1, MPI_INT, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Allreduce(all, MPI_IN_PLACE, 4, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    /* Predefined operations are for predefined types. */
    MPI_Datatype two;
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    FAILS(MPI_Allreduce(all, mine, 1, two, MPI_SUM, comm), MPI_ERR_OP);
    MPI_Type_free(&two);
    FAILS(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 0, 0, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_local(all, all, 4, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_local(MPI_IN_PLACE, all, 4, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    for (int i = 0; i < 64; i++) CHECK(all[i] == rank);
    CHECK(MPI_Allreduce(mine, all, 4, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && all[3] == size * (size - 1) / 2);
    CHECK(MPI_Allreduce(all, all, 0, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    /* The same address with other elements behind it is no such case. */
    MPI_Aint from, to;
    MPI_Datatype sent, received;
    int block = 1;
    MPI_Get_address(mine, &from), MPI_Get_address(all, &to);
    MPI_Type_create_hindexed(1, &block, &from, MPI_INT, &sent), MPI_Type_create_hindexed(1, &block, &to, MPI_INT, &received);
    MPI_Type_commit(&sent), MPI_Type_commit(&received);
    MPI_Datatype sents[16], receiveds[16];
    int ones[16], zeros[16] = {0}, places[16];
    for (int i = 0; i < size; i++) sents[i] = sent, receiveds[i] = received, ones[i] = 1, places[i] = 4 * i;
    CHECK(MPI_Alltoallw(MPI_BOTTOM, ones, zeros, sents, MPI_BOTTOM, ones, places, receiveds, comm) == MPI_SUCCESS);
    for (int i = 0; i < size; i++) CHECK(all[i] == i);
    MPI_Type_free(&sent), MPI_Type_free(&received);
}

static int deleted;

static int count_deletion(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static int refuse(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)key, (void)extra, (void)value, (void)copy, (void)flag;
    return MPI_ERR_OTHER;
}

static void communicators(void) {
    MPI_Comm made = MPI_COMM_SELF;
    int dims[2] = {size, 2}, periods[2] = {0, 0}, kept, freed;
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &made), MPI_ERR_ARG);
    CHECK(made == MPI_COMM_NULL);
    /* Some stay out. */
    MPI_Comm_split_type(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    CHECK((made == MPI_COMM_NULL) == rank % 2);
    if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
    /* A key that was freed still finds its value. */
    MPI_Comm_create_keyval(refuse, count_deletion, &kept, NULL);
    freed = kept;
    MPI_Comm_set_attr(MPI_COMM_WORLD, kept, &deleted);
    MPI_Comm_free_keyval(&freed);
    made = MPI_COMM_SELF;
    CHECK(freed == MPI_KEYVAL_INVALID && MPI_Comm_dup(MPI_COMM_WORLD, &made) == MPI_ERR_OTHER && made == MPI_COMM_NULL);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, kept) == MPI_SUCCESS && deleted == 1);
    FAILS(MPI_Comm_delete_attr(MPI_COMM_WORLD, kept), MPI_ERR_KEYVAL);
    /* What concerns no communicator is told to the handler that was set. */
    int bytes;
    FAILS(MPI_Type_size(MPI_DATATYPE_NULL, &bytes), MPI_ERR_TYPE);
}

/* What is combined is of one type everywhere, and asserts are those that mean something. */
static void windows_with_rules(MPI_Win win) {
    int next = (rank + 1) % size;
    float result[4];
    long number = 1;
    int data[4] = {0}, old[4];
    MPI_Datatype comb;
    MPI_Type_vector(2, 1, 2, MPI_INT, &comb);
    MPI_Type_commit(&comb);
    CHECK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win) == MPI_SUCCESS);
    FAILS(MPI_Accumulate(data, 2, MPI_INT, next, 0, 2, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Accumulate(data, 2, MPI_INT, next, 0, 1, MPI_DOUBLE, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Accumulate(data, 2, MPI_INT, next, 0, 2, MPI_FLOAT, MPI_REPLACE, win), MPI_ERR_TYPE);
    FAILS(MPI_Accumulate(&number, 1, MPI_LONG, next, 0, 1, MPI_INT64_T, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Accumulate(data, 1, comb, next, 0, 2, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Get_accumulate(data, 1, MPI_INT, result, 1, MPI_FLOAT, next, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, result, 1, MPI_FLOAT, next, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_TYPE);
    CHECK(MPI_Accumulate(data, 1, comb, next, 0, 2, MPI_INT, MPI_SUM, win) == MPI_SUCCESS);
    CHECK(MPI_Accumulate(data, 0, MPI_INT, next, 0, 0, MPI_FLOAT, MPI_SUM, win) == MPI_SUCCESS);
    CHECK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, old, 2, MPI_INT, next, 0, 1, comb, MPI_NO_OP, win) == MPI_SUCCESS);
    MPI_Type_free(&comb);
    FAILS(MPI_Win_fence(MPI_MODE_NOCHECK, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_fence(-1, win), MPI_ERR_ASSERT);
    CHECK(MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED, win) == MPI_SUCCESS);
    FAILS(MPI_Win_post(MPI_GROUP_EMPTY, MPI_MODE_NOPRECEDE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_start(MPI_GROUP_EMPTY, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, next, MPI_MODE_NOSTORE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock_all(1 << 30, win), MPI_ERR_ASSERT);
    CHECK(MPI_Win_post(MPI_GROUP_EMPTY, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_start(MPI_GROUP_EMPTY, MPI_MODE_NOCHECK, win) == MPI_SUCCESS);
    CHECK(MPI_Win_complete(win) == MPI_SUCCESS && MPI_Win_wait(win) == MPI_SUCCESS);
}

static void windows(void) {
    static int two[2][16];
    double value = 1, old, expected = 0;
    int next = (rank + 1) % size, *memory;
    MPI_Aint address, where;
    MPI_Win win;
    MPI_Win_allocate(16 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    FAILS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Put(two, 17, MPI_INT, next, 0, 17, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(two, 1, MPI_INT, next, 16, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(two, 1, MPI_INT, next, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    FAILS(MPI_Compare_and_swap(&value, &expected, &old, MPI_DOUBLE, next, 0, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(two[0], two[0], two[1], MPI_INT, next, 16, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Compare_and_swap(two[0], two[0], NULL, MPI_INT, next, 0, win), MPI_ERR_BUFFER);
    CHECK(MPI_Compare_and_swap(two[0], two[0], two[1], MPI_INT, MPI_PROC_NULL, 16, win) == MPI_SUCCESS);
    FAILS(MPI_Accumulate(&value, 1, MPI_DOUBLE, next, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(two, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    FAILS(MPI_Fetch_and_op(two[0], two[1], pair, next, 0, MPI_SUM, win), MPI_ERR_TYPE);
    MPI_Type_free(&pair);
    MPI_Win_unlock(next, win);
    windows_with_rules(win);
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
    MPI_Win_create(two, sizeof two, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    windows_with_rules(win);
    MPI_Win_free(&win);

    /* Memory attached in two parts is one; what is not attached is told at the next flush. */
    int mine[32], back[32];
    for (int i = 0; i < 32; i++) mine[i] = rank * 100 + i;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_attach(win, two[1], sizeof two[1]);
    MPI_Win_attach(win, two[0], sizeof two[0]);
    MPI_Get_address(two, &address);
    MPI_Sendrecv(&address, 1, MPI_AINT, (rank + size - 1) % size, 0, &where, 1, MPI_AINT, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Win_lock_all(0, win);
    MPI_Put(mine, 32, MPI_INT, next, where, 32, MPI_INT, win);
    CHECK(MPI_Win_flush(next, win) == MPI_SUCCESS);
    MPI_Get(back, 32, MPI_INT, next, where, 32, MPI_INT, win);
    CHECK(MPI_Win_flush(next, win) == MPI_SUCCESS && !memcmp(mine, back, sizeof mine));
    MPI_Put(mine, 32, MPI_INT, next, MPI_Aint_add(where, 4), 32, MPI_INT, win);
    FAILS(MPI_Win_flush(next, win), MPI_ERR_RMA_RANGE);
    CHECK(MPI_Win_flush(next, win) == MPI_SUCCESS);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
}

static int freed;

static int query(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    return MPI_SUCCESS;
}

static int let_go(void *extra) {
    (void)extra;
    freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

static void requests(void) {
    int data[4] = {0}, number = rank, sum = 0;
    MPI_Request request, handle;
    MPI_Datatype nine;
    /* The state of an operation that goes on lives longer than its handle. */
    MPI_Grequest_start(query, let_go, cancel, NULL, &request);
    handle = request;
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS && request == MPI_REQUEST_NULL && freed == 0);
    CHECK(MPI_Grequest_complete(handle) == MPI_SUCCESS && freed == 1);
    /* Nobody takes the parts of a message at the edge. */
    MPI_Psend_init(data, 4, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    CHECK(MPI_Pready_range(0, 3, request) == MPI_SUCCESS);
    FAILS(MPI_Pready(4, request), MPI_ERR_ARG);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_Request_free(&request);
    FAILS(MPI_Precv_init(data, 4, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_RANK);
    FAILS(MPI_Precv_init(data, 4, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_TAG);
    /* What is no send and no receive cannot be cancelled, nor what has not begun. */
    MPI_Iallreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && sum == size * (size - 1) / 2);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Start(&request);
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_Request_free(&request);
    MPI_Recv_init(data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Request_free(&request);
    request = MPI_REQUEST_NULL;
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    /* Operations are for types of Fortran 90 too. */
    MPI_Type_create_f90_integer(9, &nine);
    CHECK(MPI_Allreduce(&number, &sum, 1, nine, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && sum == size * (size - 1) / 2);
}

/* What does not fit a number is said to be so. */
static void limits(void) {
    MPI_Datatype large;
    MPI_Status status;
    MPI_Count many;
    int number = -7, place, data[2] = {0}, other[2];
    MPI_Type_contiguous(1 << 30, MPI_INT, &large);
    MPI_Type_commit(&large);
    FAILS(MPI_Pack_size(1, large, MPI_COMM_WORLD, &number), MPI_ERR_VALUE_TOO_LARGE);
    FAILS(MPI_Pack_size(0x7fffffff, MPI_DOUBLE, MPI_COMM_WORLD, &number), MPI_ERR_VALUE_TOO_LARGE);
    CHECK(number == -7);
    CHECK(class_of(MPI_Pack_size_c((MPI_Count)1 << 62, MPI_DOUBLE, MPI_COMM_WORLD, &many)) != MPI_SUCCESS);
    CHECK(MPI_Type_size(large, &number) == MPI_SUCCESS && number == MPI_UNDEFINED);
    MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)3 << 30);
    CHECK(MPI_Get_count(&status, MPI_BYTE, &number) == MPI_SUCCESS && number == MPI_UNDEFINED);
    CHECK(MPI_Get_elements(&status, MPI_BYTE, &number) == MPI_SUCCESS && number == MPI_UNDEFINED);
    CHECK(MPI_Get_count(&status, MPI_INT, &number) == MPI_SUCCESS && number == 3 << 28);
    CHECK(MPI_Get_elements_c(&status, MPI_BYTE, &many) == MPI_SUCCESS && many == (MPI_Count)3 << 30);
    place = 0x7fffffff;
    FAILS(MPI_Pack(data, 1, MPI_INT, other, 0x7fffffff, &place, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    place = -4;
    FAILS(MPI_Unpack(data, 8, &place, other, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    CHECK(place == -4);
    MPI_Type_free(&large);
    MPI_Win win;
    void *base;
    MPI_Aint size_there;
    MPI_Win_allocate_c(8, (MPI_Aint)1 << 32, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    FAILS(MPI_Win_shared_query(win, 0, &size_there, &number, &base), MPI_ERR_VALUE_TOO_LARGE);
    MPI_Win_free(&win);
}

/* A message that is too long: its beginning arrives, and how much is missing can be asked for. */
static void too_long(void) {
    int data[4] = {1, 2, 3, 4}, part[2] = {0}, len;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Isend(data, 4, MPI_INT, rank, 3, MPI_COMM_WORLD, &requests[0]);
    FAILS(MPI_Recv(part, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
    MPI_Error_string(MPI_ERR_TRUNCATE, text, &len);
    CHECK(strstr(text, " 12 bytes") && len == (int)strlen(text) && part[0] == 1 && part[1] == 0);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Status each[2];
    MPI_Irecv(part, 2, MPI_INT, rank, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(data, 4, MPI_INT, rank, 4, MPI_COMM_WORLD, &requests[1]);
    FAILS(MPI_Waitall(2, requests, each), MPI_ERR_IN_STATUS);
    CHECK(class_of(each[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
    MPI_Error_string(each[0].MPI_ERROR, text, &len);
    CHECK(strstr(text, " 8 bytes") && part[1] == 2);
}

static void weights(void) {
    int edges[2] = {rank, rank}, degree = 2, negative[2] = {1, -1}, good[2] = {1, 0}, found[2], ends[2];
    MPI_Comm made, comm = MPI_COMM_WORLD;
    FAILS(MPI_Dist_graph_create_adjacent(comm, 2, edges, negative, 2, edges, good, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create_adjacent(comm, 2, edges, good, 2, edges, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create(comm, 1, &rank, &degree, edges, negative, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create(comm, 1, &rank, &degree, edges, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG);
    CHECK(MPI_Dist_graph_create_adjacent(comm, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &made) ==
          MPI_SUCCESS);
    MPI_Comm_free(&made);
    MPI_Dist_graph_create_adjacent(comm, 2, edges, good, 2, edges, good, MPI_INFO_NULL, 0, &made);
    CHECK(MPI_Dist_graph_neighbors(made, 2, ends, found, 0, NULL, MPI_UNWEIGHTED) == MPI_SUCCESS && found[0] == 1 && found[1] == 0);
    MPI_Comm_free(&made);
}

/* Only within one group. */
static void groups(void) {
    MPI_Comm half, between, made;
    MPI_Group group;
    int dims[1] = {1}, periods[1] = {0};
    if (size < 2) return;
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 5, &between);
    MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
    MPI_Comm_group(between, &group);
    FAILS(MPI_Cart_create(between, 1, dims, periods, 0, &made), MPI_ERR_COMM);
    FAILS(MPI_Comm_create_group(between, group, 1, &made), MPI_ERR_COMM);
    FAILS(MPI_Dist_graph_create_adjacent(between, 0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made),
          MPI_ERR_COMM);
    MPI_Request request;
    int value = 1;
    FAILS(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, between), MPI_ERR_BUFFER);
    FAILS(MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, between, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter_block(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, between), MPI_ERR_BUFFER);
    MPI_Group_free(&group);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

int main(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    failed_calls_have_ended();
    buffers();
    communicators();
    windows();
    requests();
    limits();
    too_long();
    weights();
    groups();
    printf("rank %d: %d failures\n", rank, failures);
    MPI_Finalize();
    return failures != 0;
}
