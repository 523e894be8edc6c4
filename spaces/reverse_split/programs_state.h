/* Values modulo 2^61 - 1, the state of a search, and its tables. Part of programs.c. */
#ifndef KILOTUNE_PROGRAMS_STATE_H
#define KILOTUNE_PROGRAMS_STATE_H

#include <stdlib.h>
#include <string.h>

#include "reach.h"
#include "residues.h"
#include "shares.h"

enum { FOUND = 0, EXHAUSTED = 1, STOPPED = 2, NO_MEMORY = 3 };
enum { AUKE = 0, SCAMP5 = 1 };
enum { MOVE = 0, ADD = 1, SUB = 2, NEGATE = 3, ADD_NEGATED = 4, HALVE = 5, COPY = 6, ADD3 = 7 };
enum { OFFSETS = 13, MOST_VALUES = 96, MOST_LEVELS = 96, NEED_SHIFTS = 64, NEED_GROWTH = 256, FEW_TARGETS = 8, SCAMP5_WORK = 6, FIRST_ROOM = 4096 };
enum { MOST_TURNS = 8, MOST_FIRST = 64 };
static const int OFFSET_X[OFFSETS] = {0, 0, 1, 0, -1, 0, 2, 0, -2, 1, -1, 1, -1};
static const int OFFSET_Y[OFFSETS] = {0, 1, 0, -1, 0, 2, 0, -2, 0, 1, -1, -1, 1};
static const int INVERSE[OFFSETS] = {0, 3, 4, 1, 2, 7, 8, 5, 6, 10, 9, 12, 11};

typedef struct {
    int32_t set, offsets, plain_cost, far_cost, halve_cost, given, targets, forbidden, budget;
    int32_t reach[4]; /* how far west, south, east, north a value may extend */
    double most_weight;
    uint64_t x, y;
    const uint64_t *value; /* that are there at the start; the first is the image */
    const double *value_shape;
    const uint64_t *target;
    const double *target_shape; /* [targets][SHAPE_NUMBERS] */
    const uint64_t *forbid;
    const int32_t *need; /* [shifts][growth]: least cost of instructions that move and grow that much */
    int32_t whole; /* 1: no program may be overlooked */
    int32_t nearby; /* 1: a walk's question, whose last two free values are solved for (programs_last_two.h) */
    int32_t turns; /* how many symmetries of the square leave the only target as it is; 0: all programs are met */
    const uint8_t *turn; /* [turns][OFFSETS]: the offset that each offset becomes */
    int32_t share, shares; /* of a search that several threads share: ours, of so many; 0: of one that is not */
    int64_t work_limit;
    const volatile int32_t *stop; /* 1: end soon */
} Problem;

typedef struct {
    int32_t extent[SIDES], depth;
    double support, weight; /* upper bounds but for targets */
} Shape;

typedef struct {
    uint64_t key, value;
    uint8_t op, offset, a, b, c, cost, included, marked; /* marked: worth a try as the first of the last values */
} Candidate;

typedef struct {
    uint64_t value, moved[OFFSETS];
    Shape shape, largest; /* of this value; of all values up to it */
    uint8_t op, offset, a, b, c, cost;
    int16_t copy_of, target; /* -1: none */
    int32_t used;
} Value;

typedef struct {
    uint64_t key;
    uint8_t target, cost;
} Back;

typedef struct {
    int32_t *slot;
    uint32_t mask;
} Table;

struct Endings;

typedef struct {
    const Problem *p;
    uint64_t unit[OFFSETS], less_one[OFFSETS]; /* the factor of an offset; 1 / (factor - 1) */
    uint64_t *target_moved, *back_moved;       /* [target][offset]: the target moved there, moved back */
    Shape *target_shape;
    uint8_t *pending;
    uint8_t *hard;     /* a target that no instruction makes of the other ones: a free value must lead to it */
    uint8_t *searched; /* a target whose predecessors are remembered */
    int32_t *target_value;
    int32_t pending_count, hard_count, left, unused, count;
    Value value[MOST_VALUES];
    Candidate *candidate;
    int32_t candidates, candidate_room;
    Back *back;
    int32_t backs, back_room;
    int32_t *hit;
    int32_t hits, hit_room;
    int32_t ready[MOST_VALUES], readies;
    Table candidate_table, back_table, target_table;
    int64_t work, aside; /* aside: what does not count for the limit */
    int tried;
    int32_t *path;
    int32_t path_length, resume, taken[SHARED_LEVEL]; /* the candidates of the first levels */
    int32_t dearer[2], dearer_count; /* the costs above the least one */
    int32_t turns, first_end;        /* symmetries in use; where the candidates end that one instruction makes of the image */
    uint8_t turned[MOST_TURNS][MOST_FIRST]; /* what symmetries make of those */
    struct Endings *endings;         /* 0: none are looked up (programs_endings.h) */
    int failed;                      /* out of memory */
} Search;

static inline uint64_t copy_key(uint64_t value) { return plus(times(value, 0x9e3779b97f4a7c1ULL), 0x1234567890abcdULL); }

/* Where costs differ, the same value at another cost is another candidate. */
static inline uint64_t cost_key(const Problem *p, uint64_t value, int cost)
{
    return cost == p->plain_cost ? value : plus(value, times((uint64_t)cost, 0x5851f42d4c957f2ULL));
}

static inline uint32_t place(uint64_t key, const Table *t) { return (uint32_t)(key ^ (key >> 29)) & t->mask; }

static int32_t find_candidate(const Search *s, uint64_t key)
{
    uint32_t at = place(key, &s->candidate_table);
    for (; s->candidate_table.slot[at] >= 0; at = (at + 1) & s->candidate_table.mask)
        if (s->candidate[s->candidate_table.slot[at]].key == key) return s->candidate_table.slot[at];
    return -1;
}

static int32_t find_target(const Search *s, uint64_t value)
{
    uint32_t at = place(value, &s->target_table);
    for (; s->target_table.slot[at] >= 0; at = (at + 1) & s->target_table.mask)
        if (s->p->target[s->target_table.slot[at]] == value) return s->target_table.slot[at];
    return -1;
}

/* Is a value one instruction of a pending target away, within the cost that is left for both? */
static inline int leads(const Search *s, uint64_t key, int cost, int left)
{
    const Table *t = &s->back_table;
    for (uint32_t at = place(key, t); t->slot[at] >= 0; at = (at + 1) & t->mask) {
        const Back *b = &s->back[t->slot[at]];
        if (b->key == key && s->pending[b->target] && cost + b->cost + (s->pending_count - 1) * s->p->plain_cost <= left)
            return 1;
    }
    return 0;
}

/* Is a value one instruction of every hard target away, or, where none is pending, of any? */
static int leads_to_all(const Search *s, uint64_t key, int cost)
{
    const Table *t = &s->back_table;
    uint64_t met[2] = {0, 0};
    if (!s->hard_count) return leads(s, key, cost, s->left);
    for (uint32_t at = place(key, t); t->slot[at] >= 0; at = (at + 1) & t->mask) {
        const Back *b = &s->back[t->slot[at]];
        if (b->key == key && s->pending[b->target] && s->hard[b->target] &&
            cost + b->cost + (s->pending_count - 1) * s->p->plain_cost <= s->left)
            met[b->target >> 6] |= (uint64_t)1 << (b->target & 63);
    }
    return __builtin_popcountll(met[0]) + __builtin_popcountll(met[1]) == s->hard_count;
}

static int table_new(Table *t, uint32_t room)
{
    uint32_t size = 64;
    while (size < room * 2) size *= 2;
    t->slot = malloc(sizeof *t->slot * size);
    if (!t->slot) return 0;
    memset(t->slot, 0xff, sizeof *t->slot * size);
    t->mask = size - 1;
    return 1;
}

/* Whether a table that holds so many entries has to be larger: small ones stay in the cache. */
static inline int is_full(const Table *t, int32_t entries) { return (uint32_t)entries * 16 > t->mask; }

static void table_put(Table *t, uint64_t key, int32_t index)
{
    uint32_t at = place(key, t);
    while (t->slot[at] >= 0) at = (at + 1) & t->mask;
    t->slot[at] = index;
}

/* The last entry put: linear probing then needs no tombstones. */
static void table_take(Table *t, uint64_t key, int32_t index)
{
    uint32_t at = place(key, t);
    while (t->slot[at] != index) at = (at + 1) & t->mask;
    t->slot[at] = -1;
}

/* A larger table, with its entries put again in their order, so that the last one can still be taken first: the first one's key, and how
 * many bytes lie from key to key. Where there is no memory for it, the search ends, and until then the old one has room for as many again. */
static void grow(Search *s, Table *t, const uint64_t *first_key, size_t stride, int32_t entries)
{
    Table larger;
    if (!table_new(&larger, t->mask + 1)) {
        s->failed = 1;
        return;
    }
    free(t->slot);
    *t = larger;
    for (int32_t k = 0; k < entries; k++)
        table_put(t, *(const uint64_t *)((const char *)first_key + stride * (size_t)k), k);
}

static void push_hit(Search *s, int32_t index)
{
    if (s->hits == s->hit_room) {
        int32_t *grown = realloc(s->hit, sizeof *grown * (size_t)s->hit_room * 2);
        if (!grown) {
            s->failed = 1;
            return;
        }
        s->hit = grown;
        s->hit_room *= 2;
    }
    s->hit[s->hits++] = index;
}

static int prepare(Search *s, const Problem *p)
{
    uint32_t values = (uint32_t)(p->given + p->targets + p->budget / p->plain_cost + 4), targets = (uint32_t)p->targets;
    uint32_t listed = 2 * values * values + 8 * values, backs = targets * (4 * values + 16);
    if (p->set == SCAMP5) {
        listed = 22 * values * values + values * values * values / 3 + 32 * values;
        backs = targets * (41 * values + values * values + 40);
    }
    s->p = p;
    s->candidate_room = (int32_t)(listed + (uint32_t)p->forbidden + 64);
    s->back_room = (int32_t)backs + 64;
    s->hit_room = 4096;
    s->candidate = malloc(sizeof *s->candidate * (size_t)s->candidate_room);
    s->back = malloc(sizeof *s->back * (size_t)s->back_room);
    s->hit = malloc(sizeof *s->hit * (size_t)s->hit_room);
    s->back_moved = malloc(sizeof *s->back_moved * (size_t)(targets + 1) * OFFSETS);
    s->target_moved = malloc(sizeof *s->target_moved * (size_t)(targets + 1) * OFFSETS);
    s->target_shape = calloc(targets + 1, sizeof *s->target_shape);
    s->pending = calloc(targets + 1, 1);
    s->hard = calloc(targets + 1, 1);
    s->searched = calloc(targets + 1, 1);
    s->target_value = malloc(sizeof *s->target_value * (targets + 1));
    return s->candidate && s->back && s->hit && s->target_moved && s->back_moved && s->target_shape && s->pending &&
           s->hard && s->searched && s->target_value &&
           table_new(&s->candidate_table, FIRST_ROOM) && table_new(&s->back_table, FIRST_ROOM) && table_new(&s->target_table, targets + 1);
}

static void release(Search *s)
{
    free(s->candidate);
    free(s->back);
    free(s->hit);
    free(s->target_moved);
    free(s->back_moved);
    free(s->hard);
    free(s->searched);
    free(s->target_shape);
    free(s->pending);
    free(s->target_value);
    free(s->candidate_table.slot);
    free(s->back_table.slot);
    free(s->target_table.slot);
    free(s);
}

#endif
