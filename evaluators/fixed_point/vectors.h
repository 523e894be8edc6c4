/* Vectors of samples: GCC's vector types, so that this compiles for any processor, and the few operations that these types
 * do not say well.
 *
 * A Shorts holds VECTOR_LANES int16, an Ints half as many int32. Two Shorts become two Ints, and back, in an order of the
 * processor's choice: what interleave_low and interleave_high take apart, narrow puts together again. VECTOR_UNIT is the name of
 * what is used.
 */
#if defined(__AVX2__)
#include <immintrin.h>
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

#if defined(__AVX512BW__)
#define X86(op) _mm512_##op
typedef __m512i Bits;
#elif defined(__AVX2__)
#define X86(op) _mm256_##op
typedef __m256i Bits;
#endif

#ifdef X86
static inline Ints interleave_low(Shorts x, Shorts y) { return (Ints)X86(unpacklo_epi16)((Bits)x, (Bits)y); }
static inline Ints interleave_high(Shorts x, Shorts y) { return (Ints)X86(unpackhi_epi16)((Bits)x, (Bits)y); }

/* Values that fit 16 bits. */
static inline Shorts narrow(Ints low, Ints high) { return (Shorts)X86(packs_epi32)((Bits)low, (Bits)high); }

/* The low 8 bits, with their sign: products of signed bytes with 1 and 0 in turn. */
static inline Shorts low_bytes(Shorts x) { return (Shorts)X86(maddubs_epi16)(X86(set1_epi16)(1), (Bits)x); }

/* The high half of x * y. */
static inline Shorts multiply_high(Shorts x, Shorts y) { return (Shorts)X86(mulhi_epi16)((Bits)x, (Bits)y); }

/* x * y in 32 bits. */
static inline void multiply_shorts(Shorts x, Shorts y, Ints *low, Ints *high)
{
    const Shorts lower = x * y, upper = multiply_high(x, y);
    *low = interleave_low(lower, upper);
    *high = interleave_high(lower, upper);
}

/* sum and the two products of each pair of int16 with the pair in w, modulo 2**32. */
static inline Ints multiply_add(Ints sum, Ints pairs, Ints w)
{
#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
    return (Ints)_mm512_dpwssd_epi32((Bits)sum, (Bits)pairs, (Bits)w);
#elif !defined(__AVX512BW__) && defined(__AVXVNNI__)
    return (Ints)_mm256_dpwssd_avx_epi32((Bits)sum, (Bits)pairs, (Bits)w);
#else
    return sum + (Ints)X86(madd_epi16)((Bits)pairs, (Bits)w);
#endif
}
#else
static inline Ints interleave_low(Shorts x, Shorts y)
{
    return (Ints)__builtin_shuffle(x, y, (Shorts){0, 8, 1, 9, 2, 10, 3, 11});
}
static inline Ints interleave_high(Shorts x, Shorts y)
{
    return (Ints)__builtin_shuffle(x, y, (Shorts){4, 12, 5, 13, 6, 14, 7, 15});
}

/* The first of each pair of int16 is in the low bits of an int32. */
static inline Shorts narrow(Ints low, Ints high)
{
    return __builtin_shuffle((Shorts)low, (Shorts)high, (Shorts){0, 2, 4, 6, 8, 10, 12, 14});
}
static inline Shorts low_bytes(Shorts x) { return (x << 8) >> 8; }
static inline Ints multiply_add(Ints sum, Ints pairs, Ints w)
{
    return sum + ((pairs << 16) >> 16) * ((w << 16) >> 16) + (pairs >> 16) * (w >> 16);
}
#endif

/* Half 0 or 1 of the samples with their signs, in 32 bits. */
static inline Ints widen(Shorts x, int half) { return (half ? interleave_high(x, x) : interleave_low(x, x)) >> 16; }

#ifndef X86
static inline void multiply_shorts(Shorts x, Shorts y, Ints *low, Ints *high)
{
    *low = widen(x, 0) * widen(y, 0);
    *high = widen(x, 1) * widen(y, 1);
}
static inline Shorts multiply_high(Shorts x, Shorts y)
{
    Ints low, high;
    multiply_shorts(x, y, &low, &high);
    return narrow(low >> 16, high >> 16);
}
#endif

/* The low 16 bits of a 32-bit number in two halves, shifted down by n from 1 to 16. */
static inline Shorts shift_pair(Shorts high, Shorts low, int n)
{
    const Shorts upper = high << (16 - n);
    return n == 16 ? high : upper | (Shorts)((UnsignedShorts)low >> n);
}

#if defined(__AVX2__) && !defined(__AVX512BW__)
/* x / 2**n, n from 1 to 15, toward zero. Shifts are what such processors have fewest units for: instructions that take the sign away
 * and give it back do without one of two. The size of the least number is right as an unsigned one. */
static inline Shorts shorts_toward_zero(Shorts x, int n)
{
    const UnsignedShorts size = (UnsignedShorts)_mm256_abs_epi16((Bits)x);
    return (Shorts)_mm256_sign_epi16((Bits)(size >> n), (Bits)x);
}

/* The same of 32 bits, n from 1 to 31. */
static inline Ints ints_toward_zero(Ints x, int n)
{
    const Bits size = _mm256_srl_epi32(_mm256_abs_epi32((Bits)x), _mm_cvtsi32_si128(n));
    return (Ints)_mm256_sign_epi32(size, (Bits)x);
}
#else
static inline Shorts shorts_toward_zero(Shorts x, int n) { return (x + ((x >> 15) & (int16_t)((1 << n) - 1))) >> n; }
static inline Ints ints_toward_zero(Ints x, int n) { return (x + ((x >> 31) & (int32_t)((1u << n) - 1u))) >> n; }
#endif

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define VECTOR_UNIT "AVX-512 VNNI"
#elif defined(__AVX512BW__)
#define VECTOR_UNIT "AVX-512"
#elif defined(__AVX2__) && defined(__AVXVNNI__)
#define VECTOR_UNIT "AVX-VNNI"
#elif defined(__AVX2__)
#define VECTOR_UNIT "AVX2"
#else
#define VECTOR_UNIT "128-bit vectors"
#endif
