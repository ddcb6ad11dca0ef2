/* Operations: every predefined one on every type, and the program's own. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

static MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR,
    MPI_MINLOC, MPI_MAXLOC};
static const char *op_names[] = {"sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor", "lxor", "minloc",
    "maxloc"};
enum { OPS = sizeof ops / sizeof *ops };

#define NUMBERS(type, handle, format, cast, a, b, c, d)                       \
    for (int o = 0; o < OPS; o++) {                                           \
        type in[] = {a, b, a}, out[] = {c, d, d};                             \
        int code = MPI_Reduce_local(in, out, 3, handle, ops[o]);              \
        printf("%s %s:", #handle, op_names[o]);                               \
        if (code) printf(" error %d\n", class_of(code));                      \
        else printf(" " format " " format " " format "\n", (cast)out[0], (cast)out[1], (cast)out[2]); \
    }

static void integers(void)
{
    NUMBERS(int8_t, MPI_INT8_T, "%ld", long, 12, -7, 5, 100)
    NUMBERS(uint8_t, MPI_UINT8_T, "%ld", long, 12, 250, 5, 100)
    NUMBERS(signed char, MPI_SIGNED_CHAR, "%ld", long, 0, -7, 5, 100)
    NUMBERS(short, MPI_SHORT, "%ld", long, 12, -7, 5, 32767)
    NUMBERS(uint16_t, MPI_UINT16_T, "%ld", long, 12, 65535, 5, 100)
    NUMBERS(int, MPI_INT, "%ld", long, 12, -7, 0, 2147483647)
    NUMBERS(unsigned, MPI_UNSIGNED, "%ld", long, 12, 4000000000u, 5, 0)
    NUMBERS(long, MPI_LONG, "%ld", long, 12, -7, 5, 100)
    NUMBERS(uint64_t, MPI_UINT64_T, "%lu", unsigned long, 12, 1, 5, 18446744073709551615ul)
    NUMBERS(MPI_Aint, MPI_AINT, "%ld", long, 12, -7, 5, 100)
    NUMBERS(MPI_Count, MPI_COUNT, "%ld", long, 12, -7, 5, 100)
    NUMBERS(int, MPI_INTEGER, "%ld", long, 12, -7, 5, 100)
    NUMBERS(int, MPI_LOGICAL, "%ld", long, 0, 1, 1, 1)
    NUMBERS(bool, MPI_C_BOOL, "%d", int, false, true, true, true)
    NUMBERS(unsigned char, MPI_BYTE, "%ld", long, 12, 250, 5, 100)
    NUMBERS(wchar_t, MPI_WCHAR, "%ld", long, 12, 250, 5, 100)
}

static void reals(void)
{
    NUMBERS(float, MPI_FLOAT, "%a", double, 0.1f, -7, 5, 3e38f)
    NUMBERS(double, MPI_DOUBLE, "%a", double, 0.1, -7, 5, 1e300)
    NUMBERS(double, MPI_DOUBLE_PRECISION, "%a", double, 0.1, -7, 5, 1e300)
    NUMBERS(long double, MPI_LONG_DOUBLE, "%La", long double, 0.1L, -7.000000000000000003L, 5.3L, 1e4000L)
    NUMBERS(long double, MPI_LONG_DOUBLE, "%La", long double, 1.0L / 3, -1e-4930L, 3e-4932L, 1e-4930L)
}

#define COMPLEX(type, handle, a, b)                                                                              \
    for (int o = 0; o < OPS; o++) {                                                                              \
        type in[] = {a}, out[] = {b};                                                                            \
        int code = MPI_Reduce_local(in, out, 1, handle, ops[o]);                                                 \
        printf("%s %s:", #handle, op_names[o]);                                                                  \
        if (code) printf(" error %d\n", class_of(code));                                                         \
        else printf(" %La %La\n", creall(out[0]), cimagl(out[0]));                                               \
    }

static void complexes(void)
{
    COMPLEX(float complex, MPI_C_FLOAT_COMPLEX, 1.25f + 2 * I, 3 - 0.5f * I)
    COMPLEX(double complex, MPI_C_DOUBLE_COMPLEX, 1.25 + 2 * I, 3 - 0.5 * I)
    COMPLEX(long double complex, MPI_C_LONG_DOUBLE_COMPLEX, 1.25L + 2 * I, 3 - 0.5L * I)
    COMPLEX(double complex, MPI_DOUBLE_COMPLEX, 1.25 + 2 * I, 3 - 0.5 * I)
}

#define PAIRS(type, index, handle, format, cast)                                                                 \
    for (int o = 0; o < OPS; o++) {                                                                              \
        struct { type v; index i; } in[] = {{1, 4}, {2, 1}, {5, 2}}, out[] = {{2, 3}, {2, 9}, {5, 0}};            \
        int code = MPI_Reduce_local(in, out, 3, handle, ops[o]);                                                 \
        printf("%s %s:", #handle, op_names[o]);                                                                  \
        if (code) printf(" error %d\n", class_of(code));                                                         \
        else for (int k = 0; k < 3; k++) printf(" " format ",%d%s", (cast)out[k].v, (int)out[k].i, k == 2 ? "\n" : ""); \
    }

static void pairs(void)
{
    PAIRS(float, int, MPI_FLOAT_INT, "%g", double)
    PAIRS(double, int, MPI_DOUBLE_INT, "%g", double)
    PAIRS(long, int, MPI_LONG_INT, "%ld", long)
    PAIRS(int, int, MPI_2INT, "%d", int)
    PAIRS(short, int, MPI_SHORT_INT, "%d", int)
    PAIRS(long double, int, MPI_LONG_DOUBLE_INT, "%Lg", long double)
    PAIRS(double, double, MPI_2DOUBLE_PRECISION, "%g", double)
}

static void two_matrices(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int (*a)[2][2] = in, (*b)[2][2] = inout, size;
    MUST(MPI_Type_size(*type, &size));
    for (int n = 0; n < *count; n++) {
        int product[2][2];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                product[i][j] = a[n][i][0] * b[n][0][j] + a[n][i][1] * b[n][1][j];
        memcpy(b[n], product, sizeof product);
    }
    printf("called for %d elements of %d bytes\n", *count, size);
}

static void user(void)
{
    MPI_Op op;
    MPI_Datatype matrix;
    int flag, a[2][2][2] = {{{1, 2}, {3, 4}}, {{0, 1}, {1, 0}}}, b[2][2][2] = {{{5, 6}, {7, 8}}, {{1, 2}, {3, 4}}};
    MUST(MPI_Op_create(two_matrices, 0, &op));
    MUST(MPI_Type_contiguous(4, MPI_INT, &matrix));
    MUST(MPI_Type_commit(&matrix));
    MUST(MPI_Op_commutative(op, &flag));
    printf("commutes %d\n", flag);
    MUST(MPI_Reduce_local(a, b, 2, matrix, op));
    for (int n = 0; n < 2; n++) printf("%d %d %d %d\n", b[n][0][0], b[n][0][1], b[n][1][0], b[n][1][1]);
    printf("sum of matrices %d\n", class_of(MPI_Reduce_local(a, b, 1, matrix, MPI_SUM)));
    MUST(MPI_Op_free(&op));
    printf("null after free: %d\n", op == MPI_OP_NULL);
    MUST(MPI_Type_free(&matrix));
    op = MPI_SUM;
    printf("free predefined %d, null op %d\n", class_of(MPI_Op_free(&op)), class_of(MPI_Reduce_local(a, b, 1, MPI_INT, MPI_OP_NULL)));
    MUST(MPI_Op_commutative(MPI_SUM, &flag));
    printf("sum commutes %d\n", flag);
}

int main(void)
{
    begin();
    integers();
    reals();
    complexes();
    pairs();
    user();
    MUST(MPI_Finalize());
    return 0;
}
