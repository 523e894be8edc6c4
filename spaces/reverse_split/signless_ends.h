/* The last instructions, which are looked up, not searched. Part of signless.c. */
#ifndef KILOTUNE_SIGNLESS_ENDS_H
#define KILOTUNE_SIGNLESS_ENDS_H

#include "signless_state.h"

/* What does not depend on the values: `short_of` are those from which two instructions of one operand, or one and the addition of both, make
 * the target; `lone` are those from which one makes it. */
static void prepare_target(Search *s, int t)
{
    if (s->back_target == t) return;
    s->back_target = t;
    uint64_t target = s->p->target[t], first[UNARY], second[UNARY], one = 1, factor[UNARY];
    unaries(s, target, first);
    unaries(s, one, factor);
    s->shorts = 0;
    for (int i = 0; i < UNARY; i++) {
        s->lone[i] = first[i];
        unaries(s, first[i], second);
        for (int j = 0; j < UNARY; j++) s->short_of[s->shorts++] = second[j];
        uint64_t sum = plus(factor[i], 1), difference = minus(factor[i], 1);
        s->short_of[s->shorts++] = times(target, inverse(sum));
        s->short_of[s->shorts++] = times(target, inverse(difference));
    }
}

/* With one instruction between value v, of earlier ones and itself, and the target: calls `use` with each predecessor two short. */
#define EACH_BACK(s, v, use)                                                                   \
    do {                                                                                       \
        const Value *own_ = &(s)->value[v];                                                    \
        uint64_t target_ = (s)->p->target[(s)->back_target];                                   \
        uint64_t more_ = plus(target_, own_->key), less_ = minus(target_, own_->key);          \
        uint64_t by_[UNARY];                                                                   \
        for (int o_ = 0; o_ < UNARY; o_++) {                                                   \
            use(plus((s)->lone[o_], own_->key));                                               \
            use(minus((s)->lone[o_], own_->key));                                              \
        }                                                                                      \
        unaries((s), more_, by_);                                                              \
        for (int o_ = 0; o_ < UNARY; o_++) use(by_[o_]);                                       \
        unaries((s), less_, by_);                                                              \
        for (int o_ = 0; o_ < UNARY; o_++) use(by_[o_]);                                       \
        for (int u_ = 0; u_ <= (v); u_++) {                                                    \
            uint64_t other_ = (s)->value[u_].key;                                              \
            use(plus(more_, other_));                                                          \
            use(minus(more_, other_));                                                         \
            use(plus(less_, other_));                                                          \
            use(minus(less_, other_));                                                         \
        }                                                                                      \
    } while (0)

static inline void remember(Search *s, uint64_t value)
{
    uint64_t key = signless(value);
    if (!key) return;
    uint32_t at = place(key, s->back_mask);
    while (s->back[at] && s->back[at] != key) at = (at + 1) & s->back_mask;
    s->back[at] = key;
}

static inline int is_back(const Search *s, uint64_t key)
{
    uint32_t at = place(key, s->back_mask);
    while (s->back[at] && s->back[at] != key) at = (at + 1) & s->back_mask;
    return s->back[at] == key;
}

/* Before the values of a level that leaves three instructions for one target: what is two short of it, with the values so far. */
static void remember_all(Search *s)
{
    s->back_mask = s->count < 12 ? 2047 : MOST_BACKS - 1;
    memset(s->back, 0, sizeof *s->back * ((size_t)s->back_mask + 1));
    for (int t = 0; t < s->p->targets; t++)
        if (s->pending[t]) prepare_target(s, t);
    for (int k = 0; k < s->shorts; k++) remember(s, s->short_of[k]);
#define REMEMBER(value) remember(s, value)
    for (int v = 0; v < s->count; v++) EACH_BACK(s, v, REMEMBER);
#undef REMEMBER
}

/* Three instructions are left for one target, and candidates from `first` on come from the last value: may there be a program? One of the
 * three, u, follows from the values at once. Of the other two the last is the target; it is made (a) of u and another one that follows at
 * once, or (b) through a second one made of u: then u is two short of the target. No for certain, or yes. */
static int may_end(Search *s, int32_t first)
{
    uint64_t target = s->p->target[s->back_target];
    for (int32_t i = first; i < s->candidates; i++) {
        uint64_t key = s->candidate[i].key;
        if (is_back(s, key)) return 1;
        if (is_listed(s, minus(target, key)) || is_listed(s, plus(target, key))) return 1;
    }
    int yes = 0;
#define LOOK(value) yes |= is_listed(s, value)
    EACH_BACK(s, s->count - 1, LOOK);
#undef LOOK
    return yes;
}

#endif
