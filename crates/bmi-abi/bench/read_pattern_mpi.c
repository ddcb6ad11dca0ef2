/* The parallel read of pattern.h over MPI: the first half of the ranks serve, the others read.
     read_pattern_mpi READS     rank by rank, prints seconds and bytes, after one read to warm up */
#include <mpi.h>

#include "pattern.h"

enum { TAG_REQUEST = 1, TAG_ANSWER = 2, TAG_DATA = 3 };

static void serve(int clients, int reads)
{
    int total = clients * reads, posted = 0, ended = 0, *indices = malloc(sizeof *indices * clients * (WINDOW + 1));
    char *memory = malloc(MESSAGE), answer[ANSWER] = "", request[REQUEST];
    MPI_Request *requests = malloc(sizeof *requests * clients * (WINDOW + 1));
    int *sent = calloc(total, sizeof *sent), *done = calloc(total, sizeof *done), *peer = calloc(total, sizeof *peer);
    int *owner = malloc(sizeof *owner * clients * (WINDOW + 1)), slots = clients * (WINDOW + 1);
    memset(memory, 7, MESSAGE);
    for (int i = 0; i < slots; i++)
        requests[i] = MPI_REQUEST_NULL;
    while (ended < total) {
        MPI_Status status;
        int there, count;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_REQUEST, MPI_COMM_WORLD, &there, &status);
        if (there) {
            int stream = posted++;
            MPI_Recv(request, REQUEST, MPI_BYTE, status.MPI_SOURCE, TAG_REQUEST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            peer[stream] = status.MPI_SOURCE;
            MPI_Send(answer, ANSWER, MPI_BYTE, peer[stream], TAG_ANSWER, MPI_COMM_WORLD);
            for (int i = 0; i < slots && sent[stream] < WINDOW; i++) {
                if (requests[i] == MPI_REQUEST_NULL) {
                    owner[i] = stream;
                    sent[stream]++;
                    MPI_Isend(memory, MESSAGE, MPI_BYTE, peer[stream], TAG_DATA, MPI_COMM_WORLD, &requests[i]);
                }
            }
        }
        MPI_Testsome(slots, requests, &count, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; count != MPI_UNDEFINED && i < count; i++) {
            int slot = indices[i], stream = owner[slot];
            done[stream]++;
            if (sent[stream] < MESSAGES) {
                sent[stream]++;
                MPI_Isend(memory, MESSAGE, MPI_BYTE, peer[stream], TAG_DATA, MPI_COMM_WORLD, &requests[slot]);
            }
            ended += done[stream] == MESSAGES;
        }
    }
}

static void read_all(char *memory, int servers, MPI_Datatype stripes)
{
    int ended = 0, indices[64 * (WINDOW + 1)], slots = servers * (WINDOW + 1);
    int posted[64] = { 0 }, done[64] = { 0 };
    static char answers[64][ANSWER];
    char request[REQUEST] = "read";
    MPI_Request requests[64 * (WINDOW + 1)];
    for (int i = 0; i < slots; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < servers; i++) {
        MPI_Irecv(answers[i], ANSWER, MPI_BYTE, i, TAG_ANSWER, MPI_COMM_WORLD, &requests[i * (WINDOW + 1)]);
        MPI_Send(request, REQUEST, MPI_BYTE, i, TAG_REQUEST, MPI_COMM_WORLD);
    }
    while (ended < servers) {
        int count;
        MPI_Testsome(slots, requests, &count, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; count != MPI_UNDEFINED && i < count; i++) {
            int server = indices[i] / (WINDOW + 1), first = indices[i] % (WINDOW + 1) == 0;
            int from = first ? 1 : indices[i] % (WINDOW + 1), to = first ? WINDOW : from;
            done[server] += !first;
            for (int slot = from; slot <= to && posted[server] < MESSAGES; slot++) {
                char *place = memory + (size_t)(posted[server]++ * PIECES * servers + server) * STRIPE;
                MPI_Irecv(place, 1, stripes, server, TAG_DATA, MPI_COMM_WORLD, &requests[server * (WINDOW + 1) + slot]);
            }
            ended += !first && done[server] == MESSAGES;
        }
    }
}

int main(int argc, char **argv)
{
    int rank, size, reads;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 || size % 2 || size > 128)
        fail("usage", argc);
    reads = atoi(argv[1]);
    if (rank < size / 2) {
        serve(size / 2, reads + 1);
    } else {
        int servers = size / 2;
        char *memory = malloc((size_t)servers * MESSAGES * MESSAGE);
        MPI_Datatype stripes;
        double began;
        MPI_Type_create_hvector(PIECES, STRIPE, (MPI_Aint)servers * STRIPE, MPI_BYTE, &stripes);
        MPI_Type_commit(&stripes);
        read_all(memory, servers, stripes);
        began = now();
        for (int round = 0; round < reads; round++)
            read_all(memory, servers, stripes);
        printf("%f %ld\n", now() - began, (long)reads * servers * MESSAGES * MESSAGE);
        MPI_Type_free(&stripes);
    }
    MPI_Finalize();
    return 0;
}
