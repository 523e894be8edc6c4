/* A set of values that instructions make, and what one more would make of it (see refutation.c).
 *
 * An instruction is a linear form of values modulo 2^61 - 1: factor * u, + other * s, + other * (s + w). A program is the set of its values.
 * Candidates stand in a list, and what offers them is withdrawn with them. */
#ifndef KILOTUNE_REFUTATION_STATE_H
#define KILOTUNE_REFUTATION_STATE_H
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
    const double *shape; /* [targets][11]: west, south, east, north, their corners (see `_shape`), halvings, cells, weight */
    const int32_t *need; /* [SHIFTS][GROWTH]: the fewest instructions that reach so far and grow so much */
    const volatile int32_t *stop;
} Refutation;

typedef struct {
    double extent[8], halvings, cells, weight; /* sides, then corners */
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

/* How much further out a side or a corner lies after a move of (x, y). */
static int way(int side, int x, int y)
{
    static const int TO_X[8] = {-1, 0, 1, 0, -1, -1, 1, 1}, TO_Y[8] = {0, -1, 0, 1, -1, 1, -1, 1};
    return TO_X[side] * x + TO_Y[side] * y;
}

static void size_of(const State *s, const Offer *o, Size *out)
{
    const Form *form = o->form < 0 ? 0 : &s->p->form[o->form];
    const int32_t operand[3] = {o->a, o->b, o->c};
    *out = s->element[o->a].size;
    if (!form) return;
    for (int i = 0; i < 8; i++) out->extent[i] += way(i, form->x, form->y);
    int others = form->others, doubled = !others && (form->other != 0); /* of a value and itself */
    for (int k = 0; k < others + doubled; k++) {
        const Size *size = &s->element[doubled ? o->a : operand[k + 1]].size;
        for (int i = 0; i < 8; i++) {
            double other = size->extent[i] + way(i, form->other_x, form->other_y);
            if (other > out->extent[i]) out->extent[i] = other;
        }
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
    for (int i = 0; i < 11; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

/* By how many cells moves have to go at least. Tried: so many west beyond those that are needed anyway. Then what the two western corners still
 * lack goes south and north, and the eastern corners take what is left of theirs. */
static double shifts_to(const double *want, const double *have)
{
    double lack[8], least = 1e9;
    for (int i = 0; i < 8; i++) lack[i] = want[i] > have[i] ? want[i] - have[i] : 0;
    for (double more = 0; more < least; more++) {
        double west = lack[0] + more, south = lack[1], north = lack[3], east = lack[2];
        if (lack[4] - west > south) south = lack[4] - west;
        if (lack[5] - west > north) north = lack[5] - west;
        if (lack[6] - south > east) east = lack[6] - south;
        if (lack[7] - north > east) east = lack[7] - north;
        if (west + south + east + north < least) least = west + south + east + north;
    }
    return least;
}

/* Instructions that are needed for some pending target at least. */
static int32_t bound(const State *s)
{
    const Size *largest = &s->element[s->count - 1].largest;
    int32_t most = 0;
    for (int t = 0; t < s->p->targets; t++) {
        const double *want = s->p->shape + 11 * t;
        if (!s->is_pending[t]) continue;
        double shifts = shifts_to(want, largest->extent), growth = want[9] / largest->cells, halvings = want[8] - largest->halvings;
        if (want[10] / largest->weight > growth) growth = want[10] / largest->weight;
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

#endif
