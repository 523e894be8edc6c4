/* Pointwise operators on one lane: CASE(class of `codegen/ir/pointwise`, its integer function of v).
 *
 * `constant_a`, `constant_b` and `shift` are what the operator's `constants` computes, `acc_bits` the accumulator's width; DOWN is the
 * division by a power of two, rounded as the program says. Values have at most 16 bits, so that one product fits an int32_t.
 */
#define POINTWISE(CASE) \
    CASE(Abs, v < 0 ? wrap(-v, acc_bits) : v) \
    CASE(Copy, v) \
    CASE(HardSwish, DOWN(v * clip(DOWN(v * (((4 << constant_b) + 3) / 6), shift) + (1 << constant_b) / 2, 1 << constant_b), constant_b)) \
    CASE(LeakyRelu, v < 0 ? (int16_t)DOWN(v * constant_b, shift) : v) \
    CASE(Negate, wrap(-v, acc_bits)) \
    CASE(Relu, v > 0 ? v : 0) \
    CASE(Relu6, clip(v, constant_b))
