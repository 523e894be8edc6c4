/* The random numbers of the two annealing walks: xorshift64 (Marsaglia, 2003). What a seed gives is the same on every machine. */
#include <stdint.h>

typedef struct { uint64_t state; } Random;

static uint64_t next_random(Random *random) {
    uint64_t x = random->state;
    x ^= x << 13; x ^= x >> 7; x ^= x << 17;
    return random->state = x;
}

/* Seeds that differ in a few bits begin far from each other. */
static Random random_from(uint64_t seed) {
    Random random = {seed * 0x9E3779B97F4A7C15u + 0x1234567};
    for (int32_t k = 0; k < 16; k++) next_random(&random);
    return random;
}

/* 0 to n - 1. */
static int32_t below(Random *random, int32_t n) { return (int32_t)((next_random(random) >> 32) * (uint64_t)n >> 32); }

/* 0 to 1, 1 excluded. */
static double uniform(Random *random) { return (double)(next_random(random) >> 11) * 0x1p-53; }
