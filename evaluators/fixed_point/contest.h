/* What decides a label, and by how much: sums over the margins of a candidate, and the normal tails of its errors.
 * evaluators/fixed_point/margins.py and fidelity.py are the definition; all sums are of integers, so they are equal to the last bit. */

/* After the step that decides the labels of a block: sums of the margins, of their squares, and of their products with the float
 * program's, [3]. */
static void sum_margins(const Machine *m, int32_t block)
{
    const Program *program = m->program;
    if (m->executed != program->contest_step) return;
    const Value *scores = lanes_of(m, program->contest_variable, 0);
    const int32_t first = block * LANES;
    const int32_t count = program->sample_count - first < LANES ? program->sample_count - first : LANES;
    Total sum = 0, squares = 0, products = 0;
    for (int32_t l = 0; l < count; l++) {
        const int32_t leader = program->leaders[first + l], rival = program->rivals[first + l];
        const Total ahead = leader < 0 ? 0 : scores[leader * LANES + l], behind = rival < 0 ? 0 : scores[rival * LANES + l];
        const Total margin = ahead - behind;
        sum += margin;
        squares += margin * margin;
        products += margin * program->float_margins[first + l];
    }
    m->block_sums[0] = sum;
    m->block_sums[1] = squares;
    m->block_sums[2] = products;
}

/* What `fidelity.least_tail_sums` says: for each of `count` candidates the least sum over `intervals` intervals of the mean error. spreads:
 * [count][3], mean, deviation and weight; shifts: [intervals]; steps: of the table for a deviation. */
void kilotune_least_tail_sums(int32_t count, int64_t samples, const int32_t *margins, const double *spreads, int32_t intervals,
                              const double *shifts, double steps, double tiny, const int32_t *table, int32_t last, int64_t *sums)
{
    for (int32_t i = 0; i < count; i++) {
        const double mean = spreads[3 * i], sigma = spreads[3 * i + 1], weight = spreads[3 * i + 2];
        sums[i] = INT64_MAX;
        for (int32_t k = 0; k < intervals; k++) {
            const int inside = k + 1 < intervals;
            const double widened = sigma * sqrt(1.0 + weight * shifts[k] * shifts[k]);
            const double per_unit = steps / (widened > tiny ? widened : tiny);
            const double shifted = inside ? mean + sigma * shifts[k + 1] : mean;
            const double beyond = inside ? 1.0 : 1.0 + steps / sqrt(weight);
            int64_t sum = 0;
            for (int64_t s = 0; s < samples && sum < sums[i]; s++) {
                const double margin = margins[s] + shifted;
                const double place = (margin > 0 ? margin : 0) * per_unit + beyond;
                if (place >= last) break;
                sum += table[(int32_t)place];
            }
            if (sum < sums[i]) sums[i] = sum;
        }
    }
}

/* For each of `count` candidates, the sum over samples of table[|d|] where d = (margin + bias) * inverse, and of 2 * table[0] less
 * that where d is negative. margins: [samples], ascending; table: [last + 1], of which the last one is 0. */
void kilotune_tail_sums(int32_t count, int64_t samples, const int32_t *margins, const double *biases, const double *inverses,
                        const int32_t *table, int32_t last, int64_t *sums)
{
    for (int32_t i = 0; i < count; i++) {
        const int64_t whole = 2 * (int64_t)table[0];
        int64_t sum = 0;
        for (int64_t s = 0; s < samples; s++) {
            const double deviations = (margins[s] + biases[i]) * inverses[i];
            if (deviations >= last) break;
            const double size = fabs(deviations);
            const int64_t tail = table[size < last ? (int32_t)size : last];
            sum += deviations < 0 ? whole - tail : tail;
        }
        sums[i] = sum;
    }
}
