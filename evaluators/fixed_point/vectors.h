/* Vectors of samples: GCC's vector types, so that this compiles for any processor, and the few operations that these types
 * do not say well.
 *
 * A Shorts holds VECTOR_LANES int16, an Ints half as many int32. Two Shorts become two Ints, and back, in an order of the
 * processor's choice: what `widen` and `multiply_shorts` take apart, and what `multiply_add` sums, narrow puts together again.
 * VECTOR_UNIT is the name of what is used.
 */
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(__ARM_BIG_ENDIAN)
#include <arm_neon.h>
#define NEON
#endif

#if defined(__AVX512BW__)
#define VECTOR_LANES 32
#define VECTOR_STRIPE 2
#elif defined(__AVX2__)
#define VECTOR_LANES 16
#define VECTOR_STRIPE 1
#else
#define VECTOR_LANES 8
#define VECTOR_STRIPE 2
#endif
/* Sums of VECTOR_STRIPE Shorts of samples and of four outputs are kept in registers while a dot product goes on. */

typedef int16_t Shorts __attribute__((vector_size(2 * VECTOR_LANES)));
typedef uint16_t UnsignedShorts __attribute__((vector_size(2 * VECTOR_LANES)));
typedef int32_t Ints __attribute__((vector_size(2 * VECTOR_LANES)));

static inline Shorts load_shorts(const int16_t *from) { return *(const Shorts *)from; }
static inline void store_shorts(int16_t *to, Shorts v) { *(Shorts *)to = v; }
static inline Shorts all_shorts(int16_t value) { return (Shorts){0} + value; }
static inline Ints all_ints(int32_t value) { return (Ints){0} + value; }

/* Each of these has the same functions:
 *
 * widen: half 0 or 1 of the samples with their signs, in 32 bits; narrow: two halves of values that fit 16 bits.
 * low_halves: two halves of which the low 16 bits are taken; low_bytes: the low 8 bits, with their sign.
 * multiply_high: the high half of x * y; multiply_shorts: x * y in 32 bits.
 * Pairs: two Shorts, of two terms of a sum of products; `all_pairs`: the first is in the low bits, the second in the high ones, for every
 * sample. multiply_add: both halves of a sum and the two products of each sample, modulo 2**32.
 * shorts_toward_zero: x / 2**n, n from 1 to 15; ints_toward_zero: n from 1 to 31.
 * Where HAS_SIGNS is defined, size_of: the size as an unsigned number; with_sign: as it is, negated or 0, by the sign of x;
 * multiply_high_sizes: as multiply_high, of unsigned numbers.
 */
#if defined(__AVX2__)
#include "vectors_x86.h"
#elif defined(NEON)
#include "vectors_neon.h"
#else
#include "vectors_plain.h"
#endif

#ifndef NEON
/* The lower and the upper half of the samples, the two int16 of a sample side by side. */
typedef struct {
    Ints first, second;
} Pairs;

static inline Pairs pair_up(Shorts x, Shorts y) { return (Pairs){interleave_low(x, y), interleave_high(x, y)}; }
static inline Pairs all_pairs(int32_t pair) { return (Pairs){all_ints(pair), all_ints(pair)}; }

static inline void multiply_add(Ints *low, Ints *high, Pairs x, Pairs y)
{
    *low = multiply_add_half(*low, x.first, y.first);
    *high = multiply_add_half(*high, x.second, y.second);
}
#endif

#if !defined(__AVX2__)
static inline Shorts low_halves(Ints low, Ints high) { return narrow(low, high); } /* it does not look at the others */
#endif

/* The low 16 bits of a 32-bit number in two halves, shifted down by n from 1 to 16. */
static inline Shorts shift_pair(Shorts high, Shorts low, int n)
{
    const Shorts upper = high << (16 - n);
    return n == 16 ? high : upper | (Shorts)((UnsignedShorts)low >> n);
}

#if !defined(__AVX2__) || defined(__AVX512BW__)
static inline Shorts shorts_toward_zero(Shorts x, int n) { return (x + ((x >> 15) & (int16_t)((1 << n) - 1))) >> n; }
static inline Ints ints_toward_zero(Ints x, int n) { return (x + ((x >> 31) & (int32_t)((1u << n) - 1u))) >> n; }
#endif
