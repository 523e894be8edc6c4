/* What a state of the beam will leave unused at least. Part of skyline_beam.c.
 *
 * The lowest valley is filled first, so a state that has left a gap which nothing can fill would pay for it only some steps later, when it
 * has displaced better states. */

/* What a valley costs at least where what waits and fits into it does not fill it up to its lower neighbour. Infinite: a section would
 * reach above the capacity. */
static double least_unused(Beam *s, const State *state, int32_t l, int32_t r, int64_t depth)
{
    const BeamProblem *p = s->p;
    memset(s->filling + l, 0, sizeof *s->filling * (size_t)(r - l));
    int32_t count = waiting_within(s, state, l, r);
    for (int32_t k = 0; k < count; k++) {
        int32_t b = s->fits[k];
        for (int32_t i = p->lo[b]; i < p->hi[b]; i++) s->filling[i] += p->size[b];
    }
    double cost = 0.0;
    for (int32_t i = l; i < r; i++) {
        int64_t unused = depth - s->filling[i];
        if (unused <= 0) continue;
        if (state->reach[i] + unused > p->capacity) return INFINITY;
        cost += (double)unused * exp(0.5 * s->scale * (double)unused) * state->weight[i];
    }
    s->looks += r - l + s->first[r] - s->first[l];
    return cost;
}

/* Looks again at the valleys that changes in sections [l, r) may have changed: those there, and the ones beside them. */
static void look_at_valleys(Beam *s, State *state, int32_t l, int32_t r)
{
    const int64_t *height = state->height;
    int32_t sections = s->p->sections;
    if (l) l--;
    while (l && height[l - 1] == height[l]) l--;
    if (r < sections) r++;
    while (r < sections && height[r] == height[r - 1]) r++;
    memset(state->unused + l, 0, sizeof *state->unused * (size_t)(r - l));
    for (int32_t begin = l, end; begin < r; begin = end) {
        for (end = begin + 1; end < r && height[end] == height[begin];) end++;
        int64_t left = begin ? height[begin - 1] : NO_NEIGHBOUR, right = end < sections ? height[end] : NO_NEIGHBOUR;
        int64_t top = least(left, right);
        if (top > height[begin] && top < NO_NEIGHBOUR) state->unused[begin] = least_unused(s, state, begin, end, top - height[begin]);
    }
    s->looks += r - l;
}

/* The score less what stays unused in the valleys at least. */
static double hoped_of(const Beam *s, const State *state)
{
    double unused = 0.0;
    for (int32_t i = 0; i < s->p->sections; i++) unused += state->unused[i];
    return state->score - unused;
}
