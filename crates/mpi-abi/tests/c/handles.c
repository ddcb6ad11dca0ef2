/* Handles that are freed, made up or of another kind are errors; missing functions say so. */
#include "check.h"

static void handler(MPI_Comm *comm, int *code, ...)
{
    printf("handler of %s: class %d\n", *comm == MPI_COMM_SELF ? "self" : "world", class_of(*code));
}

int main(void)
{
    MPI_Datatype type, freed;
    MPI_Group group;
    MPI_Info info;
    MPI_Comm comm, stale;
    MPI_Errhandler mine;
    int n;
    size_t made_up[] = {0, 1, 7, 0x100, 0x200, 0x2ff, 0xfff, 0x1000, 0x1001, 0x7fffffff, 0x100001000, (size_t)-1};
    begin();
    MUST(MPI_Type_contiguous(2, MPI_INT, &type));
    freed = type;
    MUST(MPI_Type_free(&type));
    printf("freed type %d\n", class_of(MPI_Type_size(freed, &n)));
    MUST(MPI_Type_contiguous(3, MPI_INT, &type));
    printf("freed type, slot in use again %d\n", class_of(MPI_Type_size(freed, &n)));
    printf("freed twice %d\n", class_of(MPI_Type_free(&freed)));
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    stale = comm;
    MUST(MPI_Comm_free(&comm));
    printf("freed communicator %d\n", class_of(MPI_Comm_rank(stale, &n)));
    MUST(MPI_Comm_group(MPI_COMM_WORLD, &group));
    MUST(MPI_Info_create(&info));
    printf("another kind: %d %d %d %d\n", class_of(MPI_Type_size((MPI_Datatype)group, &n)),
           class_of(MPI_Group_size((MPI_Group)info, &n)), class_of(MPI_Info_get_nkeys((MPI_Info)type, &n)),
           class_of(MPI_Comm_size((MPI_Comm)type, &n)));
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
        printf("%#zx: %d %d %d %d %d %d\n", made_up[i], class_of(MPI_Type_size((MPI_Datatype)made_up[i], &n)),
               class_of(MPI_Group_size((MPI_Group)made_up[i], &n)),
               class_of(MPI_Info_get_nkeys((MPI_Info)made_up[i], &n)),
               class_of(MPI_Comm_size((MPI_Comm)made_up[i], &n)),
               class_of(MPI_Op_commutative((MPI_Op)made_up[i], &n)),
               class_of(MPI_Comm_set_errhandler(MPI_COMM_WORLD, (MPI_Errhandler)made_up[i])));
    printf("integers lead back: %d %d %d\n", MPI_Type_fromint(MPI_Type_toint(type)) == type,
           MPI_Group_fromint(MPI_Group_toint(group)) == group, MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_SELF)) == MPI_COMM_SELF);
    printf("integers of nothing: %d %d\n", MPI_Type_fromint(-5) == MPI_DATATYPE_NULL, MPI_Comm_fromint(123456) == MPI_COMM_NULL);
    printf("null places: %d %d %d\n", class_of(MPI_Comm_size(MPI_COMM_WORLD, NULL)), class_of(MPI_Info_set(info, NULL, "x")),
           class_of(MPI_Group_incl(group, 1, NULL, &group)));
    printf("null buffer: %d\n", class_of(MPI_Reduce_local(NULL, &n, 1, MPI_INT, MPI_SUM)));
    printf("no room: %d\n", class_of(MPI_Pack(&n, 1, MPI_INT, &n, 3, &(int){0}, MPI_COMM_SELF)));
    MUST(MPI_Comm_create_errhandler(handler, &mine));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
    printf("missing: %d\n", 
           class_of(MPI_Comm_spawn("program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm, MPI_ERRCODES_IGNORE)));
    printf("missing, no object: %d\n", class_of(MPI_File_delete("file", MPI_INFO_NULL)));
    printf("missing tool: %d\n", MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, NULL, NULL));
    MUST(MPI_Finalize());
    return 0;
}
