/* Is there a program of at most so many instructions of AUKE's set, up to the signs of its values? (See signless.py.)
 *
 * A program is the set of its values. The candidates (values one instruction away) stand in a list, and at each level those that were
 * passed over never come back below, so every set is met once (Redelmeier's enumeration of polyominoes).
 * Everything lives on the heap of one call: the functions are reentrant.
 */
#include "signless_classes.h"
#include "signless_ends.h"

typedef struct {
    int32_t count, candidates, left, waiting, pending;
} Mark;

static Mark mark(const Search *s)
{
    return (Mark){s->count, s->candidates, s->left, s->waiting, s->pending_count};
}

/* A value that must be used once more: by nobody yet, or once, and in that use another value could stand in its place. */
static inline int waits(const Value *v)
{
    return v->target < 0 && (v->uses == 0 || (v->uses == 1 && v->exchangeable));
}

static int is_move_of_image(const Search *s, uint64_t key)
{
    for (int m = 0; m < MOVES; m++)
        if (signless(s->value[0].by[m]) == key) return 1;
    return 0;
}

/* Would `other`, of either sign, in the place of value w make a program that is preferred? Moves of the image are left as they
 * are where the symmetry of the targets says which ones there are. */
static int preferred(const Search *s, int w, uint64_t other)
{
    uint64_t key = signless(other);
    return key < s->value[w].key && !(s->p->symmetric && is_move_of_image(s, key));
}

/* Value v = n(w) is the first to use w: is there a program without w, as long and preferred? */
static int exchangeable_for_unary(const Search *s, int v, int w)
{
    const Value *used = &s->value[w];
    int n = s->value[v].op;
    if (used->op < UNARY) return preferred(s, w, s->value[used->a].by[n]);
    for (int k = 0; k < 2; k++) { /* n(a + b) = n(a) + n(b), where one of them is there */
        int moved = k ? used->a : used->b, other = k ? used->b : used->a;
        uint64_t there = s->value[moved].by[n];
        if (signless(there) != used->key && is_taken(s, there) && preferred(s, w, s->value[other].by[n])) return 1;
    }
    return 0;
}

/* Value v = +-w +- z is the first to use w: is there a program without w, as long and preferred? */
static int exchangeable_for_binary(const Search *s, int v, int w, int z)
{
    const Value *used = &s->value[w], *made = &s->value[v];
    /* v = w + rest, up to the sign */
    uint64_t rest = s->value[z].key;
    if (made->op == DIFFERENCE) rest = minus(0, rest);
    uint64_t raw = raw_of(s, used->op, used->a, used->b);
    if (raw != used->key) rest = minus(0, rest); /* v = raw + rest, up to the sign */
    if (used->op < UNARY) { /* n(a) + z = n(a + n'(z)), where n'(z) is there */
        int back = INVERSE_OF[used->op];
        uint64_t there = s->value[z].by[back];
        if (signless(there) == used->key || !is_taken(s, there)) return 0;
        if (rest != s->value[z].key) there = minus(0, there);
        return preferred(s, w, plus(s->value[used->a].key, there));
    }
    uint64_t a = s->value[used->a].key, b = s->value[used->b].key; /* (a + b) + z = (a + z) + b = (b + z) + a */
    if (used->op == DIFFERENCE) b = minus(0, b);
    return preferred(s, w, plus(a, rest)) || preferred(s, w, plus(b, rest));
}

static void use(Search *s, int v, int w, int z)
{
    Value *used = &s->value[w];
    int before = waits(used);
    if (++used->uses == 1) {
        used->exchangeable = 0;
        if (used->target < 0 && !(s->p->symmetric && used->op < MOVES && used->a == 0))
            used->exchangeable = (uint8_t)(z < 0 ? exchangeable_for_unary(s, v, w) : exchangeable_for_binary(s, v, w, z));
    }
    s->waiting += waits(used) - before;
}

static void push_value(Search *s, int32_t index, const Shape *shape)
{
    Candidate *c = &s->candidate[index];
    int number = s->count++;
    Value *v = &s->value[number];
    c->included = 1;
    v->key = c->key, v->op = c->op, v->a = c->a, v->b = c->b;
    v->uses = v->exchangeable = 0;
    v->shape = *shape;
    v->largest = s->value[number - 1].largest;
    enlarge(&v->largest, shape);
    unaries(s, v->key, v->by);
    int32_t target = find_target(s, v->key);
    v->target = (int8_t)(target >= 0 && s->pending[target] ? target : -1);
    if (v->target >= 0) {
        s->pending[target] = 0;
        s->pending_count--;
        s->target_value[target] = number;
    } else
        s->waiting++;
    s->left--;
    if (c->op < UNARY)
        use(s, number, c->a, -1);
    else {
        use(s, number, c->a, c->b);
        use(s, number, c->b, c->a);
    }
}

static void undo(Search *s, Mark m)
{
    while (s->candidates > m.candidates) withdraw(s);
    while (s->count > m.count) {
        Value *v = &s->value[--s->count];
        s->value[v->a].uses--;
        if (v->op >= UNARY) s->value[v->b].uses--;
        if (v->target >= 0) {
            s->pending[v->target] = 1;
            s->target_value[v->target] = -1;
        }
        int32_t index = find(s, v->key);
        if (index >= 0) s->candidate[index].included = 0;
    }
    forget_tabulated(s, s->count);
    s->left = m.left;
    s->waiting = m.waiting;
    s->pending_count = m.pending;
    s->readies = 0;
}

/* What the last value makes possible, and with it every target that follows at once: each belongs to every program. */
static void follow(Search *s)
{
    s->readies = 0;
    for (;;) {
        s->work++;
        offer_all(s, s->count - 1);
        int32_t next = -1;
        while (s->readies && next < 0) {
            next = s->ready[--s->readies];
            if (s->candidate[next].included) next = -1;
        }
        if (next < 0 || s->count >= MOST_VALUES - 1) return;
        Shape shape;
        shape_of(s, &s->candidate[next], &shape);
        push_value(s, next, &shape);
    }
}

static void include(Search *s, int32_t index)
{
    Shape shape;
    shape_of(s, &s->candidate[index], &shape);
    push_value(s, index, &shape);
    follow(s);
}

/* Whatever the order: is there an end of the instructions that are left? Of few, as it is slow. */
static int finish(Search *s)
{
    if (!s->pending_count) return s->left >= 0;
    if (s->left <= s->pending_count) return 0;
    for (int32_t i = 0; i < s->candidates; i++) {
        if (s->candidate[i].included) continue;
        Mark m = mark(s);
        include(s, i);
        if (s->left >= 0 && finish(s)) return 1;
        undo(s, m);
    }
    return 0;
}

/* One instruction is left beside those of several targets: it must lead to one of them. */
static int last_free(Search *s)
{
    for (int t = 0; t < s->p->targets; t++) {
        if (!s->pending[t]) continue;
        uint64_t target = s->p->target[t], one[UNARY];
        unaries(s, target, one);
        for (int k = 0; k < UNARY + 2 * s->count; k++) {
            uint64_t value = k < UNARY ? one[k] : 0, other = k < UNARY ? 0 : s->value[(k - UNARY) / 2].key;
            if (k >= UNARY) value = k & 1 ? minus(target, other) : plus(target, other);
            int32_t index = find(s, signless(value));
            if (index < 0 || s->candidate[index].included) continue;
            Mark m = mark(s);
            include(s, index);
            if (!s->pending_count && s->left >= 0) return 1;
            undo(s, m);
        }
    }
    return 0;
}

static int stop_at(Search *s, int level, int32_t index, int result)
{
    if (level >= s->path_length) s->path_length = level + 1;
    s->path[level] = index;
    return result;
}

/* Whether the moves of the image that are taken with candidate `index` are those of a program that symmetry leaves. */
static int is_mirrored(const Search *s, int32_t index)
{
    if (!s->p->symmetric) return 0;
    int mask = 0;
    for (int m = 0; m < MOVES; m++) mask |= (s->candidate[1 + m].included || index == 1 + m) << m;
    int decided = index - 1 < MOVES ? (int)index - 1 : MOVES;
    return !s->p->mirrored[16 * decided + mask];
}

static int descend(Search *s, int level, int32_t from);

/* What is left to do once a value is there, with the candidates from `first` on new. */
static int go_on(Search *s, int level, int32_t index, int32_t first, int prepared)
{
    if (!s->pending_count) return FOUND;
    int32_t spare = s->left - s->pending_count;
    if (spare <= 0) return EXHAUSTED;
    if (s->pending_count > 1 && spare == 1) return last_free(s) ? FOUND : EXHAUSTED;
    if (s->pending_count == 1 && s->left <= 3) {
        if (s->left == 3 && !prepared) remember_all(s);
        if (s->left == 3 && !may_end(s, prepared ? first : 0)) return EXHAUSTED;
        return finish(s) ? FOUND : EXHAUSTED;
    }
    if (s->count >= MOST_VALUES - 4) return EXHAUSTED;
    return descend(s, level + 1, index + 1);
}

static int descend(Search *s, int level, int32_t from)
{
    const SignlessProblem *p = s->p;
    int32_t end = s->candidates;
    int resumed = s->resume > level, prepared = s->pending_count == 1 && s->left == 4;
    const int32_t far = moves_left(s, &s->value[s->count - 1].largest); /* only moves change it, each by one at most */
    if (resumed) from = s->path[level];
    if (prepared) remember_all(s);
    for (int32_t i = from; i < end; i++) {
        const Candidate *c = &s->candidate[i];
        int inner = resumed && i == from && s->resume > level + 1;
        if (s->resume && !inner) s->resume = 0;
        if (c->included || is_mirrored(s, i) || !is_ours(p->share, p->shares, level, s->taken, i)) continue;
        if (s->work >= p->work_limit || *p->stop) {
            s->path_length = 0;
            return stop_at(s, level, i, STOPPED);
        }
        int fewer = waits(&s->value[c->a]) + (c->op >= UNARY && waits(&s->value[c->b])), moves = c->op < MOVES;
        if (s->waiting + 1 - fewer - s->pending_count + (far > moves ? far - moves : 0) > s->left - 1) continue;
        Mark m = mark(s);
        Shape shape;
        if (level < SHARED_LEVEL) s->taken[level] = i;
        shape_of(s, c, &shape);
        Shape largest = s->value[s->count - 1].largest;
        enlarge(&largest, &shape);
        const int32_t pending = s->pending_count;
        moves = moves ? moves_left(s, &largest) : far;
        if (bound(s, &largest, moves, s->waiting + 1 - fewer) > s->left - 1 || !may_lead(s, &shape, s->left - 1 - moves)) continue;
        push_value(s, i, &shape);
        if (s->pending_count < pending) moves = moves_left(s, &largest);
        if (bound(s, &largest, moves, s->waiting) > s->left) {
            undo(s, m);
            continue;
        }
        follow(s);
        int result = go_on(s, level, i, m.candidates, prepared);
        if (result == STOPPED || (result == FOUND && s->path_length > level + 1)) return stop_at(s, level, i, result);
        if (result == FOUND) {
            s->path_length = 0;
            return stop_at(s, level, i + 1, FOUND);
        }
        undo(s, m);
    }
    return EXHAUSTED;
}

static void start(Search *s)
{
    const SignlessProblem *p = s->p;
    s->unit[NORTH] = p->y, s->unit[EAST] = p->x, s->unit[SOUTH] = inverse(p->y), s->unit[WEST] = inverse(p->x);
    for (int t = 0; t < p->targets; t++) {
        const double *given = p->target_shape + (SHAPE_NUMBERS + POINTS) * t;
        Shape *shape = &s->target_shape[t];
        read_sides(given, shape->extent);
        shape->depth = (int32_t)given[4], shape->support = given[5], shape->weight = given[6];
        for (int i = 0; i < POINTS; i++) {
            double at = given[SHAPE_NUMBERS + i];
            s->target_at[t][i] = at, shape->at[i] = at < 0 ? -at : at;
        }
        s->target_class[t] = class_of(s->target_at[t]);
        s->pending[t] = 1;
        s->target_value[t] = -1;
    }
    s->made_of_targets = made_of_targets(s);
    s->pending_count = p->targets;
    s->left = p->budget;
    Value *image = &s->value[0];
    *image = (Value){.key = 1, .target = -1, .uses = 2, .shape = {.support = 1, .weight = 1, .at = {1, 1, 1, 1}}};
    image->largest = image->shape;
    unaries(s, 1, image->by);
    s->candidate[s->candidates] = (Candidate){1, 0, 0, 0, 1};
    s->table.slot[place(1, s->table.mask)] = s->candidates++;
    s->count = 1;
    follow(s);
}

/* Looks for a program up to signs of at most `budget` instructions for all targets, none the image and none twice up to signs.
 *
 * path, path_length: where the last call stopped (length 0: from the start), and where this one did. steps, [count][3]: op and
 * operands of the values after the image. target_value: the values that are the targets. report: work done. */
int kilotune_signless(const SignlessProblem *p, int32_t *path, int32_t *path_length, int32_t *steps, int32_t *count,
                      int32_t *target_value, int64_t *report)
{
    Search *s = calloc(1, sizeof *s);
    if (!s) return NO_MEMORY;
    if (p->targets > MOST_TARGETS || p->budget > MOST_VALUES - 8 || !prepare(s, p)) {
        release(s);
        return NO_MEMORY;
    }
    s->path = path;
    s->resume = *path_length;
    start(s);
    const Shape *largest = &s->value[s->count - 1].largest;
    int result = bound(s, largest, moves_left(s, largest), s->waiting) > s->left ? EXHAUSTED : go_on(s, -1, -1, 0, 0);
    if (result == FOUND) {
        *count = s->count - 1;
        for (int v = 1; v < s->count; v++) {
            int32_t *row = steps + 3 * (v - 1);
            row[0] = s->value[v].op, row[1] = s->value[v].a, row[2] = s->value[v].b;
        }
        memcpy(target_value, s->target_value, sizeof *target_value * (size_t)p->targets);
    }
    *path_length = result == EXHAUSTED ? 0 : s->path_length;
    *report = s->work;
    release(s);
    return result;
}
