/* Info objects. */
#include "check.h"

static void list(const char *what, MPI_Info info)
{
    int n;
    MUST(MPI_Info_get_nkeys(info, &n));
    printf("%s: %d keys\n", what, n);
    for (int i = 0; i < n; i++) {
        char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL];
        int length = sizeof value, flag;
        MUST(MPI_Info_get_nthkey(info, i, key));
        MUST(MPI_Info_get_string(info, key, &length, value, &flag));
        printf("  %s = '%s' (%d, %d)\n", key, value, length, flag);
    }
}

int main(void)
{
    MPI_Info info, copy;
    char value[64] = "", key[MPI_MAX_INFO_KEY];
    int flag, length;
    begin();
    MUST(MPI_Info_create(&info));
    list("new", info);
    MUST(MPI_Info_set(info, "zebra", "striped"));
    MUST(MPI_Info_set(info, "ant", "small"));
    MUST(MPI_Info_set(info, "cat", "asleep"));
    MUST(MPI_Info_set(info, "ant", "very small"));
    MUST(MPI_Info_dup(info, &copy));
    MUST(MPI_Info_delete(info, "zebra"));
    list("changed", info);
    list("copy", copy);
    MUST(MPI_Info_get(info, "ant", 10, value, &flag));
    printf("all ten: '%s' %d\n", value, flag);
    MUST(MPI_Info_get(info, "bee", 4, value, &flag));
    printf("no bee: %d\n", flag);
    length = 5;
    MUST(MPI_Info_get_string(info, "ant", &length, value, &flag));
    printf("room for five: '%s' needs %d\n", value, length);
    length = 0;
    MUST(MPI_Info_get_string(info, "ant", &length, NULL, &flag));
    printf("only the length: %d\n", length);
    MUST(MPI_Info_get_valuelen(info, "cat", &length, &flag));
    printf("value length %d %d\n", length, flag);
    printf("delete unknown %d\n", class_of(MPI_Info_delete(info, "bee")));
    printf("key out of range %d\n", class_of(MPI_Info_get_nthkey(info, 9, key)));
    printf("empty key %d\n", class_of(MPI_Info_set(info, "", "x")));
    char longkey[MPI_MAX_INFO_KEY + 10];
    memset(longkey, 'k', sizeof longkey);
    longkey[sizeof longkey - 1] = 0;
    printf("long key %d\n", class_of(MPI_Info_set(info, longkey, "x")));
    MUST(MPI_Info_free(&info));
    printf("null after free: %d\n", info == MPI_INFO_NULL);
    MUST(MPI_Info_free(&copy));
    MUST(MPI_Finalize());
    return 0;
}
