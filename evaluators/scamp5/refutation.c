/* Is there no program of so many instructions? The search of a checker: small, plain, and of its own (see refutation.py).
 *
 * Candidates passed over at a level never come back below it, so every set of values is met once. Budgets are asked
 * in ascending order: whatever is left unused would make a shorter program, so that nothing is. */
#include "refutation_last_three.h"

/* Every way, one by one: of few instructions. */
static int finish(State *s)
{
    if (!s->pending) return FOUND;
    if (s->left <= s->pending) return REFUTED;
    for (int32_t i = 0, end = s->offers, count = s->count; i < end; i++) {
        if (s->offer[i].taken) continue;
        include(s, i);
        int result = finish(s);
        withdraw(s, count, end);
        if (result != REFUTED) return result;
    }
    return REFUTED;
}

/* One instruction is free beside those of several targets: it is one short of one of them. */
static int one_free(State *s)
{
    int32_t count = s->count, end = s->offers;
    for (int t = 0; t < s->p->targets; t++) {
        if (!s->is_pending[t]) continue;
        int32_t n = before(s, s->p->target[t], 0, s->count, s->list), found = 0;
        for (int32_t k = 0; k < n; k++) found |= has(s, s->list[k]);
        if (!found) continue;
        for (int32_t i = 0; i < end; i++) {
            if (s->offer[i].taken) continue;
            include(s, i);
            int done = !s->pending;
            withdraw(s, count, end);
            if (done) return FOUND;
        }
    }
    return REFUTED;
}

/* Too much to reach, or more values that wait for a use than the instructions that are left can take? */
static int is_hopeless(const State *s)
{
    int free_ones = s->left - s->pending;
    return s->pending && (free_ones <= 0 || s->waiting + free_ones > s->p->most_operands * s->left || bound(s) > s->left);
}

static int descend(State *s, int level, int32_t from, int32_t before_last);

static int go_on(State *s, int level, int32_t from, int32_t first, int prepared)
{
    int free_ones = s->left - s->pending;
    if (!s->pending) return FOUND;
    if (s->full) return NO_MEMORY;
    if (is_hopeless(s)) return REFUTED;
    if (free_ones == 1) return s->pending > 1 ? one_free(s) : finish(s);
    if (s->pending == 1 && s->left == 3) {
        if (!prepared) look_far(s);
        return may_end(s, prepared ? first : 0) ? finish(s) : REFUTED;
    }
    return descend(s, level + 1, from, level < 0 ? 0 : from - 1);
}

static int descend(State *s, int level, int32_t from, int32_t before_last)
{
    const int prepared = s->pending == 1 && s->left == 4;
    if (prepared) look_far(s);
    for (int32_t i = from, end = s->offers, count = s->count; i < end; i++) {
        const Offer *o = &s->offer[i];
        if (*s->p->stop) return STOPPED;
        if (s->full) return NO_MEMORY;
        if (o->taken || (!level && o->form >= 0 && o->a == 0 && !s->p->form[o->form].first)) continue;
        if (level == 1 && s->p->shares > 1 && (31 * before_last + i) % s->p->shares != s->p->share) continue;
        take(s, i);
        if (s->left > s->pending && is_hopeless(s)) {
            take_back(s);
            continue;
        }
        spread(s);
        int result = s->count == MOST ? NO_MEMORY : go_on(s, level, i + 1, end, prepared);
        withdraw(s, count, end);
        if (result != REFUTED) return result;
    }
    return REFUTED;
}

/* Looks for a program of at most `budget` instructions; budgets below have been refuted. sets: how many were met, added. */
int kilotune_refutation(const Refutation *p, int64_t *sets)
{
    State *s = calloc(1, sizeof *s);
    if (!s) return NO_MEMORY;
    s->offer = malloc(sizeof *s->offer * ROOM), s->slot = malloc(sizeof *s->slot * SLOTS);
    s->far = malloc(sizeof *s->far << p->far_bits), s->list = malloc(sizeof *s->list * ROOM), s->inner = malloc(sizeof *s->inner * ROOM);
    int result = NO_MEMORY;
    if (s->offer && s->slot && s->far && s->list && s->inner && p->budget < MOST - 2) {
        memset(s->slot, 0xff, sizeof *s->slot * SLOTS);
        s->p = p, s->left = p->budget + 1, s->pending = p->targets;
        for (int t = 0; t < p->targets; t++) s->is_pending[t] = 1;
        s->element[0] = (Element){.value = 1, .target = -1, .copies = 1, .size = {.cells = 1, .weight = 1}};
        s->element[0].largest = s->element[0].size;
        s->offer[0] = (Offer){1, 1, 0, 0, 0, 0, 1};
        s->slot[place(1) % SLOTS] = 0, s->offers = 1, s->count = 1, s->left--;
        offer_all(s);
        int32_t ready = -1;
        for (int t = 0; t < p->targets && ready < 0; t++) ready = find(s, p->target[t]);
        if (ready >= 0 && s->left > 0) include(s, ready);
        result = go_on(s, -1, 1, 0, 0);
        *sets += s->sets;
    }
    free(s->offer), free(s->slot), free(s->far), free(s->list), free(s->inner), free(s);
    return result;
}
