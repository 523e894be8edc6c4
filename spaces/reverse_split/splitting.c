/* Depth-first search over the states of reverse splitting (AUKE Section 3.1), limited by discrepancies.

   A state is a list of sums; a sum is a list of cells with weights. A sum is known by its value at a random point modulo
   2^61 - 1, so a child's identity costs one pass over the cells of its B. What Python calls splits, transformations and
   pairs of maximum size (splits.py, pairs.py) is the same here, in the same order of sums: a plan found here is a list of
   names there, and every one is replayed and proved there. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SUMS 14
#define MOST_DEPTH 96
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
    Sum sums[MOST_SUMS];
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
    Sum only;
    Term image;
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
    int round, cut, stopped, by_cost;
    int64_t nodes, node_limit;
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
            if (to_x < x0 || to_x > x1 || to_y < y0 || to_y > y1 || weight > 1 << 24 || weight < -(1 << 24)) {
                exact = 0;
                break;
            }
            map[to_x * height + to_y] -= scaled(weight, t);
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

/* ---- children --------------------------------------------------------------------------------------------------- */

static void add_child(Search *s, Level *level, const Child *child) {
    for (int k = 0; k < level->child_count; k++)
        if (level->children[k].state == child->state) {
            if (level->children[k].cost > child->cost) level->children[k] = *child;
            return;
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
}

/* The child of one split, from the B that was found and the maps of what is left. */
static void describe(Search *s, Level *level, const Split *split, const Term *pairs, int count, int cost,
                     int least, Extent a_rest, Extent b_rest) {
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
    if (sums > MOST_SUMS || sums + (distance > 0) > s->registers) return;
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

static void generate(Search *s, int depth, int cost, int least, Term *pairs) {
    Level *level = &s->levels[depth];
    int width = s->width, height = s->height, span = 2 * height + 1;
    level->child_count = 0;
    for (int i = 0; i < level->count; i++)
        for (int j = 0; j < level->count; j++) {
            const Sum *a_sum = &level->sums[i], *b_sum = &level->sums[j];
            int within = i == j;
            int32_t most_a = 0, most_b = 0;
            int signs = 0;
            memset(s->offsets, 0, (size_t)((2 * width + 1) * span));
            for (int n = 0; n < b_sum->count; n++) {
                Term b = level->terms[b_sum->first + n];
                int bx = b.cell / height, by = b.cell % height;
                int32_t size_b = abs(b.weight);
                if (size_b > most_b) most_b = size_b;
                signs |= b.weight > 0 ? 1 : 2;
                for (int m = 0; m < a_sum->count; m++) {
                    Term a = level->terms[a_sum->first + m];
                    int dx = a.cell / height - bx, dy = a.cell % height - by;
                    s->offsets[(dx + width) * span + dy + height] |= (a.weight > 0) != (b.weight > 0) ? 2 : 1;
                }
            }
            for (int m = 0; m < a_sum->count; m++) {
                int32_t size_a = abs(level->terms[a_sum->first + m].weight);
                if (size_a > most_a) most_a = size_a;
            }
            int factors = s->factors && within && signs == 3;
            int32_t *a_map = s->left, *b_map = within ? s->left : s->right;
            for (int dx = -width; dx <= width; dx++)
                for (int dy = -height; dy <= height; dy++) {
                    int there = s->offsets[(dx + width) * span + dy + height];
                    if (!there && !factors) continue;
                    for (int doublings = -MOST_DOUBLINGS; doublings <= MOST_DOUBLINGS; doublings++) {
                        int forward = dx > 0 || (dx == 0 && dy > 0);
                        /* The other direction exchanges A and B: the same plan once it is relaxed. */
                        if (within && doublings == 0 && !forward && !s->by_cost) continue;
                        if (within && dx == 0 && dy == 0 && doublings <= 0) continue;
                        if (doublings > 0 && most_a < 1 << doublings) continue;
                        if (doublings < 0 && most_b < 1 << -doublings) continue;
                        for (int negated = 0; negated < 2; negated++) {
                            if (within && dx == 0 && dy == 0 && negated) continue;
                            for (int how = FIRST; how <= FACTOR; how++) {
                                /* A sum of one sign has no factor whose pairs are not parts of it already; in others pairs
                                   that cancel need no two cells at this offset. */
                                if (how == LAST && !within) break;
                                if (how == FACTOR && (!factors || doublings < 0 || (!dx && !dy))) break;
                                if (how != FACTOR && !(there & (negated ? 2 : 1))) continue;
                                Split split = {(int16_t)i, (int16_t)j, (int16_t)dx, (int16_t)dy, (int8_t)doublings,
                                               (int8_t)negated, (int8_t)how, 0};
                                fill(a_map, level, a_sum);
                                if (!within) fill(b_map, level, b_sum);
                                int count = how == FACTOR ? divide(s, level, a_sum, &split, a_map, pairs)
                                                          : pair_off(s, level, b_sum, &split, a_map, b_map, pairs);
                                if (count) {
                                    Extent a_rest = EMPTY, b_rest = EMPTY;
                                    if (how != FACTOR)
                                        for (int m = 0; m < a_sum->count; m++) {
                                            int cell = level->terms[a_sum->first + m].cell;
                                            if (a_map[cell]) include(&a_rest, cell / height, cell % height, a_map[cell]);
                                        }
                                    if (!within)
                                        for (int m = 0; m < b_sum->count; m++) {
                                            int cell = level->terms[b_sum->first + m].cell;
                                            if (b_map[cell]) include(&b_rest, cell / height, cell % height, b_map[cell]);
                                        }
                                    describe(s, level, &split, pairs, count, cost, least, a_rest, b_rest);
                                }
                                clear(a_map, level, a_sum);
                                if (!within) clear(b_map, level, b_sum);
                            }
                        }
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

/* ---- relaxation (Section 3.2): the least sum of |edge weights| over positions of the values --------------------- */

#define MOST_NODES (3 * MOST_DEPTH)
#define MOST_EDGES (6 * MOST_DEPTH)

typedef struct {
    int from, to;
    int weight[3];
} Edge;

typedef struct {
    uint64_t values[MOST_NODES];
    uint8_t fixed[MOST_NODES];
    Edge edges[MOST_EDGES];
    int nodes, edge_count, additions;
} Graph;

static int node_of(Graph *g, uint64_t value) {
    for (int k = 0; k < g->nodes; k++)
        if (g->values[k] == value) return k;
    g->values[g->nodes] = value;
    g->fixed[g->nodes] = 0;
    return g->nodes++;
}

static int fresh_node(Graph *g) {
    g->values[g->nodes] = ~0ULL - (uint64_t)g->nodes;
    g->fixed[g->nodes] = 0;
    return g->nodes++;
}

static void edge(Graph *g, int from, int to, int dx, int dy, int doublings) {
    Edge e = {from, to, {dx, dy, doublings}};
    g->edges[g->edge_count++] = e;
}

/* One augmenting path by breadth first search; unit capacities between nodes, `gain` from the source, `loss` to the sink. */
static int augment(int nodes, int *gain, int *loss, int8_t *reached, int8_t (*flow)[2],
                   const Edge *edges, const int *tight, int tight_count) {
    int queue[MOST_NODES], from[MOST_NODES], by[MOST_NODES], head = 0, tail = 0;
    memset(reached, 0, (size_t)nodes);
    for (int v = 0; v < nodes; v++)
        if (gain[v] > 0) reached[v] = 1, from[v] = -1, queue[tail++] = v;
    while (head < tail) {
        int v = queue[head++];
        if (loss[v] > 0) {
            loss[v]--;
            for (; from[v] >= 0; v = from[v]) flow[by[v] >> 1][by[v] & 1]--, flow[by[v] >> 1][!(by[v] & 1)]++;
            gain[v]--;
            return 1;
        }
        for (int k = 0; k < tight_count; k++) {
            const Edge *e = &edges[tight[k]];
            for (int side = 0; side < 2; side++) {
                int tail_node = side ? e->to : e->from, to = side ? e->from : e->to;
                if (tail_node != v || reached[to] || flow[k][side] <= 0) continue;
                reached[to] = 1;
                from[to] = v;
                by[to] = 2 * k + side;
                queue[tail++] = to;
            }
        }
    }
    return 0;
}

/* The sum of |weight + at[from] - at[to]| is L-natural convex: where no set of nodes can move by one to its gain, it is
   least (Murota 2003). The best set is a minimum cut: edges that are tight hold together, the others pull. */
static int relaxed_dimension(const Graph *g, int dimension) {
    int at[MOST_NODES] = {0}, gain[MOST_NODES], loss[MOST_NODES], tight[MOST_EDGES];
    int8_t reached[MOST_NODES], flow[MOST_EDGES][2];
    for (int direction = 1, failed = 0; failed < 2;) {
        int tight_count = 0, wanted = 0, found = 0, pull[MOST_NODES] = {0};
        for (int k = 0; k < g->edge_count; k++) {
            const Edge *e = &g->edges[k];
            int length = e->weight[dimension] + at[e->from] - at[e->to];
            if (e->from == e->to) continue;
            if (!length) {
                flow[tight_count][0] = flow[tight_count][1] = 1;
                tight[tight_count++] = k;
            } else {
                int sign = (length > 0) == (direction > 0) ? 1 : -1;
                pull[e->from] += sign;
                pull[e->to] -= sign;
            }
        }
        for (int v = 0; v < g->nodes; v++) {
            gain[v] = pull[v] < 0 && !g->fixed[v] ? -pull[v] : 0;
            loss[v] = g->fixed[v] ? 1 << 20 : pull[v] > 0 ? pull[v] : 0;
            wanted += gain[v];
        }
        while (augment(g->nodes, gain, loss, reached, flow, g->edges, tight, tight_count)) found++;
        if (found < wanted) {
            for (int v = 0; v < g->nodes; v++)
                if (reached[v] && !g->fixed[v]) at[v] += direction;
            failed = 0;
        } else {
            failed++;
            direction = -direction;
        }
    }
    int total = 0;
    for (int k = 0; k < g->edge_count; k++)
        total += abs(g->edges[k].weight[dimension] + at[g->edges[k].from] - at[g->edges[k].to]);
    return total;
}

/* Instructions of the plan of a path after relaxation, before what equal edges share. */
static int relaxed_cost(Search *s, int depth) {
    static __thread Graph graph;
    Graph *g = &graph;
    g->nodes = g->edge_count = g->additions = 0;
    int image = fresh_node(g);
    g->fixed[image] = 1;
    for (int k = 0; k < s->target_count; k++) g->fixed[node_of(g, s->targets[k])] = 1;
    for (int d = 0; d < depth; d++) {
        const Level *before = &s->levels[d];
        const Split *split = &s->path[d];
        int within = split->a_from == split->b_from;
        uint64_t b_value = s->b_values[d];
        int b = node_of(g, b_value);
        uint64_t a_value = transformed(s, b_value, split);
        uint64_t a_sum = before->sums[split->a_from].value, b_sum = before->sums[split->b_from].value;
        uint64_t rest = minus(a_sum, within ? plus(a_value, b_value) : a_value);
        int whole = node_of(g, a_sum);
        edge(g, b, whole, split->dx, split->dy, split->doublings);
        if (within) edge(g, b, whole, 0, 0, 0);
        if (rest) edge(g, node_of(g, rest), whole, 0, 0, 0);
        g->additions += within + (rest != 0);
        if (!within && minus(b_sum, b_value)) {
            int other = node_of(g, b_sum);
            edge(g, b, other, 0, 0, 0);
            edge(g, node_of(g, minus(b_sum, b_value)), other, 0, 0, 0);
            g->additions++;
        }
    }
    const Level *last = &s->levels[depth];
    if (last->count) {
        Term only = last->terms[last->sums[0].first];
        int exponent = 31 - __builtin_clz((unsigned)abs(only.weight));
        edge(g, image, node_of(g, last->sums[0].value), only.cell / s->height - s->image_x,
             only.cell % s->height - s->image_y, exponent - s->depth_bits);
    }
    int total = g->additions;
    for (int dimension = 0; dimension < 3; dimension++) total += relaxed_dimension(g, dimension);
    return total;
}

static void keep_plan(Search *s, int depth, int cost) {
    if (s->by_cost) {
        if (cost >= s->best_cost) return;
        s->plan_count = 0;
        s->best_relaxed = 1 << 28;
    }
    int relaxed = relaxed_cost(s, depth);
    if (relaxed < s->best_relaxed) {
        s->best_relaxed = relaxed;
        s->best_at = s->nodes;
    }
    if (cost < s->best_cost) s->best_cost = cost;
    uint64_t key = 0;
    for (int d = 0; d <= depth; d++)
        for (int k = 0; k < s->levels[d].count; k++) key += mixed(state_value(s->levels[d].sums[k].value) + 1);
    int worst = -1;
    for (int k = 0; k < s->plan_count; k++) {
        if (s->plans[k].key == key) {
            if (s->plans[k].relaxed <= relaxed) return;
            worst = k;
            break;
        }
    }
    if (worst < 0) {
        if (s->plan_count < s->keep)
            worst = s->plan_count++;
        else {
            worst = 0;
            for (int k = 1; k < s->plan_count; k++)
                if (s->plans[k].relaxed > s->plans[worst].relaxed) worst = k;
            if (s->plans[worst].relaxed <= relaxed) return;
        }
    }
    Plan *plan = &s->plans[worst];
    plan->relaxed = relaxed;
    plan->cost = cost;
    plan->depth = depth;
    plan->key = key;
    memcpy(plan->splits, s->path, (size_t)depth * sizeof(Split));
}

static int is_leaf(const Level *level) {
    if (level->count == 0) return 1;
    if (level->count != 1 || level->sums[0].count != 1) return 0;
    int32_t size = abs(level->terms[level->sums[0].first].weight);
    return (size & (size - 1)) == 0;
}

static void visit(Search *s, int depth, int cost, int least, int discrepancies, uint64_t state, Term *pairs) {
    if (s->stopped) return;
    if (++s->nodes > s->node_limit) {
        s->stopped = 1;
        return;
    }
    Level *level = &s->levels[depth];
    if (is_leaf(level)) {
        int final = cost;
        if (level->count) {
            Term only = level->terms[level->sums[0].first];
            int exponent = 31 - __builtin_clz((unsigned)abs(only.weight));
            final += abs(only.cell / s->height - s->image_x) + abs(only.cell % s->height - s->image_y) +
                     abs(exponent - s->depth_bits);
        }
        keep_plan(s, depth, final);
        return;
    }
    if (depth == MOST_DEPTH) return;
    Entry *entry = &s->table[state & s->table_mask];
    if (!s->by_cost && entry->state == state && entry->round == s->round && entry->cost <= cost &&
        entry->least <= least && entry->discrepancies >= discrepancies)
        return;
    if (entry->state != state || entry->round != s->round || entry->cost >= cost) {
        Entry here = {state, cost, least, discrepancies, s->round};
        *entry = here;
    }
    generate(s, depth, cost, least, pairs);
    int count = level->child_count;
    if (!count) return;
    qsort(level->children, (size_t)count, sizeof(Child), by_score);
    for (int k = 0, rank = 0; k < count && !s->stopped; k++) {
        Child child = level->children[k];
        if (s->by_cost ? child.cost >= s->best_cost
                       : child.least + child.bound + s->halvings >= s->best_relaxed + s->slack)
            continue;
        int spent = rank ? 32 - __builtin_clz((unsigned)rank) : 0;
        rank++;
        if (spent > discrepancies) {
            s->cut = 1;
            break;
        }
        s->path[depth] = child.split;
        enter(s, depth, &child.split, pairs);
        visit(s, depth + 1, child.cost, child.least, discrepancies - spent, child.state, pairs);
    }
}

/* ---- entry ------------------------------------------------------------------------------------------------------ */

static void release(Search *s) {
    for (int d = 0; d <= MOST_DEPTH; d++) {
        free(s->levels[d].terms);
        free(s->levels[d].children);
    }
    free(s->powers);
    free(s->shift_value);
    free(s->left);
    free(s->right);
    free(s->offsets);
    free(s->table);
    free(s->plans);
    free(s);
}

/* Rounds with 0, 1, 2, ... discrepancies until the node limit is spent or a round cut nothing (`report[1]` is 1 then).

   `sizes`: of every sum its number of terms; `terms`: cell and weight of each. `limits`: registers, table bits, slack, plans to
   keep, factors allowed, first discrepancies, last discrepancies, least halvings, and whether it is the paper's search:
   cut by the cost before relaxation alone, nothing remembered, the first plan of the least cost is the answer. `weights`: of the order. Plans go to `plans`:
   relaxed cost, cost, depth, then 6 numbers a split. Returns the number of plans, -1 without memory. */
int kilotune_split(int width, int height, int image_x, int image_y, int depth_bits, int sum_count, const int32_t *sizes,
                   const int32_t *terms, const int32_t *limits, const double *weights, int64_t node_limit, uint64_t seed,
                   int32_t *plans, int64_t *report) {
    Search *s = calloc(1, sizeof(Search));
    if (!s) return -1;
    s->width = width;
    s->height = height;
    s->image_x = image_x;
    s->image_y = image_y;
    s->cells = width * height;
    s->depth_bits = depth_bits;
    s->registers = limits[0];
    s->slack = limits[2];
    s->keep = limits[3];
    s->factors = limits[4];
    s->halvings = limits[7];
    s->by_cost = limits[8];
    s->card_power = weights[0];
    s->distance_power = weights[1];
    s->remainder_penalty = weights[2];
    s->aligned_bonus = weights[3];
    s->near_power = weights[4];
    s->noise = weights[5];
    s->random_state = seed;
    s->node_limit = node_limit;
    s->best_relaxed = s->best_cost = 1 << 28;
    size_t table = (size_t)1 << limits[1], span = (size_t)(2 * width + 1) * (size_t)(2 * height + 1);
    s->table_mask = table - 1;
    s->powers = malloc((size_t)s->cells * sizeof(uint64_t));
    s->shift_value = malloc(span * sizeof(uint64_t));
    s->left = calloc((size_t)s->cells, sizeof(int32_t));
    s->right = calloc((size_t)s->cells, sizeof(int32_t));
    s->offsets = calloc(span, 1);
    s->table = calloc(table, sizeof(Entry));
    s->plans = calloc((size_t)s->keep, sizeof(Plan));
    Term *pairs = malloc((size_t)(2 * s->cells + 2) * sizeof(Term));
    int result = -1;
    if (s->powers && s->shift_value && s->left && s->right && s->offsets && s->table && s->plans && pairs) {
        uint64_t at_x = 1 + mixed(0xA5A5 + 1) % (PRIME - 1), at_y = 1 + mixed(0x5A5A + 7) % (PRIME - 1);
        uint64_t back_x = power(at_x, PRIME - 2), back_y = power(at_y, PRIME - 2);
        for (int x = 0; x < width; x++)
            for (int y = 0; y < height; y++)
                s->powers[x * height + y] = times(power(at_x, (uint64_t)x), power(at_y, (uint64_t)y));
        for (int dx = -width; dx <= width; dx++)
            for (int dy = -height; dy <= height; dy++)
                s->shift_value[(dx + width) * (2 * height + 1) + dy + height] =
                    times(power(dx < 0 ? back_x : at_x, (uint64_t)abs(dx)), power(dy < 0 ? back_y : at_y, (uint64_t)abs(dy)));
        Level *root = &s->levels[0];
        uint64_t state = 0;
        for (int k = 0; k < sum_count; terms += 2 * sizes[k], k++) append_sum(s, root, NULL, (const Term *)terms, sizes[k]);
        for (int k = 0; k < root->count; k++) {
            s->targets[s->target_count++] = root->sums[k].value;
            state += state_value(root->sums[k].value);
        }
        for (int allowed = limits[5]; !s->stopped; allowed++) {
            s->round++;
            s->cut = 0;
            visit(s, 0, 0, 0, allowed, state, pairs);
            if (!s->cut || allowed >= limits[6]) break;
        }
        for (int k = 0; k < s->plan_count; k++) {
            const Plan *plan = &s->plans[k];
            *plans++ = plan->relaxed;
            *plans++ = plan->cost;
            *plans++ = plan->depth;
            for (int d = 0; d < MOST_DEPTH; d++) {
                const Split *t = &plan->splits[d];
                const int32_t numbers[7] = {t->a_from, t->b_from, t->dx, t->dy, t->doublings, t->negated, t->how};
                memcpy(plans, numbers, sizeof numbers);
                plans += 7;
            }
        }
        report[0] = s->nodes;
        report[1] = !s->cut && !s->stopped;
        report[2] = s->best_relaxed;
        report[3] = s->best_cost;
        report[4] = s->best_at;
        result = s->plan_count;
    }
    free(pairs);
    release(s);
    return result;
}
