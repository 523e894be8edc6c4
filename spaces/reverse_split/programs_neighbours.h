/* What one instruction makes of values, and what is one instruction short of a target. Part of programs.c. */
#ifndef KILOTUNE_PROGRAMS_NEIGHBOURS_H
#define KILOTUNE_PROGRAMS_NEIGHBOURS_H

#include "programs_state.h"

/* mode 0: put the value on the list; 1: only see whether it leads to a target. */
static inline __attribute__((always_inline)) int offer(Search *s, const int mode, uint64_t value, uint64_t key, int op,
                                                       int offset, int a, int b, int c, int cost)
{
    if (mode == 1) {
        if (s->pending_count == 1) return leads(s, key, cost, s->left);
        int32_t target = find_target(s, value);
        return (target >= 0 && s->pending[target]) || leads_to_all(s, key, cost);
    }
    if (!value) return 0;
    uint64_t at_cost = cost_key(s->p, key, cost);
    if (find_candidate(s, at_cost) >= 0) return 0;
    if (s->candidates == s->candidate_room) {
        s->failed = 1;
        return 0;
    }
    if (is_full(&s->candidate_table, s->candidates))
        grow(s, &s->candidate_table, &s->candidate[0].key, sizeof *s->candidate, s->candidates);
    int32_t index = s->candidates++;
    s->candidate[index] = (Candidate){at_cost, value, (uint8_t)op, (uint8_t)offset, (uint8_t)a, (uint8_t)b, (uint8_t)c,
                                      (uint8_t)cost, 0, 0};
    table_put(&s->candidate_table, at_cost, index);
    if (cost == s->p->plain_cost && op != COPY) {
        int32_t target = find_target(s, value);
        if (target >= 0 && s->pending[target]) s->ready[s->readies++] = index;
    }
    if (leads(s, key, cost, INT32_MAX)) push_hit(s, index);
    return 0;
}

/* Everything that one instruction makes of value v and earlier ones. */
static inline __attribute__((always_inline)) int offer_all(Search *s, const int mode, int v)
{
    const Problem *p = s->p;
    const Value *own = &s->value[v];
    const int plain = p->plain_cost, far = p->far_cost;
    const uint64_t value = own->value, opposite = minus(0, value), doubled = plus(value, value);
    int yes = 0;
#define OFFER(r, op, offset, a, b, c, cost) yes |= offer(s, mode, (r), (r), op, offset, a, b, c, cost)
    if (p->set == AUKE) {
        for (int o = 1; o < p->offsets; o++) OFFER(own->moved[o], MOVE, o, v, v, v, plain);
        OFFER(opposite, NEGATE, 0, v, v, v, plain);
        OFFER(half(value), HALVE, 0, v, v, v, p->halve_cost);
        OFFER(doubled, ADD, 0, v, v, v, plain);
        OFFER(minus(0, doubled), ADD_NEGATED, 0, v, v, v, plain);
        for (int u = 0; u < v; u++) {
            uint64_t other = s->value[u].value, sum = plus(value, other), difference = minus(value, other);
            OFFER(sum, ADD, 0, u, v, v, plain);
            OFFER(difference, SUB, 0, v, u, u, plain);
            OFFER(minus(0, difference), SUB, 0, u, v, v, plain);
            OFFER(minus(0, sum), ADD_NEGATED, 0, u, v, v, plain);
        }
        return yes;
    }
    if (own->copy_of >= 0) {
        int u = own->copy_of;
        for (int o = 0; o < p->offsets; o++)
            OFFER(plus(own->moved[o], own->moved[o]), ADD, o, u, v, v, o > 4 ? far : plain);
        for (int w = 0; w < v; w++)
            if (w != u && s->value[w].copy_of < 0) OFFER(plus(doubled, s->value[w].value), ADD3, 0, u, v, w, plain);
        return yes;
    }
    OFFER(opposite, NEGATE, 0, v, v, v, plain);
    OFFER(half(value), HALVE, 0, v, v, v, p->halve_cost);
    if (mode == 0 || s->pending_count) {
        uint64_t key = copy_key(value);
        yes |= offer(s, mode, value, key, COPY, 0, v, v, v, plain);
    }
    for (int o = 1; o < p->offsets; o++) {
        OFFER(own->moved[o], MOVE, o, v, v, v, o > 4 ? far : plain);
        OFFER(minus(own->moved[o], value), SUB, o, v, v, v, o > 4 ? far : plain);
    }
    for (int u = 0; u < v; u++) {
        const Value *other = &s->value[u];
        if (other->copy_of >= 0) {
            OFFER(plus(plus(other->value, other->value), value), ADD3, 0, other->copy_of, u, v, plain);
            continue;
        }
        for (int o = 0; o < p->offsets; o++) {
            int cost = o > 4 ? far : plain;
            OFFER(plus(own->moved[o], other->moved[o]), ADD, o, u, v, v, cost);
            OFFER(minus(own->moved[o], other->value), SUB, o, v, u, u, cost);
            OFFER(minus(other->moved[o], value), SUB, o, u, v, v, cost);
        }
        uint64_t sum = plus(value, other->value);
        for (int w = 0; w < u; w++)
            if (s->value[w].copy_of < 0) OFFER(plus(sum, s->value[w].value), ADD3, 0, w, u, v, plain);
    }
#undef OFFER
    return yes;
}

/* Remembers a value that is one instruction short of a target; says whether it is on the list already. */
static inline int32_t remember(Search *s, uint64_t key, int target, int cost)
{
    if (s->backs == s->back_room) {
        s->failed = 1;
        return 0;
    }
    if (is_full(&s->back_table, s->backs)) grow(s, &s->back_table, &s->back[0].key, sizeof *s->back, s->backs);
    s->back[s->backs] = (Back){key, (uint8_t)target, (uint8_t)cost};
    table_put(&s->back_table, key, s->backs++);
    int yes = 0;
    int32_t index = find_candidate(s, key);
    if (index >= 0) push_hit(s, index), yes = 1;
    for (int k = 0; k < s->dearer_count; k++) {
        index = find_candidate(s, cost_key(s->p, key, s->dearer[k]));
        if (index >= 0) push_hit(s, index), yes = 1;
    }
    return yes;
}

/* What would make a pending target together with value v, by one instruction. */
static int remember_all(Search *s, int v)
{
    const Problem *p = s->p;
    const Value *own = &s->value[v];
    int yes = 0;
    for (int t = 0; t < p->targets; t++) {
        if (!s->pending[t] || !s->searched[t]) continue;
        uint64_t target = p->target[t];
        const uint64_t *back = s->back_moved + (size_t)t * OFFSETS;
        if (p->set == AUKE) {
            yes |= remember(s, minus(target, own->value), t, p->plain_cost);
            yes |= remember(s, plus(target, own->value), t, p->plain_cost);
            yes |= remember(s, minus(own->value, target), t, p->plain_cost);
            yes |= remember(s, minus(minus(0, target), own->value), t, p->plain_cost);
            continue;
        }
        uint64_t doubled = plus(own->value, own->value);
        if (own->copy_of >= 0) { /* a copy that a sum has taken may be taken by another one */
            yes |= remember(s, minus(target, doubled), t, p->plain_cost);
            continue;
        }
        for (int o = 0; o < p->offsets; o++) {
            int cost = o > 4 ? p->far_cost : p->plain_cost;
            yes |= remember(s, minus(back[o], own->value), t, cost);
            yes |= remember(s, plus(back[o], own->moved[INVERSE[o]]), t, cost);
            yes |= remember(s, minus(own->moved[o], target), t, cost);
            if (back[o] == doubled) yes |= remember(s, copy_key(own->value), t, cost);
        }
        for (int u = 0; u < v; u++) {
            const Value *other = &s->value[u];
            if (other->copy_of >= 0) continue;
            uint64_t rest = minus(minus(target, own->value), other->value);
            yes |= remember(s, rest, t, p->plain_cost);
            if (rest == own->value) yes |= remember(s, copy_key(own->value), t, p->plain_cost);
            if (rest == other->value) yes |= remember(s, copy_key(other->value), t, p->plain_cost);
        }
    }
    return yes;
}

/* The values that one instruction of one operand turns into a target. */
static void remember_unary(Search *s, int t)
{
    const Problem *p = s->p;
    uint64_t target = p->target[t];
    const uint64_t *back = s->back_moved + (size_t)t * OFFSETS;
    remember(s, minus(0, target), t, p->plain_cost);
    remember(s, plus(target, target), t, p->halve_cost);
    if (p->set == AUKE) {
        remember(s, half(target), t, p->plain_cost);
        remember(s, minus(0, half(target)), t, p->plain_cost);
    }
    for (int o = 1; o < p->offsets; o++) {
        int cost = o > 4 ? p->far_cost : p->plain_cost;
        remember(s, back[o], t, cost);
        if (p->set == SCAMP5) remember(s, times(target, s->less_one[o]), t, cost);
    }
}

static int is_given(const Search *s, uint64_t value, int except)
{
    int32_t t = find_target(s, value);
    if (t >= 0) return t != except;
    int32_t index = find_candidate(s, value);
    return index >= 0 && index < s->p->given;
}

/* Does one instruction make target t of other targets and the image? */
static int follows(const Search *s, int t)
{
    const Problem *p = s->p;
    const uint64_t target = p->target[t], opposite = minus(0, target);
    const uint64_t *back = s->back_moved + (size_t)t * OFFSETS;
    if (is_given(s, opposite, t) || is_given(s, plus(target, target), t)) return 1;
    if (p->set == AUKE && (is_given(s, half(target), t) || is_given(s, half(opposite), t))) return 1;
    for (int o = 1; o < p->offsets; o++)
        if (is_given(s, back[o], t) || (p->set == SCAMP5 && is_given(s, times(target, s->less_one[o]), t))) return 1;
    for (int u = -p->given; u < p->targets; u++) {
        if (u == t) continue;
        uint64_t other = u < 0 ? s->value[-u - 1].value : p->target[u];
        const uint64_t *moved = u < 0 ? s->value[-u - 1].moved : s->target_moved + (size_t)u * OFFSETS;
        for (int o = 0; o < (p->set == AUKE ? 1 : p->offsets); o++) {
            uint64_t rest = minus(back[o], other);
            if (rest != other && is_given(s, rest, t)) return 1;
            if (is_given(s, plus(back[o], moved[INVERSE[o]]), t)) return 1;
        }
        if (p->set == AUKE) {
            if (is_given(s, minus(opposite, other), t)) return 1;
            continue;
        }
        for (int w = -p->given; w < u; w++) {
            uint64_t third = w < 0 ? s->value[-w - 1].value : p->target[w];
            uint64_t rest = minus(minus(target, other), third);
            if (w != t && rest != other && rest != third && is_given(s, rest, t)) return 1;
        }
    }
    return 0;
}

/* Which pending targets are asked to follow from the last free value, and which ones' predecessors are worth remembering: of few
 * targets all, of many the hard ones. A program in which the last free value makes one hard target, and only that one and an
 * earlier value another, is overlooked; where none may be, no target is hard. */
static void find_hard(Search *s)
{
    for (int t = 0; t < s->p->targets; t++) {
        s->hard[t] = s->pending[t] && !s->p->whole && !follows(s, t);
        s->hard_count += s->hard[t];
    }
    for (int t = 0; t < s->p->targets; t++)
        s->searched[t] = s->pending[t] && (s->hard[t] || !s->hard_count);
}

#endif
