/* The splits of a state, and the state that one leads to. Part of splitting.c. */

#pragma once

#include "split_sums.h"

/* ---- children --------------------------------------------------------------------------------------------------- */

#define FEWEST_SLOTS 256

/* Forget the children of the state before. */
static int clear_slots(Search *s) {
    if (!s->slots) {
        s->slots = malloc(FEWEST_SLOTS * sizeof(int32_t));
        s->slot_mask = FEWEST_SLOTS - 1;
        if (!s->slots) return 0;
    }
    memset(s->slots, 0, (s->slot_mask + 1) * sizeof(int32_t));
    return 1;
}

/* Where a state's number is, or would be: linear probing. */
static uint64_t slot_of(const Search *s, const Level *level, uint64_t state) {
    uint64_t at = mixed(state) & s->slot_mask;
    while (s->slots[at] && level->children[s->slots[at] - 1].state != state) at = (at + 1) & s->slot_mask;
    return at;
}

static int more_slots(Search *s, const Level *level) {
    int32_t *grown = malloc(4 * (s->slot_mask + 1) * sizeof(int32_t));
    if (!grown) return 0;
    free(s->slots);
    s->slots = grown;
    s->slot_mask = 4 * (s->slot_mask + 1) - 1;
    memset(s->slots, 0, (s->slot_mask + 1) * sizeof(int32_t));
    for (int k = 0; k < level->child_count; k++) s->slots[slot_of(s, level, level->children[k].state)] = k + 1;
    return 1;
}

static void add_child(Search *s, Level *level, const Child *child) {
    uint64_t at = slot_of(s, level, child->state);
    if (s->slots[at]) {
        Child *known = &level->children[s->slots[at] - 1];
        if (known->cost > child->cost) *known = *child;
        return;
    }
    if (2 * (uint64_t)(level->child_count + 1) > s->slot_mask) {
        if (!more_slots(s, level)) {
            s->stopped = 1;
            return;
        }
        at = slot_of(s, level, child->state);
    }
    if (level->child_count == level->child_capacity) {
        int capacity = level->child_capacity ? 2 * level->child_capacity : 64;
        Child *grown = realloc(level->children, (size_t)capacity * sizeof(Child));
        if (!grown) {
            s->stopped = 1;
            return;
        }
        level->children = grown;
        level->child_capacity = capacity;
    }
    level->children[level->child_count++] = *child;
    s->slots[at] = level->child_count;
}

/* The child of one split, from the B that was found and the maps of what is left. */
static void describe(Search *s, Level *level, const Split *split, const Term *pairs, int count, int cost,
                     int least, int registers, Extent a_rest, Extent b_rest) {
    const Sum *a_sum = &level->sums[split->a_from], *b_sum = &level->sums[split->b_from];
    int height = s->height, within = split->a_from == split->b_from;
    Extent b = EMPTY;
    uint64_t b_value = 0;
    int64_t card = 0;
    for (int k = 0; k < count; k++) {
        include(&b, pairs[k].cell / height, pairs[k].cell % height, pairs[k].weight);
        b_value = plus(b_value, times(s->powers[pairs[k].cell], residue(pairs[k].weight)));
        card += abs(scaled(pairs[k].weight, split));
    }
    uint64_t a_value = transformed(s, b_value, split);
    uint64_t rest[2];
    rest[0] = minus(a_sum->value, within ? plus(a_value, b_value) : a_value);
    rest[1] = within ? 0 : minus(b_sum->value, b_value);

    Child child;
    child.split = *split;
    child.split.leaves = (int8_t)((rest[0] != 0) + (rest[1] != 0));
    /* The set of sums that is left, and the largest of their bounds. */
    uint64_t values[MOST_SUMS + 2];
    int sums = 0, bound = 0, merged = 0;
    uint64_t state = 0;
    for (int k = 0; k <= level->count + (within ? 0 : 1); k++) {
        uint64_t value;
        int need;
        if (k == level->count + (within ? 0 : 1)) {
            value = b_value;
            need = additions_of(&b) + moves_of(&b);
        } else if (k == split->a_from) {
            value = rest[0];
            need = additions_of(&a_rest) + moves_of(&a_rest);
        } else if (!within && k == split->b_from) {
            value = rest[1];
            need = additions_of(&b_rest) + moves_of(&b_rest);
        } else if (k < level->count) {
            value = level->sums[k].value;
            need = level->sums[k].additions + level->sums[k].moves;
        } else
            continue;
        if (!value) continue;
        int known = 0;
        for (int m = 0; m < sums; m++) known |= values[m] == value;
        if (known) {
            merged++;
            continue;
        }
        values[sums++] = value;
        state += state_value(value);
        if (need > bound) bound = need;
    }
    int distance = abs(split->dx) + abs(split->dy) + abs(split->doublings);
    if (sums > MOST_SUMS || sums + (distance > 0 && !s->descends) > registers) return;
    int additions = child.split.leaves + within;
    child.sums = sums;
    child.state = state;
    child.cost = cost + distance + additions;
    child.least = least + additions + (within ? abs(split->dx) + abs(split->dy) : 0);
    child.bound = bound;
    double score = s->card_power * log((double)card) - s->distance_power * log(distance + 0.25);
    score -= s->remainder_penalty * (child.split.leaves - merged);
    if (!split->dx || !split->dy) score += s->aligned_bonus;
    score -= s->near_power * log(1.0 + moves_of(&b));
    if (s->noise > 0) score += s->noise * uniform(s);
    child.score = (float)score;
    add_child(s, level, &child);
}

/* A pair of sums whose splits are tried: the largest weights, and whether the one sum has both signs. */
typedef struct {
    const Sum *a, *b;
    int from, to, within, factors;
    int32_t most_a, most_b;
} Pair;

/* Fills `offsets`: bit 1 where two terms of equal sign, bit 2 where two of unequal sign lie at that offset. */
static inline Pair pair_of(const Search *s, const Level *level, int i, int j) {
    const Sum *a_sum = &level->sums[i], *b_sum = &level->sums[j];
    int width = s->width, height = s->height, span = 2 * height + 1, signs = 0;
    Pair pair = {a_sum, b_sum, i, j, i == j, 0, 0, 0};
    memset(s->offsets, 0, (size_t)((2 * width + 1) * span));
    for (int n = 0; n < b_sum->count; n++) {
        Term b = level->terms[b_sum->first + n];
        int bx = b.cell / height, by = b.cell % height;
        int32_t size_b = abs(b.weight);
        if (size_b > pair.most_b) pair.most_b = size_b;
        signs |= b.weight > 0 ? 1 : 2;
        for (int m = 0; m < a_sum->count; m++) {
            Term a = level->terms[a_sum->first + m];
            int dx = a.cell / height - bx, dy = a.cell % height - by;
            s->offsets[(dx + width) * span + dy + height] |= (a.weight > 0) != (b.weight > 0) ? 2 : 1;
        }
    }
    for (int m = 0; m < a_sum->count; m++) {
        int32_t size_a = abs(level->terms[a_sum->first + m].weight);
        if (size_a > pair.most_a) pair.most_a = size_a;
    }
    pair.factors = s->factors && pair.within && signs == 3;
    return pair;
}

/* Whether a transform leads to splits of the pair that no other one leads to. */
static inline int is_tried(const Search *s, const Pair *pair, int dx, int dy, int doublings) {
    int forward = dx > 0 || (dx == 0 && dy > 0);
    /* The other direction exchanges A and B: the same plan once it is relaxed. */
    if (pair->within && doublings == 0 && !forward && !s->by_cost) return 0;
    if (pair->within && dx == 0 && dy == 0 && doublings <= 0) return 0;
    if (doublings > 0 && pair->most_a < 1 << doublings) return 0;
    return !(doublings < 0 && pair->most_b < 1 << -doublings);
}

/* What is left of a sum. */
static inline Extent extent_of(const Level *level, const Sum *sum, const int32_t *map, int height) {
    Extent extent = EMPTY;
    for (int m = 0; m < sum->count; m++) {
        int cell = level->terms[sum->first + m].cell;
        if (map[cell]) include(&extent, cell / height, cell % height, map[cell]);
    }
    return extent;
}

/* What a state has cost so far, and what it may hold. */
typedef struct {
    int cost, least, registers;
} Spent;

static inline void try_split(Search *s, Level *level, const Pair *pair, const Split *split, const Spent *spent, Term *pairs) {
    int32_t *a_map = s->left, *b_map = pair->within ? s->left : s->right;
    s->work += pair->a->count + pair->b->count;
    fill(a_map, level, pair->a);
    if (!pair->within) fill(b_map, level, pair->b);
    int count = split->how == FACTOR ? divide(s, level, pair->a, split, a_map, pairs)
                                     : pair_off(s, level, pair->b, split, a_map, b_map, pairs);
    if (count) {
        Extent a_rest = EMPTY, b_rest = EMPTY;
        if (split->how != FACTOR) a_rest = extent_of(level, pair->a, a_map, s->height);
        if (!pair->within) b_rest = extent_of(level, pair->b, b_map, s->height);
        describe(s, level, split, pairs, count, spent->cost, spent->least, spent->registers, a_rest, b_rest);
    }
    clear(a_map, level, pair->a);
    if (!pair->within) clear(b_map, level, pair->b);
}

/* The splits by one offset. `there`: the bits of `offsets`. */
static inline void try_offset(Search *s, Level *level, const Pair *pair, int dx, int dy, int there, const Spent *spent,
                              Term *pairs) {
    for (int doublings = -MOST_DOUBLINGS; doublings <= MOST_DOUBLINGS; doublings++) {
        if (!is_tried(s, pair, dx, dy, doublings)) continue;
        for (int negated = 0; negated < 2; negated++) {
            if (pair->within && dx == 0 && dy == 0 && negated) continue;
            for (int how = FIRST; how <= FACTOR; how++) {
                /* A sum of one sign has no factor whose pairs are not parts of it already; in others pairs that cancel need
                   no two cells at this offset. */
                if (how == LAST && !pair->within) break;
                if (how == FACTOR && (!pair->factors || doublings < 0 || (!dx && !dy))) break;
                if (how != FACTOR && !(there & (negated ? 2 : 1))) continue;
                Split split = {(int16_t)pair->from, (int16_t)pair->to, (int16_t)dx, (int16_t)dy, (int8_t)doublings,
                               (int8_t)negated, (int8_t)how, 0};
                try_split(s, level, pair, &split, spent, pairs);
            }
        }
    }
}

/* All splits that leave no more sums than there are `registers`. Incomplete where the search is stopped. */
static void generate(Search *s, int depth, int cost, int least, int registers, Term *pairs) {
    Level *level = &s->levels[depth];
    int width = s->width, height = s->height, span = 2 * height + 1;
    const Spent spent = {cost, least, registers};
    level->child_count = 0;
    if (!clear_slots(s)) s->stopped = 1;
    for (int i = 0; i < level->count; i++)
        for (int j = 0; j < level->count; j++) {
            const Pair pair = pair_of(s, level, i, j);
            for (int dx = -width; dx <= width; dx++) {
                if (*s->stop || s->work > s->work_limit) s->stopped = 1;
                if (s->stopped) return;
                for (int dy = -height; dy <= height; dy++) {
                    int there = s->offsets[(dx + width) * span + dy + height];
                    if (there || pair.factors) try_offset(s, level, &pair, dx, dy, there, &spent, pairs);
                }
            }
        }
}

static int by_score(const void *left, const void *right) {
    const Child *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return memcmp(&a->split, &b->split, sizeof(Split));
}

/* ---- the next level --------------------------------------------------------------------------------------------- */

static int compare_terms(const void *left, const void *right) {
    return ((const Term *)left)->cell - ((const Term *)right)->cell;
}

static int append_sum(Search *s, Level *level, const int32_t *map, const Term *cells, int count) {
    int height = s->height;
    if (level->used + count > level->capacity) {
        int capacity = 2 * (level->used + count) + 64;
        Term *grown = realloc(level->terms, (size_t)capacity * sizeof(Term));
        if (!grown) {
            s->stopped = 1;
            return 0;
        }
        level->terms = grown;
        level->capacity = capacity;
    }
    Sum *sum = &level->sums[level->count];
    sum->first = level->used;
    sum->count = 0;
    sum->value = 0;
    Extent extent = EMPTY;
    for (int k = 0; k < count; k++) {
        int32_t weight = map ? map[cells[k].cell] : cells[k].weight;
        if (!weight) continue;
        Term term = {cells[k].cell, weight};
        level->terms[level->used++] = term;
        sum->count++;
        sum->value = plus(sum->value, times(s->powers[term.cell], residue(weight)));
        include(&extent, term.cell / height, term.cell % height, weight);
    }
    if (!sum->count) return 1;
    for (int k = 0; k < level->count; k++)
        if (level->sums[k].value == sum->value) {
            level->used = sum->first;
            return 1;
        }
    qsort(level->terms + sum->first, (size_t)sum->count, sizeof(Term), compare_terms);
    sum->additions = additions_of(&extent);
    sum->moves = moves_of(&extent);
    level->count++;
    return 1;
}

static void enter(Search *s, int depth, const Split *split, Term *pairs) {
    Level *level = &s->levels[depth], *next = &s->levels[depth + 1];
    const Sum *a_sum = &level->sums[split->a_from], *b_sum = &level->sums[split->b_from];
    int within = split->a_from == split->b_from;
    int32_t *a_map = s->left, *b_map = within ? s->left : s->right;
    fill(a_map, level, a_sum);
    if (!within) fill(b_map, level, b_sum);
    int count = split->how == FACTOR ? divide(s, level, a_sum, split, a_map, pairs)
                                     : pair_off(s, level, b_sum, split, a_map, b_map, pairs);
    next->count = next->used = 0;
    for (int k = 0; k < level->count; k++) {
        const Sum *sum = &level->sums[k];
        const int32_t *map = k == split->a_from ? a_map : k == split->b_from ? b_map : NULL;
        if (split->how == FACTOR && k == split->a_from) continue;
        append_sum(s, next, map, level->terms + sum->first, sum->count);
    }
    append_sum(s, next, NULL, pairs, count);
    s->b_values[depth] = 0;
    for (int k = 0; k < count; k++)
        s->b_values[depth] = plus(s->b_values[depth], times(s->powers[pairs[k].cell], residue(pairs[k].weight)));
    clear(a_map, level, a_sum);
    if (!within) clear(b_map, level, b_sum);
}
