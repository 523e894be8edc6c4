/* Which children become the next states of the beam. Part of skyline_beam.c. */

static int is_better(const Child *a, const Child *b) { return a->score > b->score || (a->score == b->score && a->hash < b->hash); }

/* The runs are a heap: the one whose best child is the best of all comes first. */
static void sink(Beam *s, int32_t at)
{
    Run run = s->run[at];
    for (int32_t below; (below = 2 * at + 1) < s->runs; at = below) {
        if (below + 1 < s->runs && is_better(s->run[below + 1].next, s->run[below].next)) below++;
        if (!is_better(s->run[below].next, run.next)) break;
        s->run[at] = s->run[below];
    }
    s->run[at] = run;
}

/* The best of the children that were not taken; NULL: all were. */
static const Child *next_best(Beam *s)
{
    if (!s->runs) return NULL;
    const Child *taken = s->run[0].next++;
    if (s->run[0].next == s->run[0].end) s->run[0] = s->run[--s->runs];
    if (s->runs) sink(s, 0);
    return taken;
}

static void swap_states(State *a, State *b)
{
    State last = *a;
    *a = *b, *b = last;
}

/* Of the best children, of each that come to the same once, those are the states that follow whose valleys can be filled best. */
static void choose(Beam *s)
{
    int32_t count = 0, taken = 0, made = 0;
    for (int32_t k = s->runs / 2 - 1; k >= 0; k--) sink(s, k);
    for (const Child *c; made < s->p->looked_ahead && (c = next_best(s)); taken++) {
        int is_known = 0;
        for (int32_t e = taken - 1; e >= 0 && !is_known && s->taken[e]->score - c->score < SAME; e--)
            is_known = s->taken[e]->hash == c->hash;
        s->taken[taken] = c;
        if (is_known) continue;
        State *next = &s->made[made];
        become(s, next, c);
        double hoped = hoped_of(s, next);
        s->looks += s->p->sections;
        if (hoped > -INFINITY) {
            int32_t at = count++;
            for (; at > 0 && s->rank[at - 1].hoped < hoped; at--) s->rank[at] = s->rank[at - 1];
            s->rank[at] = (Rank){hoped, made};
        }
        made++;
    }
    s->states = count < s->p->width ? count : s->p->width;
    for (int32_t k = 0; k < s->states; k++) swap_states(&s->then[k], &s->made[s->rank[k].number]);
    State *last = s->now;
    s->now = s->then, s->then = last;
}
