/* Packing: native in pieces, external32, absolute addresses. */
#include "check.h"

static void dump(const char *what, const unsigned char *bytes, long n)
{
    printf("%s:", what);
    for (long i = 0; i < n; i++) printf(" %02x", bytes[i]);
    printf("\n");
}

static void native(void)
{
    MPI_Datatype column, picked;
    int matrix[4][5], copy[4][5], position = 0, size, lengths[] = {2, 0, 3}, places[] = {1, 9, 12};
    unsigned char packed[256];
    for (int i = 0; i < 20; i++) matrix[i / 5][i % 5] = i * 257;
    memset(copy, 0, sizeof copy);
    MUST(MPI_Type_vector(4, 1, 5, MPI_INT, &column));
    MUST(MPI_Type_create_resized(column, 0, sizeof(int), &column));
    MUST(MPI_Type_indexed(3, lengths, places, MPI_INT, &picked));
    MUST(MPI_Type_commit(&column));
    MUST(MPI_Type_commit(&picked));
    MUST(MPI_Pack_size(2, column, MPI_COMM_WORLD, &size));
    printf("two columns are at least %d bytes\n", size >= 32);
    MUST(MPI_Pack(&matrix[0][1], 2, column, packed, sizeof packed, &position, MPI_COMM_WORLD));
    MUST(MPI_Pack(matrix, 1, picked, packed, sizeof packed, &position, MPI_COMM_WORLD));
    MUST(MPI_Pack("end", 4, MPI_CHAR, packed, sizeof packed, &position, MPI_COMM_WORLD));
    printf("packed %d\n", position);
    dump("bytes", packed, position);
    int all = position;
    char word[4];
    position = 0;
    MUST(MPI_Unpack(packed, all, &position, &copy[0][1], 2, column, MPI_COMM_WORLD));
    MUST(MPI_Unpack(packed, all, &position, copy, 1, picked, MPI_COMM_WORLD));
    MUST(MPI_Unpack(packed, all, &position, word, 4, MPI_CHAR, MPI_COMM_WORLD));
    printf("unpacked %d, %s\n", position, word);
    for (int i = 0; i < 20; i++) printf("%d%c", copy[i / 5][i % 5], i % 5 == 4 ? '\n' : ' ');
    MUST(MPI_Type_free(&column));
    MUST(MPI_Type_free(&picked));
}

static void absolute(void)
{
    int a = 11, b = 22, lengths[] = {1, 1}, position = 0, got[2];
    MPI_Aint places[2];
    MPI_Datatype both, types[] = {MPI_INT, MPI_INT};
    unsigned char packed[64];
    MUST(MPI_Get_address(&a, &places[0]));
    MUST(MPI_Get_address(&b, &places[1]));
    printf("addresses differ by %ld\n", (long)MPI_Aint_diff(MPI_Aint_add(places[0], 12), places[0]));
    MUST(MPI_Type_create_struct(2, lengths, places, types, &both));
    MUST(MPI_Type_commit(&both));
    MUST(MPI_Pack(MPI_BOTTOM, 1, both, packed, sizeof packed, &position, MPI_COMM_SELF));
    memcpy(got, packed, sizeof got);
    printf("from absolute addresses: %d %d\n", got[0], got[1]);
    MUST(MPI_Type_free(&both));
}

static void external(void)
{
    double numbers[] = {-1.5, 7, 0.1, 8}, back[] = {0, 0, 0, 0};
    MPI_Datatype t;
    MPI_Aint position = 0, size;
    unsigned char packed[128];
    MUST(MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &t));
    MUST(MPI_Type_commit(&t));
    MUST(MPI_Pack_external_size("external32", 1, t, &size));
    MUST(MPI_Pack_external("external32", numbers, 1, t, packed, sizeof packed, &position));
    printf("external32 size %ld, packed %ld\n", (long)size, (long)position);
    dump("bytes", packed, position);
    position = 0;
    MUST(MPI_Unpack_external("external32", packed, size, &position, back, 1, t));
    printf("%g %g %g %g\n", back[0], back[1], back[2], back[3]);
    MUST(MPI_Type_free(&t));
    short shorts[] = {1, -2, 300};
    float floats[] = {1, -2, 0.5f};
    long longs[] = {1, -2, 300}, long_back[3];
    long long wide[] = {1, -2, 1LL << 40};
    position = 0;
    MUST(MPI_Pack_external("external32", shorts, 3, MPI_SHORT, packed, sizeof packed, &position));
    MUST(MPI_Pack_external("external32", floats, 3, MPI_FLOAT, packed, sizeof packed, &position));
    MUST(MPI_Pack_external("external32", wide, 3, MPI_LONG_LONG, packed, sizeof packed, &position));
    dump("numbers", packed, position);
    position = 0;
    MUST(MPI_Pack_external("external32", longs, 3, MPI_LONG, packed, sizeof packed, &position));
    size = position;
    position = 0;
    MUST(MPI_Unpack_external("external32", packed, size, &position, long_back, 3, MPI_LONG));
    printf("longs %ld bytes: %ld %ld %ld\n", (long)size, long_back[0], long_back[1], long_back[2]);
}

int main(void)
{
    begin();
    native();
    absolute();
    external();
    MPI_Datatype t;
    int x = 0, y[2], position = 0;
    MUST(MPI_Type_contiguous(1, MPI_INT, &t));
    printf("not committed %d\n", class_of(MPI_Pack(&x, 1, t, y, sizeof y, &position, MPI_COMM_WORLD)));
    printf("negative count %d\n", class_of(MPI_Pack(&x, -1, MPI_INT, y, sizeof y, &position, MPI_COMM_WORLD)));
    printf("null communicator %d\n", class_of(MPI_Pack(&x, 1, MPI_INT, y, sizeof y, &position, MPI_COMM_NULL)));
    MUST(MPI_Type_free(&t));
    MUST(MPI_Finalize());
    return 0;
}
