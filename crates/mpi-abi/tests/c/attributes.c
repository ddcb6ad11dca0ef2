/* Attributes on communicators and datatypes, error handlers, error codes. */
#include "check.h"

static int refuse;

static int copy_comm(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)key;
    printf("copy comm %s %ld\n", (char *)extra, (long)in);
    *(void **)out = (void *)((long)in + 100);
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_comm(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    printf("delete comm %s %ld\n", (char *)extra, (long)value);
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
    (void)type;
    (void)key;
    (void)out;
    printf("copy type %s %ld\n", (char *)extra, (long)in);
    *flag = 0;
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type;
    (void)key;
    printf("delete type %s %ld\n", (char *)extra, (long)value);
    return MPI_SUCCESS;
}

static void on_comm(void)
{
    MPI_Comm dup, again;
    int key, plain, flag;
    void *value;
    MUST(MPI_Comm_create_keyval(copy_comm, delete_comm, &key, "one"));
    MUST(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL));
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MUST(MPI_Comm_get_attr(dup, key, &value, &flag));
    printf("nothing yet: %d\n", flag);
    MUST(MPI_Comm_set_attr(dup, key, (void *)1));
    MUST(MPI_Comm_set_attr(dup, plain, (void *)5));
    MUST(MPI_Comm_dup(dup, &again));
    MUST(MPI_Comm_get_attr(again, key, &value, &flag));
    printf("copied: %d %ld\n", flag, (long)value);
    MUST(MPI_Comm_get_attr(again, plain, &value, &flag));
    printf("copied plainly: %d %ld\n", flag, (long)value);
    MUST(MPI_Comm_free(&again));
    refuse = 1;
    printf("refused deletion %d\n", class_of(MPI_Comm_delete_attr(dup, key)));
    refuse = 0;
    MUST(MPI_Comm_get_attr(dup, key, &value, &flag));
    printf("still there: %d\n", flag);
    int freed = key;
    MUST(MPI_Comm_free_keyval(&key));
    printf("key after free %d\n", key == MPI_KEYVAL_INVALID);
    MUST(MPI_Comm_get_attr(dup, freed, &value, &flag));
    printf("a freed key still names the value: %d %ld\n", flag, (long)value);
    MUST(MPI_Comm_free(&dup));
    MUST(MPI_Comm_free_keyval(&plain));
    printf("invalid key %d, predefined key %d\n", class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, NULL)),
           class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL)));
    int *number;
    MUST(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &number, &flag));
    printf("tags up to 32767 at least: %d\n", flag && *number >= 32767);
    MUST(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &number, &flag));
    printf("host %d %d\n", flag, flag ? *number : 0);
    MUST(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &number, &flag));
    printf("io %d %d\n", flag, flag ? *number : 0);
}

static void on_type(void)
{
    MPI_Datatype type, dup;
    int key, flag;
    void *value;
    MUST(MPI_Type_create_keyval(copy_type, delete_type, &key, "two"));
    MUST(MPI_Type_contiguous(2, MPI_INT, &type));
    MUST(MPI_Type_set_attr(type, key, (void *)3));
    MUST(MPI_Type_get_attr(type, key, &value, &flag));
    printf("type attribute %d %ld\n", flag, (long)value);
    MUST(MPI_Type_dup(type, &dup));
    MUST(MPI_Type_get_attr(dup, key, &value, &flag));
    printf("not copied: %d\n", flag);
    MUST(MPI_Type_delete_attr(type, key));
    MUST(MPI_Type_set_attr(type, key, (void *)4));
    MUST(MPI_Type_free(&type));
    MUST(MPI_Type_free(&dup));
    MUST(MPI_Type_free_keyval(&key));
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    int rank;
    MUST(MPI_Comm_rank(*comm, &rank));
    printf("handler on rank %d: class %d\n", rank, class_of(*code));
}

static void on_errors(void)
{
    MPI_Errhandler mine, found;
    MPI_Comm dup;
    int class, code, length;
    char text[MPI_MAX_ERROR_STRING];
    MUST(MPI_Comm_create_errhandler(handler, &mine));
    MUST(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MUST(MPI_Comm_set_errhandler(dup, mine));
    MUST(MPI_Comm_get_errhandler(dup, &found));
    printf("found the handler: %d\n", found == mine);
    MUST(MPI_Errhandler_free(&found));
    MUST(MPI_Errhandler_free(&mine));
    printf("null after free: %d\n", mine == MPI_ERRHANDLER_NULL);
    MUST(MPI_Comm_call_errhandler(dup, MPI_ERR_TAG));
    MPI_Comm_split(dup, 0, 0, NULL);
    MUST(MPI_Comm_free(&dup));
    MUST(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    printf("world returns errors: %d\n", found == MPI_ERRORS_RETURN);
    printf("null handler %d\n", class_of(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL)));
    MUST(MPI_Add_error_class(&class));
    MUST(MPI_Add_error_code(class, &code));
    printf("new class is its own class: %d, code belongs to it: %d\n", class_of(class) == class, class_of(code) == class);
    MUST(MPI_Error_string(code, text, &length));
    printf("no text yet: '%s' %d\n", text, length);
    MUST(MPI_Add_error_string(code, "the oven is cold"));
    MUST(MPI_Error_string(code, text, &length));
    printf("text: '%s' %d\n", text, length);
    int *last, flag;
    MUST(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    printf("last used code is there: %d %d\n", flag, *last >= MPI_ERR_LASTCODE);
    for (int i = 0; i <= MPI_ERR_ABI; i++)
        if (class_of(i) != i || MPI_Error_string(i, text, &length) || !length) printf("class %d is not known\n", i);
}

int main(void)
{
    begin();
    on_comm();
    on_type();
    on_errors();
    int key;
    MUST(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_comm, &key, "last"));
    MUST(MPI_Comm_set_attr(MPI_COMM_SELF, key, (void *)9));
    MUST(MPI_Finalize());
    printf("after finalize\n");
    return 0;
}
