/* Windows: every kind, every epoch, every operation. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, failures, next, last;
static MPI_Comm comm;

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)

enum { LONG = 60000 };

static void fences(void) {
    int *memory, *data = malloc(sizeof(int) * LONG), *back = malloc(sizeof(int) * LONG);
    MPI_Win win;
    MPI_Win_allocate(sizeof(int) * LONG, sizeof(int), MPI_INFO_NULL, comm, &memory, &win);
    for (int i = 0; i < LONG; i++) data[i] = rank * 7 + i, memory[i] = -1;
    MPI_Win_fence(0, win);
    MPI_Put(data, LONG, MPI_INT, next, 0, LONG, MPI_INT, win);
    MPI_Win_fence(0, win);
    int good = 1;
    for (int i = 0; i < LONG; i++) good &= memory[i] == last * 7 + i;
    CHECK(good);
    MPI_Get(back, LONG, MPI_INT, next, 0, LONG, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(!memcmp(back, data, sizeof(int) * LONG));
    /* Every second element there, from a row here. */
    MPI_Datatype every_second;
    MPI_Type_vector(10, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    for (int i = 0; i < 20; i++) memory[i] = 0;
    MPI_Win_fence(0, win);
    MPI_Put(data, 10, MPI_INT, next, 1, 1, every_second, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 20; i++) good &= memory[i] == (i % 2 ? last * 7 + i / 2 : 0);
    CHECK(good);
    for (int i = 0; i < 20; i++) memory[i] = 0;
    MPI_Win_fence(0, win);
    for (int target = 0; target < size; target++) MPI_Accumulate(data, 10, MPI_INT, target, 0, 1, every_second, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 0; i < 20; i++) good &= memory[i] == (i % 2 ? 0 : 7 * size * (size - 1) / 2 + size * (i / 2));
    CHECK(good);
    MPI_Type_free(&every_second);
    MPI_Win_free(&win);
    free(data); free(back);
}

static void groups(void) {
    double memory[4] = {0, 0, 0, 0}, mine[2] = {rank + 0.5, rank + 0.25};
    MPI_Win win;
    MPI_Group all, to, from;
    MPI_Win_create(memory, sizeof memory, sizeof(double), MPI_INFO_NULL, comm, &win);
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &next, &to);
    MPI_Group_incl(all, 1, &last, &from);
    for (int turn = 0; turn < 5; turn++) {
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(mine, 2, MPI_DOUBLE, next, turn % 2, 2, MPI_DOUBLE, win);
        MPI_Win_complete(win);
        if (turn % 2) MPI_Win_wait(win);
        else for (int flag = 0; !flag;) MPI_Win_test(win, &flag);
        CHECK(memory[turn % 2] == last + 0.5 && memory[turn % 2 + 1] == last + 0.25);
    }
    MPI_Group_free(&all); MPI_Group_free(&to); MPI_Group_free(&from);
    MPI_Win_free(&win);
}

static void locks(void) {
    long *counter, one = 1, old = -1, result = -1;
    MPI_Win win;
    MPI_Win_allocate(5 * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &counter, &win);
    memset(counter, 0, 5 * sizeof(long));
    MPI_Barrier(comm);
    for (int i = 0; i < 50; i++) {
        /* Read, change and write under the lock. */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        long value;
        MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 50; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 1, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK(old >= i && old < 50L * size);
    }
    long mine = rank + 1, zero = 0;
    MPI_Compare_and_swap(&mine, &zero, &result, MPI_LONG, 0, 2, win);
    MPI_Win_flush_all(win);
    CHECK(result >= 0 && result <= size);
    /* A counter that everybody raises by swaps alone. */
    for (int i = 0; i < 50; i++) {
        long seen = 0, next;
        do {
            long expected = seen;
            next = expected + 1;
            MPI_Compare_and_swap(&next, &expected, &seen, MPI_LONG, 0, 4, win);
            MPI_Win_flush(0, win);
        } while (seen != next - 1);
    }
    MPI_Request request;
    MPI_Rget_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, size - 1, 3, 1, MPI_LONG, MPI_REPLACE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(old == 0 || old == 1);
    MPI_Win_unlock_all(win);
    MPI_Barrier(comm);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        CHECK(counter[0] == 50L * size && counter[1] == 50L * size && counter[2] >= 1);
        CHECK(counter[4] == 50L * size);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(comm);
    MPI_Win_free(&win);
}

/* The target is outside of all calls until the memory changes; only where the memory is mapped can that be. */
static void passive(void) {
    long *memory, *theirs, value = 40 + rank, one = 1, bytes;
    int unit;
    MPI_Aint size_there;
    MPI_Win win;
    MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &memory, &win);
    memory[0] = memory[1] = 0;
    MPI_Win_shared_query(win, next, &size_there, &unit, &theirs);
    bytes = size_there;
    MPI_Barrier(comm);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Accumulate(&one, 1, MPI_LONG, next, 1, 1, MPI_LONG, MPI_SUM, win);
    MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
    MPI_Win_unlock(next, win);
    while (*(volatile long *)memory == 0) {
        int flag;
        if (bytes == 0 || size == 1) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    }
    CHECK(memory[0] == 40 + last && memory[1] == 1);
    MPI_Barrier(comm);
    MPI_Win_free(&win);
}

/* Many at once on the same elements: every kind of accumulate is atomic, whatever datatypes describe them. */
static void crowd(void) {
    enum { TURNS = 200, MANY = 300 };
    long *memory, ones[MANY], old[MANY];
    MPI_Datatype row, every_second;
    MPI_Win win;
    MPI_Type_contiguous(MANY, MPI_LONG, &row);
    MPI_Type_vector(MANY / 2, 1, 2, MPI_LONG, &every_second);
    MPI_Type_commit(&row), MPI_Type_commit(&every_second);
    MPI_Win_allocate(MANY * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &memory, &win);
    memset(memory, 0, MANY * sizeof(long));
    for (int i = 0; i < MANY; i++) ones[i] = 1;
    MPI_Barrier(comm);
    MPI_Win_lock_all(0, win);
    long before = -1, good = 1;
    for (int turn = 0; turn < TURNS; turn++) {
        switch (turn % 4) {
        case 0: MPI_Accumulate(ones, MANY, MPI_LONG, 0, 0, 1, row, MPI_SUM, win); break;
        case 1: MPI_Get_accumulate(ones, 1, row, old, MANY, MPI_LONG, 0, 0, MANY, MPI_LONG, MPI_SUM, win); break;
        case 2:
            MPI_Accumulate(ones, MANY / 2, MPI_LONG, 0, 0, 1, every_second, MPI_SUM, win);
            MPI_Accumulate(ones, MANY / 2, MPI_LONG, 0, 1, 1, every_second, MPI_SUM, win);
            break;
        case 3:
            for (int i = 0; i < MANY; i++) MPI_Fetch_and_op(ones, &old[i], MPI_LONG, 0, i, MPI_SUM, win);
            break;
        }
        MPI_Win_flush(0, win);
        if (turn % 2) good &= old[0] > before, before = old[0];
    }
    CHECK(good);
    MPI_Win_unlock_all(win);
    MPI_Barrier(comm);
    if (rank == 0)
        for (int i = 0; i < MANY; i++) good &= memory[i] == (long)TURNS * size;
    CHECK(good);
    MPI_Type_free(&row), MPI_Type_free(&every_second);
    MPI_Win_free(&win);
}

static void shared(void) {
    int *mine, *theirs, unit;
    MPI_Aint bytes;
    MPI_Win win;
    MPI_Win_allocate_shared(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &mine, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 4; i++) mine[i] = rank * 10 + i;
    MPI_Win_sync(win);
    MPI_Barrier(comm);
    MPI_Win_sync(win);
    MPI_Win_shared_query(win, next, &bytes, &unit, &theirs);
    int good = bytes == 4 * sizeof(int) && unit == sizeof(int);
    for (int i = 0; i < 4; i++) good &= theirs[i] == next * 10 + i;
    CHECK(good);
    MPI_Win_unlock_all(win);
    MPI_Barrier(comm);
    MPI_Win_free(&win);
}

static void dynamic(void) {
    int memory[3] = {-1, -1, -1}, value = rank + 100;
    MPI_Aint address, where;
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
    MPI_Win_attach(win, memory, sizeof memory);
    MPI_Get_address(&memory[1], &address);
    MPI_Sendrecv(&address, 1, MPI_AINT, last, 0, &where, 1, MPI_AINT, next, 0, comm, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, next, where, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(memory[0] == -1 && memory[1] == last + 100 && memory[2] == -1);
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
}

static void misuse(void) {
    int memory = 0, class;
    MPI_Win win;
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Put(&memory, 1, MPI_INT, 0, 0, 1, MPI_INT, win), &class);
    CHECK(class == MPI_ERR_RMA_SYNC);
    MPI_Error_class(MPI_Win_unlock(0, win), &class);
    CHECK(class == MPI_ERR_RMA_SYNC);
    MPI_Win_fence(0, win);
    MPI_Error_class(MPI_Put(&memory, 1, MPI_INT, size, 0, 1, MPI_INT, win), &class);
    CHECK(class == MPI_ERR_RANK);
    CHECK(MPI_Put(&memory, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win) == MPI_SUCCESS);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    int *flavor, flag;
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_CREATE);
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
}

int main(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    next = (rank + 1) % size;
    last = (rank + size - 1) % size;
    fences();
    groups();
    locks();
    passive();
    crowd();
    shared();
    dynamic();
    misuse();
    MPI_Comm_free(&comm);
    printf("rank %d: %d failures\n", rank, failures);
    MPI_Finalize();
    return failures != 0;
}
