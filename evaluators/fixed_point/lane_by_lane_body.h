/* What is the same for values of 16 and of 32 bits: operators that go lane by lane, and sums as trees.
 */

static void pointwise(const Machine *m, const Step *s, const int32_t *row)
{
    Number a[LANES] __attribute__((aligned(64)));
    const Number constant_a = row[CONSTANT_A], constant_b = row[CONSTANT_B];
    const int shift = row[SHIFT_B], acc_bits = row[ACC_BITS];
    (void)constant_a, (void)shift; /* not every set of operators needs both */
    for (int32_t e = 0; e < s->n; e++) {
        load(m, &s->a, e, 0, 0, a);
        switch (s->opcode) {
#define CASE(name, value) \
        case OP_##name: \
            for (int l = 0; l < LANES; l++) { \
                const Number v = a[l]; \
                a[l] = value; \
            } \
            break;
            POINTWISE(CASE)
#undef CASE
        }
        store(a, row[SHIFT_OUT], row[BITS], result_lanes(m, s, e));
    }
}

static void sign(const Machine *m, const Step *s)
{
    Number a[LANES] __attribute__((aligned(64)));
    for (int32_t e = 0; e < s->n; e++) {
        load(m, &s->a, e, 0, 0, a);
        Value *to = result_lanes(m, s, e);
        for (int l = 0; l < LANES; l++) to[l] = a[l] > 0;
    }
}

static void fill(const Machine *m, const Step *s, const int32_t *row)
{
    const Value value = (Value)wrap(scale(row[CONSTANT_A], row[SHIFT_OUT]), row[BITS]);
    for (int32_t e = 0; e < s->n; e++) {
        Value *to = result_lanes(m, s, e);
        for (int l = 0; l < LANES; l++) to[l] = value;
    }
}

static void normalise(const Machine *m, const Step *s, const int32_t *row)
{
    Number value[LANES] __attribute__((aligned(64)));
    int64_t squares[LANES];
    Number norm[LANES];
    for (int32_t first = 0; first < s->n; first += s->window) {
        for (int l = 0; l < LANES; l++) squares[l] = 0;
        for (int32_t k = 0; k < s->window; k++) {
            load(m, &s->a, first + k, row[SHIFT_A], 0, value);
            for (int l = 0; l < LANES; l++) squares[l] += (int64_t)value[l] * value[l];
        }
        for (int l = 0; l < LANES; l++) norm[l] = (Number)sqrt((double)squares[l]);
        for (int32_t k = 0; k < s->window; k++) {
            load(m, &s->a, first + k, row[SHIFT_A], 0, value);
            for (int l = 0; l < LANES; l++) {
                const int64_t up = (int64_t)value[l] * ((int64_t)1 << row[SHIFT_B]);
                value[l] = norm[l] > 0 ? (Number)(up / norm[l]) : 0;
            }
            store(value, row[SHIFT_OUT], row[BITS], result_lanes(m, s, first + k));
        }
    }
}

static void argmax(const Machine *m, const Step *s)
{
    Number best[LANES] __attribute__((aligned(64))), next[LANES] __attribute__((aligned(64)));
    Value *to = result_lanes(m, s, 0);
    load(m, &s->a, 0, 0, 0, best);
    for (int l = 0; l < LANES; l++) to[l] = 0;
    for (int32_t e = 1; e < s->n; e++) {
        load(m, &s->a, e, 0, 0, next);
        for (int l = 0; l < LANES; l++) {
            to[l] = next[l] > best[l] ? (Value)e : to[l];
            best[l] = next[l] > best[l] ? next[l] : best[l];
        }
    }
}

/* SeeDot's TreeSum over `count` rows of terms, in place (Algorithm 2). */
static void tree_sum(Number *terms, int32_t count, int halvings, int acc_bits)
{
    for (int level = 0; count > 1; level++) {
        const int halve = level < halvings ? 1 : 0;
        const int32_t pairs = count / 2;
        for (int32_t k = 0; k < pairs; k++) {
            const Number *x = terms + (int64_t)2 * k * LANES, *y = x + LANES;
            Number *to = terms + (int64_t)k * LANES;
            for (int l = 0; l < LANES; l++) to[l] = wrap(down(x[l], halve) + down(y[l], halve), acc_bits);
        }
        if (count % 2) {
            const Number *last = terms + (int64_t)(count - 1) * LANES;
            Number *to = terms + (int64_t)pairs * LANES;
            for (int l = 0; l < LANES; l++) to[l] = down(last[l], halve);
        }
        count = (count + 1) / 2;
    }
}
