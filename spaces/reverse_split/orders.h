/* An order of a program's steps that takes at most so many registers (see codegen/scamp/registers.py for the rules).
 *
 * Depth first over sets of computed values; a set that failed is not entered again. A step that ends as many values as it
 * begins never does harm: it is taken at once, and only the others are tried one after the other.
 * Everything lives on the heap of one call: the functions are reentrant. Part of scheduling.c and exchanging.c.
 */
#ifndef KILOTUNE_ORDERS_H
#define KILOTUNE_ORDERS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_NONE = 0, ORDER_FOUND = 1, ORDER_UNKNOWN = 2, ORDER_NO_MEMORY = 3, MOST_STEPS = 255, OPERANDS = 3, WORDS = 4 };

typedef struct {
    uint64_t word[WORDS];
} Set;

typedef struct {
    int32_t steps, registers;
    const int32_t *operand; /* [step][OPERANDS]: value numbers, -1 for none; value k is the result of step k - 1 */
    const uint8_t *apart;   /* by step, a bit an operand: may not share the result's register */
    int32_t uses[MOST_STEPS + 1], order[MOST_STEPS], count, live;
    uint8_t done[MOST_STEPS];
    Set all, *failed;
    uint32_t mask;
    int64_t left;
} Schedule;

static inline uint32_t slot_of(Set set, uint32_t mask)
{
    uint64_t h = 0;
    for (int i = 0; i < WORDS; i++) h = (h ^ set.word[i]) * 0x9e3779b97f4a7c15ULL;
    return (uint32_t)(h >> 32) & mask;
}

static inline int is_empty(const Set *set)
{
    uint64_t any = 0;
    for (int i = 0; i < WORDS; i++) any |= set->word[i];
    return !any;
}

/* The slot of a set, or the free one where it would stand; sets are never empty there. */
static Set *find(Schedule *s, Set set)
{
    uint32_t at = slot_of(set, s->mask);
    while (!is_empty(&s->failed[at]) && memcmp(&s->failed[at], &set, sizeof set)) at = (at + 1) & s->mask;
    return &s->failed[at];
}

/* How the number of live values changes with a step, whose own value dies at once where nothing reads it; 2 where the step
 * cannot be done now. */
static int growth_of(const Schedule *s, int step)
{
    const int32_t *operand = s->operand + OPERANDS * step;
    int dying = 0, kept_apart = 0;
    for (int i = 0; i < OPERANDS && operand[i] >= 0; i++) {
        int times = 0, first = 1, apart = 0;
        if (operand[i] && !s->done[operand[i] - 1]) return 2;
        for (int j = 0; j < OPERANDS && operand[j] >= 0; j++) {
            if (operand[j] != operand[i]) continue;
            times++;
            if (j < i) first = 0;
            if (s->apart[step] >> j & 1) apart = 1;
        }
        if (first && s->uses[operand[i]] == times) {
            dying++;
            kept_apart += apart;
        }
    }
    if (s->live + (dying == kept_apart) > s->registers) return 2;
    return (s->uses[step + 1] > 0) - dying;
}

static void take(Schedule *s, int step, int growth)
{
    const int32_t *operand = s->operand + OPERANDS * step;
    for (int i = 0; i < OPERANDS && operand[i] >= 0; i++) s->uses[operand[i]]--;
    s->done[step] = 1;
    s->order[s->count++] = step;
    s->live += growth;
    s->all.word[step / 64] |= (uint64_t)1 << step % 64;
}

static void take_back(Schedule *s, int growth)
{
    int step = s->order[--s->count];
    const int32_t *operand = s->operand + OPERANDS * step;
    for (int i = 0; i < OPERANDS && operand[i] >= 0; i++) s->uses[operand[i]]++;
    s->done[step] = 0;
    s->live -= growth;
    s->all.word[step / 64] &= ~((uint64_t)1 << step % 64);
}

/* Takes steps as long as one does no harm; how many, their growths in `growths`. */
static int take_harmless(Schedule *s, int8_t *growths)
{
    int taken = 0, again = 1;
    while (again) {
        again = 0;
        for (int step = 0; step < s->steps; step++) {
            if (s->done[step]) continue;
            int growth = growth_of(s, step);
            if (growth > 0) continue;
            growths[taken++] = (int8_t)growth;
            take(s, step, growth);
            again = 1;
        }
    }
    return taken;
}

static int extend(Schedule *s)
{
    int8_t growths[MOST_STEPS];
    int taken = take_harmless(s, growths), result = ORDER_NONE;
    if (s->count == s->steps) return ORDER_FOUND;
    Set here = s->all, *slot = is_empty(&here) ? NULL : find(s, here);
    if (!slot || is_empty(slot)) {
        if (--s->left < 0) result = ORDER_UNKNOWN;
        for (int step = 0; step < s->steps && result == ORDER_NONE; step++) {
            if (s->done[step] || growth_of(s, step) != 1) continue;
            take(s, step, 1);
            result = extend(s);
            if (result == ORDER_FOUND) return ORDER_FOUND;
            take_back(s, 1);
        }
        if (result == ORDER_NONE && slot) *find(s, here) = here;
    }
    while (taken) take_back(s, growths[--taken]);
    return result;
}

/* Whether the steps take at most so many registers in their own order; operands, `apart` and `uses` as below. */
static int fits_as_it_is(int32_t steps, int32_t registers, const int32_t *operand, const uint8_t *apart, const int32_t *uses)
{
    if (steps > MOST_STEPS) return 0;
    Schedule s = {.steps = steps, .registers = registers, .operand = operand, .apart = apart, .live = uses[0] > 0};
    memcpy(s.uses, uses, sizeof *uses * (size_t)(steps + 1));
    for (int step = 0; step < steps; step++) {
        int growth = growth_of(&s, step);
        if (growth == 2) return 0;
        take(&s, step, growth);
    }
    return s.live <= registers;
}

/* `uses`: how often each value is read, and once more for each result that it is, where results are kept to the end. `sets`: at most so
 * many sets are visited. order: the numbers of the steps, from 0. */
static int fitting_order(int32_t steps, int32_t registers, const int32_t *operand, const uint8_t *apart, const int32_t *uses,
                         int64_t sets, int32_t *order)
{
    if (steps > MOST_STEPS) return ORDER_UNKNOWN;
    Schedule *s = calloc(1, sizeof *s);
    uint32_t size = 64;
    while (size < (uint64_t)sets * 2) size *= 2;
    if (s) s->failed = calloc(size, sizeof *s->failed);
    if (!s || !s->failed) {
        free(s);
        return ORDER_NO_MEMORY;
    }
    s->mask = size - 1;
    s->steps = steps, s->registers = registers, s->operand = operand, s->apart = apart, s->left = sets;
    memcpy(s->uses, uses, sizeof *uses * (size_t)(steps + 1));
    s->live = uses[0] > 0;
    int result = s->live <= registers ? extend(s) : ORDER_NONE;
    if (result == ORDER_FOUND) memcpy(order, s->order, sizeof *order * (size_t)steps);
    free(s->failed);
    free(s);
    return result;
}

#endif
