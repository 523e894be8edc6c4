/* What additions can still make where moves are free: a bound on instructions that looks at the values themselves. Part of signless.c.
 *
 * Where x and y are 1 or -1 a value is four numbers, and a move changes signs of two of them, or none; so does a negation, of all. Values that
 * moves and negations make of one another are one class. A program has moves for the cells that are still out of reach (`moves_left`); its other
 * instructions, additions, doublings and halvings, have to make the targets' classes of those that are there, and have to use the newest value.
 * Of one or two such instructions all that they can make is compared with the targets. Classes are told by a hash of their numbers: two that
 * agree may only let a value pass that leads nowhere.
 */
#ifndef KILOTUNE_SIGNLESS_CLASSES_H
#define KILOTUNE_SIGNLESS_CLASSES_H

#include "signless_state.h"

enum { LOOKED_AHEAD = 2 }; /* instructions */

static const uint64_t MIXED[POINTS] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u, 0xd6e8feb86659fd93u};
static const uint8_t FLIPPED[TWISTS][POINTS] = {{0, 0, 0, 0}, {0, 1, 0, 1}, {0, 0, 1, 1}, {0, 1, 1, 0},
                                                {1, 1, 1, 1}, {1, 0, 1, 0}, {1, 1, 0, 0}, {1, 0, 0, 1}};

static inline uint64_t mixed(int point, double number)
{
    uint64_t bits;
    number = number < 0 ? -number : number + 0.0; /* no negative zero */
    memcpy(&bits, &number, sizeof bits);
    bits = (bits ^ bits >> 32) * MIXED[point]; /* small numbers have few digits, all of them high ones */
    return bits ^ bits >> 32;
}

static inline uint64_t signed_class(uint64_t sum, double product) { return (product < 0 ? ~sum : sum) | 1; }

/* Four numbers but for twists: magnitudes, and whether an odd number of them is negative. */
static inline uint64_t class_of(const double at[POINTS])
{
    uint64_t sum = 0;
    for (int i = 0; i < POINTS; i++) sum += mixed(i, at[i]);
    return signed_class(sum, at[0] * at[1] * at[2] * at[3]);
}

/* The classes of `whole`, twisted in every way, less `part`. */
static inline void differences(const double whole[POINTS], const double part[POINTS], uint64_t key[TWISTS])
{
    uint64_t mix[POINTS][2];
    double number[POINTS][2];
    for (int i = 0; i < POINTS; i++) {
        number[i][0] = whole[i] - part[i], number[i][1] = -whole[i] - part[i];
        mix[i][0] = mixed(i, number[i][0]), mix[i][1] = mixed(i, number[i][1]);
    }
    for (int k = 0; k < TWISTS; k++) {
        const uint8_t *f = FLIPPED[k];
        uint64_t sum = mix[0][f[0]] + mix[1][f[1]] + mix[2][f[2]] + mix[3][f[3]];
        key[k] = signed_class(sum, number[0][f[0]] * number[1][f[1]] * number[2][f[2]] * number[3][f[3]]);
    }
}

static inline int holds(const ClassSet *set, uint64_t key)
{
    for (uint32_t at = (uint32_t)(key >> 20) & set->mask; set->slot[at]; at = (at + 1) & set->mask)
        if (set->slot[at] == key) return 1;
    return 0;
}

static inline void put_class(ClassSet *set, uint64_t key)
{
    uint32_t at = (uint32_t)(key >> 20) & set->mask;
    for (; set->slot[at]; at = (at + 1) & set->mask)
        if (set->slot[at] == key) return;
    set->slot[at] = key;
    set->put[set->count++] = at;
}

static inline void take_classes(ClassSet *set, int32_t count)
{
    while (set->count > count) set->slot[set->put[--set->count]] = 0;
}

static void put_differences(ClassSet *set, const double whole[POINTS], const double part[POINTS])
{
    uint64_t key[TWISTS];
    differences(whole, part, key);
    for (int k = 0; k < TWISTS; k++) put_class(set, key[k]);
}

static inline void scaled(const double at[POINTS], double factor, double out[POINTS])
{
    for (int i = 0; i < POINTS; i++) out[i] = factor * at[i];
}

static int made_with(const Search *s, int t, const double *value, uint64_t own_class, int instructions);

/* Values before `end` are put into the tables: their own classes, those that one instruction makes of them, and those of targets less a
 * value. Which targets one instruction and two make of those values and the other targets is kept besides. */
static void tabulate(Search *s, int end)
{
    for (; s->tabulated < end; s->tabulated++) {
        int v = s->tabulated;
        const double *own = s->value[v].shape.at;
        double other[POINTS];
        uint64_t own_class = class_of(own);
        s->values_before[v] = s->values.count, s->sums_before[v] = s->sums.count;
        s->made[v] = v ? s->made[v - 1] : s->made_of_targets;
        for (int t = 0; s->p->targets > 1 && t < s->p->targets; t++)
            for (int n = 1; n <= LOOKED_AHEAD; n++) s->made[v] |= made_with(s, t, own, own_class, n) << (2 * t + n - 1);
        put_class(&s->values, own_class);
        for (int t = 0; t < s->looked_at; t++) {
            s->rests_before[t][v] = s->rests[t].count;
            put_differences(&s->rests[t], s->target_at[t], own);
        }
        for (int u = 0; u <= v; u++) {
            put_differences(&s->sums, s->value[u].shape.at, own);
        }
        scaled(own, 0.5, other);
        put_class(&s->sums, class_of(other));
    }
}

static void forget_tabulated(Search *s, int end)
{
    while (s->tabulated > end) {
        s->tabulated--;
        for (int t = 0; t < s->looked_at; t++) take_classes(&s->rests[t], s->rests_before[t][s->tabulated]);
        take_classes(&s->values, s->values_before[s->tabulated]);
        take_classes(&s->sums, s->sums_before[s->tabulated]);
    }
}

/* What an expression for a target may take: the tabulated values, a new value, and targets that are made otherwise. */
typedef struct {
    const Search *s;
    int target;
    const double *newest;
    uint64_t newest_class, other[MOST_TARGETS];
    const double *other_at[MOST_TARGETS];
    int others;
} Sources;

static inline int is_source(const Sources *from, uint64_t key)
{
    for (int o = 0; o < from->others; o++)
        if (from->other[o] == key) return 1;
    return key == from->newest_class || holds(&from->s->values, key);
}

/* Is `whole` the sum of `part` and a source? */
static int is_sum_with(const Sources *from, const double whole[POINTS], const double part[POINTS])
{
    uint64_t key[TWISTS];
    differences(whole, part, key);
    for (int k = 0; k < TWISTS; k++)
        if (is_source(from, key[k])) return 1;
    return 0;
}

/* Is target t the sum of `part`, `again` and a source? `less` are the classes of the target less the new value. */
static int is_sum_with_both(const Sources *from, const uint64_t less[TWISTS], const double part[POINTS], const double again[POINTS])
{
    uint64_t key[TWISTS];
    differences(part, again, key);
    for (int k = 0; k < TWISTS; k++) {
        if (holds(&from->s->rests[from->target], key[k])) return 1;
        for (int n = 0; n < TWISTS; n++)
            if (key[k] == less[n]) return 1;
    }
    return 0;
}

/* Does one instruction that takes the new value make `whole`? */
static int in_one(const Sources *from, const double whole[POINTS])
{
    double half[POINTS];
    scaled(from->newest, 0.5, half);
    return class_of(half) == class_of(whole) || is_sum_with(from, whole, from->newest);
}

/* May `whole` be a sum of a value and itself, moved? But for twice a value such a sum is 0 at two of the points, and says nothing of the value
 * there. */
static int may_be_folded(const double whole[POINTS])
{
    int zeros = 0;
    for (int i = 0; i < POINTS; i++) zeros += whole[i] == 0;
    return zeros >= 2;
}

/* Do two instructions make `whole`, of which one takes the new value? */
static int in_two(const Sources *from, const double whole[POINTS])
{
    const double *own = from->newest;
    uint64_t key[TWISTS], target = class_of(whole);
    double one[POINTS], other[POINTS];
    differences(whole, own, key);
    for (int k = 0; k < TWISTS; k++)
        if (holds(&from->s->sums, key[k])) return 1;
    scaled(own, 0.5, one);
    if (class_of(one) == target || may_be_folded(whole)) return 1;
    for (int k = 0; k < TWISTS; k++)
        if (is_source(from, key[k])) return 1;
    for (int up = 0; up < 2; up++) { /* one of the two is a doubling or a halving: the last, or the first */
        scaled(whole, up ? 2 : 0.5, one);
        if (is_sum_with(from, one, own)) return 1;
        scaled(own, up ? 2 : 0.5, one);
        if (is_sum_with(from, whole, one)) return 1;
        scaled(own, up ? 4 : 0.25, other);
        if (class_of(other) == target) return 1;
        for (int o = 0; o < from->others; o++) {
            scaled(from->other_at[o], up ? 2 : 0.5, one);
            uint64_t same = class_of(one);
            for (int k = 0; k < TWISTS; k++)
                if (key[k] == same) return 1;
        }
    }
    if (is_sum_with_both(from, key, own, own)) return 1;
    for (int o = 0; o < from->others; o++)
        if (is_sum_with_both(from, key, own, from->other_at[o])) return 1;
    return 0;
}

/* Do so many instructions make a target, of which one takes that value? The other targets may be there. */
static int made_with(const Search *s, int t, const double *value, uint64_t own_class, int instructions)
{
    Sources from = {s, t, value, own_class, {0}, {0}, 0};
    for (int o = 0; o < s->p->targets; o++)
        if (o != t) from.other[from.others] = s->target_class[o], from.other_at[from.others++] = s->target_at[o];
    return instructions == 1 ? in_one(&from, s->target_at[t]) : in_two(&from, s->target_at[t]);
}

/* Targets less one another are tabulated. Which targets one instruction (bit 2 t) and two (bit 2 t + 1) make of the other ones. */
static int32_t made_of_targets(Search *s)
{
    int32_t made = 0;
    for (int t = 0; t < s->looked_at; t++)
        for (int o = 0; o < s->p->targets; o++)
            if (o != t) put_differences(&s->rests[t], s->target_at[t], s->target_at[o]);
    for (int t = 0; t < s->p->targets && s->p->targets <= MOST_LOOKED_AT; t++)
        for (int o = 0; o < s->p->targets; o++) {
            if (o == t) continue;
            int same = s->target_class[o] == s->target_class[t];
            for (int n = 1; n <= LOOKED_AHEAD; n++)
                made |= (same || made_with(s, t, s->target_at[o], s->target_class[o], n)) << (2 * t + n - 1);
        }
    return made;
}

/* How many classes of pending targets no value has; 0 where some pending target's class is there, or is the candidate's. */
static int missing_classes(const Search *s, uint64_t own_class)
{
    int missing = 0;
    for (int t = 0; t < s->p->targets; t++) {
        if (!s->pending[t]) continue;
        if (own_class == s->target_class[t] || holds(&s->values, s->target_class[t])) return 0;
        int again = 0;
        for (int o = 0; o < t; o++) again |= s->pending[o] && s->target_class[o] == s->target_class[t];
        missing += !again;
    }
    return missing;
}

/* May a candidate of this shape be taken, so many instructions be left then, and lead to all pending targets, with the candidate used? No for
 * certain, or yes. Each class that is missing takes an instruction that is no move, so that a target, of those and the other targets, is made by
 * what is left of these; and one of the targets takes the candidate. */
static int may_lead(Search *s, const Shape *shape, int spare)
{
    if (s->p->targets > MOST_LOOKED_AT || spare > LOOKED_AHEAD + s->pending_count - 1) return 1;
    const uint64_t own_class = class_of(shape->at);
    tabulate(s, s->count);
    const int missing = missing_classes(s, own_class), most = spare - (missing - 1);
    if (!missing || most > LOOKED_AHEAD) return 1;
    int taken = 0;
    for (int t = 0; t < s->p->targets && most > 0; t++) {
        if (!s->pending[t]) continue;
        int takes = made_with(s, t, shape->at, own_class, most);
        if (!takes && !(s->made[s->count - 1] >> (2 * t + most - 1) & 1)) return 0;
        taken |= takes;
    }
    return taken;
}

#endif
