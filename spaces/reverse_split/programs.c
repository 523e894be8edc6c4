/* Programs of a given cost that compute given sums of shifted pixels (see programs.py for the idea and the rules).
 *
 * A value is a Laurent polynomial evaluated at a random point (x, y) modulo 2^61 - 1; the image is 1. A program is the
 * set of its values. Every constructible set is met once: the candidates (values one instruction away) stand in a list, and
 * at each level those that were passed over never come back below (Redelmeier's enumeration of polyominoes).
 * Everything lives on the heap of one call: the functions are reentrant.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FOUND = 0, EXHAUSTED = 1, STOPPED = 2, NO_MEMORY = 3 };
enum { AUKE = 0, SCAMP5 = 1 };
enum { MOVE = 0, ADD = 1, SUB = 2, NEGATE = 3, ADD_NEGATED = 4, HALVE = 5, COPY = 6, ADD3 = 7 };
enum { OFFSETS = 13, MOST_VALUES = 96, MOST_LEVELS = 96, NEED_SHIFTS = 64, NEED_GROWTH = 256, FEW_TARGETS = 8, SCAMP5_WORK = 6 };
static const int OFFSET_X[OFFSETS] = {0, 0, 1, 0, -1, 0, 2, 0, -2, 1, -1, 1, -1};
static const int OFFSET_Y[OFFSETS] = {0, 1, 0, -1, 0, 2, 0, -2, 0, 1, -1, -1, 1};
static const int INVERSE[OFFSETS] = {0, 3, 4, 1, 2, 7, 8, 5, 6, 10, 9, 12, 11};
static const uint64_t P = ((uint64_t)1 << 61) - 1;

typedef struct {
    int32_t set, offsets, plain_cost, far_cost, halve_cost, given, targets, forbidden, budget;
    int32_t reach[4]; /* how far west, south, east, north a value may extend */
    double most_weight;
    uint64_t x, y;
    const uint64_t *value; /* that are there at the start; the first is the image */
    const double *value_shape;
    const uint64_t *target;
    const double *target_shape; /* 4 extents, depth, support, weight each */
    const uint64_t *forbid;
    const int32_t *need; /* [shifts][growth]: least cost of instructions that move and grow that much */
    int64_t work_limit;
} Problem;

typedef struct {
    int32_t extent[4], depth;
    double support, weight; /* upper bounds but for targets */
} Shape;

typedef struct {
    uint64_t key, value;
    uint8_t op, offset, a, b, c, cost, included;
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
    int64_t work;
    int32_t *path;
    int32_t path_length, resume;
    int32_t dearer[2], dearer_count; /* the costs above the least one */
    int failed;                      /* out of memory */
} Search;

static inline uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t r = a + b;
    return r >= P ? r - P : r;
}

static inline uint64_t minus(uint64_t a, uint64_t b) { return a >= b ? a - b : a + P - b; }

static inline uint64_t times(uint64_t a, uint64_t b)
{
    unsigned __int128 r = (unsigned __int128)a * b;
    uint64_t low = ((uint64_t)r & P) + (uint64_t)(r >> 61);
    return low >= P ? low - P : low;
}

static uint64_t inverse(uint64_t a)
{
    uint64_t result = 1;
    for (uint64_t e = P - 2; e; e >>= 1, a = times(a, a))
        if (e & 1) result = times(result, a);
    return result;
}

static inline uint64_t half(uint64_t a) { return a & 1 ? (a + P) >> 1 : a >> 1; }

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
    int32_t index = s->candidates++;
    s->candidate[index] = (Candidate){at_cost, value, (uint8_t)op, (uint8_t)offset, (uint8_t)a, (uint8_t)b, (uint8_t)c,
                                      (uint8_t)cost, 0};
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
        if (own->copy_of >= 0) continue;
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

/* Which pending targets must follow from a free value, and which ones' predecessors are worth remembering: of few
 * targets all, so that nothing is overlooked; of many the hard ones. */
static void find_hard(Search *s)
{
    for (int t = 0; t < s->p->targets; t++) {
        s->hard[t] = s->pending[t] && !follows(s, t);
        s->hard_count += s->hard[t];
    }
    for (int t = 0; t < s->p->targets; t++)
        s->searched[t] = s->pending[t] && (s->hard[t] || !s->hard_count || s->p->targets <= FEW_TARGETS);
}

typedef struct {
    int32_t count, candidates, backs, hits, left, unused, pending, hard;
} Mark;

static Mark mark(const Search *s)
{
    return (Mark){s->count, s->candidates, s->backs, s->hits, s->left, s->unused, s->pending_count, s->hard_count};
}

static void use(Search *s, int v)
{
    Value *value = &s->value[v];
    if (value->used++ == 0 && value->target < 0 && v >= s->p->given) s->unused--;
}

static int operands(int op, int a, int b, int c, int out[3])
{
    int n = 0;
    out[n++] = a;
    if ((op == ADD || op == SUB || op == ADD_NEGATED || op == ADD3) && b != a) out[n++] = b;
    if (op == ADD3) out[n++] = c;
    return n;
}

static void shape_of(const Search *s, const Candidate *c, Shape *out)
{
    int of[3], n = operands(c->op, c->a, c->b, c->c, of);
    const Shape *first = &s->value[c->a].shape;
    *out = *first;
    int twice = n == 1 && (c->op == ADD || c->op == ADD_NEGATED || c->op == SUB);
    int dx = OFFSET_X[c->offset], dy = OFFSET_Y[c->offset], move[4] = {-dx, -dy, dx, dy};
    for (int i = 0; i < 4; i++) out->extent[i] += move[i];
    for (int k = twice ? 0 : 1; k < n; k++) {
        const Shape *next = &s->value[of[k]].shape;
        for (int i = 0; i < 4; i++) {
            int reach = next->extent[i] + (c->op == SUB ? 0 : move[i]);
            if (reach > out->extent[i]) out->extent[i] = reach;
        }
        if (next->depth > out->depth) out->depth = next->depth;
        out->support += next->support;
        out->weight += next->weight;
    }
    if (twice && c->op != SUB) out->support = first->support;
    if (c->op == HALVE) {
        out->depth++;
        out->weight /= 2;
    }
    int width = out->extent[0] + out->extent[2] + 1, height = out->extent[1] + out->extent[3] + 1;
    if (out->support > (double)width * height) out->support = (double)width * height;
}

static void enlarge(Shape *largest, const Shape *shape)
{
    for (int i = 0; i < 4; i++)
        if (shape->extent[i] > largest->extent[i]) largest->extent[i] = shape->extent[i];
    if (shape->depth > largest->depth) largest->depth = shape->depth;
    if (shape->support > largest->support) largest->support = shape->support;
    if (shape->weight > largest->weight) largest->weight = shape->weight;
}

/* A cost that no way from values this large to all pending targets undercuts. */
static int32_t bound(const Search *s, const Shape *largest)
{
    int32_t most = 0;
    if (s->p->targets > FEW_TARGETS) return 0;
    for (int t = 0; t < s->p->targets; t++) {
        if (!s->pending[t]) continue;
        const Shape *target = &s->target_shape[t];
        int shifts = 0, halvings = target->depth - largest->depth;
        for (int i = 0; i < 4; i++)
            if (target->extent[i] > largest->extent[i]) shifts += target->extent[i] - largest->extent[i];
        double growth = target->support / largest->support, weight = target->weight / largest->weight;
        if (weight > growth) growth = weight;
        int factor = growth > NEED_GROWTH - 1 ? NEED_GROWTH - 1 : (int)growth + (growth > (int)growth + 1e-9);
        if (shifts >= NEED_SHIFTS) shifts = NEED_SHIFTS - 1;
        int32_t cost = s->p->need[shifts * NEED_GROWTH + factor] + (halvings > 0 ? halvings * s->p->halve_cost : 0);
        if (cost > most) most = cost;
    }
    return most;
}

static void push_value(Search *s, int32_t index, const Shape *shape)
{
    Candidate *c = &s->candidate[index];
    Value *v = &s->value[s->count];
    c->included = 1;
    v->value = c->value;
    v->op = c->op, v->offset = c->offset, v->a = c->a, v->b = c->b, v->c = c->c, v->cost = c->cost;
    v->copy_of = c->op == COPY ? c->a : -1;
    v->used = 0;
    v->shape = *shape;
    v->largest = s->value[s->count - 1].largest;
    enlarge(&v->largest, shape);
    for (int o = 0; o < s->p->offsets; o++) v->moved[o] = o ? times(v->value, s->unit[o]) : v->value;
    int32_t target = v->copy_of >= 0 ? -1 : find_target(s, v->value);
    if (target >= 0 && !s->pending[target]) target = -1;
    v->target = (int16_t)target;
    if (target >= 0) {
        s->pending[target] = 0;
        s->pending_count--;
        s->hard_count -= s->hard[target];
        s->target_value[target] = s->count;
    } else
        s->unused++;
    int of[3], n = operands(c->op, c->a, c->b, c->c, of);
    for (int k = 0; k < n; k++) use(s, of[k]);
    s->left -= c->cost;
    s->count++;
}

static void undo(Search *s, Mark m)
{
    while (s->backs > m.backs) {
        s->backs--;
        table_take(&s->back_table, s->back[s->backs].key, s->backs);
    }
    while (s->candidates > m.candidates) {
        s->candidates--;
        table_take(&s->candidate_table, s->candidate[s->candidates].key, s->candidates);
    }
    while (s->count > m.count) {
        Value *v = &s->value[--s->count];
        int of[3], n = operands(v->op, v->a, v->b, v->c, of);
        for (int k = 0; k < n; k++) s->value[of[k]].used--;
        if (v->target >= 0) {
            s->pending[v->target] = 1;
            s->target_value[v->target] = -1;
        }
        uint64_t key = cost_key(s->p, v->copy_of >= 0 ? copy_key(v->value) : v->value, v->cost);
        int32_t index = find_candidate(s, key);
        if (index >= 0) s->candidate[index].included = 0;
    }
    s->hits = m.hits;
    s->left = m.left;
    s->unused = m.unused;
    s->pending_count = m.pending;
    s->hard_count = m.hard;
    s->readies = 0;
}

/* Takes candidate `index` and every target that becomes available at the least cost. */
static void include(Search *s, int32_t index, const Shape *shape, int with_backs)
{
    s->readies = 0;
    push_value(s, index, shape);
    for (;;) {
        int v = s->count - 1;
        s->work += s->p->set == AUKE ? 1 : SCAMP5_WORK;
        if (with_backs && s->pending_count) remember_all(s, v);
        offer_all(s, 0, v);
        int32_t next = -1;
        while (s->readies && next < 0) {
            next = s->ready[--s->readies];
            if (s->candidate[next].included) next = -1;
        }
        if (next < 0 || s->count >= MOST_VALUES - 1 || s->failed) return;
        Shape of_target;
        shape_of(s, &s->candidate[next], &of_target);
        push_value(s, next, &of_target);
    }
}

/* Nothing free is left: every pending target must follow at once, perhaps at a higher cost than the least. */
static int close_up(Search *s)
{
    if (!s->pending_count) return 1;
    for (int t = 0; t < s->p->targets; t++) {
        for (int k = 0; s->pending[t] && k < s->dearer_count; k++) {
            if (s->left - s->dearer[k] < (s->pending_count - 1) * s->p->plain_cost) continue;
            int32_t index = find_candidate(s, cost_key(s->p, s->p->target[t], s->dearer[k]));
            if (index < 0 || s->candidate[index].included) continue;
            Mark m = mark(s);
            Shape shape;
            shape_of(s, &s->candidate[index], &shape);
            include(s, index, &shape, 0);
            if (s->left >= 0 && close_up(s)) return 1;
            undo(s, m);
        }
    }
    return 0;
}

/* One free value is left: it must lead to a target. */
static int last_value(Search *s)
{
    int32_t hits = s->hits;
    for (int32_t k = 0; k < hits; k++) {
        int32_t index = s->hit[k];
        if (s->candidate[index].included) continue;
        uint64_t key = s->candidate[index].op == COPY ? copy_key(s->candidate[index].value) : s->candidate[index].value;
        if (!leads_to_all(s, key, s->candidate[index].cost)) continue;
        Mark m = mark(s);
        Shape shape;
        shape_of(s, &s->candidate[index], &shape);
        include(s, index, &shape, 0);
        if (s->left >= 0 && close_up(s)) return 1;
        undo(s, m);
    }
    return 0;
}

/* Does a value on the list lead to all hard targets? */
static int hit_leads(const Search *s)
{
    for (int32_t k = 0; k < s->hits; k++) {
        const Candidate *c = &s->candidate[s->hit[k]];
        if (!c->included && leads_to_all(s, c->op == COPY ? copy_key(c->value) : c->value, c->cost)) return 1;
    }
    return 0;
}

static int fits(const Search *s, const Shape *shape)
{
    for (int i = 0; i < 4; i++)
        if (shape->extent[i] > s->p->reach[i]) return 0;
    return shape->weight <= s->p->most_weight;
}

static int stop_at(Search *s, int level, int32_t index, int result)
{
    if (level >= s->path_length) s->path_length = level + 1;
    s->path[level] = index;
    return result;
}

static int descend(Search *s, int level, int32_t from)
{
    const Problem *p = s->p;
    const int plain = p->plain_cost, arity = p->set == AUKE ? 2 : 3;
    int32_t end = s->candidates;
    int resumed = s->resume > level;
    if (resumed) from = s->path[level];
    for (int32_t i = from; i < end; i++) {
        Candidate *c = &s->candidate[i];
        int inner = resumed && i == from && s->resume > level + 1;
        if (s->resume && !inner) s->resume = 0;
        if (c->included) continue;
        if (s->work >= p->work_limit) {
            s->path_length = 0;
            return stop_at(s, level, i, STOPPED);
        }
        int32_t left = s->left - c->cost;
        int is_target = 0;
        if (c->op != COPY && c->cost > plain) {
            int32_t t = find_target(s, c->value);
            is_target = t >= 0 && s->pending[t];
        }
        int32_t slack = left - (s->pending_count - is_target) * plain;
        if (slack < 0) continue;
        Shape shape;
        shape_of(s, c, &shape);
        if (!fits(s, &shape)) continue;
        Mark m = mark(s);
        Shape largest = s->value[s->count - 1].largest;
        enlarge(&largest, &shape);
        if (bound(s, &largest) > left) continue;
        push_value(s, i, &shape);
        int32_t steps = s->left / plain, missing = s->pending_count;
        if (s->unused + steps - missing > arity * steps) {
            undo(s, m);
            continue;
        }
        if (slack >= plain && slack < 2 * plain && missing) {
            s->work += p->set == AUKE ? 1 : SCAMP5_WORK;
            int yes = remember_all(s, m.count);
            yes = (missing > 1 ? hit_leads(s) : yes) || offer_all(s, 1, m.count);
            if (!yes) {
                undo(s, m);
                continue;
            }
        }
        undo(s, m);
        include(s, i, &shape, slack >= plain);
        if (s->failed) return NO_MEMORY;
        slack = s->left - s->pending_count * plain;
        int result = EXHAUSTED;
        if (!s->pending_count)
            result = FOUND;
        else if (slack < plain)
            result = close_up(s) ? FOUND : EXHAUSTED;
        else if (slack < 2 * plain)
            result = last_value(s) || close_up(s) ? FOUND : EXHAUSTED;
        else if (s->pending_count == 1 && s->hits > m.hits && last_value(s))
            result = FOUND;
        else if (s->count < MOST_VALUES - 4) {
            result = descend(s, level + 1, i + 1);
            if (result == STOPPED || (result == FOUND && s->path_length > level + 1)) return stop_at(s, level, i, result);
            if (result == NO_MEMORY) return result;
        }
        if (result == FOUND) {
            s->path_length = 0;
            return stop_at(s, level, i + 1, FOUND);
        }
        undo(s, m);
    }
    return EXHAUSTED;
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
           table_new(&s->candidate_table, (uint32_t)s->candidate_room) &&
           table_new(&s->back_table, (uint32_t)s->back_room) && table_new(&s->target_table, targets + 1);
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

static void shape_from(const double *given, Shape *shape)
{
    for (int i = 0; i < 4; i++) shape->extent[i] = (int32_t)given[i];
    shape->depth = (int32_t)given[4];
    shape->support = given[5];
    shape->weight = given[6];
}

static void start(Search *s)
{
    const Problem *p = s->p;
    uint64_t inverse_x = inverse(p->x), inverse_y = inverse(p->y);
    for (int o = 0; o < OFFSETS; o++) {
        uint64_t unit = 1;
        for (int k = 0; k < abs(OFFSET_X[o]); k++) unit = times(unit, OFFSET_X[o] > 0 ? p->x : inverse_x);
        for (int k = 0; k < abs(OFFSET_Y[o]); k++) unit = times(unit, OFFSET_Y[o] > 0 ? p->y : inverse_y);
        s->unit[o] = unit;
        s->less_one[o] = o ? inverse(minus(unit, 1)) : 0;
    }
    for (int t = 0; t < p->targets; t++) {
        shape_from(p->target_shape + 7 * (size_t)t, &s->target_shape[t]);
        s->pending[t] = 1;
        s->target_value[t] = -1;
        for (int o = 0; o < OFFSETS; o++) {
            s->target_moved[(size_t)t * OFFSETS + (size_t)o] = times(p->target[t], s->unit[o]);
            s->back_moved[(size_t)t * OFFSETS + (size_t)o] = times(p->target[t], s->unit[INVERSE[o]]);
        }
        table_put(&s->target_table, p->target[t], t);
    }
    s->pending_count = p->targets;
    if (p->far_cost > p->plain_cost) s->dearer[s->dearer_count++] = p->far_cost;
    if (p->halve_cost > p->plain_cost && p->halve_cost != p->far_cost) s->dearer[s->dearer_count++] = p->halve_cost;
    s->left = p->budget;
}

/* Looks for a program of at most `budget` that computes all targets (distinct, neither zero nor the image).
 *
 * path, path_length: where the last call stopped (length 0: from the start), and where this one did. steps, [5][count]:
 * op, offset and operands of the values after the image. report: work done. */
int kilotune_programs(const Problem *p, int32_t *path, int32_t *path_length, int32_t *steps, int32_t *count,
                      int32_t *target_value, int64_t *report)
{
    Search *s = calloc(1, sizeof *s);
    if (!s) return NO_MEMORY;
    int result = EXHAUSTED;
    if (p->targets >= MOST_VALUES || p->given + p->budget / p->plain_cost >= MOST_VALUES || !prepare(s, p)) {
        release(s);
        return NO_MEMORY;
    }
    start(s);
    s->path = path;
    s->path_length = 0;
    s->resume = *path_length;
    for (int v = 0; v < p->given; v++) { /* on the list, and taken: never offered again */
        Value *value = &s->value[v];
        *value = (Value){.value = p->value[v], .copy_of = -1, .target = -1};
        shape_from(p->value_shape + 7 * (size_t)v, &value->shape);
        value->largest = v ? s->value[v - 1].largest : value->shape;
        enlarge(&value->largest, &value->shape);
        for (int o = 0; o < OFFSETS; o++) value->moved[o] = times(value->value, s->unit[o]);
        s->candidate[s->candidates] = (Candidate){value->value, value->value, 0, 0, 0, 0, 0, 0, 1};
        table_put(&s->candidate_table, value->value, s->candidates++);
    }
    for (int f = 0; f < p->forbidden; f++) {
        s->candidate[s->candidates] = (Candidate){p->forbid[f], p->forbid[f], 0, 0, 0, 0, 0, 0, 1};
        table_put(&s->candidate_table, p->forbid[f], s->candidates++);
    }
    for (s->count = 0; s->count < p->given;) {
        s->count++;
        offer_all(s, 0, s->count - 1);
    }
    while (s->readies && !s->failed) {
        int32_t next = s->ready[--s->readies];
        if (s->candidate[next].included) continue;
        int32_t rest[MOST_VALUES], rests = s->readies;
        memcpy(rest, s->ready, sizeof *rest * (size_t)rests);
        Shape shape;
        shape_of(s, &s->candidate[next], &shape);
        include(s, next, &shape, 0);
        memcpy(s->ready, rest, sizeof *rest * (size_t)rests);
        s->readies = rests;
    }
    find_hard(s);
    for (int t = 0; t < p->targets; t++)
        if (s->searched[t]) remember_unary(s, t);
    for (int v = 0; v < s->count; v++) remember_all(s, v);
    int32_t slack = s->left - s->pending_count * p->plain_cost;
    if (s->failed)
        result = NO_MEMORY;
    else if (!s->pending_count)
        result = s->left >= 0 ? FOUND : EXHAUSTED;
    else if (slack < 0 || bound(s, &s->value[s->count - 1].largest) > s->left)
        result = EXHAUSTED;
    else if (slack < p->plain_cost)
        result = close_up(s) ? FOUND : EXHAUSTED;
    else if (slack < 2 * p->plain_cost)
        result = last_value(s) || close_up(s) ? FOUND : EXHAUSTED;
    else
        result = descend(s, 0, 0);
    if (result == FOUND) {
        *count = s->count - p->given;
        for (int v = p->given; v < s->count; v++) {
            int32_t *row = steps + 5 * (v - p->given);
            const Value *value = &s->value[v];
            row[0] = value->op, row[1] = value->offset, row[2] = value->a, row[3] = value->b, row[4] = value->c;
        }
        for (int t = 0; t < p->targets; t++) target_value[t] = s->target_value[t];
    }
    *path_length = s->path_length;
    *report = s->work;
    release(s);
    return result;
}
