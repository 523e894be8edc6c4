/* Sums, products and choices of elements, tables and windows, in vectors of 16-bit lanes. */

/* Add, Subtract, Multiply, Select, whose operands fit 16 bits: in 16 bits where that changes nothing, else in 32. */
static inline __attribute__((always_inline)) void combine(const Machine *m, const Step *s, const int32_t *row, int opcode)
{
    const int shift = row[SHIFT_OUT], acc_bits = opcode == OP_Select ? 16 : row[ACC_BITS], bits = row[BITS];
    const int is_narrow = acc_bits <= 16 || shift <= 0, acc_spare = acc_bits <= 16 ? 16 - acc_bits : 0;
    Shorts x[VECTORS], y[VECTORS];
    for (int32_t e = 0; e < s->n; e++) {
        load_scaled(m, &s->a, e, row[SHIFT_A], row[CONSTANT_A], x);
        load_scaled(m, &s->b, e, row[SHIFT_B], row[CONSTANT_B], y);
        int16_t *to = result_lanes(m, s, e);
        if (opcode == OP_Select) {
            Shorts c[VECTORS];
            load_scaled(m, &s->c, 0, 0, 0, c);
            const int16_t least = s->window ? 1 : 0;
            EACH_VECTOR(v) {
                const Shorts chosen = (Shorts)(c[v] >= least);
                x[v] = (chosen & x[v]) | (~chosen & y[v]);
            }
        }
        if (is_narrow) {
            if (opcode != OP_Select)
                EACH_VECTOR(v) x[v] = opcode == OP_Add ? x[v] + y[v] : opcode == OP_Subtract ? x[v] - y[v] : x[v] * y[v];
            store_narrow(x, shift, acc_spare, 16 - bits, to);
            continue;
        }
        Ints wide[2 * VECTORS];
        EACH_VECTOR(v) {
            if (opcode == OP_Multiply) {
                multiply_shorts(x[v], y[v], &wide[2 * v], &wide[2 * v + 1]);
                continue;
            }
            for (int half = 0; half < 2; half++) {
                const Ints a = widen(x[v], half), b = widen(y[v], half);
                wide[2 * v + half] = opcode == OP_Add ? a + b : a - b;
            }
        }
        store_wide(wide, shift, 32 - acc_bits, 32 - bits, to);
    }
}

/* Where the elements of an operand are: `samples` of one that is DYNAMIC, else `values`; `numbers` is NULL where all are the same. */
typedef struct {
    const int16_t *samples, *values;
    const int32_t *numbers;
    int16_t literal;
} Elements;

static inline __attribute__((always_inline)) void find(const Machine *m, const Operand *o, int32_t constant, Elements *found)
{
    found->literal = (int16_t)constant;
    found->numbers = o->elements;
    found->values = o->place == STATIC ? m->statics[o->variable] + o->moved : &found->literal;
    found->samples = o->place == DYNAMIC ? lanes_of(m, o->variable, o->moved) : NULL;
}

/* The samples of an element; `is_shifted` is said of values that change with the sample, others are shifted as they are. */
static inline __attribute__((always_inline)) void fetch(const Elements *of, int32_t e, int is_same, int is_shifted, int shift,
                                                              Shorts *to)
{
    if (is_same) {
        const Shorts value = all_shorts((int16_t)(of->numbers ? down(of->values[of->numbers[e]], shift) : of->literal));
        EACH_VECTOR(v) to[v] = value;
        return;
    }
    const int16_t *from = of->samples + (int64_t)of->numbers[e] * LANES;
    EACH_VECTOR(v) to[v] = load_shorts(from + v * VECTOR_LANES);
    if (is_shifted) EACH_VECTOR(v) to[v] = down_some(to[v], shift);
}

/* Add, Subtract, Multiply in the cases that nearly all programs are made of, with everything decided before the loop: values stay in
 * 16 bits but for a product that is shifted down by 1 to 16 places (`is_long`), whose two halves are shifted together. `same_a`, `same_b`: of a
 * parameter or literal. */
static inline __attribute__((always_inline)) void combine_plain(const Machine *m, const Step *s, const int32_t *row, int opcode,
                                                                      int is_long, int same_a, int same_b, int shifts_a, int shifts_b,
                                                                      int shifts_out)
{
    const int shift = row[SHIFT_OUT], shift_a = row[SHIFT_A], shift_b = row[SHIFT_B], spare = 16 - row[BITS];
    const int acc_spare = is_long || row[ACC_BITS] > 16 ? 0 : 16 - row[ACC_BITS];
    const int wraps = spare > acc_spare; /* a sum that wraps in as few bits has wrapped already */
    const int32_t *out = s->out, n = s->n;
    int16_t *const results = lanes_of(m, s->out_variable, s->out_moved);
    Elements a, b;
    find(m, &s->a, row[CONSTANT_A], &a);
    find(m, &s->b, row[CONSTANT_B], &b);
    Shorts x[VECTORS], y[VECTORS];
    for (int32_t e = 0; e < n; e++) {
        fetch(&a, e, same_a, shifts_a, shift_a, x);
        fetch(&b, e, same_b, shifts_b, shift_b, y);
        int16_t *to = results + (int64_t)out[e] * LANES;
        if (is_long)
            EACH_VECTOR(v) x[v] = product_down(x[v], y[v], shift);
        else
            EACH_VECTOR(v) x[v] = opcode == OP_Add ? x[v] + y[v] : opcode == OP_Subtract ? x[v] - y[v] : x[v] * y[v];
        if (acc_spare) EACH_VECTOR(v) x[v] = wrap_shorts(x[v], acc_spare);
        if (shifts_out) EACH_VECTOR(v) x[v] = down_some(x[v], shift);
        if (wraps) EACH_VECTOR(v) x[v] = wrap_shorts(x[v], spare);
        EACH_VECTOR(v) store_shorts(to + v * VECTOR_LANES, x[v]);
    }
}

/* Whether `combine_plain` does it, and then does. */
static inline __attribute__((always_inline)) int is_combined(const Machine *m, const Step *s, const int32_t *row, int opcode)
{
    const int shift = row[SHIFT_OUT], same_a = s->a.place != DYNAMIC, same_b = s->b.place != DYNAMIC;
    const int is_long = opcode == OP_Multiply && row[ACC_BITS] == 32 && shift >= 1 && shift <= 16;
    if ((same_a && same_b) || (!is_long && (shift < 0 || shift > 15 || (row[ACC_BITS] > 16 && shift)))) return 0;
    const int shifts_a = !same_a && row[SHIFT_A], shifts_b = !same_b && row[SHIFT_B], shifts_out = !is_long && shift;
    switch (shifts_a + 2 * shifts_b + 4 * shifts_out + 8 * same_a + 16 * same_b) {
#define CASE(number) \
    case number: \
        if (is_long && !(number & 4) && opcode == OP_Multiply) \
            combine_plain(m, s, row, opcode, 1, number & 8, number & 16, number & 1, number & 2, 0); \
        else \
            combine_plain(m, s, row, opcode, 0, number & 8, number & 16, number & 1, number & 2, number & 4); \
        break;
        CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
        CASE(8) CASE(10) CASE(12) CASE(14) /* a is the same for all samples */
        CASE(16) CASE(17) CASE(20) CASE(21)
#undef CASE
    }
    return 1;
}

static int binary_fits_shorts(const Step *s, const int32_t *row)
{
    return fits_shorts(&s->a, row[SHIFT_A], row[CONSTANT_A]) && fits_shorts(&s->b, row[SHIFT_B], row[CONSTANT_B]) &&
           row[SHIFT_OUT] >= -15 && row[SHIFT_OUT] <= (row[ACC_BITS] <= 16 || s->opcode == OP_Select ? 15 : 31);
}

/* Sums, products and choices of two operands, one element after the other. */
static void binary(const Machine *m, const Step *s, const int32_t *row)
{
    if (binary_fits_shorts(s, row)) {
        switch (s->opcode) {
        case OP_Add:
            if (!is_combined(m, s, row, OP_Add)) combine(m, s, row, OP_Add);
            break;
        case OP_Subtract:
            if (!is_combined(m, s, row, OP_Subtract)) combine(m, s, row, OP_Subtract);
            break;
        case OP_Multiply:
            if (!is_combined(m, s, row, OP_Multiply)) combine(m, s, row, OP_Multiply);
            break;
        default: combine(m, s, row, OP_Select);
        }
        return;
    }
    int32_t a[LANES] __attribute__((aligned(64))), b[LANES] __attribute__((aligned(64)));
    const int acc_spare = 32 - row[ACC_BITS];
    for (int32_t e = 0; e < s->n; e++) {
        load(m, &s->a, e, row[SHIFT_A], row[CONSTANT_A], a);
        load(m, &s->b, e, row[SHIFT_B], row[CONSTANT_B], b);
        switch (s->opcode) {
        case OP_Add:
            for (int l = 0; l < LANES; l++) a[l] = (int32_t)((uint32_t)(a[l] + b[l]) << acc_spare) >> acc_spare;
            break;
        case OP_Subtract:
            for (int l = 0; l < LANES; l++) a[l] = (int32_t)((uint32_t)(a[l] - b[l]) << acc_spare) >> acc_spare;
            break;
        case OP_Multiply:
            for (int l = 0; l < LANES; l++) a[l] = (int32_t)((uint32_t)(a[l] * b[l]) << acc_spare) >> acc_spare;
            break;
        default: { /* Select */
            int32_t c[LANES];
            load(m, &s->c, 0, 0, 0, c);
            const int32_t least = s->window ? 1 : 0;
            for (int l = 0; l < LANES; l++) a[l] = c[l] >= least ? a[l] : b[l];
        }
        }
        store(a, row[SHIFT_OUT], row[BITS], result_lanes(m, s, e));
    }
}

/* A function of one integer: the table holds its results, scaled and wrapped. */
static void table(const Machine *m, const Step *s, const int32_t *row)
{
    (void)row; /* the table has its shifts */
    const Table *table = m->tables[s->row];
    for (int32_t e = 0; e < s->n; e++) {
        int16_t *to = result_lanes(m, s, e);
        if (s->a.place == DYNAMIC) {
            look_up(table, lanes_of(m, s->a.variable, s->a.elements[e] + s->a.moved), to);
        } else {
            const int16_t argument = m->statics[s->a.variable][s->a.elements[e] + s->a.moved];
            const int16_t value = table->entries[table->short_arguments ? (uint8_t)argument : (uint16_t)argument];
            for (int l = 0; l < LANES; l++) to[l] = value;
        }
    }
}

static void maxpool(const Machine *m, const Step *s, const int32_t *row)
{
    const int shift = row[SHIFT_OUT];
    Shorts best[VECTORS], next[VECTORS];
    for (int32_t e = 0; e < s->n; e++) {
        EACH_VECTOR(v) best[v] = all_shorts(INT16_MIN);
        for (int32_t k = 0; k < s->window; k++) {
            if (s->a.elements[e * s->window + k] < 0) continue;
            load_scaled(m, &s->a, e * s->window + k, 0, 0, next);
            EACH_VECTOR(v) {
                const Shorts more = (Shorts)(next[v] > best[v]);
                best[v] = (more & next[v]) | (~more & best[v]);
            }
        }
        int16_t *to = result_lanes(m, s, e);
        if (shift >= -15 && shift <= 15) {
            store_narrow(best, shift, 0, 16 - row[BITS], to);
            continue;
        }
        Ints wide[2 * VECTORS];
        EACH_HALF(k) wide[k] = widen(best[k / 2], k % 2);
        store_wide(wide, shift, 0, 32 - row[BITS], to);
    }
}
