/* Sums, products and choices of elements, tables and windows, in vectors of 16-bit lanes. */

/* Add, Subtract, Multiply, Select, whose operands fit 16 bits: in 16 bits where that changes nothing, else in 32. */
static inline __attribute__((always_inline)) void combine(const Machine *m, const Step *s, const int32_t *row, int opcode)
{
    const int shift = row[SHIFT_OUT], acc_bits = opcode == OP_Select ? 16 : row[ACC_BITS], bits = row[BITS];
    const int is_narrow = acc_bits <= 16 || shift <= 0, acc_spare = acc_bits <= 16 ? 16 - acc_bits : 0;
    for (int32_t e = 0; e < s->n; e++) {
        int16_t *const results = result_lanes(m, s, e);
        EACH_CHUNK(first) {
            Shorts x[VECTORS], y[VECTORS];
            load_scaled(m, &s->a, e, first, row[SHIFT_A], row[CONSTANT_A], x);
            load_scaled(m, &s->b, e, first, row[SHIFT_B], row[CONSTANT_B], y);
            int16_t *to = results + first;
            if (opcode == OP_Select) {
                Shorts c[VECTORS];
                load_scaled(m, &s->c, e, first, 0, 0, c);
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

/* An element: its samples, or the value that all of them have, shifted as it is. */
typedef struct {
    const int16_t *samples;
    int16_t value;
} Element;

static inline __attribute__((always_inline)) Element element_of(const Elements *of, int32_t e, int is_same, int shift)
{
    if (!is_same) return (Element){of->samples + (int64_t)of->numbers[e] * LANES, 0};
    return (Element){NULL, (int16_t)(of->numbers ? down(of->values[of->numbers[e]], shift) : of->literal)};
}

/* A chunk of its samples; `is_shifted` is said of values that change with the sample. */
static inline __attribute__((always_inline)) void fetch(const Element *from, size_t first, int is_same, int is_shifted, int shift, Shorts *to)
{
    if (is_same) {
        EACH_VECTOR(v) to[v] = all_shorts(from->value);
        return;
    }
    EACH_VECTOR(v) to[v] = load_shorts(from->samples + first + v * VECTOR_LANES);
    if (is_shifted) EACH_VECTOR(v) to[v] = down_some(to[v], shift);
}

/* How the numbers of an element become those of the result. */
typedef struct {
    int opcode, is_long, same_a, same_b, shifts_a, shifts_b, shifts_out; /* known to the compiler */
    int shift_a, shift_b, shift, wraps_sum;
} Combining;

static inline __attribute__((always_inline)) void combine_samples(Element a, Element b, Combining how, int wraps, size_t end, int16_t *to)
{
    const int w = how.same_a ? a.value : b.value, size = w < 0 ? -w : w, opcode = how.opcode;
#ifdef HAS_FRACTIONS
    const int is_fraction = how.is_long && (how.same_a || how.same_b) && size >> how.shift == 0;
#else
    const int is_fraction = 0;
#endif
    const Shorts fraction = all_shorts((int16_t)(is_fraction ? size << (16 - how.shift) : 0));
    for (size_t first = 0; first < end; first += CHUNK) {
        Shorts x[VECTORS], y[VECTORS];
        fetch(&a, first, how.same_a, how.shifts_a, how.shift_a, x);
        fetch(&b, first, how.same_b, how.shifts_b, how.shift_b, y);
        if (is_fraction)
            EACH_VECTOR(v) x[v] = how.same_a ? product_with_fraction(y[v], fraction, x[v]) : product_with_fraction(x[v], fraction, y[v]);
        else if (how.is_long)
            EACH_VECTOR(v) x[v] = product_down(x[v], y[v], how.shift);
        else
            EACH_VECTOR(v) x[v] = opcode == OP_Add ? x[v] + y[v] : opcode == OP_Subtract ? x[v] - y[v] : x[v] * y[v];
        if (how.wraps_sum) EACH_VECTOR(v) x[v] = low_bytes(x[v]);
        if (how.shifts_out) EACH_VECTOR(v) x[v] = down_some(x[v], how.shift);
        if (wraps) EACH_VECTOR(v) x[v] = low_bytes(x[v]);
        EACH_VECTOR(v) store_shorts(to + first + v * VECTOR_LANES, x[v]);
    }
}

static inline __attribute__((always_inline)) void combine_elements(const Machine *m, const Step *s, const int32_t *row, Combining how, int wraps)
{
    const int32_t *out = s->out, n = s->n;
    int16_t *const results = lanes_of(m, s->out_variable, s->out_moved);
    Elements a, b;
    find(m, &s->a, row[CONSTANT_A], &a);
    find(m, &s->b, row[CONSTANT_B], &b);
    for (int32_t e = 0; e < n; e++)
        combine_samples(element_of(&a, e, how.same_a, how.shift_a), element_of(&b, e, how.same_b, how.shift_b), how, wraps, END_OF_CHUNKS,
                        results + (int64_t)out[e] * LANES);
}

/* Add, Subtract, Multiply in the cases that nearly all programs are made of, with everything decided before the loop: values stay in
 * 16 bits but for a product that is shifted down by 1 to 16 places (`is_long`), whose two halves are shifted together. `same_a`, `same_b`: of a
 * parameter or literal. A sum that wraps in 8 bits before it is shifted need not be wrapped again. */
static inline __attribute__((always_inline)) void combine_plain(const Machine *m, const Step *s, const int32_t *row, int opcode,
                                                                      int is_long, int same_a, int same_b, int shifts_a, int shifts_b,
                                                                      int shifts_out)
{
    const int short_sum = !is_long && row[ACC_BITS] == 8;
    const Combining how = {
        opcode, is_long, same_a, same_b, shifts_a, shifts_b, shifts_out, row[SHIFT_A], row[SHIFT_B], row[SHIFT_OUT], shifts_out && short_sum,
    };
    if (shifts_out ? row[BITS] == 8 && !short_sum : row[BITS] == 8 || short_sum) combine_elements(m, s, row, how, 1);
    else combine_elements(m, s, row, how, 0);
}

/* Whether `combine_plain` does it, and then does. */
static inline __attribute__((always_inline)) int is_combined(const Machine *m, const Step *s, const int32_t *row, int opcode)
{
    const int shift = row[SHIFT_OUT], same_a = s->a.place != DYNAMIC, same_b = s->b.place != DYNAMIC;
    const int is_long = opcode == OP_Multiply && row[ACC_BITS] == 32 && shift >= 1 && shift <= 16;
    const int is_usual = (row[BITS] == 8 || row[BITS] == 16) && (row[ACC_BITS] == 8 || row[ACC_BITS] >= 16);
    if (!is_usual || (same_a && same_b) || (!is_long && (shift < 0 || shift > 15 || (row[ACC_BITS] > 16 && shift)))) return 0;
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
            load(m, &s->c, e, 0, 0, c);
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
            look_up(table, lanes_of(m, s->a.variable, s->a.elements[e] + s->a.moved), m->samples, to);
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
    for (int32_t e = 0; e < s->n; e++) {
        int16_t *const results = result_lanes(m, s, e);
        EACH_CHUNK(first) {
            Shorts best[VECTORS], next[VECTORS];
            EACH_VECTOR(v) best[v] = all_shorts(INT16_MIN);
            for (int32_t k = 0; k < s->window; k++) {
                if (s->a.elements[e * s->window + k] < 0) continue;
                load_scaled(m, &s->a, e * s->window + k, first, 0, 0, next);
                EACH_VECTOR(v) {
                    const Shorts more = (Shorts)(next[v] > best[v]);
                    best[v] = (more & next[v]) | (~more & best[v]);
                }
            }
            if (shift >= -15 && shift <= 15) {
                store_narrow(best, shift, 0, 16 - row[BITS], results + first);
                continue;
            }
            Ints wide[2 * VECTORS];
            EACH_HALF(k) wide[k] = widen(best[k / 2], k % 2);
            store_wide(wide, shift, 0, 32 - row[BITS], results + first);
        }
    }
}

/* `pointwise` of the commonest operator, whose results are shifted by 15 places at most. */
static void relu(const Machine *m, const Step *s, const int32_t *row)
{
    for (int32_t e = 0; e < s->n; e++) {
        int16_t *const results = result_lanes(m, s, e);
        EACH_CHUNK(first) {
            Shorts x[VECTORS];
            load_scaled(m, &s->a, e, first, 0, 0, x);
            EACH_VECTOR(v) x[v] &= (Shorts)(x[v] > 0);
            store_narrow(x, row[SHIFT_OUT], 0, 16 - row[BITS], results + first);
        }
    }
}
