/* What a program up to signs is, its values' shapes, and the table of what comes next. Part of signless.c. */
#ifndef KILOTUNE_SIGNLESS_STATE_H
#define KILOTUNE_SIGNLESS_STATE_H

#include <stdlib.h>
#include <string.h>

#include "reach.h"
#include "residues.h"
#include "shares.h"

enum { FOUND = 0, EXHAUSTED = 1, STOPPED = 2, NO_MEMORY = 3 };
enum { NORTH = 0, EAST = 1, SOUTH = 2, WEST = 3, DOUBLE = 4, HALVE = 5, UNARY = 6, SUM = 6, DIFFERENCE = 7 };
enum { MOVES = 4, POINTS = 4, MOST_VALUES = 40, MOST_TARGETS = 8, MOST_BACKS = 16384 };
enum { TWISTS = 8, MOST_CLASSES = 128, MOST_RESTS = 1024, MOST_LOOKED_AT = 4, FEW_SUMS = 4096, MOST_SUMS = 16384 };
static const int INVERSE_OF[UNARY] = {SOUTH, WEST, NORTH, EAST, HALVE, DOUBLE};

typedef struct {
    int32_t targets, budget;
    int32_t symmetric; /* some moves of the image may not be taken: see `mirrored` */
    uint64_t x, y;
    const uint64_t *target;     /* least of both signs */
    const double *target_shape; /* [targets][SHAPE_NUMBERS + POINTS]: the shape; value where x and y are 1 or -1 */
    const uint8_t *mirrored;    /* [MOVES + 1][16]: may the image's moves of this mask be in a program, when those below are decided? */
    int32_t share, shares; /* of a search that several threads share: ours, of so many; 0: of one that is not */
    int64_t work_limit;
    const volatile int32_t *stop; /* 1: end soon */
} SignlessProblem;

typedef struct {
    int32_t extent[SIDES], depth;
    double support, weight, at[POINTS];
} Shape;

typedef struct {
    uint64_t key;
    uint8_t op, a, b, included;
} Candidate;

typedef struct {
    uint64_t key, by[UNARY]; /* what unary instructions make of it, sign and all */
    Shape shape, largest;    /* of this value; of all values up to it, at[] absolute */
    uint8_t op, a, b, uses, exchangeable;
    int8_t target; /* -1: none */
} Value;

typedef struct {
    int32_t *slot;
    uint32_t mask;
} Table;

/* Keys of classes (see signless_classes.h): an open hash table, 0 is free, and where each was put. */
typedef struct {
    uint64_t *slot;
    int32_t *put, count;
    uint32_t mask;
} ClassSet;

typedef struct {
    const SignlessProblem *p;
    uint64_t unit[MOVES];
    Shape target_shape[MOST_TARGETS];
    uint8_t pending[MOST_TARGETS];
    int32_t target_value[MOST_TARGETS];
    int32_t pending_count, left, waiting, count;
    Value value[MOST_VALUES];
    double target_at[MOST_TARGETS][POINTS];
    uint64_t target_class[MOST_TARGETS];
    ClassSet values, sums, rests[MOST_LOOKED_AT]; /* rests: of a target less a value, or less another target */
    int32_t looked_at; /* targets, or 0 where they are too many */
    int32_t tabulated, values_before[MOST_VALUES], sums_before[MOST_VALUES], rests_before[MOST_LOOKED_AT][MOST_VALUES];
    int32_t made[MOST_VALUES], made_of_targets;
    Candidate *candidate;
    int32_t candidates, room;
    Table table;
    int32_t ready[MOST_VALUES], readies;
    uint64_t *back; /* what is two instructions short of the only target that is left: an open hash table, 0 is free */
    uint32_t back_mask;
    uint64_t short_of[2 * UNARY * UNARY], lone[UNARY]; /* see `prepare_target` */
    int32_t shorts, lone_count, back_target;
    int64_t work;
    int32_t *path;
    int32_t path_length, resume, taken[SHARED_LEVEL]; /* the candidates of the first levels */
} Search;

/* A value or its negation: the smaller residue stands for both. */
static inline uint64_t signless(uint64_t v) { return v > P - v ? P - v : v; }

static inline uint32_t place(uint64_t key, uint32_t mask) { return (uint32_t)(key ^ (key >> 29)) & mask; }

static inline int32_t find(const Search *s, uint64_t key)
{
    const Table *t = &s->table;
    for (uint32_t at = place(key, t->mask); t->slot[at] >= 0; at = (at + 1) & t->mask)
        if (s->candidate[t->slot[at]].key == key) return t->slot[at];
    return -1;
}

/* Is a value, of either sign, on the list and not taken? */
static inline int is_listed(const Search *s, uint64_t value)
{
    int32_t index = find(s, signless(value));
    return index >= 0 && !s->candidate[index].included;
}

static inline int is_taken(const Search *s, uint64_t value)
{
    int32_t index = find(s, signless(value));
    return index >= 0 && s->candidate[index].included;
}

static int32_t find_target(const Search *s, uint64_t key)
{
    for (int t = 0; t < s->p->targets; t++)
        if (s->p->target[t] == key) return t;
    return -1;
}

static inline void offer(Search *s, uint64_t raw, int op, int a, int b)
{
    uint64_t key = signless(raw);
    Table *t = &s->table;
    uint32_t at = place(key, t->mask);
    for (; t->slot[at] >= 0; at = (at + 1) & t->mask)
        if (s->candidate[t->slot[at]].key == key) return;
    if (!key) return;
    t->slot[at] = s->candidates;
    s->candidate[s->candidates] = (Candidate){key, (uint8_t)op, (uint8_t)a, (uint8_t)b, 0};
    int32_t target = find_target(s, key);
    if (target >= 0 && s->pending[target]) s->ready[s->readies++] = s->candidates;
    s->candidates++;
}

/* Everything that one instruction makes of value v and earlier ones. */
static void offer_all(Search *s, int v)
{
    const Value *own = &s->value[v];
    for (int op = 0; op < UNARY; op++) offer(s, own->by[op], op, v, v);
    for (int u = 0; u < v; u++) {
        offer(s, plus(own->key, s->value[u].key), SUM, v, u);
        offer(s, minus(own->key, s->value[u].key), DIFFERENCE, v, u);
    }
}

/* The last entry put: linear probing then needs no tombstones. */
static inline void withdraw(Search *s)
{
    int32_t index = --s->candidates;
    uint32_t at = place(s->candidate[index].key, s->table.mask);
    while (s->table.slot[at] != index) at = (at + 1) & s->table.mask;
    s->table.slot[at] = -1;
}

static void unaries(const Search *s, uint64_t value, uint64_t by[UNARY])
{
    for (int op = 0; op < MOVES; op++) by[op] = times(value, s->unit[op]);
    by[DOUBLE] = plus(value, value);
    by[HALVE] = half(value);
}

/* The value of a candidate as its operands give it, before the sign is chosen. */
static inline uint64_t raw_of(const Search *s, int op, int a, int b)
{
    if (op < UNARY) return s->value[a].by[op];
    return op == SUM ? plus(s->value[a].key, s->value[b].key) : minus(s->value[a].key, s->value[b].key);
}

static void shape_of(const Search *s, const Candidate *c, Shape *out)
{
    static const int MOVE[MOVES][2] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}};
    static const int SIGN[MOVES][POINTS] = {{1, 1, -1, -1}, {1, -1, 1, -1}, {1, 1, -1, -1}, {1, -1, 1, -1}};
    const Shape *a = &s->value[c->a].shape, *b = &s->value[c->b].shape;
    *out = *a;
    if (c->op < MOVES) {
        move_sides(out->extent, MOVE[c->op][0], MOVE[c->op][1]);
        for (int i = 0; i < POINTS; i++) out->at[i] *= SIGN[c->op][i];
    } else if (c->op == DOUBLE || c->op == HALVE) {
        double factor = c->op == DOUBLE ? 2 : 0.5;
        out->weight *= factor;
        for (int i = 0; i < POINTS; i++) out->at[i] *= factor;
        out->depth += c->op == HALVE;
    } else {
        for (int i = 0; i < SIDES; i++)
            if (b->extent[i] > out->extent[i]) out->extent[i] = b->extent[i];
        if (b->depth > out->depth) out->depth = b->depth;
        out->support += b->support;
        out->weight += b->weight;
        for (int i = 0; i < POINTS; i++) out->at[i] += c->op == SUM ? b->at[i] : -b->at[i];
        double cells = (double)(out->extent[0] + out->extent[2] + 1) * (out->extent[1] + out->extent[3] + 1);
        if (out->support > cells) out->support = cells;
    }
    if (raw_of(s, c->op, c->a, c->b) != c->key)
        for (int i = 0; i < POINTS; i++) out->at[i] = -out->at[i];
}

static void enlarge(Shape *largest, const Shape *shape)
{
    for (int i = 0; i < SIDES; i++)
        if (shape->extent[i] > largest->extent[i]) largest->extent[i] = shape->extent[i];
    if (shape->depth > largest->depth) largest->depth = shape->depth;
    if (shape->support > largest->support) largest->support = shape->support;
    if (shape->weight > largest->weight) largest->weight = shape->weight;
    for (int i = 0; i < POINTS; i++) {
        double size = shape->at[i] < 0 ? -shape->at[i] : shape->at[i];
        if (size > largest->at[i]) largest->at[i] = size;
    }
}

static int32_t moves_left(const Search *s, const Shape *largest)
{
    int32_t lack[SIDES] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int t = 0; t < s->p->targets; t++)
        for (int i = 0; s->pending[t] && i < SIDES; i++)
            if (s->target_shape[t].extent[i] - largest->extent[i] > lack[i]) lack[i] = s->target_shape[t].extent[i] - largest->extent[i];
    return fewest_moves(lack);
}

/* A number of instructions that no way from values this large, so many of which wait for a use, to all pending targets undercuts, where it
 * takes so many moves. Moves,
 * halvings and additions are different ones: only a halving divides further; an addition or a doubling at most doubles the largest support,
 * weight and value at a point; and only additions of two make one value of two that wait for a use. */
static int32_t bound(const Search *s, const Shape *largest, int32_t moves, int32_t waiting)
{
    int32_t halvings = 0, additions = waiting - s->pending_count, doublings = 0;
    double growth = 1;
    for (int t = 0; t < s->p->targets; t++) {
        if (!s->pending[t]) continue;
        const Shape *target = &s->target_shape[t];
        if (target->depth - largest->depth > halvings) halvings = target->depth - largest->depth;
        if (target->support > growth * largest->support) growth = target->support / largest->support;
        if (target->weight > growth * largest->weight) growth = target->weight / largest->weight;
        for (int i = 0; i < POINTS; i++)
            if (target->at[i] > growth * largest->at[i]) growth = target->at[i] / largest->at[i];
    }
    for (; growth > 1 + 1e-9; growth /= 2) doublings++;
    return moves + halvings + (doublings > additions ? doublings : additions);
}

static int open_classes(ClassSet *set, uint32_t room)
{
    set->mask = room - 1, set->count = 0;
    set->slot = calloc(room, sizeof *set->slot);
    set->put = malloc(room * sizeof *set->put);
    return set->slot && set->put;
}

static int prepare(Search *s, const SignlessProblem *p)
{
    s->p = p;
    s->room = 16 + MOST_VALUES * MOST_VALUES + UNARY * MOST_VALUES;
    s->candidate = malloc(sizeof *s->candidate * (size_t)s->room);
    s->table.mask = p->budget < 16 ? 2047 : 8191;
    s->table.slot = malloc(sizeof *s->table.slot * ((size_t)s->table.mask + 1));
    s->back = calloc(MOST_BACKS, sizeof *s->back);
    s->back_target = -1;
    if (!s->candidate || !s->table.slot || !s->back) return 0;
    if (!open_classes(&s->values, MOST_CLASSES) || !open_classes(&s->sums, p->budget < 16 ? FEW_SUMS : MOST_SUMS)) return 0;
    s->looked_at = p->targets <= MOST_LOOKED_AT ? p->targets : 0;
    for (int t = 0; t < s->looked_at; t++)
        if (!open_classes(&s->rests[t], MOST_RESTS)) return 0;
    memset(s->table.slot, 0xff, sizeof *s->table.slot * ((size_t)s->table.mask + 1));
    return 1;
}

static void release(Search *s)
{
    free(s->candidate);
    free(s->table.slot);
    free(s->back);
    free(s->values.slot), free(s->values.put), free(s->sums.slot), free(s->sums.put);
    for (int t = 0; t < MOST_LOOKED_AT; t++) free(s->rests[t].slot), free(s->rests[t].put);
    free(s);
}

#endif
