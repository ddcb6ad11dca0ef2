/* Point to point: every way to send meets every way to receive, and statuses say what happened. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, next, before;
static int failures;

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)

static const int lengths[] = {0, 1, 7, 1000, 16384, 16385, 300000};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], MOST = 300000 };

static char fill(int i, int salt) { return (char)(i * 31 + salt * 7 + (i >> 8)); }

static void put(char *buf, int len, int salt) { for (int i = 0; i < len; i++) buf[i] = fill(i, salt); }

static int is(const char *buf, int len, int salt) {
    for (int i = 0; i < len; i++) if (buf[i] != fill(i, salt)) return 0;
    return 1;
}

/* Round the ring with each mode of sending. */
static void modes(void) {
    char *out = malloc(MOST), *in = malloc(MOST);
    int attached = 4 * (MOST + MPI_BSEND_OVERHEAD);
    void *buffer = malloc(attached), *detached;
    MPI_Buffer_attach(buffer, attached);
    for (int mode = 0; mode < 5; mode++) {
        for (int l = 0; l < LENGTHS; l++) {
            int len = lengths[l], count;
            MPI_Request r[2];
            MPI_Status s[2];
            put(out, len, rank + mode);
            memset(in, 0, len);
            MPI_Irecv(in, len, MPI_CHAR, before, 10 + mode, MPI_COMM_WORLD, &r[0]);
            if (mode == 0) MPI_Isend(out, len, MPI_CHAR, next, 10, MPI_COMM_WORLD, &r[1]);
            if (mode == 1) MPI_Issend(out, len, MPI_CHAR, next, 11, MPI_COMM_WORLD, &r[1]);
            if (mode == 2) {
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Irsend(out, len, MPI_CHAR, next, 12, MPI_COMM_WORLD, &r[1]);
            }
            if (mode == 3) MPI_Ibsend(out, len, MPI_CHAR, next, 13, MPI_COMM_WORLD, &r[1]);
            if (mode == 4) { MPI_Bsend(out, len, MPI_CHAR, next, 14, MPI_COMM_WORLD); r[1] = MPI_REQUEST_NULL; }
            if (mode >= 3) put(out, len, 99);
            MPI_Waitall(2, r, s);
            MPI_Get_count(&s[0], MPI_CHAR, &count);
            CHECK(count == len && s[0].MPI_SOURCE == before && s[0].MPI_TAG == 10 + mode && s[0].MPI_ERROR == MPI_SUCCESS);
            CHECK(is(in, len, before + mode));
            CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL);
        }
    }
    int got;
    MPI_Buffer_detach(&detached, &got);
    CHECK(detached == buffer && got == attached);
    free(buffer); free(out); free(in);
}

/* Blocking calls, by turns. */
static void blocking(void) {
    char *buf = malloc(MOST);
    MPI_Status s;
    int count;
    for (int l = 0; l < LENGTHS; l++) {
        int len = lengths[l];
        if (rank == 0) {
            put(buf, len, l);
            MPI_Send(buf, len, MPI_BYTE, next, l, MPI_COMM_WORLD);
            MPI_Recv(buf, MOST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
            CHECK(is(buf, len, l + size - 1) && s.MPI_SOURCE == before && s.MPI_TAG == l);
        } else {
            MPI_Probe(before, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
            MPI_Get_count(&s, MPI_BYTE, &count);
            CHECK(count == len && s.MPI_TAG == l);
            MPI_Recv(buf, len, MPI_BYTE, before, l, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(is(buf, len, l + rank - 1));
            put(buf, len, l + rank);
            MPI_Ssend(buf, len, MPI_BYTE, next, l, MPI_COMM_WORLD);
        }
    }
    free(buf);
}

/* Columns of a matrix to rows, a struct with holes, and a type with absolute addresses. */
static void holes(void) {
    enum { N = 200 };
    static int a[N][N], b[N][N];
    MPI_Datatype column, row, mixed, absolute;
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = rank * 1000000 + i * N + j, b[i][j] = -1;
    MPI_Type_vector(N, 1, N, MPI_INT, &row);
    MPI_Type_create_resized(row, 0, sizeof(int), &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(a, N, column, next, 1, b, N * N, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int good = 1;
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) good &= b[i][j] == before * 1000000 + j * N + i;
    CHECK(good);
    MPI_Sendrecv(a, N * N, MPI_INT, next, 2, b, N, column, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) good &= b[i][j] == before * 1000000 + j * N + i;
    CHECK(good);

    struct { char c; double d; int i[3]; } one = {'a' + rank, rank + 0.5, {rank, 2 * rank, 3 * rank}}, other = {0};
    int blocks[] = {1, 1, 3};
    MPI_Aint places[] = {(char *)&one.c - (char *)&one, (char *)&one.d - (char *)&one, (char *)&one.i - (char *)&one};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Status s;
    MPI_Type_create_struct(3, blocks, places, types, &mixed);
    MPI_Type_commit(&mixed);
    MPI_Sendrecv(&one, 1, mixed, next, 3, &other, 1, mixed, before, 3, MPI_COMM_WORLD, &s);
    CHECK(other.c == 'a' + before && other.d == before + 0.5 && other.i[2] == 3 * before);
    int count, elements;
    MPI_Get_count(&s, mixed, &count);
    MPI_Get_elements(&s, mixed, &elements);
    CHECK(count == 1 && elements == 5);

    int place = 7 + rank, from = -1;
    MPI_Aint address;
    int single = 1;
    MPI_Datatype type_int = MPI_INT;
    MPI_Get_address(&place, &address);
    MPI_Type_create_struct(1, &single, &address, &type_int, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Sendrecv(MPI_BOTTOM, 1, absolute, next, 4, &from, 1, MPI_INT, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(from == 7 + before);
    MPI_Sendrecv_replace(&place, 1, MPI_INT, next, 5, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(place == 7 + before);
    MPI_Type_free(&column); MPI_Type_free(&row); MPI_Type_free(&mixed); MPI_Type_free(&absolute);
}

/* Messages between two ranks do not overtake; several outstanding are completed in any order. */
static void many(void) {
    enum { MANY = 300 };
    static int out[MANY], in[MANY];
    MPI_Request r[2 * MANY];
    for (int i = 0; i < MANY; i++) { out[i] = rank * 1000 + i; in[i] = -1; }
    for (int i = 0; i < MANY; i++) MPI_Isend(&out[i], 1, MPI_INT, next, 6, MPI_COMM_WORLD, &r[MANY + i]);
    for (int i = 0; i < MANY; i++) MPI_Irecv(&in[i], 1, MPI_INT, before, i % 3 ? 6 : MPI_ANY_TAG, MPI_COMM_WORLD, &r[i]);
    int left = 2 * MANY, index, n, flag, indices[2 * MANY];
    MPI_Status s, statuses[2 * MANY];
    while (left > MANY) {
        MPI_Waitany(2 * MANY, r, &index, &s);
        CHECK(index >= 0 && r[index] == MPI_REQUEST_NULL);
        left--;
    }
    MPI_Waitsome(2 * MANY, r, &n, indices, statuses);
    CHECK(n >= 1);
    left -= n;
    do {
        MPI_Testsome(2 * MANY, r, &n, indices, statuses);
        if (n != MPI_UNDEFINED) left -= n;
    } while (n != MPI_UNDEFINED);
    CHECK(left == 0);
    for (int i = 0; i < MANY; i++) CHECK(in[i] == before * 1000 + i);
    MPI_Testall(2 * MANY, r, &flag, statuses);
    CHECK(flag && statuses[0].MPI_SOURCE == MPI_ANY_SOURCE);
    MPI_Waitany(3, r, &index, MPI_STATUS_IGNORE);
    CHECK(index == MPI_UNDEFINED);
    MPI_Testany(3, r, &index, &flag, &s);
    CHECK(index == MPI_UNDEFINED && flag);
}

static void persistent(void) {
    int out = -1, in;
    MPI_Request r[2];
    MPI_Send_init(&out, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(&in, 1, MPI_INT, before, 7, MPI_COMM_WORLD, &r[1]);
    for (int i = 0; i < 5; i++) {
        MPI_Status s[2];
        int flag;
        out = rank * 10 + i;
        MPI_Startall(2, r);
        MPI_Waitall(2, r, s);
        CHECK(in == before * 10 + i && r[0] != MPI_REQUEST_NULL && s[1].MPI_SOURCE == before);
        MPI_Test(&r[1], &flag, &s[1]);
        CHECK(flag && s[1].MPI_SOURCE == MPI_ANY_SOURCE);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    CHECK(r[0] == MPI_REQUEST_NULL);
}

static void matched(void) {
    int out[3] = {rank, 1, 2}, in[3] = {-1, -1, -1}, flag = 0, count, cancelled;
    MPI_Message m;
    MPI_Status s;
    MPI_Request r;
    MPI_Isend(out, 3, MPI_INT, next, 8, MPI_COMM_WORLD, &r);
    MPI_Mprobe(before, 8, MPI_COMM_WORLD, &m, &s);
    MPI_Get_count(&s, MPI_INT, &count);
    CHECK(count == 3 && m != MPI_MESSAGE_NULL);
    MPI_Mrecv(in, 3, MPI_INT, &m, &s);
    CHECK(in[0] == before && in[2] == 2 && m == MPI_MESSAGE_NULL && s.MPI_TAG == 8);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Isend(out, 3, MPI_INT, next, 9, MPI_COMM_WORLD, &r);
    while (!flag) MPI_Improbe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, &m, &s);
    CHECK(s.MPI_SOURCE == before);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Imrecv(in, 3, MPI_INT, &m, &r);
    MPI_Wait(&r, &s);
    CHECK(s.MPI_SOURCE == before);
    MPI_Iprobe(MPI_ANY_SOURCE, 1234, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Irecv(in, 3, MPI_INT, before, 4321, MPI_COMM_WORLD, &r);
    MPI_Request_get_status(r, &flag, &s);
    CHECK(!flag && r != MPI_REQUEST_NULL);
    MPI_Cancel(&r);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &cancelled);
    CHECK(cancelled);
}

static void nobody(void) {
    int x = 5, count, flag;
    MPI_Status s;
    MPI_Request r;
    MPI_Message m;
    MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &s);
    MPI_Get_count(&s, MPI_INT, &count);
    CHECK(x == 5 && s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG && count == 0);
    MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, &s);
    CHECK(s.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &s);
    CHECK(flag && s.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &m, &s);
    CHECK(m == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(&x, 1, MPI_INT, &m, &s);
    CHECK(s.MPI_SOURCE == MPI_PROC_NULL && m == MPI_MESSAGE_NULL);
    MPI_Isend(&rank, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &r);
    MPI_Recv(&x, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(x == rank);
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void errors(void) {
    int out[4] = {1, 2, 3, 4}, in[4] = {0}, x;
    MPI_Request r[2];
    MPI_Status s[2];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Send(&x, 1, MPI_INT, size, 1, MPI_COMM_WORLD)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Send(&x, 1, MPI_INT, 0, -5, MPI_COMM_WORLD)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Send(&x, -1, MPI_INT, 0, 1, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 1, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Recv(NULL, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPI_ERR_BUFFER);
    MPI_Isend(out, 4, MPI_INT, next, 20, MPI_COMM_WORLD, &r[0]);
    CHECK(class_of(MPI_Recv(in, 2, MPI_INT, before, 20, MPI_COMM_WORLD, &s[0])) == MPI_ERR_TRUNCATE);
    CHECK(in[2] == 0);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    MPI_Isend(out, 4, MPI_INT, next, 21, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(in, 1, MPI_INT, before, 21, MPI_COMM_WORLD, &r[1]);
    CHECK(class_of(MPI_Waitall(2, r, s)) == MPI_ERR_IN_STATUS);
    CHECK(s[0].MPI_ERROR == MPI_SUCCESS && class_of(s[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Communicators keep messages apart. */
static void contexts(void) {
    MPI_Comm copy, half, reversed;
    int out = rank, in = -1, hrank, hsize;
    MPI_Request r[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    int a = 100 + rank, b = 200 + rank, x = 0, y = 0;
    MPI_Isend(&a, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(&b, 1, MPI_INT, next, 1, copy, &r[1]);
    MPI_Recv(&y, 1, MPI_INT, before, 1, copy, MPI_STATUS_IGNORE);
    MPI_Recv(&x, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(x == 100 + before && y == 200 + before);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &hrank);
    MPI_Comm_size(half, &hsize);
    CHECK(hrank == hsize - 1 - rank / 2);
    MPI_Sendrecv(&out, 1, MPI_INT, (hrank + 1) % hsize, 1, &in, 1, MPI_INT, (hrank + hsize - 1) % hsize, 1, half, MPI_STATUS_IGNORE);
    CHECK(in % 2 == rank % 2);
    MPI_Comm_split(copy, 0, -rank, &reversed);
    MPI_Status s;
    MPI_Sendrecv(&out, 1, MPI_INT, before, 2, &in, 1, MPI_INT, MPI_ANY_SOURCE, 2, reversed, &s);
    CHECK(in == size - 1 - s.MPI_SOURCE);
    MPI_Group all, low;
    MPI_Comm pair;
    int ranks[] = {0, 1};
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 2, ranks, &low);
    if (rank < 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, low, 5, &pair);
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 1, &in, 1, MPI_INT, 1 - rank, 1, pair, MPI_STATUS_IGNORE);
        CHECK(in == 1 - rank);
        MPI_Comm_free(&pair);
    }
    MPI_Group_free(&all); MPI_Group_free(&low);
    MPI_Comm_free(&copy); MPI_Comm_free(&half); MPI_Comm_free(&reversed);
}

/* Long messages into stripes, and out of them: wide ones, narrow ones, more than the system takes at a time, fewer than there is room for. */
static void stripes(void) {
    static const struct { int count, width, gap; } kinds[] = {{4, 65536, 65536}, {20, 30000, 17}, {3, 400000, 1}, {9000, 33, 5}, {2, 5, 300000}};
    for (int k = 0; k < 5; k++) {
        int count = kinds[k].count, width = kinds[k].width, step = width + kinds[k].gap, len = count * width;
        char *flat = malloc(len), *striped = malloc((size_t)count * step);
        MPI_Datatype type;
        MPI_Request r[2];
        MPI_Status s[2];
        MPI_Type_create_hvector(count, width, step, MPI_CHAR, &type);
        MPI_Type_commit(&type);
        for (int round = 0; round < 4; round++) {
            int good = 1, sent = round == 3 ? len / 2 : len, got;
            put(flat, len, rank + k + round);
            memset(striped, 99, (size_t)count * step);
            MPI_Irecv(striped, 1, type, before, 70, MPI_COMM_WORLD, &r[0]);
            MPI_Isend(flat, sent, MPI_CHAR, next, 70, MPI_COMM_WORLD, &r[1]);
            MPI_Waitall(2, r, s);
            MPI_Get_count(&s[0], MPI_CHAR, &got);
            CHECK(got == sent);
            for (int i = 0; i < count * step; i++) {
                int at = i / step * width + i % step;
                good &= striped[i] == (i % step < width && at < sent ? fill(at, before + k + round) : 99);
            }
            CHECK(good);
            memset(flat, 0, len);
            MPI_Irecv(flat, len, MPI_CHAR, next, 71, MPI_COMM_WORLD, &r[0]);
            MPI_Isend(striped, 1, type, before, 71, MPI_COMM_WORLD, &r[1]);
            MPI_Waitall(2, r, s);
            CHECK(is(flat, sent, rank + k + round));
        }
        MPI_Type_free(&type);
        free(flat); free(striped);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    modes();
    blocking();
    holes();
    stripes();
    many();
    persistent();
    matched();
    nobody();
    errors();
    contexts();
    printf("rank %d of %d: %d failures\n", rank, size, failures);
    MPI_Finalize();
    return failures != 0;
}
