/* Numbers drawn by SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), for what anneals. Part of
 * cell_annealing.c, changing_constants.c and exchanging.c. */
#ifndef KILOTUNE_DRAWS_H
#define KILOTUNE_DRAWS_H

#include <stdint.h>

static uint64_t draw(uint64_t *random)
{
    uint64_t z = *random += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static int32_t below(uint64_t *random, int32_t count) { return (int32_t)(((draw(random) >> 32) * (uint64_t)count) >> 32); }
static inline double share(uint64_t *random) { return (double)(draw(random) >> 11) * 0x1.0p-53; }

#endif
