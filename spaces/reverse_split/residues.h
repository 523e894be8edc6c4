/* Arithmetic modulo 2^61 - 1, in which values of programs are represented. */
#ifndef KILOTUNE_RESIDUES_H
#define KILOTUNE_RESIDUES_H

#include <stdint.h>

static const uint64_t P = ((uint64_t)1 << 61) - 1;

static inline uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t r = a + b;
    return r >= P ? r - P : r;
}

static inline uint64_t minus(uint64_t a, uint64_t b) { return a >= b ? a - b : a + P - b; }

static inline uint64_t times(uint64_t a, uint64_t b)
{
    unsigned __int128 r = (unsigned __int128)a * b;
    uint64_t low = ((uint64_t)r & P) + (uint64_t)(r >> 61);
    return low >= P ? low - P : low;
}

static uint64_t inverse(uint64_t a)
{
    uint64_t result = 1;
    for (uint64_t e = P - 2; e; e >>= 1, a = times(a, a))
        if (e & 1) result = times(result, a);
    return result;
}

static inline uint64_t half(uint64_t a) { return a & 1 ? (a + P) >> 1 : a >> 1; }

#endif
