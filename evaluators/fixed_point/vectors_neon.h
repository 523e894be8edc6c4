/* `vectors.h` for 64-bit ARM: NEON multiplies half a register of int16 into int32 and adds that in one instruction, so nothing is
 * interleaved, and halves are those of the register. */
#define VECTOR_UNIT "NEON"

static inline Ints widen(Shorts x, int half)
{
    return (Ints)(half ? vmovl_high_s16((int16x8_t)x) : vmovl_s16(vget_low_s16((int16x8_t)x)));
}

static inline Shorts narrow(Ints low, Ints high) { return (Shorts)vuzp1q_s16((int16x8_t)low, (int16x8_t)high); }
static inline Shorts low_bytes(Shorts x) { return (x << 8) >> 8; }

static inline void multiply_shorts(Shorts x, Shorts y, Ints *low, Ints *high)
{
    *low = (Ints)vmull_s16(vget_low_s16((int16x8_t)x), vget_low_s16((int16x8_t)y));
    *high = (Ints)vmull_high_s16((int16x8_t)x, (int16x8_t)y);
}

static inline Shorts multiply_high(Shorts x, Shorts y)
{
    Ints low, high;
    multiply_shorts(x, y, &low, &high);
    return (Shorts)vuzp2q_s16((int16x8_t)low, (int16x8_t)high);
}

typedef struct {
    Shorts first, second;
} Pairs;

static inline Pairs pair_up(Shorts x, Shorts y) { return (Pairs){x, y}; }
static inline Pairs all_pairs(int32_t pair) { return (Pairs){all_shorts((int16_t)pair), all_shorts((int16_t)(pair >> 16))}; }

static inline void multiply_add_one(Ints *low, Ints *high, Shorts x, Shorts y)
{
    *low = (Ints)vmlal_s16((int32x4_t)*low, vget_low_s16((int16x8_t)x), vget_low_s16((int16x8_t)y));
    *high = (Ints)vmlal_high_s16((int32x4_t)*high, (int16x8_t)x, (int16x8_t)y);
}

static inline void multiply_add(Ints *low, Ints *high, Pairs x, Pairs y)
{
    multiply_add_one(low, high, x.first, y.first);
    multiply_add_one(low, high, x.second, y.second);
}
