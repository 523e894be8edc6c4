/* Sums as lists of terms, their values modulo 2^61 - 1, bounds, and pairs of maximum size. Part of splitting.c. */

#pragma once

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SUMS 32
#define MOST_DEPTH 192
#define LARGEST_WEIGHT (1 << 30) /* of Python's compiled.py as well */
#define MOST_DOUBLINGS 3
#define PRIME ((1ULL << 61) - 1)

enum { FIRST, LAST, FACTOR };

typedef struct {
    int32_t cell, weight;
} Term;

typedef struct {
    int32_t count;
    int32_t first; /* of its terms in the level's pool */
    int32_t additions; /* a bound */
    int32_t moves;     /* a bound: the box's width and height, less one each */
    uint64_t value;
} Sum;

typedef struct {
    int16_t a_from, b_from, dx, dy;
    int8_t doublings, negated, how, leaves; /* leaves: remainders that are not empty */
} Split;

typedef struct {
    Split split;
    float score;
    int32_t cost, least, bound; /* with all that led here: before relaxation, at least after it, and of what is left */
    uint64_t state;
    int32_t sums;
} Child;

typedef struct {
    int count;
    Sum sums[MOST_SUMS + 1]; /* one more: it may turn out to be there already */
    Term *terms;
    int used, capacity;
    Child *children;
    int child_count, child_capacity;
} Level;

typedef struct {
    uint64_t state;
    int32_t cost, least, discrepancies, round;
} Entry;

typedef struct {
    int32_t relaxed, cost, depth;
    uint64_t key;
    Split splits[MOST_DEPTH];
} Plan;

typedef struct {
    int width, height, image_x, image_y, cells, depth_bits, halvings, registers, factors, slack, keep;
    double card_power, distance_power, remainder_penalty, aligned_bonus, near_power, noise;
    uint64_t random_state;
    uint64_t *powers; /* of the point: one a cell */
    uint64_t *shift_value; /* one an offset */
    int32_t *left, *right;
    uint8_t *offsets;
    Level levels[MOST_DEPTH + 1];
    Split path[MOST_DEPTH];
    uint64_t b_values[MOST_DEPTH];
    uint64_t targets[MOST_SUMS];
    int target_count;
    Entry *table;
    uint64_t table_mask;
    int round, cut, stopped, by_cost, descends;
    const volatile int32_t *stop; /* set by another thread: end soon */
    int32_t *slots; /* of the children being generated, by state: number + 1, 0 is free */
    uint64_t slot_mask;
    int64_t nodes, node_limit, work, work_limit; /* work: terms looked at, edges of relaxation graphs too */
    int best_relaxed, best_cost;
    Plan *plans;
    int plan_count;
    int64_t best_at;
} Search;

static uint64_t times(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    uint64_t sum = (uint64_t)(product & PRIME) + (uint64_t)(product >> 61);
    return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t sum = a + b;
    return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t minus(uint64_t a, uint64_t b) { return a >= b ? a - b : a + PRIME - b; }

static uint64_t residue(int64_t weight) { return weight >= 0 ? (uint64_t)weight : PRIME - (uint64_t)(-weight); }

static uint64_t power(uint64_t base, uint64_t exponent) {
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base = times(base, base))
        if (exponent & 1) result = times(result, base);
    return result;
}

static uint64_t mixed(uint64_t x) {
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 32);
}

static double uniform(Search *s) {
    s->random_state += 0x9E3779B97F4A7C15ULL;
    return (double)(mixed(s->random_state) >> 11) / 9007199254740992.0;
}

static int ceil_log2(int x) {
    int bits = 0;
    while ((1 << bits) < x) bits++;
    return bits;
}

static int signed_digits(int64_t x) {
    uint64_t v = (uint64_t)(x < 0 ? -x : x);
    return __builtin_popcountll(v ^ (3 * v));
}

/* A bound on the additions and on the moves that every program for a sum needs, wherever the sum is put. */
typedef struct {
    int count, x0, x1, y0, y1;
    int64_t total, x_signed, y_signed, both_signed;
} Extent;

static const Extent EMPTY = {0, 1 << 20, -1, 1 << 20, -1, 0, 0, 0, 0};

static void include(Extent *e, int x, int y, int32_t weight) {
    e->count++;
    if (x < e->x0) e->x0 = x;
    if (x > e->x1) e->x1 = x;
    if (y < e->y0) e->y0 = y;
    if (y > e->y1) e->y1 = y;
    e->total += weight;
    e->x_signed += x & 1 ? -weight : weight;
    e->y_signed += y & 1 ? -weight : weight;
    e->both_signed += (x + y) & 1 ? -weight : weight;
}

static int additions_of(const Extent *e) {
    int most = e->count, digits;
    if ((digits = signed_digits(e->total)) > most) most = digits;
    if ((digits = signed_digits(e->x_signed)) > most) most = digits;
    if ((digits = signed_digits(e->y_signed)) > most) most = digits;
    if ((digits = signed_digits(e->both_signed)) > most) most = digits;
    return most > 1 ? ceil_log2(most) : 0;
}

static int moves_of(const Extent *e) { return e->count ? e->x1 - e->x0 + e->y1 - e->y0 : 0; }

static uint64_t state_value(uint64_t value) { return mixed(value + 0x51ED270B7A1ULL); }

/* ---- pairs of maximum size ------------------------------------------------------------------------------------- */

static int32_t share_of(int32_t b, int32_t a, const Split *t, int same) {
    if (!a || !b || ((a > 0) != (b > 0)) != t->negated) return 0;
    int32_t size_b = b < 0 ? -b : b, size_a = a < 0 ? -a : a, share;
    int up = t->doublings > 0 ? t->doublings : 0, down = t->doublings < 0 ? -t->doublings : 0;
    if (same)
        share = size_b / (1 + (1 << up));
    else {
        int32_t first = size_b >> down, second = size_a >> up;
        share = (first < second ? first : second) << down;
    }
    return b > 0 ? share : -share;
}

static int32_t scaled(int32_t weight, const Split *t) {
    int32_t size = t->doublings >= 0 ? weight * (1 << t->doublings) : weight / (1 << -t->doublings);
    return t->negated ? -size : size;
}

static void fill(int32_t *map, const Level *level, const Sum *sum) {
    for (int k = 0; k < sum->count; k++) map[level->terms[sum->first + k].cell] = level->terms[sum->first + k].weight;
}

static void clear(int32_t *map, const Level *level, const Sum *sum) {
    for (int k = 0; k < sum->count; k++) map[level->terms[sum->first + k].cell] = 0;
}

/* B into `pairs` (terms in the order they are met); returns how many. The maps `a_map` and `b_map` (the same one within
   one sum) lose A and B; the caller restores them. Cells are numbered column by column, so their order is (x, y). */
static int pair_off(Search *s, const Level *level, const Sum *b_sum, const Split *t, int32_t *a_map, int32_t *b_map,
                    Term *pairs) {
    int count = 0, height = s->height, backwards = t->how == LAST;
    int ahead = t->dx > 0 || (t->dx == 0 && t->dy >= 0), same_sum = a_map == b_map;
    int offset = t->dx * height + t->dy;
    int reverse = backwards == ahead;
    for (int n = 0; n < b_sum->count; n++) {
        int cell = level->terms[b_sum->first + (reverse ? b_sum->count - 1 - n : n)].cell;
        int x = cell / height, y = cell % height, to_x = x + t->dx, to_y = y + t->dy;
        if (to_x < 0 || to_x >= s->width || to_y < 0 || to_y >= height) continue;
        int to = cell + offset;
        int32_t share = share_of(b_map[cell], a_map[to], t, same_sum && to == cell);
        if (!share) continue;
        pairs[count].cell = cell;
        pairs[count++].weight = share;
        b_map[cell] -= share;
        a_map[to] -= scaled(share, t);
    }
    return count;
}

/* Exact division of a whole sum by 1 + t; the map is left empty. Returns the number of terms of B, 0 when there is a rest. */
static int divide(Search *s, const Level *level, const Sum *sum, const Split *t, int32_t *map, Term *pairs) {
    int height = s->height, x0 = 1 << 20, x1 = -1, y0 = 1 << 20, y1 = -1, count = 0, exact = 1;
    for (int k = 0; k < sum->count; k++) {
        int cell = level->terms[sum->first + k].cell, x = cell / height, y = cell % height;
        if (x < x0) x0 = x;
        if (x > x1) x1 = x;
        if (y < y0) y0 = y;
        if (y > y1) y1 = y;
    }
    for (int i = 0; i <= x1 - x0 && exact; i++) {
        int x = t->dx >= 0 ? x0 + i : x1 - i;
        for (int j = 0; j <= y1 - y0; j++) {
            int y = t->dy >= 0 ? y0 + j : y1 - j, cell = x * height + y;
            int32_t weight = map[cell];
            if (!weight) continue;
            map[cell] = 0;
            int to_x = x + t->dx, to_y = y + t->dy;
            if (to_x < x0 || to_x > x1 || to_y < y0 || to_y > y1 || labs((long)weight) > LARGEST_WEIGHT >> t->doublings) {
                exact = 0;
                break;
            }
            int64_t rest = (int64_t)map[to_x * height + to_y] - scaled(weight, t);
            if (rest > LARGEST_WEIGHT || rest < -LARGEST_WEIGHT) {
                exact = 0;
                break;
            }
            map[to_x * height + to_y] = (int32_t)rest;
            pairs[count].cell = cell;
            pairs[count++].weight = weight;
        }
    }
    for (int x = x0; x <= x1 && !exact; x++) memset(map + x * height + y0, 0, (size_t)(y1 - y0 + 1) * sizeof *map);
    return exact ? count : 0;
}

static uint64_t transformed(const Search *s, uint64_t value, const Split *t) {
    value = times(value, s->shift_value[(t->dx + s->width) * (2 * s->height + 1) + t->dy + s->height]);
    value = times(value, t->doublings >= 0 ? 1ULL << t->doublings : power((PRIME + 1) / 2, (uint64_t)-t->doublings));
    return t->negated ? minus(0, value) : value;
}
