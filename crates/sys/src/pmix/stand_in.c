/* A PMIx library for the examples: the client of a job of one process, without a server. Layouts and numbers are the standard's. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, BAD_PARAM = -27, NOT_FOUND = -46 };
enum { STRING = 3, UINT32 = 14, BYTES = 27 };

typedef struct {
    char nspace[256];
    uint32_t rank;
} process;

typedef struct {
    uint16_t kind;
    union {
        uint32_t number;
        char *text;
        struct {
            char *at;
            size_t len;
        } bytes;
        uint64_t whole[3];
    } data;
} value;

/* What was put. Nobody sees it before it is committed. */
static struct {
    char key[512];
    value kept;
    int is_committed;
} store[16];
static int stored;

static char *copy(const char *from, size_t len) {
    char *to = malloc(len + 1);
    memcpy(to, from, len);
    to[len] = 0;
    return to;
}

int PMIx_Init(process *me, const void *directives, size_t count) {
    (void)directives, (void)count;
    strcpy(me->nspace, "stand-in");
    me->rank = 0;
    return SUCCESS;
}

int PMIx_Finalize(const void *directives, size_t count) {
    (void)directives, (void)count;
    return SUCCESS;
}

int PMIx_Put(uint8_t scope, const char *key, value *what) {
    if (scope != 3 || what->kind != BYTES || stored == 16) return BAD_PARAM;
    strcpy(store[stored].key, key);
    store[stored].kept = *what;
    store[stored].kept.data.bytes.at = copy(what->data.bytes.at, what->data.bytes.len);
    stored++;
    return SUCCESS;
}

int PMIx_Commit(void) {
    for (int i = 0; i < stored; i++) store[i].is_committed = 1;
    return SUCCESS;
}

int PMIx_Fence(const process *who, size_t many, const void *directives, size_t count) {
    (void)who, (void)many, (void)directives, (void)count;
    return SUCCESS;
}

/* A launcher would end the job. Here the examples can ask for the last words. */
int PMIx_Abort(int status, const char *words, process *who, size_t many) {
    (void)status, (void)who, (void)many;
    value last = {.kind = BYTES, .data.bytes = {(char *)words, strlen(words)}};
    PMIx_Put(3, "last words", &last);
    return PMIx_Commit();
}

int PMIx_Get(const process *whose, const char *key, const void *directives, size_t count, value **found) {
    (void)directives, (void)count;
    value *out = calloc(1, sizeof *out);
    *found = out;
    if (strcmp(whose->nspace, "stand-in") != 0) {
        free(out);
        return BAD_PARAM;
    }
    if (!strcmp(key, "pmix.job.size") || !strcmp(key, "pmix.nodeid")) {
        out->kind = UINT32;
        out->data.number = key[5] == 'j';
        return SUCCESS;
    }
    if (!strcmp(key, "pmix.hname") || !strcmp(key, "pmix.lpeers")) {
        out->kind = STRING;
        out->data.text = key[5] == 'h' ? copy("node7", 5) : copy("0", 1);
        return SUCCESS;
    }
    for (int i = 0; i < stored; i++) {
        if (store[i].is_committed && whose->rank == 0 && !strcmp(store[i].key, key)) {
            *out = store[i].kept;
            out->data.bytes.at = copy(out->data.bytes.at, out->data.bytes.len);
            return SUCCESS;
        }
    }
    free(out);
    *found = NULL;
    return NOT_FOUND;
}

void PMIx_Value_destruct(value *done) {
    if (done->kind == STRING) free(done->data.text);
    if (done->kind == BYTES) free(done->data.bytes.at);
}

const char *PMIx_Error_string(int status) {
    return status == BAD_PARAM ? "BAD-PARAM" : "UNKNOWN";
}
