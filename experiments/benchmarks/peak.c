/* What the processor multiplies and adds at most: sums of pairs of int16 products in registers, no memory. */
#include <stdint.h>

#include "../../evaluators/fixed_point/vectors.h"

#define SUMS 12

/* As far as the compiler knows; otherwise it would multiply once, before the loop. */
#if defined(__x86_64__)
#define CHANGED(v) __asm__ volatile("" : "+x"(v))
#else
#define CHANGED(v) __asm__ volatile("" : "+w"(v))
#endif

/* Multiply-accumulates done by so many turns; the sums go to `to`, so that they have to be computed. */
int64_t kilotune_multiply_adds(int64_t turns, int32_t *to)
{
    Ints sum[SUMS], x[2];
    for (int k = 0; k < SUMS; k++) sum[k] = all_ints(k);
    for (int k = 0; k < 2; k++) x[k] = all_ints(to[k]);
    for (int64_t i = 0; i < turns; i++) {
        _Pragma("GCC unroll 12") for (int k = 0; k < SUMS; k++)
        {
            CHANGED(x[k % 2]);
            sum[k] = multiply_add(sum[k], x[k % 2], x[1 - k % 2]);
        }
    }
    for (int k = 0; k < SUMS; k++) to[k] = ((const int32_t *)&sum[k])[0];
    return turns * SUMS * VECTOR_LANES;
}
