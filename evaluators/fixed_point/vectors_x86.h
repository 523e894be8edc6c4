/* `vectors.h` for x86: AVX2, AVX-512 and their instructions for sums of products. */
#if defined(__AVX512BW__)
#define X86(op) _mm512_##op
typedef __m512i Bits;
#else
#define X86(op) _mm256_##op
typedef __m256i Bits;
#endif

static inline Ints interleave_low(Shorts x, Shorts y) { return (Ints)X86(unpacklo_epi16)((Bits)x, (Bits)y); }
static inline Ints interleave_high(Shorts x, Shorts y) { return (Ints)X86(unpackhi_epi16)((Bits)x, (Bits)y); }

static inline Ints widen(Shorts x, int half) { return (half ? interleave_high(x, x) : interleave_low(x, x)) >> 16; }
static inline Shorts narrow(Ints low, Ints high) { return (Shorts)X86(packs_epi32)((Bits)low, (Bits)high); }

static inline Shorts low_halves(Ints low, Ints high) { return (Shorts)X86(packus_epi32)((Bits)(low & 0xffff), (Bits)(high & 0xffff)); }

/* Products of signed bytes with 1 and 0 in turn. */
static inline Shorts low_bytes(Shorts x) { return (Shorts)X86(maddubs_epi16)(X86(set1_epi16)(1), (Bits)x); }

static inline Shorts multiply_high(Shorts x, Shorts y) { return (Shorts)X86(mulhi_epi16)((Bits)x, (Bits)y); }

static inline void multiply_shorts(Shorts x, Shorts y, Ints *low, Ints *high)
{
    const Shorts lower = x * y, upper = multiply_high(x, y);
    *low = interleave_low(lower, upper);
    *high = interleave_high(lower, upper);
}

static inline Ints multiply_add_half(Ints sum, Ints x, Ints y)
{
#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
    return (Ints)_mm512_dpwssd_epi32((Bits)sum, (Bits)x, (Bits)y);
#elif !defined(__AVX512BW__) && defined(__AVXVNNI__)
    return (Ints)_mm256_dpwssd_avx_epi32((Bits)sum, (Bits)x, (Bits)y);
#else
    return sum + (Ints)X86(madd_epi16)((Bits)x, (Bits)y);
#endif
}

#if !defined(__AVX512BW__)
/* Shifts are what such processors have fewest units for: instructions that take the sign away and give it back do without one of two.
 * The size of the least number is right as an unsigned one. */
#define HAS_SIGNS
static inline Shorts size_of(Shorts x) { return (Shorts)_mm256_abs_epi16((Bits)x); }
static inline Shorts with_sign(Shorts size, Shorts x) { return (Shorts)_mm256_sign_epi16((Bits)size, (Bits)x); }
static inline Shorts multiply_high_sizes(Shorts x, Shorts y) { return (Shorts)_mm256_mulhi_epu16((Bits)x, (Bits)y); }

static inline Shorts shorts_toward_zero(Shorts x, int n) { return with_sign((Shorts)((UnsignedShorts)size_of(x) >> n), x); }

static inline Ints ints_toward_zero(Ints x, int n)
{
    const Bits size = _mm256_srl_epi32(_mm256_abs_epi32((Bits)x), _mm_cvtsi32_si128(n));
    return (Ints)_mm256_sign_epi32(size, (Bits)x);
}
#endif

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define VECTOR_UNIT "AVX-512 VNNI"
#elif defined(__AVX512BW__)
#define VECTOR_UNIT "AVX-512"
#elif defined(__AVXVNNI__)
#define VECTOR_UNIT "AVX-VNNI"
#else
#define VECTOR_UNIT "AVX2"
#endif
