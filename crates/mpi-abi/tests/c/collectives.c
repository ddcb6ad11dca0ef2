/* Collectives: every rank gets what it should, for short and long data, in place or not, in order where order matters. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, failures;
static MPI_Comm comm;

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)

static const int lengths[] = {0, 1, 3, 1000, 5000, 100003};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], MOST = 100003 };

static int *make(int n) { return malloc(sizeof(int) * (n ? n : 1)); }

static void bcast_and_reduce(void) {
    int *a = make(MOST), *b = make(MOST);
    for (int l = 0; l < LENGTHS; l++) {
        int n = lengths[l], good;
        for (int root = 0; root < size; root++) {
            for (int i = 0; i < n; i++) a[i] = rank == root ? i * 3 + root : -1;
            MPI_Bcast(a, n, MPI_INT, root, comm);
            good = 1;
            for (int i = 0; i < n; i++) good &= a[i] == i * 3 + root;
            CHECK(good);
            for (int i = 0; i < n; i++) a[i] = rank + i, b[i] = -1;
            MPI_Reduce(a, b, n, MPI_INT, MPI_SUM, root, comm);
            for (int i = 0; i < n; i++) good &= rank == root ? b[i] == size * (size - 1) / 2 + size * i : b[i] == -1;
            CHECK(good);
            MPI_Reduce(rank == root ? MPI_IN_PLACE : a, a, n, MPI_INT, MPI_MAX, root, comm);
            for (int i = 0; i < n; i++) good &= a[i] == (rank == root ? size - 1 : rank) + i;
            CHECK(good);
        }
        for (int i = 0; i < n; i++) a[i] = rank + i, b[i] = -1;
        MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, comm);
        good = 1;
        for (int i = 0; i < n; i++) good &= b[i] == size * (size - 1) / 2 + size * i;
        CHECK(good);
        MPI_Allreduce(MPI_IN_PLACE, a, n, MPI_INT, MPI_MIN, comm);
        for (int i = 0; i < n; i++) good &= a[i] == i;
        CHECK(good);
    }
    struct { double value; int where; } one = {-(double)((rank * 7) % size), rank}, best;
    MPI_Allreduce(&one, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm);
    CHECK(best.value <= one.value && (best.where * 7) % size == (int)-best.value);
    free(a); free(b);
}

static void gathers(void) {
    int *a = make(MOST), *b = make(MOST * size), counts[size], places[size];
    for (int l = 0; l < LENGTHS; l++) {
        int n = lengths[l], good = 1, root = l % size;
        for (int i = 0; i < n; i++) a[i] = rank * 1000000 + i;
        memset(b, 0, sizeof(int) * n * size);
        MPI_Gather(a, n, MPI_INT, b, n, MPI_INT, root, comm);
        if (rank == root) for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == r * 1000000 + i;
        CHECK(good);
        memset(b, 0, sizeof(int) * n * size);
        MPI_Allgather(a, n, MPI_INT, b, n, MPI_INT, comm);
        for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == r * 1000000 + i;
        CHECK(good);
        for (int i = 0; i < n * size; i++) if (i / (n ? n : 1) != rank) b[i] = 0;
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, n, MPI_INT, comm);
        for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == r * 1000000 + i;
        CHECK(good);
        memset(a, 0, sizeof(int) * n);
        MPI_Scatter(b, n, MPI_INT, a, n, MPI_INT, root, comm);
        for (int i = 0; i < n; i++) good &= a[i] == rank * 1000000 + i;
        CHECK(good);
        if (rank == root) MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, n, MPI_INT, root, comm);
        else MPI_Gather(a, n, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, comm);
        for (int r = 0; rank == root && r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == r * 1000000 + i;
        CHECK(good);
    }
    int total = 0, good = 1;
    for (int r = 0; r < size; r++) { counts[r] = (r * 5 + 2) % 7; places[size - 1 - r] = total; total += 8; }
    for (int i = 0; i < counts[rank]; i++) a[i] = rank * 100 + i;
    for (int i = 0; i < total; i++) b[i] = -7;
    MPI_Gatherv(a, counts[rank], MPI_INT, b, counts, places, MPI_INT, 0, comm);
    for (int r = 0; rank == 0 && r < size; r++) {
        for (int i = 0; i < 8; i++) good &= b[places[r] + i] == (i < counts[r] ? r * 100 + i : -7);
    }
    CHECK(good);
    for (int i = 0; i < total; i++) b[i] = -7;
    MPI_Allgatherv(a, counts[rank], MPI_INT, b, counts, places, MPI_INT, comm);
    for (int r = 0; r < size; r++) for (int i = 0; i < 8; i++) good &= b[places[r] + i] == (i < counts[r] ? r * 100 + i : -7);
    CHECK(good);
    memset(a, 0, sizeof(int) * 8);
    MPI_Scatterv(b, counts, places, MPI_INT, a, counts[rank], MPI_INT, size - 1, comm);
    for (int i = 0; i < counts[rank]; i++) good &= a[i] == rank * 100 + i;
    CHECK(good);
    free(a); free(b);
}

static void alltoalls(void) {
    int *a = make(MOST * size), *b = make(MOST * size);
    int counts[size], places[size], bytes[size];
    MPI_Datatype types[size];
    for (int l = 0; l < LENGTHS; l++) {
        int n = lengths[l], good = 1;
        for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) a[r * n + i] = rank * 10000 + r * 1000000 + i, b[r * n + i] = -1;
        MPI_Alltoall(a, n, MPI_INT, b, n, MPI_INT, comm);
        for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == r * 10000 + rank * 1000000 + i;
        CHECK(good);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, n, MPI_INT, comm);
        for (int i = 0; i < n * size; i++) good &= a[i] == b[i];
        CHECK(good);
    }
    /* Rank s sends s + r + 1 elements to rank r. */
    int good = 1;
    for (int r = 0; r < size; r++) {
        counts[r] = rank + r + 1; places[r] = r * 20; bytes[r] = r * 20 * sizeof(int); types[r] = MPI_INT;
        for (int i = 0; i < 20; i++) a[r * 20 + i] = rank * 1000 + r * 100 + i, b[r * 20 + i] = -1;
    }
    MPI_Alltoallv(a, counts, places, MPI_INT, b, counts, places, MPI_INT, comm);
    for (int r = 0; r < size; r++) for (int i = 0; i < 20; i++) good &= b[r * 20 + i] == (i < counts[r] ? r * 1000 + rank * 100 + i : -1);
    CHECK(good);
    memset(b, -1, sizeof(int) * 20 * size);
    MPI_Alltoallw(a, counts, bytes, types, b, counts, bytes, types, comm);
    for (int r = 0; r < size; r++) for (int i = 0; i < 20; i++) good &= b[r * 20 + i] == (i < counts[r] ? r * 1000 + rank * 100 + i : -1);
    CHECK(good);
    free(a); free(b);
}

/* Between every two ranks something else: nothing, little, much; and to itself. */
static void unequal(void) {
    int *a = make(MOST * size), *b = make(MOST * size), out[size], in[size], places[size];
    for (int k = 0; k < 2 * LENGTHS; k++) {
        int good = 1;
        for (int r = 0; r < size; r++) {
            out[r] = lengths[(rank * 3 + r * 5 + k) % LENGTHS];
            in[r] = lengths[(r * 3 + rank * 5 + k) % LENGTHS];
            places[r] = r * MOST;
            for (int i = 0; i < out[r]; i++) a[r * MOST + i] = rank * 10000 + r * 1000000 + i + k;
            memset(b + r * MOST, -1, sizeof(int) * MOST);
        }
        MPI_Alltoallv(a, out, places, MPI_INT, b, in, places, MPI_INT, comm);
        for (int r = 0; r < size; r++) for (int i = 0; i < MOST; i++) {
            good &= b[r * MOST + i] == (i < in[r] ? r * 10000 + rank * 1000000 + i + k : -1);
        }
        CHECK(good);
    }
    free(a); free(b);
}

/* Matrices of two by two modulo a prime: multiplying them does not commute. */
static void multiply(void *in, void *inout, int *len, MPI_Datatype *type) {
    const long P = 1000003;
    long *x = in, *y = inout;
    (void)type;
    for (int n = 0; n < *len; n++, x += 4, y += 4) {
        long z[4] = {(x[0] * y[0] + x[1] * y[2]) % P, (x[0] * y[1] + x[1] * y[3]) % P,
                     (x[2] * y[0] + x[3] * y[2]) % P, (x[2] * y[1] + x[3] * y[3]) % P};
        memcpy(y, z, sizeof z);
    }
}

static void matrix(long *m, int r, int i) { m[0] = r + 1; m[1] = i + 2; m[2] = r * 3 + 1; m[3] = i % 5 + r; }

/* The product of ranks first .. last - 1. */
static void product(long *m, int first, int last, int i, MPI_Datatype type) {
    long next[4];
    int one = 1;
    matrix(m, first, i);
    for (int r = first + 1; r < last; r++) {
        matrix(next, r, i);
        multiply(m, next, &one, &type);
        memcpy(m, next, sizeof next);
    }
}

static void order(void) {
    MPI_Datatype type;
    MPI_Op op;
    MPI_Type_contiguous(4, MPI_LONG, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(multiply, 0, &op);
    int sizes[] = {1, 50, 3000};
    for (int s = 0; s < 3; s++) {
        int n = sizes[s], good = 1, counts[size];
        long (*a)[4] = malloc(sizeof *a * n * size), (*b)[4] = malloc(sizeof *b * n * size), want[4];
        for (int i = 0; i < n; i++) matrix(a[i], rank, i);
        MPI_Allreduce(a, b, n, type, op, comm);
        for (int i = 0; i < n; i++) { product(want, 0, size, i, type); good &= !memcmp(b[i], want, sizeof want); }
        CHECK(good);
        for (int root = 0; root < size; root++) {
            memset(b, 0, sizeof *b * n);
            MPI_Reduce(a, b, n, type, op, root, comm);
            for (int i = 0; rank == root && i < n; i++) { product(want, 0, size, i, type); good &= !memcmp(b[i], want, sizeof want); }
            CHECK(good);
        }
        MPI_Scan(a, b, n, type, op, comm);
        for (int i = 0; i < n; i++) { product(want, 0, rank + 1, i, type); good &= !memcmp(b[i], want, sizeof want); }
        CHECK(good);
        memset(b, 0, sizeof *b * n);
        MPI_Exscan(a, b, n, type, op, comm);
        for (int i = 0; rank > 0 && i < n; i++) { product(want, 0, rank, i, type); good &= !memcmp(b[i], want, sizeof want); }
        CHECK(good && (rank > 0 || b[0][0] == 0));
        for (int i = 0; i < n * size; i++) matrix(a[i], rank, i);
        MPI_Reduce_scatter_block(a, b, n, type, op, comm);
        for (int i = 0; i < n; i++) { product(want, 0, size, rank * n + i, type); good &= !memcmp(b[i], want, sizeof want); }
        CHECK(good);
        for (int r = 0; r < size; r++) counts[r] = r % 2 ? n : n - 1;
        MPI_Reduce_scatter(a, b, counts, type, op, comm);
        int first = rank * n - (rank + 1) / 2;
        for (int i = 0; i < counts[rank]; i++) { product(want, 0, size, first + i, type); good &= !memcmp(b[i], want, sizeof want); }
        CHECK(good);
        free(a); free(b);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

/* Call after call, and both buffers are the program's again after each: nobody may still be reading them. */
static void again(void) {
    int counts[] = {5, 1500, 9000, 70001}, ranks = size * (size - 1) / 2;
    double *a = malloc(70001 * sizeof *a), *b = malloc(70001 * sizeof *b);
    for (int turn = 0; turn < 120; turn++) {
        int n = counts[turn % 4], good = 1, in_place = turn % 8 > 3;
        double *mine = in_place ? b : a;
        for (int i = 0; i < n; i++) mine[i] = rank + turn + i % 7;
        MPI_Allreduce(in_place ? MPI_IN_PLACE : a, b, n, MPI_DOUBLE, MPI_SUM, comm);
        for (int i = 0; i < n; i++) good &= b[i] == ranks + size * (turn + i % 7);
        CHECK(good);
        for (int i = 0; i < n; i++) a[i] = b[i] = -1e300;
    }
    free(a); free(b);
}

static void scans(void) {
    for (int l = 0; l < LENGTHS; l++) {
        int n = lengths[l], good = 1, counts[size], *a = make(n * size), *b = make(n * size);
        for (int i = 0; i < n; i++) a[i] = rank * (i + 1), b[i] = -1;
        MPI_Scan(a, b, n, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < n; i++) good &= b[i] == rank * (rank + 1) / 2 * (i + 1);
        CHECK(good);
        MPI_Exscan(MPI_IN_PLACE, a, n, MPI_INT, MPI_SUM, comm);
        for (int i = 0; rank > 0 && i < n; i++) good &= a[i] == rank * (rank - 1) / 2 * (i + 1);
        CHECK(good);
        for (int i = 0; i < n * size; i++) a[i] = rank + i;
        for (int r = 0; r < size; r++) counts[r] = n;
        MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < n; i++) good &= b[i] == size * (size - 1) / 2 + size * (rank * n + i);
        CHECK(good);
        MPI_Reduce_scatter_block(MPI_IN_PLACE, a, n, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < n; i++) good &= a[i] == b[i];
        CHECK(good);
        free(a); free(b);
    }
}

/* A column to everybody's row. */
static void columns(void) {
    enum { N = 60 };
    int a[N][N], b[N], good = 1;
    MPI_Datatype column;
    MPI_Type_vector(N, 1, N, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = rank == 0 ? i * N + j : -1;
    MPI_Bcast(&a[0][3], 1, column, 0, comm);
    for (int i = 0; i < N; i++) good &= a[i][3] == i * N + 3 && (rank == 0 || a[i][4] == -1);
    CHECK(good);
    if (rank == 0) MPI_Bcast(&a[0][5], 1, column, 0, comm);
    else MPI_Bcast(b, N, MPI_INT, 0, comm);
    for (int i = 0; rank > 0 && i < N; i++) good &= b[i] == i * N + 5;
    CHECK(good);
    MPI_Type_free(&column);
}

/* Long data that lies apart at some ranks and together at others, too. */
static void long_strides(void) {
    static const int counts[] = {8192, 8193, 20000, 65536, 65537};
    for (int c = 0; c < 5; c++) {
        int n = counts[c], good = 1;
        int apart = rank % 2, step = apart ? 3 : 1, root = c % size;
        int *a = malloc(sizeof(int) * 3 * (size_t)n);
        MPI_Datatype type = MPI_INT;
        if (apart) MPI_Type_vector(n, 1, 3, MPI_INT, &type);
        if (apart) MPI_Type_commit(&type);
        for (int i = 0; i < 3 * n; i++) a[i] = -1;
        for (int i = 0; rank == root && i < n; i++) a[i * step] = i ^ c;
        MPI_Bcast(a, apart ? 1 : n, type, root, comm);
        for (int i = 0; i < n; i++) good &= a[i * step] == (i ^ c) && (!apart || a[i * 3 + 1] == -1);
        CHECK(good);
        if (apart) MPI_Type_free(&type);
        free(a);
    }
}

/* The same of gathers and scatters, from a word to more than goes over common memory; every call follows the last at once. */
static void strides(void) {
    static const int counts[] = {1, 12, 13, 300, 4097, 33000};
    for (int c = 0; c < 6 * size; c++) {
        int n = counts[c % 6], good = 1, root = c % size;
        int apart = (rank + c / size) % 2, step = apart ? 3 : 1;
        int *a = malloc(sizeof(int) * 3 * (size_t)n), *all = make(n * size), *again = make(n * size);
        MPI_Datatype type = MPI_INT;
        if (apart) MPI_Type_vector(n, 1, 3, MPI_INT, &type);
        if (apart) MPI_Type_commit(&type);
        for (int i = 0; i < 3 * n; i++) a[i] = -1;
        for (int i = 0; i < n; i++) a[i * step] = rank * 1000 + i;
        MPI_Gather(a, apart ? 1 : n, type, all, n, MPI_INT, root, comm);
        for (int i = 0; rank == root && i < n * size; i++) good &= all[i] == i / n * 1000 + i % n;
        CHECK(good);
        MPI_Allgather(a, apart ? 1 : n, type, again, n, MPI_INT, comm);
        for (int i = 0; i < n * size; i++) good &= again[i] == i / n * 1000 + i % n;
        CHECK(good);
        for (int i = 0; i < n; i++) a[i * step] = -1;
        MPI_Scatter(all, n, MPI_INT, a, apart ? 1 : n, type, root, comm);
        for (int i = 0; i < n; i++) good &= a[i * step] == rank * 1000 + i && (!apart || a[i * 3 + 1] == -1);
        CHECK(good);
        if (apart) MPI_Type_free(&type);
        free(a); free(all); free(again);
    }
}

/* Somebody comes so late that the others have gone to sleep, and have to be woken. */
static void late(void) {
    for (int who = 0; who < size; who++) {
        int one = 1, sum = 0, word = rank == who ? 7 : 0;
        if (rank == who) usleep(50000);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        if (rank == who) usleep(50000);
        MPI_Bcast(&word, 1, MPI_INT, who, comm);
        CHECK(sum == size && word == 7);
    }
}

/* One call after the other, of any kind and length, with ranks ahead of each other where the call allows it. */
static void mixed(void) {
    static const int counts[] = {1, 12, 13, 300, 2000, 4000, 8192, 9000, 20000, 70000};
    int *a = make(70000 * size), *b = make(70000 * size);
    unsigned dice = 7;
    for (int k = 0; k < 400; k++) {
        dice = dice * 1103515245 + 12345;
        int n = counts[(dice >> 16) % 10], what = (dice >> 24) % 9, root = (dice >> 20) % size, good = 1;
        for (int i = 0; i < n * size; i++) { a[i] = rank * 1000003 + i + k; b[i] = -1; }
        if (k % 17 == rank) usleep(300);
        switch (what) {
        case 0:
            MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, comm);
            for (int i = 0; i < n; i++) good &= b[i] == size * (size - 1) / 2 * 1000003 + size * (i + k);
            break;
        case 1:
            MPI_Alltoall(a, n, MPI_INT, b, n, MPI_INT, comm);
            for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == r * 1000003 + rank * n + i + k;
            break;
        case 2:
            MPI_Allgather(a, n, MPI_INT, b, n, MPI_INT, comm);
            for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == r * 1000003 + i + k;
            break;
        case 3:
            MPI_Bcast(a, n, MPI_INT, root, comm);
            for (int i = 0; i < n; i++) good &= a[i] == root * 1000003 + i + k;
            break;
        case 4:
            MPI_Scan(a, b, n, MPI_INT, MPI_SUM, comm);
            for (int i = 0; i < n; i++) good &= b[i] == rank * (rank + 1) / 2 * 1000003 + (rank + 1) * (i + k);
            break;
        case 5:
            MPI_Gather(a, n, MPI_INT, b, n, MPI_INT, root, comm);
            for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) good &= b[r * n + i] == (rank == root ? r * 1000003 + i + k : -1);
            break;
        case 6:
            MPI_Reduce_scatter_block(a, b, n, MPI_INT, MPI_SUM, comm);
            for (int i = 0; i < n; i++) good &= b[i] == size * (size - 1) / 2 * 1000003 + size * (rank * n + i + k);
            break;
        case 7:
            MPI_Scatter(a, n, MPI_INT, b, n, MPI_INT, root, comm);
            for (int i = 0; i < n; i++) good &= b[i] == root * 1000003 + rank * n + i + k;
            break;
        default:
            MPI_Reduce(a, b, n, MPI_INT, MPI_SUM, root, comm);
            for (int i = 0; i < n; i++) good &= b[i] == (rank == root ? size * (size - 1) / 2 * 1000003 + size * (i + k) : -1);
        }
        CHECK(good);
    }
    free(a); free(b);
}

static void everything(MPI_Comm on) {
    comm = on;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 20; i++) MPI_Barrier(comm);
    bcast_and_reduce();
    long_strides();
    strides();
    gathers();
    alltoalls();
    unequal();
    order();
    again();
    scans();
    columns();
    mixed();
    late();
}

int main(int argc, char **argv) {
    MPI_Comm part;
    MPI_Init(&argc, &argv);
    everything(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    everything(part);
    MPI_Comm_free(&part);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d: %d failures\n", rank, size, failures);
    MPI_Finalize();
    return failures != 0;
}
