/* What the processor multiplies and adds at most: sums of pairs of int16 products in registers, no memory. */
#include <stdint.h>

#include "../../evaluators/fixed_point/vectors.h"

/* In registers, of which AVX2 has 16. */
#if defined(__AVX2__) && !defined(__AVX512BW__)
#define SUMS 10
#else
#define SUMS 12
#endif

/* As far as the compiler knows; otherwise it would multiply once, before the loop. */
#if defined(__x86_64__)
#define CHANGED(v) __asm__ volatile("" : "+x"(v))
#else
#define CHANGED(v) __asm__ volatile("" : "+w"(v))
#endif

/* Multiply-accumulates done by so many turns; the sums go to `to`, so that they have to be computed. */
int64_t kilotune_multiply_adds(int64_t turns, int32_t *to)
{
    Ints sum[SUMS];
    Pairs x[2];
    for (int k = 0; k < SUMS; k++) sum[k] = all_ints(k);
    for (int k = 0; k < 2; k++) x[k] = all_pairs(to[k]);
    for (int64_t i = 0; i < turns; i++) {
        _Pragma("GCC unroll 6") for (int k = 0; k < SUMS / 2; k++)
        {
            CHANGED(x[k % 2].first);
            CHANGED(x[k % 2].second);
            multiply_add(&sum[2 * k], &sum[2 * k + 1], x[k % 2], x[1 - k % 2]);
        }
    }
    for (int k = 0; k < SUMS; k++) to[k] = ((const int32_t *)&sum[k])[0];
    return turns * SUMS * VECTOR_LANES;
}
