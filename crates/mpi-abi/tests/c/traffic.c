/* Random traffic: every length and every way to send meets every way to receive, in any order of tags, and each message is the one it
   has to be: of one rank and tag they come in the order in which they were sent, and with their own bytes. */
#include "check.h"

enum { ROUNDS = 25, MESSAGES = 40, TAGS = 3, RANKS_MAX = 4, LENGTH_MAX = 1200000 };

static const int lengths[] = { 0, 8, 100, 3000, 4096, 9000, 16384, 20000, 32768, 40000, 65536, 100000, 262144, 262145, 400000,
                               LENGTH_MAX };

/* What every rank sends to every other in this round, which all of them know. */
static int length[RANKS_MAX][RANKS_MAX][MESSAGES], tag[RANKS_MAX][RANKS_MAX][MESSAGES];

static int rank, size, failures;

/* This rank's own way through the round: what it has sent, and what it has received. */
static int next[RANKS_MAX], sent, taken[RANKS_MAX][MESSAGES], wanted;
static MPI_Request requests[RANKS_MAX * MESSAGES];
static char *outgoing[RANKS_MAX * MESSAGES], *incoming;

static unsigned long long state;

static unsigned any(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 11) % below;
}

static char byte_of(int from, int message, int at)
{
    return (char)(from * 31 + message * 7 + at / 3);
}

static int another(void)
{
    int other = (int)any(size - 1);
    return other + (other >= rank);
}

/* Starts the next send to some rank that has one left. */
static void send_one(void)
{
    int to = another();
    while (next[to] == MESSAGES)
        to = another();
    int message = next[to]++, n = length[rank][to][message], t = tag[rank][to][message];
    char *bytes = malloc(n + 1);
    for (int i = 0; i < n; i += 61)
        bytes[i] = byte_of(rank, message, i);
    if (n > 0)
        bytes[n - 1] = byte_of(rank, message, n - 1);
    outgoing[sent] = bytes;
    if (any(4) == 0)
        MUST(MPI_Issend(bytes, n, MPI_BYTE, to, t, MPI_COMM_WORLD, &requests[sent]));
    else
        MUST(MPI_Isend(bytes, n, MPI_BYTE, to, t, MPI_COMM_WORLD, &requests[sent]));
    sent++;
    if (any(3) == 0) {
        int all;
        MUST(MPI_Testall(sent, requests, &all, MPI_STATUSES_IGNORE));
    }
}

/* The first message of a rank with a tag that has not been received. */
static int first(int from, int with)
{
    int message = 0;
    while (message < MESSAGES && (taken[from][message] || tag[from][rank][message] != with))
        message++;
    return message;
}

static void came(int from, int message, const MPI_Status *status)
{
    int n = -1, wrong = 0;
    MUST(MPI_Get_count(status, MPI_BYTE, &n));
    taken[from][message] = 1;
    wanted--;
    if (n != length[from][rank][message]) {
        failures++;
        printf("rank %d: message %d of rank %d has %d bytes, not %d\n", rank, message, from, n, length[from][rank][message]);
        return;
    }
    for (int i = 0; i < n; i += 61)
        wrong += incoming[i] != byte_of(from, message, i);
    wrong += n > 0 && incoming[n - 1] != byte_of(from, message, n - 1);
    if (wrong) {
        failures++;
        printf("rank %d: %d bytes of message %d of rank %d are wrong\n", rank, wrong, message, from);
    }
}

/* Takes whatever is there, if anything is. */
static void receive_what_is_there(void)
{
    MPI_Status status;
    int there;
    MUST(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status));
    if (!there)
        return;
    int from = status.MPI_SOURCE, message = first(from, status.MPI_TAG);
    MUST(MPI_Recv(incoming, LENGTH_MAX, MPI_BYTE, from, status.MPI_TAG, MPI_COMM_WORLD, &status));
    came(from, message, &status);
}

/* Receives from one rank with one tag, sending on meanwhile, because the others may wait for that. */
static void receive_one(int total)
{
    int from = another(), with = (int)any(TAGS), message = first(from, with), ended = 0, place;
    MPI_Request request;
    MPI_Status status;
    if (message == MESSAGES)
        return;
    if (sent == total && any(2)) {
        MUST(MPI_Recv(incoming, LENGTH_MAX, MPI_BYTE, from, with, MPI_COMM_WORLD, &status));
        came(from, message, &status);
        return;
    }
    MUST(MPI_Irecv(incoming, LENGTH_MAX, MPI_BYTE, from, with, MPI_COMM_WORLD, &request));
    while (!ended) {
        if (sent < total)
            send_one();
        if (any(2))
            MUST(MPI_Test(&request, &ended, &status));
        else
            MUST(MPI_Testany(1, &request, &place, &ended, &status));
    }
    came(from, message, &status);
}

static void play(int round)
{
    int total = (size - 1) * MESSAGES;
    state = 88172645463325252ULL + round * 7919ULL;
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            for (int m = 0; m < MESSAGES; m++) {
                length[a][b][m] = lengths[any(sizeof lengths / sizeof *lengths)];
                tag[a][b][m] = (int)any(TAGS);
            }
    state = 1000003ULL * (round + 1) + 77777ULL * (rank + 1);
    memset(next, 0, sizeof next);
    memset(taken, 0, sizeof taken);
    sent = 0;
    wanted = total;
    while (sent < total || wanted > 0) {
        if (sent < total && (wanted == 0 || any(2)))
            send_one();
        else if (any(6) == 0)
            receive_what_is_there();
        else
            receive_one(total);
    }
    MUST(MPI_Waitall(total, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < total; i++)
        free(outgoing[i]);
    MUST(MPI_Barrier(MPI_COMM_WORLD));
}

int main(void)
{
    begin();
    MUST(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MUST(MPI_Comm_size(MPI_COMM_WORLD, &size));
    incoming = malloc(LENGTH_MAX);
    for (int round = 0; round < ROUNDS; round++)
        play(round);
    free(incoming);
    printf("rank %d: %d failures\n", rank, failures);
    MUST(MPI_Finalize());
    return failures > 0;
}
