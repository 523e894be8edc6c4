/* Pointwise operators on one lane: CASE(class of `codegen/ir/pointwise`, its integer function of v).
 *
 * `constant_a`, `constant_b` and `shift` are what the operator's `constants` computes, `acc_bits` the accumulator's width; DOWN is the
 * division by a power of two, rounded as the program says. A Number holds one product: values that are no wide ones have 16 bits at most,
 * of which a gate sees all.
 */
#ifdef WIDE_VALUES
#define SEEN(v) down(v, constant_a)
#else
#define SEEN(v) v
#endif

#define POINTWISE(CASE) \
    CASE(Abs, v < 0 ? wrap(-v, acc_bits) : v) \
    CASE(Copy, v) \
    CASE(HardSwish, down(v * clip(down(SEEN(v) * (((4 << constant_b) + 3) / 6), shift) + (1 << constant_b) / 2, 1 << constant_b), constant_b)) \
    CASE(LeakyRelu, v < 0 ? (Value)down(v * constant_b, shift) : v) \
    CASE(Negate, wrap(-v, acc_bits)) \
    CASE(Relu, v > 0 ? v : 0) \
    CASE(Relu6, clip(v, constant_b))
