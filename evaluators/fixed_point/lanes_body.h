/* One element's samples in and out, scaled, rounded and wrapped. */

static inline int32_t scale(int32_t v, int n) { return n >= 0 ? down(v, n) : (int32_t)((uint32_t)v << -n); }

/* Operand values of one element, scaled by `shift`, as int32 lanes. */
static inline void load(const Machine *m, const Operand *o, int32_t index, int shift, int32_t constant,
                              int32_t *restrict to)
{
    if (o->place == DYNAMIC) {
        const int64_t element = element_at(o, index);
        const int16_t *from = element < 0 ? m->zeros : lanes_of(m, o->variable, element);
        if (shift == 0)
            for (int l = 0; l < LANES; l++) to[l] = from[l];
        else if (shift > 0)
            for (int l = 0; l < LANES; l++) to[l] = down(from[l], shift);
        else
            for (int l = 0; l < LANES; l++) to[l] = (int32_t)((uint32_t)(int32_t)from[l] << -shift);
        return;
    }
    int32_t value = constant;
    if (o->place == STATIC) {
        const int64_t element = element_at(o, index);
        value = element < 0 ? 0 : scale(m->statics[o->variable][element], shift);
    }
    for (int l = 0; l < LANES; l++) to[l] = value;
}

/* wrap(down(v, shift), bits) into the lanes of an element. */
static inline void store(const int32_t *restrict v, int shift, int bits, int16_t *restrict to)
{
    const int spare = 32 - bits;
    if (shift == 0)
        for (int l = 0; l < LANES; l++) to[l] = (int16_t)((int32_t)((uint32_t)v[l] << spare) >> spare);
    else if (shift > 0)
        for (int l = 0; l < LANES; l++) to[l] = (int16_t)((int32_t)((uint32_t)down(v[l], shift) << spare) >> spare);
    else
        for (int l = 0; l < LANES; l++) {
            const uint32_t up = (uint32_t)v[l] << -shift;
            to[l] = (int16_t)((int32_t)(up << spare) >> spare);
        }
}

/* x / 2**n in every lane, n from 1 to 15; the quotient fits 16 bits again. */
static inline Shorts down_some(Shorts x, int n)
{
    if (KERNEL_ROUNDING == TOWARD_ZERO) return shorts_toward_zero(x, n);
    if (KERNEL_ROUNDING == NEAREST) return (x >> n) + ((x >> (n - 1)) & 1);
    return x >> n;
}

/* The same, n from 0. */
static inline Shorts down_shorts(Shorts x, int n) { return n ? down_some(x, n) : x; }

/* x in so many bits less than 16. */
static inline Shorts wrap_shorts(Shorts x, int spare) { return spare == 8 ? low_bytes(x) : (x << spare) >> spare; }

/* The low 16 bits of x * y / 2**n, n from 1 to 16. */
static inline Shorts product_down(Shorts x, Shorts y, int n)
{
#if KERNEL_ROUNDING == TOWARD_ZERO && defined(HAS_SIGNS)
    const Shorts p = size_of(x), q = size_of(y);
    return with_sign(with_sign(shift_pair(multiply_high_sizes(p, q), p * q, n), x), y);
#endif
    const Shorts low = x * y, high = multiply_high(x, y), quotient = shift_pair(high, low, n);
    if (KERNEL_ROUNDING == TOWARD_ZERO) {
        const Shorts lost = low & (int16_t)((1 << n) - 1);
        return quotient - ((high >> 15) & (Shorts)(lost != 0)); /* a negative one with a remainder goes up: both are -1 */
    }
    if (KERNEL_ROUNDING == NEAREST) return quotient + ((low >> (n - 1)) & 1);
    return quotient;
}

#if KERNEL_ROUNDING == TOWARD_ZERO && defined(HAS_SIGNS)
#define HAS_FRACTIONS
/* x * w / 2**n, n from 1 to 16, w of a size less than 2**n: `fraction` is its size times 2**(16 - n). */
static inline Shorts product_with_fraction(Shorts x, Shorts fraction, Shorts w)
{
    return with_sign(with_sign(multiply_high_sizes(size_of(x), fraction), x), w);
}
#else
static inline Shorts product_with_fraction(Shorts x, Shorts fraction, Shorts w) { return (void)fraction, (void)w, x; }
#endif

static inline Ints down_ints(Ints x, int n)
{
    if (n == 0) return x;
    if (KERNEL_ROUNDING == TOWARD_ZERO) return ints_toward_zero(x, n);
    if (KERNEL_ROUNDING == NEAREST) return (x >> n) + ((x >> (n - 1)) & 1);
    return x >> n;
}

/* wrap(down(wrap(v, accumulator), shift), bits) */
static inline Ints finish_ints(Ints v, int shift, int acc_spare, int spare)
{
    if (acc_spare) v = (v << acc_spare) >> acc_spare;
    v = shift >= 0 ? down_ints(v, shift) : v << -shift;
    return spare ? (v << spare) >> spare : v;
}

/* A chunk of the samples of a scaled element whose values fit 16 bits. */
static inline void load_scaled(const Machine *m, const Operand *o, int32_t index, size_t first, int shift, int32_t constant, Shorts *to)
{
    const int64_t element = o->place == LITERAL ? 0 : element_at(o, index);
    if (o->place == DYNAMIC) {
        const int16_t *from = (element < 0 ? m->zeros : lanes_of(m, o->variable, element)) + first;
        EACH_VECTOR(v) to[v] = load_shorts(from + v * VECTOR_LANES);
        if (shift) EACH_VECTOR(v) to[v] = down_shorts(to[v], shift);
        return;
    }
    if (o->place == STATIC) constant = element < 0 ? 0 : down(m->statics[o->variable][element], shift);
    const Shorts value = all_shorts((int16_t)constant);
    EACH_VECTOR(v) to[v] = value;
}

/* wrap(down(wrap(v, accumulator), shift), bits) of 16-bit lanes, which go to a chunk of an element. */
static inline void store_narrow(Shorts *v, int shift, int acc_spare, int spare, int16_t *to)
{
    if (acc_spare) EACH_VECTOR(k) v[k] = wrap_shorts(v[k], acc_spare);
    if (shift > 0)
        EACH_VECTOR(k) v[k] = down_shorts(v[k], shift);
    else if (shift < 0)
        EACH_VECTOR(k) v[k] <<= -shift;
    if (spare) EACH_VECTOR(k) v[k] = wrap_shorts(v[k], spare);
    EACH_VECTOR(k) store_shorts(to + k * VECTOR_LANES, v[k]);
}

/* The same of two Ints of sums. Where only their low 16 bits matter, they are halved first. */
static inline Shorts finish_sums(Ints low, Ints high, int shift, int acc_spare, int spare)
{
    if (acc_spare >= 16 && shift >= -15 && shift <= 15) {
        Shorts v = low_halves(low, high);
        if (acc_spare > 16) v = wrap_shorts(v, acc_spare - 16);
        v = shift >= 0 ? down_shorts(v, shift) : v << -shift;
        return spare > 16 ? wrap_shorts(v, spare - 16) : v;
    }
    return narrow(finish_ints(low, shift, acc_spare, spare), finish_ints(high, shift, acc_spare, spare));
}

/* The same of 32-bit lanes: two Ints for each Shorts of the chunk. */
static inline void store_wide(Ints *v, int shift, int acc_spare, int spare, int16_t *to)
{
    EACH_HALF(k) v[k] = finish_ints(v[k], shift, acc_spare, spare);
    EACH_VECTOR(k) store_shorts(to + k * VECTOR_LANES, narrow(v[2 * k], v[2 * k + 1]));
}
