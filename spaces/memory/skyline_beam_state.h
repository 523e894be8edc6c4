/* The states of a beam and where they begin. Part of skyline_beam.c. */

static int make_states(Beam *s, State *state, int32_t count)
{
    size_t sections = (size_t)s->p->sections;
    for (int32_t k = 0; k < count; k++) {
        state[k].height = malloc(2 * (sizeof(int64_t) + sizeof(double)) * sections + sizeof(uint64_t) * (size_t)s->words);
        if (!state[k].height) return 0;
        state[k].reach = state[k].height + sections;
        state[k].weight = (double *)(state[k].reach + sections);
        state[k].unused = state[k].weight + sections;
        state[k].waits = (uint64_t *)(state[k].unused + sections);
    }
    return 1;
}

/* A buffer that lies there already: heights are the tops of these, and reaches lack their bytes until all are there. */
static void keep(State *state, const BeamProblem *p, int32_t b)
{
    for (int32_t i = p->lo[b]; i < p->hi[b]; i++) {
        state->reach[i] -= p->size[b];
        if (p->kept[b] + p->size[b] > state->height[i]) state->height[i] = p->kept[b] + p->size[b];
    }
}

static int make_room(Beam *s)
{
    const BeamProblem *p = s->p;
    size_t width = (size_t)p->width, ahead = (size_t)p->looked_ahead, sections = (size_t)p->sections + 1;
    size_t valleys = width * ((size_t)p->raises + 1), children = valleys * (size_t)p->children;
    s->words = (p->n + 63) / 64;
    s->first = malloc(sizeof *s->first * sections);
    s->now = calloc(width, sizeof *s->now);
    s->then = calloc(width, sizeof *s->then);
    s->made = calloc(ahead, sizeof *s->made);
    s->rank = malloc(sizeof *s->rank * ahead);
    s->child = malloc(sizeof *s->child * children);
    s->taken = malloc(sizeof *s->taken * children);
    s->run = malloc(sizeof *s->run * valleys);
    s->step = malloc(sizeof *s->step * ahead * (size_t)p->n);
    s->fits = malloc(sizeof *s->fits * (size_t)p->n);
    s->weight_before = malloc(sizeof *s->weight_before * sections);
    s->filling = malloc(sizeof *s->filling * sections);
    s->left_reach = malloc(sizeof *s->left_reach * sections);
    s->right_reach = malloc(sizeof *s->right_reach * sections);
    if (!s->first || !s->now || !s->then || !s->made || !s->rank || !s->child || !s->taken || !s->run || !s->step || !s->fits) return 0;
    if (!s->weight_before || !s->filling || !s->left_reach || !s->right_reach) return 0;
    return make_states(s, s->now, p->width) && make_states(s, s->then, p->width) && make_states(s, s->made, p->looked_ahead) &&
           make_states(s, &s->scratch, 1);
}

static int prepare(Beam *s, const BeamProblem *p)
{
    s->p = p;
    s->scale = p->steepness / (double)p->bound;
    if (!make_room(s)) return 0;
    for (int32_t i = 0, b = 0; i <= p->sections; i++) {
        while (b < p->n && p->lo[b] < i) b++;
        s->first[i] = b;
    }
    State *begin = &s->now[0];
    memset(begin->height, 0, sizeof *begin->height * (size_t)p->sections);
    memcpy(begin->reach, p->live, sizeof *begin->reach * (size_t)p->sections);
    memset(begin->waits, 0, sizeof *begin->waits * (size_t)s->words);
    for (int32_t b = 0; b < p->n; b++)
        if (p->kept[b] < 0) begin->waits[b >> 6] |= (uint64_t)1 << (b & 63), s->waiting++;
        else keep(begin, p, b);
    for (int32_t i = 0; i < p->sections; i++) {
        begin->reach[i] += begin->height[i];
        begin->weight[i] = exp(s->scale * (double)(begin->reach[i] - p->bound));
    }
    look_at_valleys(s, begin, 0, p->sections);
    begin->node = -1;
    s->states = 1;
    for (int32_t i = 0; i < p->sections; i++)
        if (begin->reach[i] > p->capacity) s->states = 0;
    return 1;
}

static void free_states(State *state, int32_t count)
{
    for (int32_t k = 0; state && k < count; k++) free(state[k].height);
}

static void release(Beam *s)
{
    free_states(s->now, s->p->width);
    free_states(s->then, s->p->width);
    free_states(s->made, s->p->looked_ahead);
    free_states(&s->scratch, 1);
    free(s->first);
    free(s->now);
    free(s->then);
    free(s->child);
    free(s->taken);
    free(s->run);
    free(s->made);
    free(s->rank);
    free(s->step);
    free(s->fits);
    free(s->weight_before);
    free(s->filling);
    free(s->left_reach);
    free(s->right_reach);
}
