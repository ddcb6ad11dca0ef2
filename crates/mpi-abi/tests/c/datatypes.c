/* Datatypes: sizes, bounds, contents and errors of every constructor. */
#include "check.h"

static void show(const char *what, MPI_Datatype type)
{
    MPI_Count size, lb, extent, true_lb, true_extent, ni, na, nc, nd;
    int combiner;
    MUST(MPI_Type_size_c(type, &size));
    MUST(MPI_Type_get_extent_c(type, &lb, &extent));
    MUST(MPI_Type_get_true_extent_c(type, &true_lb, &true_extent));
    MUST(MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nd, &combiner));
    printf("%-22s size %ld lb %ld extent %ld true %ld %ld | %d: %ld %ld %ld %ld", what, (long)size, (long)lb,
           (long)extent, (long)true_lb, (long)true_extent, combiner, (long)ni, (long)na, (long)nc, (long)nd);
    if (combiner != MPI_COMBINER_NAMED) {
        int integers[64];
        MPI_Aint addresses[64];
        MPI_Count counts[64];
        MPI_Datatype types[64];
        MUST(MPI_Type_get_contents_c(type, 64, 64, 64, 64, integers, addresses, counts, types));
        for (int i = 0; i < ni; i++) printf(" i%d", integers[i]);
        for (int i = 0; i < na; i++) printf(" a%ld", (long)addresses[i]);
        for (int i = 0; i < nc; i++) printf(" c%ld", (long)counts[i]);
        for (int i = 0; i < nd; i++) {
            MPI_Count inner, unused;
            int kind;
            MUST(MPI_Type_get_envelope_c(types[i], &inner, &unused, &unused, &unused, &kind));
            printf(" t%d", kind);
            if (kind != MPI_COMBINER_NAMED) MUST(MPI_Type_free(&types[i]));
        }
    }
    printf("\n");
}

static void make(const char *what, int code, MPI_Datatype *type)
{
    MUST(code);
    show(what, *type);
    MUST(MPI_Type_commit(type));
    MUST(MPI_Type_free(type));
    if (*type != MPI_DATATYPE_NULL) printf("a freed handle is not null\n");
}

static void predefined(void)
{
    MPI_Datatype types[] = {MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE, MPI_WCHAR, MPI_SHORT, MPI_INT,
        MPI_LONG, MPI_LONG_LONG, MPI_UNSIGNED, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_BOOL, MPI_INT8_T,
        MPI_UINT16_T, MPI_INT32_T, MPI_UINT64_T, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX,
        MPI_C_LONG_DOUBLE_COMPLEX, MPI_AINT, MPI_COUNT, MPI_OFFSET, MPI_PACKED, MPI_FLOAT_INT, MPI_DOUBLE_INT,
        MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT, MPI_INTEGER, MPI_REAL, MPI_DOUBLE_PRECISION,
        MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_LOGICAL, MPI_CHARACTER, MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER,
        MPI_INTEGER1, MPI_INTEGER16, MPI_REAL2, MPI_REAL16, MPI_COMPLEX32, MPI_LOGICAL8, MPI_CXX_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[MPI_MAX_OBJECT_NAME];
        int length;
        MUST(MPI_Type_get_name(types[i], name, &length));
        if (length != (int)strlen(name)) printf("%s has length %d\n", name, length);
        show(name, types[i]);
    }
    for (int class = MPI_TYPECLASS_INTEGER; class <= MPI_TYPECLASS_COMPLEX; class++)
        for (int size = 1; size <= 64; size *= 2) {
            MPI_Datatype type;
            int code = MPI_Type_match_size(class, size, &type);
            printf("match %d %d: %d %d\n", class, size, class_of(code), code ? 0 : MPI_Type_toint(type));
        }
    MPI_Datatype pair;
    MUST(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair));
    printf("pair %d\n", pair == MPI_DOUBLE_INT);
}

static void small(void)
{
    MPI_Datatype t, record, row;
    int two[] = {2, 1}, places[] = {3, 0}, lengths[] = {1, 2, 1};
    MPI_Aint bytes[] = {40, 4}, fields[] = {0, 8, 24};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    make("contiguous", MPI_Type_contiguous(3, MPI_INT, &t), &t);
    make("contiguous none", MPI_Type_contiguous(0, MPI_INT, &t), &t);
    make("vector", MPI_Type_vector(3, 2, 4, MPI_INT, &t), &t);
    make("vector backwards", MPI_Type_vector(3, 2, -4, MPI_INT, &t), &t);
    make("hvector", MPI_Type_create_hvector(3, 2, 13, MPI_SHORT, &t), &t);
    make("indexed", MPI_Type_indexed(2, two, places, MPI_DOUBLE, &t), &t);
    make("hindexed", MPI_Type_create_hindexed(2, two, bytes, MPI_FLOAT, &t), &t);
    make("indexed_block", MPI_Type_create_indexed_block(2, 2, places, MPI_LONG_INT, &t), &t);
    make("hindexed_block", MPI_Type_create_hindexed_block(2, 1, bytes, MPI_SHORT_INT, &t), &t);
    make("struct", MPI_Type_create_struct(3, lengths, fields, types, &t), &t);
    make("resized", MPI_Type_create_resized(MPI_INT, -4, 24, &t), &t);
    make("dup", MPI_Type_dup(MPI_INT, &t), &t);
    MUST(MPI_Type_create_struct(2, lengths, fields, types, &record));
    MUST(MPI_Type_create_resized(record, -8, 64, &row));
    make("vector of records", MPI_Type_vector(2, 3, 5, row, &t), &t);
    make("struct of records", MPI_Type_create_struct(2, lengths, bytes, (MPI_Datatype[]){record, row}, &t), &t);
    MUST(MPI_Type_free(&record));
    MUST(MPI_Type_free(&row));
    int sizes[] = {4, 5, 6}, parts[] = {2, 3, 1}, starts[] = {1, 0, 5};
    make("subarray C", MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t), &t);
    make("subarray Fortran", MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &t), &t);
    int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
    int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, 2, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 2, 1};
    for (int rank = 0; rank < 4; rank++) {
        make("darray C", MPI_Type_create_darray(4, rank, 3, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_SHORT, &t), &t);
        make("darray Fortran", MPI_Type_create_darray(4, rank, 3, sizes, kinds, arguments, grid, MPI_ORDER_FORTRAN, MPI_SHORT, &t), &t);
    }
}

static void large(void)
{
    MPI_Datatype t;
    MPI_Count lengths[] = {2, 1}, places[] = {3, 0}, sizes[] = {4, 5}, parts[] = {2, 3}, starts[] = {1, 0};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE};
    int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, arguments[] = {3, 1}, grid[] = {2, 2};
    make("contiguous_c", MPI_Type_contiguous_c(3000000000, MPI_INT, &t), &t);
    make("vector_c", MPI_Type_vector_c(3, 2, 4000000000, MPI_INT, &t), &t);
    make("hvector_c", MPI_Type_create_hvector_c(3, 2, 13, MPI_SHORT, &t), &t);
    make("indexed_c", MPI_Type_indexed_c(2, lengths, places, MPI_DOUBLE, &t), &t);
    make("hindexed_c", MPI_Type_create_hindexed_c(2, lengths, places, MPI_FLOAT, &t), &t);
    make("indexed_block_c", MPI_Type_create_indexed_block_c(2, 2, places, MPI_INT, &t), &t);
    make("hindexed_block_c", MPI_Type_create_hindexed_block_c(2, 1, places, MPI_INT, &t), &t);
    make("struct_c", MPI_Type_create_struct_c(2, lengths, places, types, &t), &t);
    make("resized_c", MPI_Type_create_resized_c(MPI_INT, -4, 24, &t), &t);
    make("subarray_c", MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t), &t);
    make("darray_c", MPI_Type_create_darray_c(4, 1, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &t), &t);
    MUST(MPI_Type_contiguous_c(3000000000, MPI_INT, &t));
    int size, a, b, c, d;
    MUST(MPI_Type_size(t, &size));
    printf("size of a large type as int: %d\n", size);
    printf("envelope of a large type as int: %d\n", class_of(MPI_Type_get_envelope(t, &a, &b, &c, &d)));
    MUST(MPI_Type_free(&t));
}

static void errors(void)
{
    MPI_Datatype t = MPI_INT, gone;
    int numbers[4];
    MPI_Aint addresses[4];
    MPI_Datatype types[4];
    printf("negative count %d\n", class_of(MPI_Type_contiguous(-1, MPI_INT, &t)));
    printf("negative block %d\n", class_of(MPI_Type_vector(1, -1, 1, MPI_INT, &t)));
    printf("null type %d\n", class_of(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &t)));
    printf("null result %d\n", class_of(MPI_Type_contiguous(1, MPI_INT, NULL)));
    t = MPI_INT;
    printf("commit predefined %d, free predefined %d\n", class_of(MPI_Type_commit(&t)), class_of(MPI_Type_free(&t)));
    printf("contents of predefined %d\n", class_of(MPI_Type_get_contents(MPI_INT, 4, 4, 4, numbers, addresses, types)));
    MUST(MPI_Type_contiguous(1, MPI_INT, &t));
    gone = t;
    MUST(MPI_Type_free(&t));
    (void)gone;
}

static void fortran(void)
{
    MPI_Datatype one, two, old[1];
    int numbers[2], size;
    MPI_Aint none[1];
    MUST(MPI_Type_create_f90_real(6, 30, &one));
    MUST(MPI_Type_create_f90_real(6, 30, &two));
    MUST(MPI_Type_size(one, &size));
    MUST(MPI_Type_get_contents(one, 2, 0, 0, numbers, none, old));
    printf("f90 real: same %d, size %d, made with %d %d\n", one == two, size, numbers[0], numbers[1]);
    MUST(MPI_Type_create_f90_integer(12, &one));
    MUST(MPI_Type_size(one, &size));
    printf("f90 integer: size %d\n", size);
    MUST(MPI_Type_create_f90_complex(15, 200, &one));
    MUST(MPI_Type_size(one, &size));
    printf("f90 complex: size %d\n", size);
}

static void names(void)
{
    MPI_Datatype t;
    char name[MPI_MAX_OBJECT_NAME] = "unset";
    int length = -1;
    MUST(MPI_Type_contiguous(2, MPI_INT, &t));
    MUST(MPI_Type_get_name(t, name, &length));
    printf("name '%s' %d\n", name, length);
    MUST(MPI_Type_set_name(t, "pair of integers"));
    MUST(MPI_Type_get_name(t, name, &length));
    printf("name '%s' %d\n", name, length);
    MUST(MPI_Type_free(&t));
    MUST(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    printf("name '%s' %d\n", name, length);
}

static void statuses(void)
{
    MPI_Datatype mixed;
    MPI_Status status;
    int lengths[] = {1, 2}, count, elements, flag;
    MPI_Aint places[] = {0, 8};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
    memset(&status, 0, sizeof status);
    MUST(MPI_Type_create_struct(2, lengths, places, types, &mixed));
    MUST(MPI_Type_commit(&mixed));
    for (int n = 0; n < 8; n++) {
        MUST(MPI_Status_set_elements(&status, mixed, n));
        MUST(MPI_Get_count(&status, mixed, &count));
        MUST(MPI_Get_elements(&status, mixed, &elements));
        printf("%d elements: count %d elements %d", n, count, elements);
        MUST(MPI_Get_count(&status, MPI_BYTE, &count));
        MUST(MPI_Get_elements(&status, MPI_DOUBLE, &elements));
        printf(" bytes %d doubles %d\n", count, elements);
    }
    MUST(MPI_Status_set_cancelled(&status, 1));
    MUST(MPI_Test_cancelled(&status, &flag));
    printf("cancelled %d, a status has %d bytes\n", flag, (int)sizeof status);
    MUST(MPI_Type_free(&mixed));
}

int main(void)
{
    begin();
    predefined();
    small();
    large();
    errors();
    fortran();
    names();
    statuses();
    MUST(MPI_Finalize());
    return 0;
}
