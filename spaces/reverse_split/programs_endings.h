/* The last three instructions, looked up: which values may be the first of three that end in the target. Part of programs.c.
 *
 * Three instructions are left: p, q and the target t, in the macros, of one target, where every instruction costs the same. Today's values
 * are S, the newest of them v. A program without v is shorter, and was refuted at a smaller budget, so v is used. Either q does not need p:
 *   t = h(p, q), and p or q is made with v, or h takes v too;
 * or q = g(p, ...), and everything that two instructions can do is a linear equation for p:
 *   t = h(q, v), q = g(p, S);    t = h(q, S), q = g(p, v);    t = h(q, p), q = g(p, S) with v somewhere;
 *   the same without v, and p is made with v: what that asks of p holds for all v, and is kept as a set of bits (`far`) one level above.
 * So p is not tried, it is computed, and looked up among the candidates (`near`). Both sets may say yes where the truth is no: what they
 * say yes to is tried as everything was before. A copy stands for twice its value, and copies as p are always tried.
 */
#ifndef KILOTUNE_PROGRAMS_ENDINGS_H
#define KILOTUNE_PROGRAMS_ENDINGS_H

#include "programs_shapes.h"

enum { LANES = 16, NEAR_BITS = 1 << 17, FAR_BITS = 1 << 20, FACTORS = 2 * OFFSETS + 1, NOWHERE = -2, BACKWARDS = OFFSETS, HALF = OFFSETS + 1, AUKE_FACTORS = 16 };
enum { TESTS_A_WORK = 64, TESTS_A_STEP = 400, FEW = 30 }; /* so few candidates are tried without a look-up */

typedef struct {
    uint64_t of[LANES], to[LANES]; /* a value moved back by every offset, and moved there; the last one again where there is none */
} Moves;

struct Endings {
    uint32_t near[NEAR_BITS / 32], *far;
    int32_t first_new, old_backs, old_count; /* candidates, predecessors of targets and values before the newest ones */
    int32_t far_level; /* where `far` was filled; NOWHERE once the search is above it */
    int32_t newest; /* values from here on are new: an ending takes one of them */
    int whole;      /* no ending was kept in `far`: all values are new */
    uint64_t others, q_factor, q_term; /* hard targets that p and q = q_factor * p + q_term have to lead to as well (programs_last_two.h) */
    uint64_t asked; /* the hard targets that an ending makes (programs_last_two.h) */
    int32_t *open;          /* the candidates that may be taken */
    int64_t tests;
    uint64_t factor[FACTORS];               /* a: what an instruction multiplies p by */
    uint64_t joined[FACTORS];               /* 1 / (a + 1); 0 where there is none */
    uint64_t less[FACTORS][OFFSETS], from[FACTORS][OFFSETS]; /* 1 / (a * offset - 1), 1 / (offset - a) */
    uint64_t auke_factor[AUKE_FACTORS]; /* 1 / (a + 1) and 1 / (a - 1), for what an instruction of AUKE's set multiplies p by */
    Moves target, value[MOST_VALUES];
};

static inline uint32_t bit_of(uint64_t key, uint32_t bits) { return (uint32_t)key & (bits - 1); }

static inline uint32_t has_bit(const uint32_t *set, uint64_t key, uint32_t bits)
{
    uint32_t at = bit_of(key, bits);
    return set[at >> 5] >> (at & 31) & 1;
}

static inline void put_bit(uint32_t *set, uint64_t key, uint32_t bits)
{
    uint32_t at = bit_of(key, bits);
    set[at >> 5] |= (uint32_t)1 << (at & 31);
}

static int leads_to_others(const Search *s, uint64_t p, uint64_t q); /* programs_last_two.h */

/* A candidate of that value at the least cost (k = -1) or a higher one; -1: none. */
static int32_t candidate_at(const Search *s, uint64_t value, int k)
{
    return find_candidate(s, k < 0 ? value : cost_key(s->p, value, s->dearer[k]));
}

static int is_candidate(const Search *s, uint64_t value)
{
    for (int k = -1; k < s->dearer_count; k++)
        if (candidate_at(s, value, k) >= 0) return 1;
    return 0;
}

static void mark_near(Search *s, uint64_t p)
{
    const struct Endings *e = s->endings;
    for (int k = -1; k < s->dearer_count; k++) {
        int32_t index = candidate_at(s, p, k);
        if (index < 0 || s->candidate[index].marked) continue;
        if (!e->others || leads_to_others(s, p, plus(times(e->q_factor, p), e->q_term))) s->candidate[index].marked = 1;
    }
}

/* One p that would do: marked where it is near, or kept as a bit of `far`. */
static inline void meet(Search *s, const int far, uint64_t p)
{
    struct Endings *e = s->endings;
    if (far)
        put_bit(e->far, p, FAR_BITS);
    else if (has_bit(e->near, p, NEAR_BITS))
        mark_near(s, p);
}

static void moves_of(const Search *s, uint64_t value, Moves *out)
{
    for (int o = 0; o < LANES; o++) {
        int offset = o < s->p->offsets ? o : 0;
        out->to[o] = offset ? times(value, s->unit[offset]) : value;
    }
    for (int o = 0; o < LANES; o++) out->of[o] = out->to[o < s->p->offsets ? INVERSE[o] : 0];
}

/* Every p that one instruction takes to q together with one other value: q = offset * (p + other), offset * p - other, offset * other - p. */
static inline void with_one(Search *s, const int far, const Moves *q, const Moves *other)
{
    const uint64_t whole = q->to[0], value = other->to[0];
    for (int o = 0; o < s->p->offsets; o++) {
        meet(s, far, minus(q->of[o], value));
        meet(s, far, plus(q->of[o], other->of[o]));
        meet(s, far, minus(other->to[o], whole));
    }
}

/* Every p that one instruction takes to q, with values from `first` on and, in sums of three, earlier ones. */
static void before(Search *s, const int far, uint64_t value, int first, int alone)
{
    struct Endings *e = s->endings;
    Moves q;
    moves_of(s, value, &q);
    for (int u = first; u < s->count; u++) {
        with_one(s, far, &q, &e->value[u]);
        uint64_t rest = minus(value, e->value[u].to[0]);
        for (int w = 0; w < u; w++) meet(s, far, minus(rest, e->value[w].to[0]));
    }
    e->tests += (s->count - first) * (3 * LANES + s->count / 2);
    if (!alone) return;
    meet(s, far, minus(0, value));
    meet(s, far, plus(value, value));
    for (int o = 1; o < s->p->offsets; o++) {
        meet(s, far, q.of[o]);
        meet(s, far, times(value, s->less_one[o]));
    }
}

/* Every p of which one instruction makes q = a * p + b, and then one of q and p the target; in sums of three with values from `first` on. */
static void twice(Search *s, const int far, int a, uint64_t b, int first, int pairs)
{
    struct Endings *e = s->endings;
    uint64_t target = e->target.to[0], rest = minus(target, b);
    e->q_factor = e->factor[a], e->q_term = b;
    for (int u = first; u < s->count; u++) meet(s, far, times(minus(rest, e->value[u].to[0]), e->joined[a]));
    if (!pairs) return;
    for (int o = 0; o < s->p->offsets; o++) {
        meet(s, far, times(minus(e->target.of[o], b), e->joined[a]));
        meet(s, far, times(minus(target, o && b ? times(b, s->unit[o]) : b), e->less[a][o]));
        meet(s, far, times(plus(target, b), e->from[a][o]));
    }
    e->tests += 3 * OFFSETS;
}

/* The same for every instruction on p: with a new value or, for `far`, with any; without one only in sums of three that take one. */
static void all_twice(Search *s, const int far)
{
    const struct Endings *e = s->endings;
    const int all = far || e->whole, from = all ? 0 : e->newest;
    for (int u = 0; u < s->count; u++) {
        int newest = u >= from, first = newest ? 0 : from;
        for (int o = 0; o < s->p->offsets; o++) {
            twice(s, far, o, e->value[u].to[o], first, newest);
            twice(s, far, o, minus(0, e->value[u].to[0]), first, newest);
            twice(s, far, BACKWARDS, e->value[u].to[o], first, newest);
        }
        for (int w = 0; w < u; w++) twice(s, far, 0, plus(e->value[u].to[0], e->value[w].to[0]), first, newest);
    }
    for (int a = 0; a < FACTORS; a++) twice(s, far, a, 0, from, all);
}

/* Inverts many numbers with one inverse of their product (Montgomery's trick); zeros stay as they are. */
static void invert_all(uint64_t *number, int count)
{
    uint64_t before[FACTORS * OFFSETS], product = 1;
    for (int i = 0; i < count; i++) {
        before[i] = product;
        if (number[i]) product = times(product, number[i]);
    }
    product = inverse(product);
    for (int i = count - 1; i >= 0; i--) {
        if (!number[i]) continue;
        uint64_t own = number[i];
        number[i] = times(product, before[i]);
        product = times(product, own);
    }
}

/* The inverses of all that a linear equation for p may be divided by. */
static void find_factors(const Search *s, struct Endings *e)
{
    for (int o = 0; o < OFFSETS; o++) e->factor[o] = s->unit[o];
    e->factor[BACKWARDS] = minus(0, 1), e->factor[HALF] = half(1);
    for (int o = 1; o < OFFSETS; o++) e->factor[HALF + o] = minus(s->unit[o], 1);
    for (int a = 0; a < FACTORS; a++) {
        e->joined[a] = plus(e->factor[a], 1);
        for (int o = 0; o < OFFSETS; o++) {
            e->less[a][o] = minus(times(e->factor[a], s->unit[o]), 1);
            e->from[a][o] = minus(s->unit[o], e->factor[a]);
        }
    }
    invert_all(e->joined, FACTORS);
    invert_all(e->less[0], FACTORS * OFFSETS);
    invert_all(e->from[0], FACTORS * OFFSETS);
    const uint64_t factors[AUKE_FACTORS / 2] = {2, half(1), minus(0, 1), minus(0, 2), s->unit[1], s->unit[2], s->unit[3], s->unit[4]};
    for (int a = 0; a < AUKE_FACTORS / 2; a++) {
        e->auke_factor[2 * a] = plus(factors[a], 1);
        e->auke_factor[2 * a + 1] = minus(factors[a], 1);
    }
    invert_all(e->auke_factor, AUKE_FACTORS);
}

/* Where endings are looked up: in what proofs ask of a single kernel. Says whether there was room for it. */
static int prepare_endings(Search *s)
{
    const Problem *p = s->p;
    if (!p->nearby && (p->set != SCAMP5 || p->targets != 1 || p->given != 1 || p->forbidden || p->offsets != OFFSETS || p->far_cost != p->plain_cost ||
        p->halve_cost != p->plain_cost || p->budget < 4 * p->plain_cost))
        return 1;
    if (p->nearby && (p->halve_cost != p->plain_cost || p->budget / p->plain_cost - p->targets < 2)) return 1;
    struct Endings *e = s->endings = calloc(1, sizeof *e);
    if (!e) return 0;
    e->far = malloc(FAR_BITS / 8);
    e->open = malloc((size_t)s->candidate_room * sizeof *e->open);
    if (!e->far || !e->open) return 0;
    e->far_level = NOWHERE;
    find_factors(s, e);
    moves_of(s, p->target[0], &e->target);
    return 1;
}

static void release_endings(Search *s)
{
    if (s->endings) free(s->endings->far), free(s->endings->open);
    free(s->endings);
}

static void values_of(Search *s, int from)
{
    for (int v = from; v < s->count; v++) {
        const Value *value = &s->value[v];
        moves_of(s, value->copy_of >= 0 ? plus(value->value, value->value) : value->value, &s->endings->value[v]);
    }
}

/* Four instructions are left: what any value taken next need not be part of. */
static void look_far(Search *s)
{
    struct Endings *e = s->endings;
    memset(e->far, 0, FAR_BITS / 8);
    e->tests = 0;
    e->first_new = s->candidates, e->old_backs = s->backs;
    values_of(s, 0);
    for (int32_t k = 0; k < s->backs; k++) before(s, 1, s->back[k].key, 0, 1);
    all_twice(s, 1);
    s->work += e->tests / TESTS_A_WORK;
}

/* Marks the candidates that may be the first of the last three. */
static void look_near(Search *s)
{
    struct Endings *e = s->endings;
    const uint64_t target = e->target.to[0];
    for (int32_t k = 0; k < s->backs; k++) before(s, 0, s->back[k].key, k < e->old_backs ? e->newest : 0, k >= e->old_backs);
    all_twice(s, 0);
    for (int o = 0; o < OFFSETS; o++) meet(s, 0, half(e->target.of[o]));
    for (int u = 0; u < s->count; u++) meet(s, 0, half(minus(target, e->value[u].to[0])));
}

/* Another candidate with which candidate `index` makes the target is marked; one or the other is made with the newest value, or the target is. */
static void look_beside(Search *s, int32_t index)
{
    struct Endings *e = s->endings;
    const uint64_t value = s->candidate[index].value, rest = minus(e->target.to[0], value);
    if (index < e->first_new) {
        meet(s, 0, minus(rest, e->value[s->count - 1].to[0]));
        return;
    }
    if (has_bit(e->far, value, FAR_BITS)) s->candidate[index].marked = 1;
    Moves moves;
    moves_of(s, value, &moves);
    with_one(s, 0, &e->target, &moves);
    for (int u = 0; u < s->count; u++) meet(s, 0, minus(rest, e->value[u].to[0]));
    e->tests += 3 * LANES;
}

/* May a candidate be the first of three? What is left for it to reach is bounded as everywhere. */
static int is_open(const Search *s, const Candidate *c)
{
    if (c->included) return 0;
    Shape shape, largest = s->value[s->count - 1].largest;
    shape_of(s, c, &shape);
    if (!fits(s, &shape)) return 0;
    enlarge(&largest, &shape);
    return bound(s, &largest) <= s->left - c->cost;
}

/* Three instructions are left, and candidates from `from` on may be taken: marks those that are worth a try. Where few may be taken at all,
 * trying them is less work than looking them up. */
static void look_up(Search *s, int32_t from)
{
    struct Endings *e = s->endings;
    const int newest = e->newest = s->count - 1;
    int32_t open = 0;
    e->tests = 0;
    for (int32_t i = from; i < s->candidates; i++) {
        s->candidate[i].marked = (uint8_t)is_open(s, &s->candidate[i]);
        if (s->candidate[i].marked) e->open[open++] = i;
    }
    if (open < FEW) return;
    values_of(s, newest);
    memset(e->near, 0, sizeof e->near);
    for (int32_t k = 0; k < open; k++) {
        Candidate *c = &s->candidate[e->open[k]];
        c->marked = c->op == COPY;
        if (c->op != COPY) put_bit(e->near, c->value, NEAR_BITS);
    }
    look_near(s);
    for (int32_t k = 0; k < open; k++)
        if (s->candidate[e->open[k]].op != COPY) look_beside(s, e->open[k]);
    s->work += e->tests / TESTS_A_WORK;
}

#endif
