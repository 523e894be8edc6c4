/* Is there no program of so many instructions? The search of a checker: small, plain, and of its own (see refutation.py).
 *
 * An instruction is a linear form of values modulo 2^61 - 1: factor * u, + other * s, + other * (s + w). A program is the set of its values.
 * Candidates stand in a list, and those passed over at a level never come back below it, so every set is met once. Budgets are asked
 * in ascending order: whatever is left unused would make a shorter program, so that nothing is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { REFUTED = 0, FOUND = 1, STOPPED = 2, NO_MEMORY = 3 };
enum { MOST = 32, TARGETS = 8, ROOM = 1 << 15, SLOTS = 1 << 16, SHIFTS = 64, GROWTH = 256 };
static const uint64_t P = ((uint64_t)1 << 61) - 1;

typedef struct {
    uint64_t factor, other, inverse, ratio; /* of the factor; other / factor */
    int32_t others, halvings;        /* how many other values: 0, 1 or 2 */
    int32_t x, y, other_x, other_y;  /* where the values are read from */
    int32_t first;                   /* 0: not the first instruction, for a symmetry makes an earlier one of it */
    int32_t unused;
} Form;

typedef struct {
    uint64_t last, first, third, inverse; /* target = last * b + first * a (+ third * s); 1 / last */
} Pair;

typedef struct {
    int32_t forms, pairs, targets, budget, free_signs, copies, most_operands, share, shares, far_bits;
    const Form *form;
    const Pair *pair;
    const uint64_t *joined; /* [forms][pairs]: 1 / (last * factor + first), 0 where there is none */
    const uint64_t *target;
    const double *shape; /* [targets][7]: west, south, east, north, halvings, cells, weight */
    const int32_t *need; /* [SHIFTS][GROWTH]: the fewest instructions that reach so far and grow so much */
    const volatile int32_t *stop;
} Refutation;

typedef struct {
    double extent[4], halvings, cells, weight;
} Size;

typedef struct {
    uint64_t key, value;
    int32_t form, a, b, c, taken; /* form -1: a copy */
} Offer;

typedef struct {
    uint64_t value;
    Size size, largest; /* its own; of all values up to it: bounds from above */
    int32_t offer, uses, copies, target;
} Element;

typedef struct {
    const Refutation *p;
    Element element[MOST];
    Offer *offer;
    int32_t *slot;
    uint64_t *far, *list, *inner;
    int32_t offers, count, left, pending, waiting, is_pending[TARGETS], full, kept;
    int64_t sets;
} State;

static uint64_t add(uint64_t a, uint64_t b) { return a + b >= P ? a + b - P : a + b; }
static uint64_t sub(uint64_t a, uint64_t b) { return a >= b ? a - b : a + P - b; }
static uint64_t mul(uint64_t a, uint64_t b)
{
    unsigned __int128 r = (unsigned __int128)a * b;
    return add((uint64_t)r & P, (uint64_t)(r >> 61));
}
static uint64_t times(uint64_t factor, uint64_t value) { return factor == 1 ? value : factor == P - 1 ? P - value : mul(factor, value); }
static uint64_t own(const State *s, uint64_t v) { return s->p->free_signs && v > P - v ? P - v : v; }
static uint32_t place(uint64_t key) { return (uint32_t)((key * 0x9e3779b97f4a7c15ULL) >> 40); }

static int32_t find(const State *s, uint64_t key)
{
    for (uint32_t at = place(key) % SLOTS; s->slot[at] >= 0; at = (at + 1) % SLOTS)
        if (s->offer[s->slot[at]].key == key) return s->slot[at];
    return -1;
}

static int has(const State *s, uint64_t value) { return find(s, own(s, value)) >= 0; }

static void offer(State *s, uint64_t key, uint64_t value, int form, int a, int b, int c)
{
    if (!value || find(s, key) >= 0) return;
    if (s->offers == ROOM) {
        s->full = 1;
        return;
    }
    uint32_t at = place(key) % SLOTS;
    while (s->slot[at] >= 0) at = (at + 1) % SLOTS;
    s->slot[at] = s->offers;
    s->offer[s->offers++] = (Offer){key, value, form, a, b, c, 0};
}

/* All that one instruction makes of the newest value and earlier ones. */
static void offer_all(State *s)
{
    int v = s->count - 1;
    uint64_t value = s->element[v].value;
    if (s->p->copies && s->element[v].copies < 3)
        offer(s, add(mul(value, 0x9e3779b97f4a7c1ULL), 77 + (uint64_t)s->element[v].copies), value, -1, v, v, v);
    for (int f = 0; f < s->p->forms; f++) {
        const Form *form = &s->p->form[f];
        uint64_t own_part = times(form->factor, value);
        if (!form->others) offer(s, own(s, own_part), own(s, own_part), f, v, v, v);
        for (int u = 0; form->others && u < v; u++) {
            uint64_t sum = add(own_part, times(form->other, s->element[u].value));
            if (form->others == 1) offer(s, own(s, sum), own(s, sum), f, v, u, u);
            for (int w = 0; form->others == 2 && w < u; w++) {
                uint64_t all = own(s, add(sum, times(form->other, s->element[w].value)));
                offer(s, all, all, f, v, u, w);
            }
        }
    }
}

static void size_of(const State *s, const Offer *o, Size *out)
{
    const Form *form = o->form < 0 ? 0 : &s->p->form[o->form];
    const int32_t operand[3] = {o->a, o->b, o->c};
    *out = s->element[o->a].size;
    if (!form) return;
    const double own_move[4] = {-form->x, -form->y, form->x, form->y};
    const double other_move[4] = {-form->other_x, -form->other_y, form->other_x, form->other_y};
    for (int i = 0; i < 4; i++) out->extent[i] += own_move[i];
    int others = form->others, doubled = !others && (form->other != 0); /* of a value and itself */
    for (int k = 0; k < others + doubled; k++) {
        const Size *size = &s->element[doubled ? o->a : operand[k + 1]].size;
        for (int i = 0; i < 4; i++)
            if (size->extent[i] + other_move[i] > out->extent[i]) out->extent[i] = size->extent[i] + other_move[i];
        if (size->halvings > out->halvings) out->halvings = size->halvings;
        out->cells += size->cells, out->weight += size->weight;
    }
    out->halvings += form->halvings;
    for (int h = 0; h < form->halvings; h++) out->weight /= 2;
}

static void enlarge(Size *largest, const Size *size)
{
    double *to = (double *)largest;
    const double *from = (const double *)size;
    for (int i = 0; i < 7; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

/* Instructions that are needed for some pending target at least. */
static int32_t bound(const State *s)
{
    const Size *largest = &s->element[s->count - 1].largest;
    int32_t most = 0;
    for (int t = 0; t < s->p->targets; t++) {
        const double *want = s->p->shape + 7 * t;
        if (!s->is_pending[t]) continue;
        double shifts = 0, growth = want[5] / largest->cells, halvings = want[4] - largest->halvings;
        for (int i = 0; i < 4; i++)
            if (want[i] > largest->extent[i]) shifts += want[i] - largest->extent[i];
        if (want[6] / largest->weight > growth) growth = want[6] / largest->weight;
        int column = growth > GROWTH - 1 ? GROWTH - 1 : (int)growth + (growth > (int)growth + 1e-9);
        int32_t steps = s->p->need[(shifts < SHIFTS ? (int)shifts : SHIFTS - 1) * GROWTH + column] + (halvings > 0 ? (int)halvings : 0);
        if (steps > most) most = steps;
    }
    return most;
}

static void use(State *s, int v, int change)
{
    Element *e = &s->element[v];
    if (change < 0) e->uses--;
    if (v && !e->uses && e->target < 0) s->waiting -= change;
    if (change > 0) e->uses++;
}

static void take(State *s, int32_t index)
{
    Offer *o = &s->offer[index];
    Element *e = &s->element[s->count];
    *e = (Element){.value = o->value, .offer = index, .copies = o->form < 0 ? s->element[o->a].copies + 1 : 1, .target = -1};
    size_of(s, o, &e->size);
    e->largest = s->element[s->count - 1].largest;
    enlarge(&e->largest, &e->size);
    o->taken = 1;
    for (int t = 0; t < s->p->targets && o->form >= 0; t++)
        if (s->is_pending[t] && s->p->target[t] == o->key) e->target = t, s->is_pending[t] = 0, s->pending--;
    s->waiting += e->target < 0;
    use(s, o->a, 1);
    if (o->b != o->a) use(s, o->b, 1);
    if (o->c != o->b) use(s, o->c, 1);
    s->count++, s->left--, s->sets++;
}

static void take_back(State *s)
{
    Element *e = &s->element[--s->count];
    const Offer *o = &s->offer[e->offer];
    if (o->c != o->b) use(s, o->c, -1);
    if (o->b != o->a) use(s, o->b, -1);
    use(s, o->a, -1);
    if (e->target >= 0) s->is_pending[e->target] = 1, s->pending++;
    s->waiting -= e->target < 0;
    s->offer[e->offer].taken = 0;
    s->left++;
}

/* Offers what follows from the newest value, and takes every target that one instruction makes then: each is in every program. */
static void spread(State *s)
{
    for (;;) {
        offer_all(s);
        int32_t next = -1;
        for (int t = 0; t < s->p->targets && next < 0; t++)
            if (s->is_pending[t]) next = find(s, s->p->target[t]);
        if (next < 0 || s->left <= 0 || s->count == MOST) return;
        take(s, next);
    }
}

static void include(State *s, int32_t index)
{
    take(s, index);
    spread(s);
}

static void withdraw(State *s, int32_t count, int32_t offers)
{
    while (s->offers > offers) {
        uint32_t at = place(s->offer[--s->offers].key) % SLOTS;
        while (s->slot[at] != s->offers) at = (at + 1) % SLOTS;
        s->slot[at] = -1;
    }
    while (s->count > count) take_back(s);
}

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
