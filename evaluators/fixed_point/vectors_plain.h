/* `vectors.h` for any processor that the compiler has vectors of 128 bits for. */
#define VECTOR_UNIT "128-bit vectors"

#if defined(__clang__)
#define SHUFFLED(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLED(x, y, ...) __builtin_shuffle(x, y, (Shorts){__VA_ARGS__})
#endif

static inline Ints interleave_low(Shorts x, Shorts y) { return (Ints)SHUFFLED(x, y, 0, 8, 1, 9, 2, 10, 3, 11); }
static inline Ints interleave_high(Shorts x, Shorts y) { return (Ints)SHUFFLED(x, y, 4, 12, 5, 13, 6, 14, 7, 15); }

static inline Ints widen(Shorts x, int half) { return (half ? interleave_high(x, x) : interleave_low(x, x)) >> 16; }

/* The first of each pair of int16 is in the low bits of an int32. */
static inline Shorts narrow(Ints low, Ints high) { return SHUFFLED((Shorts)low, (Shorts)high, 0, 2, 4, 6, 8, 10, 12, 14); }
static inline Shorts low_bytes(Shorts x) { return (x << 8) >> 8; }

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

static inline Ints multiply_add_half(Ints sum, Ints x, Ints y)
{
    return sum + ((x << 16) >> 16) * ((y << 16) >> 16) + (x >> 16) * (y >> 16);
}
