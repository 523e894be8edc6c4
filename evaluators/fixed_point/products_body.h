/* Dot products: general, scaled, and over packed weights. */

/* The sums of products of pairs of elements, over an even number of them, of a Shorts of samples from `first` on; `is_square`: of each
 * element with itself. */
static inline __attribute__((always_inline)) void sum_pairs(const int16_t *const *x, const int16_t *const *y, int32_t count, int first,
                                                                  int is_square, Ints *low, Ints *high)
{
    *low = *high = all_ints(0);
    for (int32_t q = 0; q < count; q += 2) {
        const Pairs left = pair_up(load_shorts(x[q] + first), load_shorts(x[q + 1] + first));
        if (is_square) multiply_add(low, high, left, left);
        else multiply_add(low, high, left, pair_up(load_shorts(y[q] + first), load_shorts(y[q + 1] + first)));
    }
}

/* Where the samples of some elements are, `step` numbers apart, and behind them of one that is zero. */
static void list_lanes(const Machine *m, const Operand *o, int64_t first, int32_t step, int32_t count, const int16_t **to)
{
    const int32_t *numbers = o->elements + first;
    const int16_t *base = lanes_of(m, o->variable, o->moved);
    for (int32_t q = 0; q < count; q++, numbers += step) to[q] = *numbers < 0 ? m->zeros : base + (int64_t)*numbers * LANES;
    to[count] = m->zeros;
}

/* Dot products of two dynamic operands, linear sums without shifts before the end: a Shorts of samples at a time, whose sums stay in
 * registers, and two terms at a time. */
static void dot_values(const Machine *m, const Step *s, const int32_t *row)
{
    const int16_t **x = (const int16_t **)m->terms, **y = x + s->q + 1;
    for (int32_t p = 0; p < s->p; p++) {
        list_lanes(m, &s->a, (int64_t)p * s->q, 1, s->q, x);
        for (int32_t r = 0; r < s->r; r++) {
            list_lanes(m, &s->b, r, s->r, s->q, y);
            const int is_square = !memcmp(x, y, (size_t)s->q * sizeof *x);
            int16_t *to = result_lanes(m, s, p * s->r + r);
            for (int first = 0; first < m->samples; first += VECTOR_LANES) {
                Ints low, high;
                if (is_square) sum_pairs(x, x, s->q, first, 1, &low, &high);
                else sum_pairs(x, y, s->q, first, 0, &low, &high);
                store_shorts(to + first, finish_sums(low, high, row[SHIFT_OUT], 32 - row[ACC_BITS], 32 - row[BITS]));
            }
        }
    }
}

/* Dot products whose operands fit 16 bits when they are scaled: of two dynamic operands, with shifts or tree sums. */
static void dot_scaled(const Machine *m, const Step *s, const int32_t *row)
{
    const int tree = row[HALVINGS] >= 0, acc_spare = 32 - row[ACC_BITS];
    for (int32_t p = 0; p < s->p; p++)
        for (int32_t r = 0; r < s->r; r++) {
            int16_t *const results = result_lanes(m, s, p * s->r + r);
            EACH_CHUNK(first) {
                Shorts x[VECTORS], y[VECTORS];
                Ints sum[2 * VECTORS], term[2 * VECTORS];
                EACH_HALF(k) sum[k] = all_ints(0);
                for (int32_t q = 0; q < s->q; q++) {
                    load_scaled(m, &s->a, p * s->q + q, first, row[SHIFT_A], 0, x);
                    load_scaled(m, &s->b, q * s->r + r, first, row[SHIFT_B], 0, y);
                    EACH_VECTOR(v) multiply_shorts(x[v], y[v], &term[2 * v], &term[2 * v + 1]);
                    EACH_HALF(k) term[k] = finish_ints(term[k], row[SHIFT_TERM], acc_spare, 0);
                    if (tree)
                        memcpy(m->terms + (int64_t)q * LANES + first, term, sizeof term);
                    else
                        EACH_HALF(k) sum[k] += term[k];
                }
                if (!tree) store_wide(sum, row[SHIFT_OUT], acc_spare, 32 - row[BITS], results + first);
            }
            if (!tree) continue;
            tree_sum(m->terms, s->q, row[HALVINGS], row[ACC_BITS]);
            EACH_CHUNK(first) {
                Ints sum[2 * VECTORS];
                memcpy(sum, m->terms + first, sizeof sum);
                store_wide(sum, row[SHIFT_OUT], acc_spare, 32 - row[BITS], results + first);
            }
        }
}

/* Dot products in full generality: operands shifted first, terms shifted, tree sums. */
static void dot_general(const Machine *m, const Step *s, const int32_t *row)
{
    if (fits_shorts(&s->a, row[SHIFT_A], 0) && fits_shorts(&s->b, row[SHIFT_B], 0)) {
        dot_scaled(m, s, row);
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
                load(m, &s->a, p * s->q + q, row[SHIFT_A], 0, term);
                load(m, &s->b, q * s->r + r, row[SHIFT_B], 0, b);
                for (int l = 0; l < LANES; l++) {
                    const int32_t product = (int32_t)((uint32_t)(term[l] * b[l]) << spare) >> spare;
                    term[l] = down(product, term_shift);
                }
                if (!tree)
                    for (int l = 0; l < LANES; l++) sum[l] += term[l];
            }
            if (tree) tree_sum(m->terms, s->q, row[HALVINGS], row[ACC_BITS]);
            int32_t *total = tree ? m->terms : sum;
            for (int l = 0; l < LANES; l++) total[l] = (int32_t)((uint32_t)total[l] << spare) >> spare;
            store(total, row[SHIFT_OUT], row[BITS], result_lanes(m, s, p * s->r + r));
        }
}

#define TILE 4
#define EACH_OUTPUT(t) _Pragma("GCC unroll 4") for (int t = 0; t < outputs; t++)

/* Up to TILE outputs of some samples, `stripe` Shorts of them at a time: rows of activations in pairs, weights as packed pairs [q / 2][TILE]. */
static inline __attribute__((always_inline)) void dot_tile(const int16_t *const *rows, int32_t pairs, const int32_t *weights, int outputs,
                                                                 int16_t *const *to, int shift, int acc_spare, int spare, int samples, int stripe)
{
    for (size_t first = 0; first < (size_t)samples; first += (size_t)stripe * VECTOR_LANES) {
        Ints acc[TILE][2 * VECTOR_STRIPE];
        EACH_OUTPUT(t) for (int v = 0; v < 2 * stripe; v++) acc[t][v] = all_ints(0);
        const int16_t *const *row = rows;
        for (const int32_t *pair = weights, *end = weights + (size_t)pairs * TILE; pair < end; pair += TILE, row += 2) {
            Pairs z[VECTOR_STRIPE];
            for (int v = 0; v < stripe; v++) {
                const Shorts x = load_shorts(row[0] + first + v * VECTOR_LANES);
                const Shorts y = load_shorts(row[1] + first + v * VECTOR_LANES);
                z[v] = pair_up(x, y);
            }
            EACH_OUTPUT(t) {
                const Pairs w = all_pairs(pair[t]);
                for (int v = 0; v < stripe; v++) multiply_add(&acc[t][2 * v], &acc[t][2 * v + 1], z[v], w);
            }
        }
        EACH_OUTPUT(t)
            for (int v = 0; v < stripe; v++)
                store_shorts(to[t] + first + v * VECTOR_LANES, finish_sums(acc[t][2 * v], acc[t][2 * v + 1], shift, acc_spare, spare));
    }
}

/* A dot product with one static operand: tiles of outputs over packed weights, linear sums, no shifts before the end. */
static void dot_packed(const Machine *m, const Step *s, const int32_t *row)
{
    const int32_t *packed = m->packs[s->pack]; /* [tile][pair][TILE], each two int16 */
    const int weights_right = s->b.place == STATIC;
    const Operand *x = weights_right ? &s->a : &s->b;
    const int32_t groups = weights_right ? s->p : s->r, outputs = weights_right ? s->r : s->p;
    const int32_t pairs = (s->q + 1) / 2, tiles = (outputs + TILE - 1) / TILE;
    const int16_t **rows = (const int16_t **)m->terms;
    for (int32_t g = 0; g < groups; g++) {
        if (weights_right) list_lanes(m, x, (int64_t)g * s->q, 1, s->q, rows);
        else list_lanes(m, x, g, s->r, s->q, rows); /* one more: the second half of the last pair when q is odd */
        for (int32_t tile = 0; tile < tiles; tile++) {
            const int32_t first = tile * TILE, count = outputs - first < TILE ? outputs - first : TILE;
            int16_t *to[TILE];
            for (int32_t t = 0; t < count; t++) {
                const int32_t o = first + t;
                to[t] = result_lanes(m, s, weights_right ? g * s->r + o : o * s->r + g);
            }
            const int32_t *weights = packed + (int64_t)tile * pairs * TILE;
            const int shift = row[SHIFT_OUT], acc_spare = 32 - row[ACC_BITS], spare = 32 - row[BITS];
            const int stripe = m->samples > VECTOR_LANES ? VECTOR_STRIPE : 1;
            switch (8 * count + stripe) {
#define CASE(outputs, vectors) \
    case 8 * outputs + vectors: dot_tile(rows, pairs, weights, outputs, to, shift, acc_spare, spare, m->samples, vectors); break;
                CASE(1, 1) CASE(2, 1) CASE(3, 1) CASE(4, 1)
#if VECTOR_STRIPE > 1
                CASE(1, 2) CASE(2, 2) CASE(3, 2) CASE(4, 2)
#endif
#undef CASE
            }
        }
    }
}

static void dot(const Machine *m, const Step *s, const int32_t *row)
{
    const int linear = row[HALVINGS] < 0 && row[SHIFT_A] == 0 && row[SHIFT_B] == 0 && row[SHIFT_TERM] == 0;
    if (linear && s->pack >= 0) dot_packed(m, s, row);
    else if (linear && s->a.place == DYNAMIC && s->b.place == DYNAMIC) dot_values(m, s, row);
    else dot_general(m, s, row);
}
