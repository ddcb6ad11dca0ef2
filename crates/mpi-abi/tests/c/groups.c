/* Groups and communicators of a job of one process. */
#include "check.h"

static void groups(void)
{
    MPI_Group world, self, empty, made;
    int size, rank, result, zero[] = {0, 0}, out[2], none[] = {MPI_PROC_NULL, 0};
    int range[1][3] = {{0, 0, 1}}, bad[1][3] = {{0, 0, 0}};
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MUST(MPI_Comm_group(MPI_COMM_SELF, &self));
    MUST(MPI_Group_size(world, &size));
    MUST(MPI_Group_rank(world, &rank));
    printf("size %d rank %d\n", size, rank);
    MUST(MPI_Group_compare(world, self, &result));
    printf("world and self: %d\n", result);
    MUST(MPI_Group_compare(world, MPI_GROUP_EMPTY, &result));
    printf("world and nobody: %d\n", result);
    MUST(MPI_Group_difference(world, self, &empty));
    printf("difference is empty: %d\n", empty == MPI_GROUP_EMPTY);
    MUST(MPI_Group_excl(world, 1, zero, &empty));
    printf("without rank 0 is empty: %d\n", empty == MPI_GROUP_EMPTY);
    MUST(MPI_Group_rank(MPI_GROUP_EMPTY, &rank));
    printf("rank in nobody: %d\n", rank);
    MUST(MPI_Group_union(world, MPI_GROUP_EMPTY, &made));
    MUST(MPI_Group_compare(world, made, &result));
    printf("union with nobody: %d\n", result);
    MUST(MPI_Group_free(&made));
    MUST(MPI_Group_intersection(world, self, &made));
    MUST(MPI_Group_size(made, &size));
    printf("intersection: %d\n", size);
    MUST(MPI_Group_free(&made));
    MUST(MPI_Group_range_incl(world, 1, range, &made));
    MUST(MPI_Group_size(made, &size));
    printf("range: %d\n", size);
    MUST(MPI_Group_free(&made));
    MUST(MPI_Group_range_excl(world, 1, range, &made));
    printf("without range is empty: %d\n", made == MPI_GROUP_EMPTY);
    MUST(MPI_Group_translate_ranks(world, 2, none, self, out));
    printf("translated %d %d\n", out[0], out[1]);
    MUST(MPI_Group_translate_ranks(world, 1, zero, MPI_GROUP_EMPTY, out));
    printf("translated to nobody %d\n", out[0]);
    zero[0] = 3;
    printf("rank outside %d\n", class_of(MPI_Group_incl(world, 1, zero, &made)));
    printf("stride zero %d\n", class_of(MPI_Group_range_incl(world, 1, bad, &made)));
    printf("null group %d\n", class_of(MPI_Group_size(MPI_GROUP_NULL, &size)));
    MUST(MPI_Group_free(&world));
    printf("null after free: %d\n", world == MPI_GROUP_NULL);
    MUST(MPI_Group_free(&self));
}

static void communicators(void)
{
    MPI_Comm dup, split, made, none = MPI_COMM_NULL, world = MPI_COMM_WORLD;
    MPI_Group group;
    int result, rank, size, flag, length;
    char name[MPI_MAX_OBJECT_NAME];
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MUST(MPI_Comm_compare(dup, MPI_COMM_WORLD, &result));
    printf("dup compares %d\n", result);
    MUST(MPI_Comm_compare(dup, dup, &result));
    printf("itself compares %d\n", result);
    MUST(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    printf("'%s' %d\n", name, length);
    MUST(MPI_Comm_get_name(MPI_COMM_NULL, name, &length));
    printf("'%s' %d\n", name, length);
    MUST(MPI_Comm_get_name(dup, name, &length));
    printf("'%s' %d\n", name, length);
    MUST(MPI_Comm_set_name(dup, "second world"));
    MUST(MPI_Comm_get_name(dup, name, &length));
    printf("'%s' %d\n", name, length);
    MUST(MPI_Comm_split(dup, 7, -3, &split));
    MUST(MPI_Comm_rank(split, &rank));
    MUST(MPI_Comm_size(split, &size));
    printf("split: rank %d of %d\n", rank, size);
    MUST(MPI_Comm_split(dup, MPI_UNDEFINED, 0, &made));
    printf("undefined color is null: %d\n", made == MPI_COMM_NULL);
    MUST(MPI_Comm_split_type(dup, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made));
    MUST(MPI_Comm_size(made, &size));
    printf("on this host: %d\n", size);
    MUST(MPI_Comm_free(&made));
    MUST(MPI_Comm_create(dup, MPI_GROUP_EMPTY, &made));
    printf("nobody's communicator is null: %d\n", made == MPI_COMM_NULL);
    MUST(MPI_Comm_group(dup, &group));
    MUST(MPI_Comm_create(dup, group, &made));
    MUST(MPI_Comm_test_inter(made, &flag));
    printf("inter: %d\n", flag);
    MUST(MPI_Comm_free(&made));
    MUST(MPI_Comm_create_group(dup, group, 5, &made));
    MUST(MPI_Comm_size(made, &size));
    printf("from a group: %d\n", size);
    MUST(MPI_Comm_free(&made));
    MUST(MPI_Group_free(&group));
    MUST(MPI_Comm_free(&split));
    MUST(MPI_Comm_free(&dup));
    printf("null after free: %d\n", dup == MPI_COMM_NULL);
    printf("free null %d, free world %d, size of null %d\n", class_of(MPI_Comm_free(&none)),
           class_of(MPI_Comm_free(&world)), class_of(MPI_Comm_size(MPI_COMM_NULL, &size)));
    MUST(MPI_Comm_get_parent(&made));
    printf("no parent: %d\n", made == MPI_COMM_NULL);
    MUST(MPI_Topo_test(MPI_COMM_WORLD, &result));
    printf("topology %d\n", result);
}

static void dims(void)
{
    int shapes[][4] = {{12, 2, 0, 0}, {24, 3, 0, 0}, {64, 3, 0, 0}, {17, 2, 0, 0}, {1, 3, 0, 0}, {96, 2, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int d[3] = {0, 0, 0};
        MUST(MPI_Dims_create(shapes[i][0], shapes[i][1], d));
        printf("%d in %d dimensions: %d %d %d\n", shapes[i][0], shapes[i][1], d[0], d[1], d[2]);
    }
    int fixed[] = {0, 2, 0}, wrong[] = {5, 0};
    MUST(MPI_Dims_create(24, 3, fixed));
    printf("with 2 fixed: %d %d %d\n", fixed[0], fixed[1], fixed[2]);
    printf("not divisible %d\n", class_of(MPI_Dims_create(12, 2, wrong)));
}

int main(void)
{
    int flag;
    MUST(MPI_Initialized(&flag));
    printf("initialized %d", flag);
    begin();
    MUST(MPI_Initialized(&flag));
    printf(" %d", flag);
    MUST(MPI_Finalized(&flag));
    printf(" finalized %d\n", flag);
    groups();
    communicators();
    dims();
    MUST(MPI_Finalize());
    MUST(MPI_Finalized(&flag));
    printf("finalized %d\n", flag);
    return 0;
}
