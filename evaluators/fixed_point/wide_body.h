/* Operators on values of up to 32 bits, one lane after the other in 64. */

/* Sums, products and choices of two operands. */
static void binary(const Machine *m, const Step *s, const int32_t *row)
{
    Number a[LANES], b[LANES], c[LANES];
    const int acc_bits = row[ACC_BITS];
    for (int32_t e = 0; e < s->n; e++) {
        load(m, &s->a, e, row[SHIFT_A], row[CONSTANT_A], a);
        load(m, &s->b, e, row[SHIFT_B], row[CONSTANT_B], b);
        switch (s->opcode) {
        case OP_Add: for (int l = 0; l < LANES; l++) a[l] = wrap(a[l] + b[l], acc_bits); break;
        case OP_Subtract: for (int l = 0; l < LANES; l++) a[l] = wrap(a[l] - b[l], acc_bits); break;
        case OP_Multiply: for (int l = 0; l < LANES; l++) a[l] = wrap(a[l] * b[l], acc_bits); break;
        default: /* Select */
            load(m, &s->c, e, 0, 0, c);
            for (int l = 0; l < LANES; l++) a[l] = c[l] >= (s->window ? 1 : 0) ? a[l] : b[l];
        }
        store(a, row[SHIFT_OUT], row[BITS], result_lanes(m, s, e));
    }
}

/* A function of one integer: the table holds its results, scaled and wrapped. */
static void table(const Machine *m, const Step *s, const int32_t *row)
{
    const Table *table = m->tables[s->row];
    Number a[LANES];
    for (int32_t e = 0; e < s->n; e++) {
        load(m, &s->a, e, row[SHIFT_A], 0, a);
        Value *to = result_lanes(m, s, e);
        for (int l = 0; l < LANES; l++) {
            const Number argument = a[l] < INT16_MIN ? INT16_MIN : a[l] > INT16_MAX ? INT16_MAX : a[l];
            to[l] = table->entries[(uint16_t)argument];
        }
    }
}

static void maxpool(const Machine *m, const Step *s, const int32_t *row)
{
    Number best[LANES], next[LANES];
    for (int32_t e = 0; e < s->n; e++) {
        for (int l = 0; l < LANES; l++) best[l] = INT32_MIN;
        for (int32_t k = 0; k < s->window; k++) {
            if (s->a.elements[e * s->window + k] < 0) continue;
            load(m, &s->a, e * s->window + k, 0, 0, next);
            for (int l = 0; l < LANES; l++) best[l] = next[l] > best[l] ? next[l] : best[l];
        }
        store(best, row[SHIFT_OUT], row[BITS], result_lanes(m, s, e));
    }
}

/* One element's samples of a factor, scaled, modulo 2**32: a product is taken modulo no more. */
static inline const uint32_t *factor(const Machine *m, const Operand *o, int32_t index, int shift, uint32_t *restrict scaled)
{
    const int64_t element = element_at(o, index);
    if (o->place == DYNAMIC) {
        const Value *from = element < 0 ? m->zeros : lanes_of(m, o->variable, element);
        if (shift == 0) return (const uint32_t *)from;
        for (int l = 0; l < LANES; l++) scaled[l] = (uint32_t)scale(from[l], shift);
    } else {
        const uint32_t value = element < 0 ? 0 : (uint32_t)scale(m->statics[o->variable][element], shift);
        for (int l = 0; l < LANES; l++) scaled[l] = value;
    }
    return scaled;
}

/* Dot products: operands and terms shifted, linear sums or trees. */
static void dot(const Machine *m, const Step *s, const int32_t *row)
{
    const int tree = row[HALVINGS] >= 0, acc_bits = row[ACC_BITS], term_shift = row[SHIFT_TERM];
    uint32_t scaled[2][LANES], sum[LANES];
    Number total[LANES];
    for (int32_t p = 0; p < s->p; p++)
        for (int32_t r = 0; r < s->r; r++) {
            for (int l = 0; l < LANES; l++) sum[l] = 0;
            for (int32_t q = 0; q < s->q; q++) {
                const uint32_t *a = factor(m, &s->a, p * s->q + q, row[SHIFT_A], scaled[0]);
                const uint32_t *b = factor(m, &s->b, q * s->r + r, row[SHIFT_B], scaled[1]);
                if (tree) {
                    Number *term = m->terms + (int64_t)q * LANES;
                    for (int l = 0; l < LANES; l++) term[l] = down(wrap((int32_t)(a[l] * b[l]), acc_bits), term_shift);
                } else if (term_shift == 0)
                    for (int l = 0; l < LANES; l++) sum[l] += a[l] * b[l];
                else
                    for (int l = 0; l < LANES; l++) sum[l] += (uint32_t)down(wrap((int32_t)(a[l] * b[l]), acc_bits), term_shift);
            }
            if (tree) tree_sum(m->terms, s->q, row[HALVINGS], acc_bits);
            for (int l = 0; l < LANES; l++) total[l] = wrap(tree ? m->terms[l] : (Number)sum[l], acc_bits);
            store(total, row[SHIFT_OUT], row[BITS], result_lanes(m, s, p * s->r + r));
        }
}
