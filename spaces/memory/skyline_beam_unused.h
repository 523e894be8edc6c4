/* What a state of the beam will leave unused at least. Part of skyline_beam.c.
 *
 * The lowest valley is filled first, so a state that has left a gap which nothing can fill would pay for it only some steps later, when it
 * has displaced better states. */

/* What a valley costs at least where what waits and fits into it does not fill it up to its lower neighbour. Infinite: a section would
 * reach above the capacity. */
static double least_unused(Beam *s, const State *state, int32_t l, int32_t r, int64_t depth)
{
    const BeamProblem *p = s->p;
    int32_t begin = s->first[l], end = s->first[r];
    memset(s->filling + l, 0, sizeof *s->filling * (size_t)(r - l));
    for (int32_t word = begin >> 6; word << 6 < end; word++) {
        uint64_t waiting = state->waits[word];
        if (word == begin >> 6) waiting &= ~(uint64_t)0 << (begin & 63);
        for (; waiting; waiting &= waiting - 1) {
            int32_t b = (word << 6) + __builtin_ctzll(waiting);
            if (b >= end) break;
            if (p->hi[b] > r) continue;
            for (int32_t i = p->lo[b]; i < p->hi[b]; i++) s->filling[i] += p->size[b];
        }
    }
    double cost = 0.0;
    for (int32_t i = l; i < r; i++) {
        int64_t unused = depth - s->filling[i];
        if (unused <= 0) continue;
        if (state->reach[i] + unused > p->capacity) return INFINITY;
        cost += (double)unused * exp(0.5 * s->scale * (double)unused) * state->weight[i];
    }
    s->looks += r - l + (end - begin) / 8;
    return cost;
}

/* The score less what stays unused in the valleys at least. */
static double hoped_of(Beam *s, const State *state)
{
    const int64_t *height = state->height;
    double hoped = state->score;
    for (int32_t l = 0, r; l < s->p->sections; l = r) {
        for (r = l + 1; r < s->p->sections && height[r] == height[l];) r++;
        int64_t left = l ? height[l - 1] : NO_NEIGHBOUR, right = r < s->p->sections ? height[r] : NO_NEIGHBOUR;
        if (least(left, right) > height[l] && least(left, right) < NO_NEIGHBOUR)
            hoped -= least_unused(s, state, l, r, least(left, right) - height[l]);
        if (hoped == -INFINITY) return hoped;
    }
    return hoped;
}
