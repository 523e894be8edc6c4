/* The last two free values of a walk's question, solved for, not tried. Part of programs.c.
 *
 * Of what a question may add, p and then q are left, and with q, every hard target t follows at once. As in programs_endings.h, all that two
 * instructions can do is a linear equation for p, so p is looked up among the candidates: t = h(q, S) with q = g(p, S); t = h(q, p); and
 * t = h(p, q) with q a candidate as well. Here several values are given and several targets wanted; one hard target is asked (of targets
 * none of which is hard, all), and what makes any target at once is tried too. What is solved for so is a hundredth of the work of trying all
 * p, so that a question of two free values is answered, where only the first few p were tried before. A program is overlooked in which p
 * first makes a target, and that is what q is made of.
 *
 * Where instructions with two directions cost more (bus transfers), a value is looked up at either cost, and `far` is filled at the level
 * before only where no such instruction has used up two free values at once.
 */
#ifndef KILOTUNE_PROGRAMS_LAST_TWO_H
#define KILOTUNE_PROGRAMS_LAST_TWO_H

#include "programs_endings.h"

/* AUKE's set: every p that one instruction takes to q, with values from `first` on. */
static void before_in_auke(Search *s, const int far, uint64_t q, int first, int alone)
{
    struct Endings *e = s->endings;
    const uint64_t opposite = minus(0, q);
    for (int u = first; u < s->count; u++) {
        uint64_t value = s->value[u].value;
        meet(s, far, minus(q, value));
        meet(s, far, plus(q, value));
        meet(s, far, minus(value, q));
        meet(s, far, minus(opposite, value));
    }
    e->tests += 4 * (s->count - first);
    if (!alone) return;
    meet(s, far, opposite);
    meet(s, far, plus(q, q));
    meet(s, far, half(q));
    meet(s, far, half(opposite));
    for (int o = 1; o < s->p->offsets; o++) meet(s, far, times(q, s->unit[INVERSE[o]]));
}

/* AUKE's set: every p of which one instruction makes q, and then one of both the target. */
static void twice_in_auke(Search *s, const int far, uint64_t target)
{
    struct Endings *e = s->endings;
    const int from = far || e->whole ? 0 : e->newest;
    e->others = 0; /* there are few of these */
    for (int u = from; u < s->count; u++) {
        uint64_t sum = half(plus(target, s->value[u].value)), difference = half(minus(target, s->value[u].value));
        meet(s, far, sum);
        meet(s, far, difference);
        meet(s, far, minus(0, sum));
        meet(s, far, minus(0, difference));
    }
    if (from) return;
    for (int a = 0; a < AUKE_FACTORS; a++) {
        uint64_t p = times(target, e->auke_factor[a]);
        meet(s, far, p);
        meet(s, far, minus(0, p));
    }
}

static inline void before_any(Search *s, const int far, uint64_t q, int first, int alone)
{
    if (s->p->set == AUKE)
        before_in_auke(s, far, q, first, alone);
    else
        before(s, far, q, first, alone);
}

/* The hard targets that a value makes at once, by number. */
static inline uint64_t led_to(const Search *s, uint64_t key)
{
    const Table *table = &s->back_table;
    uint64_t met = 0;
    for (uint32_t at = place(key, table); table->slot[at] >= 0; at = (at + 1) & table->mask) {
        const Back *b = &s->back[table->slot[at]];
        if (b->key == key && b->target < 64) met |= (uint64_t)1 << b->target;
    }
    return met & s->endings->asked;
}

/* Does one instruction make a target of p and q together? */
static int made_of(const Search *s, int t, uint64_t p, uint64_t q)
{
    const uint64_t target = s->p->target[t], sum = plus(p, q), *back = s->back_moved + (size_t)t * OFFSETS;
    if (s->p->set == AUKE) return target == sum || plus(target, q) == p || plus(target, p) == q || !plus(target, sum);
    for (int o = 0; o < s->p->offsets; o++)
        if (back[o] == sum || times(p, s->unit[o]) == plus(target, q) || times(q, s->unit[o]) == plus(target, p)) return 1;
    for (int u = 0; u < s->count; u++)
        if (plus(sum, s->value[u].value) == target) return 1;
    return 0;
}

static int leads_to_others(const Search *s, uint64_t p, uint64_t q)
{
    uint64_t left = s->endings->others & ~led_to(s, p) & ~led_to(s, q);
    for (; left; left &= left - 1)
        if (!made_of(s, __builtin_ctzll(left), p, q)) return 0;
    return 1;
}

/* Of targets that are none of them hard, any is asked; of hard ones all. */
static void choose_asked(Search *s)
{
    s->endings->asked = 0;
    for (int t = 0; t < s->p->targets && t < 64; t++)
        if (s->pending[t] && (s->hard[t] || !s->hard_count)) s->endings->asked |= (uint64_t)1 << t;
}

static inline int is_asked(const Search *s, int target) { return target < 64 && s->endings->asked >> target & 1; }

/* One hard target: every p that makes what makes it. Of several hard ones, q has to make all: those that are one instruction short of each. */
static void look_back(Search *s, const int far)
{
    struct Endings *e = s->endings;
    const int all = far || e->whole;
    const uint64_t first = s->hard_count ? e->asked & (0 - e->asked) : e->asked, rest = e->asked & ~first;
    e->others = 0;
    for (int t = 0; t < s->p->targets; t++)
        if (s->pending[t]) before_any(s, far, s->p->target[t], all ? 0 : e->newest, all);
    for (int32_t k = 0; k < s->backs; k++) {
        if (s->back[k].target >= 64 || !(first >> s->back[k].target & 1)) continue;
        if (rest & ~led_to(s, s->back[k].key)) continue;
        int new = all || k >= e->old_backs;
        before_any(s, far, s->back[k].key, new ? 0 : e->newest, new);
    }
    for (int t = 0; t < s->p->targets; t++) {
        if (!is_asked(s, t)) continue;
        e->others = s->hard_count ? e->asked & ~((uint64_t)1 << t) : 0;
        if (s->p->set == AUKE) {
            twice_in_auke(s, far, s->p->target[t]);
            continue;
        }
        moves_of(s, s->p->target[t], &e->target);
        all_twice(s, far);
        e->q_factor = 1, e->q_term = 0;
        for (int o = 0; o < OFFSETS; o++) meet(s, far, half(e->target.of[o]));
        for (int u = all ? 0 : e->newest; u < s->count; u++) meet(s, far, half(minus(s->p->target[t], e->value[u].to[0])));
    }
}

/* Three free values are left: what any of them taken next need not be part of. */
static void look_far_back(Search *s, int level)
{
    struct Endings *e = s->endings;
    e->far_level = level;
    memset(e->far, 0, FAR_BITS / 8);
    e->tests = 0;
    e->first_new = s->candidates, e->old_backs = s->backs, e->old_count = s->count;
    choose_asked(s);
    if (s->p->set == SCAMP5) values_of(s, 0);
    look_back(s, 1);
    s->work += e->tests / TESTS_A_STEP;
}

/* Two candidates that make an asked target together, one of them candidate `index`, where one of them or what else takes part is new. In
 * the macros only of one target: of several, both candidates together make two (below), or one of them makes one at once. */
static void look_among(Search *s, int32_t index)
{
    struct Endings *e = s->endings;
    const uint64_t value = s->candidate[index].value;
    const int new = e->whole || index >= e->first_new;
    uint64_t moved[OFFSETS];
    if (!new && s->p->set == AUKE) return;
    if (new && s->p->set == SCAMP5)
        for (int o = 0; o < OFFSETS; o++) moved[o] = o ? times(value, s->unit[o]) : value;
    for (uint64_t left = e->asked; left; left &= left - 1) {
        const int t = __builtin_ctzll(left);
        const uint64_t target = s->p->target[t], rest = minus(target, value), *back = s->back_moved + (size_t)t * OFFSETS;
        if (s->p->set == AUKE) {
            e->others = s->hard_count ? e->asked & ~((uint64_t)1 << t) : 0;
            e->q_factor = 0, e->q_term = value;
            meet(s, 0, rest);
            meet(s, 0, plus(target, value));
            meet(s, 0, minus(value, target));
            meet(s, 0, minus(minus(0, target), value));
            e->tests += 4;
            continue;
        }
        for (int o = 0; new && o < s->p->offsets; o++) {
            meet(s, 0, minus(back[o], value));
            const uint64_t other = minus(moved[o], target);
            if (has_bit(e->near, other, NEAR_BITS) && is_candidate(s, other)) s->candidate[index].marked = 1, mark_near(s, other);
        }
        for (int u = new ? 0 : e->newest; u < s->count; u++) meet(s, 0, minus(rest, e->value[u].to[0]));
        e->tests += new ? 2 * LANES + s->count : 1;
    }
}

/* Two hard targets that p and q make together: q = a * p + b of the first one, by every instruction, and both of them the second. */
static void look_at_both(Search *s)
{
    struct Endings *e = s->endings;
    const int one = __builtin_ctzll(e->asked), two = __builtin_ctzll(e->asked & (e->asked - 1));
    const uint64_t target = s->p->target[one], *back = s->back_moved + (size_t)one * OFFSETS;
    e->others = e->asked & ~((uint64_t)1 << one) & ~((uint64_t)1 << two);
    moves_of(s, s->p->target[two], &e->target);
    for (int o = 0; o < s->p->offsets; o++) {
        twice(s, 0, BACKWARDS, back[o], s->count, 1);
        twice(s, 0, o, minus(0, target), s->count, 1);
        twice(s, 0, INVERSE[o], back[o], s->count, 1);
    }
    for (int u = 0; u < s->count; u++) twice(s, 0, BACKWARDS, minus(target, e->value[u].to[0]), s->count, 1);
}

/* A copy of a value, of which one instruction makes a target or what leads to all asked ones, or a candidate that makes one with twice the value. */
static void look_at_copy(Search *s, Candidate *copy)
{
    const struct Endings *e = s->endings;
    const Value *value = &s->value[copy->a];
    const uint64_t doubled = plus(value->value, value->value);
    for (uint64_t left = e->asked; left && !copy->marked; left &= left - 1) {
        uint64_t rest = minus(s->p->target[__builtin_ctzll(left)], doubled);
        copy->marked = has_bit(e->near, rest, NEAR_BITS) && is_candidate(s, rest);
    }
    for (int k = 0; k < s->p->offsets + s->count && !copy->marked; k++) {
        uint64_t q = k < s->p->offsets ? plus(value->moved[k], value->moved[k]) : plus(doubled, s->value[k - s->p->offsets].value);
        uint64_t met = led_to(s, q);
        int32_t target = find_target(s, q);
        copy->marked = (target >= 0 && s->pending[target]) || (s->hard_count ? met == e->asked : met != 0);
    }
}

/* A target at more than the least cost is no free value, and stands among the candidates. */
static int is_dear_target(const Search *s, const Candidate *c)
{
    if (c->op == COPY || c->cost == s->p->plain_cost) return 0;
    const int32_t target = find_target(s, c->value);
    return target >= 0 && s->pending[target];
}

/* Two free values are left, the first of them a candidate from `from` on: marks those that are worth a try. */
static void look_two_up(Search *s, int level, int32_t from)
{
    struct Endings *e = s->endings;
    const uint64_t asked = e->asked;
    choose_asked(s);
    e->whole = e->far_level != level - 1 || s->count != e->old_count + 1 || e->asked != asked;
    e->newest = e->whole ? 0 : s->count - 1;
    e->tests = 0;
    if (s->p->set == SCAMP5) values_of(s, level ? e->old_count : 0);
    memset(e->near, 0, sizeof e->near);
    for (int32_t i = from; i < s->candidates; i++) {
        Candidate *c = &s->candidate[i];
        c->marked = (uint8_t)is_dear_target(s, c);
        if (!c->included && c->op != COPY) put_bit(e->near, c->value, NEAR_BITS);
    }
    e->tests += 2 * (s->candidates - from);
    look_back(s, 0);
    const int several = s->hard_count && (e->asked & (e->asked - 1));
    if (several && s->p->set == SCAMP5) look_at_both(s);
    e->others = 0;
    for (int32_t i = from; i < s->candidates; i++) {
        Candidate *c = &s->candidate[i];
        if (c->included || c->marked) continue;
        if (c->op == COPY)
            look_at_copy(s, c);
        else {
            if (!e->whole && i >= e->first_new && has_bit(e->far, c->value, FAR_BITS)) c->marked = 1;
            if (!several || s->p->set == AUKE) look_among(s, i);
        }
    }
    if (level)
        s->work += e->tests / TESTS_A_STEP;
    else
        s->aside += e->tests / TESTS_A_STEP; /* what it came to is tried in any case */
}

#endif
