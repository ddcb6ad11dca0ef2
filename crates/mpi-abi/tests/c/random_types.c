/* Datatypes nested at random: sizes, bounds, packed bytes and the way back, for the same seed everywhere. */
#include "check.h"

static unsigned long state = 20260729;

static int below(int n)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (int)((state >> 33) % (unsigned long)n);
}

static MPI_Datatype basic(void)
{
    MPI_Datatype types[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_BYTE, MPI_C_DOUBLE_COMPLEX,
        MPI_INT8_T, MPI_UINT16_T, MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_2INT};
    return types[below(sizeof types / sizeof *types)];
}

/* Never frees what it is made of: a datatype may outlive its parts, and the program is short. */
static MPI_Datatype nested(int depth)
{
    MPI_Datatype old, made = MPI_DATATYPE_NULL, types[3];
    int lengths[3], places[3], n = 1 + below(3), order = below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    MPI_Aint bytes[3], lb, extent;
    if (depth == 0) return basic();
    old = nested(depth - 1);
    MUST(MPI_Type_get_extent(old, &lb, &extent));
    for (int i = 0; i < 3; i++) {
        lengths[i] = 1 + below(3);
        places[i] = 4 * i + below(2);
        bytes[i] = (4 * i + below(2)) * (extent < 0 ? -extent : extent) + below(5);
        types[i] = i ? nested(depth - 1) : old;
    }
    switch (below(10)) {
    case 0: MUST(MPI_Type_contiguous(n, old, &made)); break;
    case 1: MUST(MPI_Type_vector(n, lengths[0], 3 + below(2), old, &made)); break;
    case 2: MUST(MPI_Type_create_hvector(n, lengths[0], 3 * extent + below(7), old, &made)); break;
    case 3: MUST(MPI_Type_indexed(n, lengths, places, old, &made)); break;
    case 4: MUST(MPI_Type_create_hindexed(n, lengths, bytes, old, &made)); break;
    case 5: MUST(MPI_Type_create_indexed_block(n, lengths[0], places, old, &made)); break;
    case 6: MUST(MPI_Type_create_hindexed_block(n, lengths[0], bytes, old, &made)); break;
    case 7:
        bytes[1] += 1000;
        bytes[2] += 3000;
        MUST(MPI_Type_create_struct(n, lengths, bytes, types, &made));
        /* Some pad a structure of one type and some do not: set its bounds. */
        MUST(MPI_Type_get_true_extent(made, &lb, &extent));
        MUST(MPI_Type_create_resized(made, lb, extent, &made));
        break;
    case 8: MUST(MPI_Type_create_resized(old, lb - below(9), extent + below(9), &made)); break;
    default: {
        int sizes[3], starts[3];
        for (int i = 0; i < 3; i++) {
            starts[i] = below(2);
            sizes[i] = starts[i] + lengths[i] + below(2);
        }
        MUST(MPI_Type_create_subarray(n, sizes, lengths, starts, order, old, &made));
    }
    }
    return made;
}

static unsigned long hash(const unsigned char *bytes, long n)
{
    unsigned long h = 14695981039346656037ul;
    for (long i = 0; i < n; i++) h = (h ^ bytes[i]) * 1099511628211ul;
    return h;
}

int main(void)
{
    enum { MEMORY = 1 << 20 };
    unsigned char *memory = malloc(MEMORY), *packed = malloc(MEMORY), *back = malloc(MEMORY);
    begin();
    for (int i = 0; i < MEMORY; i++) memory[i] = (unsigned char)(i * 7 + i / 251);
    for (int round = 0; round < 300; round++) {
        MPI_Datatype type = nested(1 + below(3));
        MPI_Count size, lb, extent, true_lb, true_extent;
        int count = 1 + below(3), position = 0;
        MUST(MPI_Type_commit(&type));
        MUST(MPI_Type_size_c(type, &size));
        MUST(MPI_Type_get_extent_c(type, &lb, &extent));
        MUST(MPI_Type_get_true_extent_c(type, &true_lb, &true_extent));
        printf("%d: size %ld lb %ld extent %ld true %ld %ld", round, (long)size, (long)lb, (long)extent, (long)true_lb,
               (long)true_extent);
        if (extent >= 0 && true_lb + true_extent + count * extent < MEMORY / 2 && size * count < MEMORY &&
            true_lb > -MEMORY / 4) {
            unsigned char *base = memory + MEMORY / 4, *target = back + MEMORY / 4;
            MUST(MPI_Pack(base, count, type, packed, MEMORY, &position, MPI_COMM_SELF));
            printf(" | packed %d %016lx", position, hash(packed, position));
            memset(back, 0, MEMORY);
            position = 0;
            MUST(MPI_Unpack(packed, MEMORY, &position, target, count, type, MPI_COMM_SELF));
            printf(" back %016lx", hash(back, MEMORY));
        }
        printf("\n");
    }
    MUST(MPI_Finalize());
    free(memory);
    free(packed);
    free(back);
    return 0;
}
