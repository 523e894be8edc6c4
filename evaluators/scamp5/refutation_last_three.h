/* Whether three instructions can make the last target: they are computed backwards from it (see refutation.c). */
#ifndef KILOTUNE_REFUTATION_LAST_THREE_H
#define KILOTUNE_REFUTATION_LAST_THREE_H
#include "refutation_state.h"

/* The values that one instruction turns into `value`, with other values of which the latest is among [from, to). */
static int32_t before(const State *s, uint64_t value, int from, int to, uint64_t *out)
{
    int32_t n = 0;
    for (int f = 0; f < s->p->forms; f++) {
        const Form *form = &s->p->form[f];
        uint64_t whole = form->inverse == 1 ? value : mul(value, form->inverse);
        if (!form->others && !from) out[n++] = whole;
        for (int u = from; form->others && u < to; u++) {
            uint64_t rest = sub(whole, times(form->ratio, s->element[u].value));
            if (form->others == 1) out[n++] = rest;
            for (int w = 0; form->others == 2 && w < u; w++) out[n++] = sub(rest, times(form->ratio, s->element[w].value));
        }
    }
    return n;
}

static int meet(State *s, int keep, uint64_t value)
{
    if (!keep) return has(s, value);
    uint64_t key = own(s, value);
    uint32_t mask = ((uint32_t)1 << s->p->far_bits) - 1, at = place(key) & mask;
    while (s->far[at] && s->far[at] != key) at = (at + 1) & mask;
    if (!s->far[at] && (uint32_t)++s->kept > mask / 4 * 3)
        s->full = 1, s->kept = 0, memset(s->far, 0, sizeof *s->far << s->p->far_bits); /* the search ends without an answer */
    else
        s->far[at] = key;
    return 0;
}

/* Each a from which b = factor * a + rest, and then the target of both (and a third value among [from, to), or of any where `all`). */
static int of_both(State *s, int keep, uint64_t target, int f, uint64_t rest, int from, int to, int alone)
{
    int yes = 0;
    for (int k = 0; k < s->p->pairs; k++) {
        const Pair *pair = &s->p->pair[k];
        uint64_t by = s->p->joined[f * s->p->pairs + k], missing = sub(target, times(pair->last, rest));
        if (!by) continue;
        if (!pair->third && alone) yes |= meet(s, keep, mul(missing, by));
        for (int u = from; pair->third && u < to; u++) yes |= meet(s, keep, mul(sub(missing, times(pair->third, s->element[u].value)), by));
    }
    return yes;
}

/* The first a of three instructions a, b, target, where b takes a: kept, or looked for among the candidates; with the values [0, to) of
 * which, unless `keep`, the newest takes part. */
static int through(State *s, int keep, uint64_t target, int to)
{
    int newest = keep ? 0 : to - 1, yes = 0;
    int32_t old = keep ? 0 : before(s, target, 0, newest, s->list), all = old + before(s, target, newest, to, s->list + old);
    for (int32_t k = 0; k < all; k++) {
        int32_t n = before(s, s->list[k], k < old ? newest : 0, to, s->inner);
        for (int32_t i = 0; i < n; i++) yes |= meet(s, keep, s->inner[i]);
    }
    for (int f = 0; f < s->p->forms; f++) {
        const Form *form = &s->p->form[f];
        if (!form->others) yes |= of_both(s, keep, target, f, 0, newest, to, keep);
        for (int u = 0; form->others && u < to; u++) {
            uint64_t rest = times(form->other, s->element[u].value);
            for (int w = 0; w < (form->others == 2 ? u : 1); w++) {
                int fresh = keep || u == newest;
                uint64_t both = form->others == 2 ? add(rest, times(form->other, s->element[w].value)) : rest;
                yes |= of_both(s, keep, target, f, both, fresh ? 0 : newest, to, fresh);
            }
        }
    }
    return yes;
}

/* Is the target made of two values that are candidates both, one of them from `first` on, or with the newest value as a third one? */
static int beside(const State *s, uint64_t target, int32_t first)
{
    int newest = s->count - 1;
    for (int32_t i = 0; i < s->offers; i++)
        for (int k = 0; k < s->p->pairs; k++) {
            const Pair *pair = &s->p->pair[k];
            if (i < first && !pair->third) continue;
            uint64_t rest = sub(target, times(pair->first, s->offer[i].value));
            if (!pair->third && has(s, times(pair->inverse, rest))) return 1;
            for (int u = i < first ? newest : 0; pair->third && u <= newest; u++)
                if (has(s, times(pair->inverse, sub(rest, times(pair->third, s->element[u].value))))) return 1;
        }
    return 0;
}

static uint64_t only_target(const State *s)
{
    for (int t = 0; t < s->p->targets; t++)
        if (s->is_pending[t]) return s->p->target[t];
    return 0;
}

static void look_far(State *s)
{
    s->kept = 0;
    memset(s->far, 0, sizeof *s->far << s->p->far_bits);
    through(s, 1, only_target(s), s->count);
}

static int is_far(const State *s, uint64_t key)
{
    uint32_t mask = ((uint32_t)1 << s->p->far_bits) - 1, at = place(key) & mask;
    while (s->far[at] && s->far[at] != key) at = (at + 1) & mask;
    return s->far[at] == key;
}

/* Three instructions are left for one target: perhaps enough, or certainly not? Before the newest value `far` was filled. */
static int may_end(State *s, int32_t first)
{
    uint64_t target = only_target(s);
    for (int32_t i = first; i < s->offers; i++)
        if (is_far(s, own(s, s->offer[i].value))) return 1;
    return through(s, 0, target, s->count) || beside(s, target, first);
}

#endif
