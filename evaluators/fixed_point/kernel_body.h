/* The part of the kernel that depends on the rounding; kernel.c includes it once for each. */

static inline int32_t NAME(scale)(int32_t v, int n) { return n >= 0 ? DOWN(v, n) : (int32_t)((uint32_t)v << -n); }

/* Operand values of one element, scaled by `shift`, as int32 lanes. */
static inline void NAME(load)(const Machine *m, const Operand *o, int32_t index, int shift, int32_t constant,
                              int32_t *restrict to)
{
    if (o->place == DYNAMIC) {
        const int32_t element = o->elements[index];
        const int16_t *from = element < 0 ? m->zeros : lanes_of(m, o->variable, element);
        if (shift == 0)
            for (int l = 0; l < LANES; l++) to[l] = from[l];
        else if (shift > 0)
            for (int l = 0; l < LANES; l++) to[l] = DOWN(from[l], shift);
        else
            for (int l = 0; l < LANES; l++) to[l] = (int32_t)((uint32_t)(int32_t)from[l] << -shift);
        return;
    }
    int32_t value = constant;
    if (o->place == STATIC) {
        const int32_t element = o->elements[index];
        value = element < 0 ? 0 : NAME(scale)(m->statics[o->variable][element], shift);
    }
    for (int l = 0; l < LANES; l++) to[l] = value;
}

/* wrap(down(v, shift), bits) into the lanes of an element. */
static inline void NAME(store)(const int32_t *restrict v, int shift, int bits, int16_t *restrict to)
{
    const int spare = 32 - bits;
    if (shift == 0)
        for (int l = 0; l < LANES; l++) to[l] = (int16_t)((int32_t)((uint32_t)v[l] << spare) >> spare);
    else if (shift > 0)
        for (int l = 0; l < LANES; l++) to[l] = (int16_t)((int32_t)((uint32_t)DOWN(v[l], shift) << spare) >> spare);
    else
        for (int l = 0; l < LANES; l++) {
            const uint32_t up = (uint32_t)v[l] << -shift;
            to[l] = (int16_t)((int32_t)(up << spare) >> spare);
        }
}

/* x / 2**n in every lane, n from 0 to 15; the quotient fits 16 bits again. */
static inline Shorts NAME(down_shorts)(Shorts x, int n)
{
    if (n == 0) return x;
    if (KERNEL_ROUNDING == TOWARD_ZERO) return (x + ((x >> 15) & (int16_t)((1 << n) - 1))) >> n;
    if (KERNEL_ROUNDING == NEAREST) return (x >> n) + ((x >> (n - 1)) & 1);
    return x >> n;
}

static inline Ints NAME(down_ints)(Ints x, int n)
{
    if (n == 0) return x;
    if (KERNEL_ROUNDING == TOWARD_ZERO) return (x + ((x >> 31) & (int32_t)((1u << n) - 1u))) >> n;
    if (KERNEL_ROUNDING == NEAREST) return (x >> n) + ((x >> (n - 1)) & 1);
    return x >> n;
}

/* wrap(down(wrap(v, accumulator), shift), bits) */
static inline Ints NAME(finish_ints)(Ints v, int shift, int acc_spare, int spare)
{
    if (acc_spare) v = (v << acc_spare) >> acc_spare;
    v = shift >= 0 ? NAME(down_ints)(v, shift) : v << -shift;
    return spare ? (v << spare) >> spare : v;
}

/* The samples of a scaled element whose values fit 16 bits. */
static inline void NAME(load_scaled)(const Machine *m, const Operand *o, int32_t index, int shift, int32_t constant, Shorts *to)
{
    const int32_t element = o->place == LITERAL ? 0 : o->elements[index];
    if (o->place == DYNAMIC) {
        const int16_t *from = element < 0 ? m->zeros : lanes_of(m, o->variable, element);
        EACH_VECTOR(v) to[v] = load_shorts(from + v * VECTOR_LANES);
        if (shift) EACH_VECTOR(v) to[v] = NAME(down_shorts)(to[v], shift);
        return;
    }
    if (o->place == STATIC) constant = element < 0 ? 0 : DOWN(m->statics[o->variable][element], shift);
    const Shorts value = all_shorts((int16_t)constant);
    EACH_VECTOR(v) to[v] = value;
}

/* wrap(down(wrap(v, accumulator), shift), bits) of 16-bit lanes, which go to an element. */
static inline void NAME(store_narrow)(Shorts *v, int shift, int acc_spare, int spare, int16_t *to)
{
    if (acc_spare) EACH_VECTOR(k) v[k] = (v[k] << acc_spare) >> acc_spare;
    if (shift > 0)
        EACH_VECTOR(k) v[k] = NAME(down_shorts)(v[k], shift);
    else if (shift < 0)
        EACH_VECTOR(k) v[k] <<= -shift;
    if (spare) EACH_VECTOR(k) v[k] = (v[k] << spare) >> spare;
    EACH_VECTOR(k) store_shorts(to + k * VECTOR_LANES, v[k]);
}

/* The same of 32-bit lanes: two Ints for each Shorts of the element. */
static inline void NAME(store_wide)(Ints *v, int shift, int acc_spare, int spare, int16_t *to)
{
    EACH_HALF(k) v[k] = NAME(finish_ints)(v[k], shift, acc_spare, spare);
    EACH_VECTOR(k) store_shorts(to + k * VECTOR_LANES, narrow(v[2 * k], v[2 * k + 1]));
}

/* Add, Subtract, Multiply, Select, whose operands fit 16 bits: in 16 bits where that changes nothing, else in 32. */
static inline __attribute__((always_inline)) void NAME(combine)(const Machine *m, const Step *s, const int32_t *row, int opcode)
{
    const int shift = row[SHIFT_OUT], acc_bits = opcode == OP_Select ? 16 : row[ACC_BITS], bits = row[BITS];
    const int is_narrow = acc_bits <= 16 || shift <= 0, acc_spare = acc_bits <= 16 ? 16 - acc_bits : 0;
    Shorts x[VECTORS], y[VECTORS];
    for (int32_t e = 0; e < s->n; e++) {
        NAME(load_scaled)(m, &s->a, e, row[SHIFT_A], row[CONSTANT_A], x);
        NAME(load_scaled)(m, &s->b, e, row[SHIFT_B], row[CONSTANT_B], y);
        int16_t *to = lanes_of(m, s->out_variable, s->out[e]);
        if (opcode == OP_Select) {
            Shorts c[VECTORS];
            NAME(load_scaled)(m, &s->c, 0, 0, 0, c);
            const int16_t least = s->window ? 1 : 0;
            EACH_VECTOR(v) {
                const Shorts chosen = (Shorts)(c[v] >= least);
                x[v] = (chosen & x[v]) | (~chosen & y[v]);
            }
        }
        if (is_narrow) {
            if (opcode != OP_Select)
                EACH_VECTOR(v) x[v] = opcode == OP_Add ? x[v] + y[v] : opcode == OP_Subtract ? x[v] - y[v] : x[v] * y[v];
            NAME(store_narrow)(x, shift, acc_spare, 16 - bits, to);
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
        NAME(store_wide)(wide, shift, 32 - acc_bits, 32 - bits, to);
    }
}

static int NAME(binary_fits_shorts)(const Step *s, const int32_t *row)
{
    return fits_shorts(&s->a, row[SHIFT_A], row[CONSTANT_A]) && fits_shorts(&s->b, row[SHIFT_B], row[CONSTANT_B]) &&
           row[SHIFT_OUT] >= -15 && row[SHIFT_OUT] <= (row[ACC_BITS] <= 16 || s->opcode == OP_Select ? 15 : 31);
}

/* Sums, products and choices of two operands, one element after the other. */
static void NAME(binary)(const Machine *m, const Step *s, const int32_t *row)
{
    if (NAME(binary_fits_shorts)(s, row)) {
        switch (s->opcode) {
        case OP_Add: NAME(combine)(m, s, row, OP_Add); break;
        case OP_Subtract: NAME(combine)(m, s, row, OP_Subtract); break;
        case OP_Multiply: NAME(combine)(m, s, row, OP_Multiply); break;
        default: NAME(combine)(m, s, row, OP_Select);
        }
        return;
    }
    int32_t a[LANES] __attribute__((aligned(64))), b[LANES] __attribute__((aligned(64)));
    const int acc_spare = 32 - row[ACC_BITS];
    for (int32_t e = 0; e < s->n; e++) {
        NAME(load)(m, &s->a, e, row[SHIFT_A], row[CONSTANT_A], a);
        NAME(load)(m, &s->b, e, row[SHIFT_B], row[CONSTANT_B], b);
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
            NAME(load)(m, &s->c, 0, 0, 0, c);
            const int32_t least = s->window ? 1 : 0;
            for (int l = 0; l < LANES; l++) a[l] = c[l] >= least ? a[l] : b[l];
        }
        }
        NAME(store)(a, row[SHIFT_OUT], row[BITS], lanes_of(m, s->out_variable, s->out[e]));
    }
}

static void NAME(pointwise)(const Machine *m, const Step *s, const int32_t *row)
{
    int32_t a[LANES] __attribute__((aligned(64)));
    const int32_t constant_a = row[CONSTANT_A], constant_b = row[CONSTANT_B];
    const int shift = row[SHIFT_B], acc_bits = row[ACC_BITS];
    (void)constant_a, (void)shift; /* not every set of operators needs both */
    for (int32_t e = 0; e < s->n; e++) {
        NAME(load)(m, &s->a, e, 0, 0, a);
        switch (s->opcode) {
#define CASE(name, value) \
        case OP_##name: \
            for (int l = 0; l < LANES; l++) { \
                const int32_t v = a[l]; \
                a[l] = value; \
            } \
            break;
            POINTWISE(CASE)
#undef CASE
        }
        NAME(store)(a, row[SHIFT_OUT], row[BITS], lanes_of(m, s->out_variable, s->out[e]));
    }
}

static void NAME(sign)(const Machine *m, const Step *s)
{
    int32_t a[LANES] __attribute__((aligned(64)));
    for (int32_t e = 0; e < s->n; e++) {
        NAME(load)(m, &s->a, e, 0, 0, a);
        int16_t *to = lanes_of(m, s->out_variable, s->out[e]);
        for (int l = 0; l < LANES; l++) to[l] = a[l] > 0;
    }
}

static void NAME(fill)(const Machine *m, const Step *s, const int32_t *row)
{
    const int16_t value = (int16_t)wrap(NAME(scale)(row[CONSTANT_A], row[SHIFT_OUT]), row[BITS]);
    for (int32_t e = 0; e < s->n; e++) {
        int16_t *to = lanes_of(m, s->out_variable, s->out[e]);
        for (int l = 0; l < LANES; l++) to[l] = value;
    }
}

/* A function of one integer of at most 16 bits: the table holds its results, scaled and wrapped. */
static void NAME(table)(const Machine *m, const Step *s)
{
    const int16_t *table = m->tables[s->row];
    for (int32_t e = 0; e < s->n; e++) {
        int16_t *to = lanes_of(m, s->out_variable, s->out[e]);
        if (s->a.place == DYNAMIC) {
            const int16_t *from = lanes_of(m, s->a.variable, s->a.elements[e]);
            for (int l = 0; l < LANES; l++) to[l] = table[(uint16_t)from[l]];
        } else {
            const int16_t value = table[(uint16_t)m->statics[s->a.variable][s->a.elements[e]]];
            for (int l = 0; l < LANES; l++) to[l] = value;
        }
    }
}

static void NAME(maxpool)(const Machine *m, const Step *s, const int32_t *row)
{
    const int shift = row[SHIFT_OUT];
    Shorts best[VECTORS], next[VECTORS];
    for (int32_t e = 0; e < s->n; e++) {
        EACH_VECTOR(v) best[v] = all_shorts(INT16_MIN);
        for (int32_t k = 0; k < s->window; k++) {
            if (s->a.elements[e * s->window + k] < 0) continue;
            NAME(load_scaled)(m, &s->a, e * s->window + k, 0, 0, next);
            EACH_VECTOR(v) {
                const Shorts more = (Shorts)(next[v] > best[v]);
                best[v] = (more & next[v]) | (~more & best[v]);
            }
        }
        int16_t *to = lanes_of(m, s->out_variable, s->out[e]);
        if (shift >= -15 && shift <= 15) {
            NAME(store_narrow)(best, shift, 0, 16 - row[BITS], to);
            continue;
        }
        Ints wide[2 * VECTORS];
        EACH_HALF(k) wide[k] = widen(best[k / 2], k % 2);
        NAME(store_wide)(wide, shift, 0, 32 - row[BITS], to);
    }
}

static void NAME(normalise)(const Machine *m, const Step *s, const int32_t *row)
{
    int32_t value[LANES] __attribute__((aligned(64)));
    int64_t squares[LANES];
    int32_t norm[LANES];
    for (int32_t first = 0; first < s->n; first += s->window) {
        for (int l = 0; l < LANES; l++) squares[l] = 0;
        for (int32_t k = 0; k < s->window; k++) {
            NAME(load)(m, &s->a, first + k, row[SHIFT_A], 0, value);
            for (int l = 0; l < LANES; l++) squares[l] += (int64_t)value[l] * value[l];
        }
        for (int l = 0; l < LANES; l++) norm[l] = (int32_t)sqrt((double)squares[l]);
        for (int32_t k = 0; k < s->window; k++) {
            NAME(load)(m, &s->a, first + k, row[SHIFT_A], 0, value);
            for (int l = 0; l < LANES; l++) {
                const int64_t up = (int64_t)value[l] * ((int64_t)1 << row[SHIFT_B]);
                value[l] = norm[l] > 0 ? (int32_t)(up / norm[l]) : 0;
            }
            NAME(store)(value, row[SHIFT_OUT], row[BITS], lanes_of(m, s->out_variable, s->out[first + k]));
        }
    }
}

static void NAME(argmax)(const Machine *m, const Step *s)
{
    int32_t best[LANES] __attribute__((aligned(64))), next[LANES] __attribute__((aligned(64)));
    int16_t *to = lanes_of(m, s->out_variable, s->out[0]);
    NAME(load)(m, &s->a, 0, 0, 0, best);
    for (int l = 0; l < LANES; l++) to[l] = 0;
    for (int32_t e = 1; e < s->n; e++) {
        NAME(load)(m, &s->a, e, 0, 0, next);
        for (int l = 0; l < LANES; l++) {
            to[l] = next[l] > best[l] ? (int16_t)e : to[l];
            best[l] = next[l] > best[l] ? next[l] : best[l];
        }
    }
}

/* SeeDot's TreeSum over `count` rows of terms, in place (Algorithm 2). */
static void NAME(tree_sum)(int32_t *terms, int32_t count, int halvings, int acc_bits)
{
    for (int level = 0; count > 1; level++) {
        const int halve = level < halvings ? 1 : 0;
        const int32_t pairs = count / 2;
        for (int32_t k = 0; k < pairs; k++) {
            const int32_t *x = terms + (int64_t)2 * k * LANES, *y = x + LANES;
            int32_t *to = terms + (int64_t)k * LANES;
            for (int l = 0; l < LANES; l++) to[l] = wrap(DOWN(x[l], halve) + DOWN(y[l], halve), acc_bits);
        }
        if (count % 2) {
            const int32_t *last = terms + (int64_t)(count - 1) * LANES;
            int32_t *to = terms + (int64_t)pairs * LANES;
            for (int l = 0; l < LANES; l++) to[l] = DOWN(last[l], halve);
        }
        count = (count + 1) / 2;
    }
}

/* Dot products whose operands fit 16 bits when they are scaled: of two dynamic operands, with shifts or tree sums. */
static void NAME(dot_scaled)(const Machine *m, const Step *s, const int32_t *row)
{
    const int tree = row[HALVINGS] >= 0, acc_spare = 32 - row[ACC_BITS];
    Shorts x[VECTORS], y[VECTORS];
    Ints sum[2 * VECTORS], term[2 * VECTORS];
    for (int32_t p = 0; p < s->p; p++)
        for (int32_t r = 0; r < s->r; r++) {
            EACH_HALF(k) sum[k] = all_ints(0);
            for (int32_t q = 0; q < s->q; q++) {
                NAME(load_scaled)(m, &s->a, p * s->q + q, row[SHIFT_A], 0, x);
                NAME(load_scaled)(m, &s->b, q * s->r + r, row[SHIFT_B], 0, y);
                EACH_VECTOR(v) multiply_shorts(x[v], y[v], &term[2 * v], &term[2 * v + 1]);
                EACH_HALF(k) term[k] = NAME(finish_ints)(term[k], row[SHIFT_TERM], acc_spare, 0);
                if (tree)
                    memcpy(m->terms + (int64_t)q * LANES, term, sizeof term);
                else
                    EACH_HALF(k) sum[k] += term[k];
            }
            if (tree) {
                NAME(tree_sum)(m->terms, s->q, row[HALVINGS], row[ACC_BITS]);
                memcpy(sum, m->terms, sizeof sum);
            }
            NAME(store_wide)(sum, row[SHIFT_OUT], acc_spare, 32 - row[BITS], lanes_of(m, s->out_variable, s->out[p * s->r + r]));
        }
}

/* Dot products in full generality: operands shifted first, terms shifted, tree sums. */
static void NAME(dot_general)(const Machine *m, const Step *s, const int32_t *row)
{
    if (fits_shorts(&s->a, row[SHIFT_A], 0) && fits_shorts(&s->b, row[SHIFT_B], 0)) {
        NAME(dot_scaled)(m, s, row);
        return;
    }
    int32_t a[LANES] __attribute__((aligned(64))), b[LANES] __attribute__((aligned(64)));
    int32_t sum[LANES] __attribute__((aligned(64)));
    const int tree = row[HALVINGS] >= 0, spare = 32 - row[ACC_BITS], term_shift = row[SHIFT_TERM];
    for (int32_t p = 0; p < s->p; p++)
        for (int32_t r = 0; r < s->r; r++) {
            memset(sum, 0, sizeof sum);
            for (int32_t q = 0; q < s->q; q++) {
                int32_t *term = tree ? m->terms + (int64_t)q * LANES : a;
                NAME(load)(m, &s->a, p * s->q + q, row[SHIFT_A], 0, term);
                NAME(load)(m, &s->b, q * s->r + r, row[SHIFT_B], 0, b);
                for (int l = 0; l < LANES; l++) {
                    const int32_t product = (int32_t)((uint32_t)(term[l] * b[l]) << spare) >> spare;
                    term[l] = DOWN(product, term_shift);
                }
                if (!tree)
                    for (int l = 0; l < LANES; l++) sum[l] += term[l];
            }
            if (tree) NAME(tree_sum)(m->terms, s->q, row[HALVINGS], row[ACC_BITS]);
            int32_t *total = tree ? m->terms : sum;
            for (int l = 0; l < LANES; l++) total[l] = (int32_t)((uint32_t)total[l] << spare) >> spare;
            NAME(store)(total, row[SHIFT_OUT], row[BITS], lanes_of(m, s->out_variable, s->out[p * s->r + r]));
        }
}

#define TILE 4

/* TILE outputs of LANES samples: rows of activations in pairs, weights as packed pairs [q / 2][TILE]. */
static inline void NAME(dot_tile)(const int16_t *const *rows, int32_t pairs, const int32_t *weights, int outputs,
                                  int16_t *const *to, int shift, int acc_spare, int spare)
{
    for (int first = 0; first < LANES; first += VECTOR_STRIPE * VECTOR_LANES) {
        Ints acc[TILE][2 * VECTOR_STRIPE];
        for (int t = 0; t < TILE; t++)
            for (int v = 0; v < 2 * VECTOR_STRIPE; v++) acc[t][v] = all_ints(0);
        for (int32_t k = 0; k < pairs; k++) {
            Ints z[2 * VECTOR_STRIPE];
            for (int v = 0; v < VECTOR_STRIPE; v++) {
                const Shorts x = load_shorts(rows[2 * k] + first + v * VECTOR_LANES);
                const Shorts y = load_shorts(rows[2 * k + 1] + first + v * VECTOR_LANES);
                z[2 * v] = interleave_low(x, y);
                z[2 * v + 1] = interleave_high(x, y);
            }
            for (int t = 0; t < TILE; t++) {
                const Ints w = all_ints(weights[k * TILE + t]);
                for (int v = 0; v < 2 * VECTOR_STRIPE; v++) acc[t][v] = multiply_add(acc[t][v], z[v], w);
            }
        }
        for (int t = 0; t < outputs; t++)
            for (int v = 0; v < VECTOR_STRIPE; v++) {
                const Ints low = NAME(finish_ints)(acc[t][2 * v], shift, acc_spare, spare);
                const Ints high = NAME(finish_ints)(acc[t][2 * v + 1], shift, acc_spare, spare);
                store_shorts(to[t] + first + v * VECTOR_LANES, narrow(low, high));
            }
    }
}

/* A dot product with one static operand: tiles of outputs over packed weights, linear sums, no shifts before the end. */
static void NAME(dot_packed)(const Machine *m, const Step *s, const int32_t *row)
{
    const int32_t *packed = m->pairs + s->pack;
    const int weights_right = s->b.place == STATIC;
    const Operand *x = weights_right ? &s->a : &s->b;
    const int32_t groups = weights_right ? s->p : s->r, outputs = weights_right ? s->r : s->p;
    const int32_t pairs = (s->q + 1) / 2, tiles = (outputs + TILE - 1) / TILE;
    const int16_t **rows = (const int16_t **)m->terms;
    for (int32_t g = 0; g < groups; g++) {
        for (int32_t q = 0; q < s->q; q++) {
            const int32_t element = x->elements[weights_right ? g * s->q + q : q * s->r + g];
            rows[q] = element < 0 ? m->zeros : lanes_of(m, x->variable, element);
        }
        rows[s->q] = m->zeros; /* the second half of the last pair when q is odd */
        for (int32_t tile = 0; tile < tiles; tile++) {
            const int32_t first = tile * TILE, count = outputs - first < TILE ? outputs - first : TILE;
            int16_t *to[TILE];
            for (int32_t t = 0; t < count; t++) {
                const int32_t o = first + t;
                to[t] = lanes_of(m, s->out_variable, s->out[weights_right ? g * s->r + o : o * s->r + g]);
            }
            NAME(dot_tile)(rows, pairs, packed + (int64_t)tile * pairs * TILE, count, to, row[SHIFT_OUT],
                           32 - row[ACC_BITS], 32 - row[BITS]);
        }
    }
}

/* Weights of a dot product as pairs of int16 in an int32, [tile][pair][TILE]. */
static void NAME(pack)(const Machine *m, const Step *s)
{
    int32_t *to = m->pairs + s->pack;
    const int weights_right = s->b.place == STATIC;
    const Operand *w = weights_right ? &s->b : &s->a;
    const int16_t *values = m->statics[w->variable];
    const int32_t outputs = weights_right ? s->r : s->p;
    for (int32_t first = 0; first < outputs; first += TILE)
        for (int32_t q = 0; q < s->q; q += 2)
            for (int32_t t = 0; t < TILE; t++) {
                int32_t pair[2] = {0, 0};
                for (int32_t half = 0; half < 2 && q + half < s->q && first + t < outputs; half++) {
                    const int32_t o = first + t, k = q + half;
                    const int32_t element = w->elements[weights_right ? k * s->r + o : o * s->q + k];
                    pair[half] = element < 0 ? 0 : values[element];
                }
                *to++ = (int32_t)(((uint32_t)pair[1] << 16) | (uint16_t)pair[0]);
            }
}

static inline int NAME(is_packed)(const Step *s, const int32_t *row)
{
    return s->opcode == OP_Dot && (s->a.place == STATIC) != (s->b.place == STATIC) && row[HALVINGS] < 0 &&
           row[SHIFT_A] == 0 && row[SHIFT_B] == 0 && row[SHIFT_TERM] == 0;
}

static void NAME(candidate)(Machine *m, int16_t *outputs)
{
    const Program *program = m->program;
    for (int32_t i = 0; i < program->step_count; i++) {
        const Step *s = &program->steps[i];
        if (s->packs && NAME(is_packed)(s, m->rows + (int64_t)s->row * COLUMNS)) NAME(pack)(m, s);
    }
    for (int32_t block = 0; block < program->block_count && !*program->stop; block++) {
        if (program->input_variable >= 0)
            memcpy(lanes_of(m, program->input_variable, 0), m->input + block * m->input_elements * LANES,
                   (size_t)m->input_elements * LANES * sizeof(int16_t));
        for (int32_t i = 0; i < program->step_count; i++) {
            const Step *s = &program->steps[i];
            const int32_t *row = m->rows + (int64_t)s->row * COLUMNS;
            switch (s->opcode) {
            case OP_Fill: NAME(fill)(m, s, row); break;
            case OP_Add: case OP_Subtract: case OP_Multiply: case OP_Select: NAME(binary)(m, s, row); break;
            case OP_Dot:
                if (NAME(is_packed)(s, row)) NAME(dot_packed)(m, s, row);
                else NAME(dot_general)(m, s, row);
                break;
            case OP_MaxPool: NAME(maxpool)(m, s, row); break;
            case OP_Table: NAME(table)(m, s); break;
            case OP_NormaliseL2: NAME(normalise)(m, s, row); break;
            case OP_ArgMax: NAME(argmax)(m, s); break;
            case OP_Sign: NAME(sign)(m, s); break;
            default: NAME(pointwise)(m, s, row); break;
            }
        }
        const int32_t first = block * LANES;
        const int32_t count = program->sample_count - first < LANES ? program->sample_count - first : LANES;
        for (int32_t k = 0; k < program->result_size; k++) {
            const int16_t *from = lanes_of(m, program->result_variable, program->result[k]);
            for (int32_t l = 0; l < count; l++) outputs[(int64_t)(first + l) * program->result_size + k] = from[l];
        }
    }
}
