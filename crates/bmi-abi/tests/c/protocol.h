/* What the client and the server say to each other. */
#include <stdint.h>

enum { READ = 1, WRITE = 2, QUIT = 3 };

struct request {
    int32_t what;
    int32_t seed;
    int64_t size;
};

struct answer {
    int64_t size;
    uint64_t sum;
};

static inline void fill(char *bytes, int64_t size, int32_t seed)
{
    for (int64_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 31 + (i >> 8) + seed);
}

static inline uint64_t sum(const char *bytes, int64_t size)
{
    uint64_t sum = 14695981039346656037u;
    for (int64_t i = 0; i < size; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * 1099511628211u;
    return sum;
}
