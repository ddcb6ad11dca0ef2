/* Pairs that both send before they receive, as programs do that rely on room for messages of some length; and synchronous sends, which must not. */
#include "check.h"
#include <time.h>

enum { OFTEN = 300, MOST = 262144 };

static int failures, rank, other;
static char out[MOST], in[MOST];

#define CHECK(what) do { if (!(what)) { failures++; printf("rank %d line %d: %s\n", rank, __LINE__, #what); } } while (0)

static void put(int len, int salt) { for (int i = 0; i < len; i++) out[i] = (char)(i * 31 + salt * 7 + (i >> 8)); }

static int is(int len, int salt)
{
    for (int i = 0; i < len; i++) if (in[i] != (char)(i * 31 + salt * 7 + (i >> 8))) return 0;
    return 1;
}

/* Lets things come for some microseconds. */
static void look(int microseconds)
{
    double until = MPI_Wtime() + microseconds * 1e-6;
    for (int flag; MPI_Wtime() < until;) MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* So often that whichever way is the faster has been found, with data that is written anew and with data that is not. */
static void head_on(void)
{
    static const int lengths[] = {20000, 65536, MOST};
    for (int l = 0; l < 3; l++)
        for (int round = 0; round < OFTEN; round++) {
            int salt = round < OFTEN / 2 ? 0 : round, len = lengths[l];
            if (round == 0 || salt) put(len, salt + rank);
            MUST(MPI_Send(out, len, MPI_CHAR, other, 1, MPI_COMM_WORLD));
            MUST(MPI_Recv(in, len, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK(is(len, salt + other));
        }
}

/* Several that nobody has asked for yet come in order, however they come. */
static void in_order(void)
{
    for (int round = 0; round < OFTEN; round++) {
        MPI_Request r[4];
        static char several[4][70000];
        for (int k = 0; k < 4; k++) memset(several[k], round + k, sizeof several[k]);
        for (int k = 0; k < 4; k++)
            MUST(MPI_Isend(several[k], 10000 + 20000 * k, MPI_CHAR, other, 2, MPI_COMM_WORLD, &r[k]));
        look(round % 3 * 30);
        for (int k = 0; k < 4; k++) {
            MPI_Status status;
            int got;
            MUST(MPI_Recv(in, MOST, MPI_CHAR, other, 2, MPI_COMM_WORLD, &status));
            MPI_Get_count(&status, MPI_CHAR, &got);
            CHECK(got == 10000 + 20000 * k && in[0] == (char)(round + k) && in[got - 1] == (char)(round + k));
        }
        MUST(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
    }
}

static void synchronous(void)
{
    for (int round = 0; round < OFTEN; round++) {
        int flag;
        MPI_Request r;
        put(65536, round + rank);
        MUST(MPI_Issend(out, 65536, MPI_CHAR, other, 3, MPI_COMM_WORLD, &r));
        look(50);
        MUST(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        MUST(MPI_Sendrecv(NULL, 0, MPI_CHAR, other, 4, NULL, 0, MPI_CHAR, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MUST(MPI_Recv(in, 65536, MPI_CHAR, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(is(65536, round + other));
        MUST(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
}

int main(void)
{
    begin();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = rank ^ 1;
    head_on();
    in_order();
    synchronous();
    printf("rank %d: %d failures\n", rank, failures);
    MPI_Finalize();
    return failures != 0;
}
