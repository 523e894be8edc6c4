/* Ruin and recreate over what is glued: some blocks come apart, and what lies there is glued anew in another order (see regluing.py).
 *
 * A block is a buffer or a rectangle of two or five others. Those that are in no other one are `there`, in the lists of the points where
 * they begin and end. Each trial notes what it did, so that it can be undone.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DONE = 0, STOPPED = 2, NO_MEMORY = 3 };
enum { TRIALS_PER_LOOK = 16 }; /* at the clock */
enum { PARTS = 5, NONE = -1 };
enum { MOST_AT_A_POINT = 200, MOST_WITH_WHEELS = 40 }; /* blocks that begin, or end, above which nothing, or no wheel, is looked for there */
enum { MOST_RUINED = 8, MOST_TOUCHED = 400 };
enum { MOST_DEPTH = 200 };
enum { EARLY, LATE, OVER, LEFT, MIDDLE };

typedef struct {
    int32_t n, points;
    const int32_t *lo, *hi; /* of a buffer: the points where it begins and ends */
    const int64_t *size;
    int64_t most_bytes; /* what live sums may rise to */
    int64_t looks;      /* at candidates, after which it ends */
    int64_t nanoseconds;
    double warmth; /* what a trial may cost, at first, as it is accepted now and then */
    const volatile int32_t *stop; /* set by another thread */
} RegluingProblem;

typedef struct {
    int64_t size, shift[PARTS];
    int32_t lo, hi, count, part[PARTS];
    int32_t after[2], before[2]; /* in the list of what begins, and ends, at a point */
    int32_t place;               /* among those that are there */
    int32_t whole;               /* what it was last part of */
    double price;                /* what speaks against it */
} Block;

typedef struct {
    double score;
    int32_t count, part[PARTS];
    double price;
} Candidate;

typedef struct {
    const RegluingProblem *p;
    Block *block;
    int32_t *there, left;
    int32_t *spare, spares;
    int32_t *first[2], *at[2]; /* of each point: the list of what begins and what ends, how many */
    int64_t *bytes[2], *live;
    int32_t *touched, touches;
    int32_t *touch_of; /* of each point: one more than its place in touched; 0: it is not */
    uint8_t is_known[MOST_TOUCHED];
    Candidate best[MOST_TOUCHED]; /* of each touched point */
    int32_t *noted, notes; /* blocks that were glued, ~ those that came apart, in order */
    uint64_t random, trial;
    int64_t looks;
    double price, noise, left_out;
} State;

static int64_t nanoseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t next_random(State *s) { return mixed(s->random += 0x9E3779B97F4A7C15u); }

static double uniform(State *s) { return (double)(next_random(s) >> 11) / 9007199254740992.0; }

static int32_t below(State *s, int32_t count) { return (int32_t)(next_random(s) % (uint64_t)count); }

static void touch(State *s, int32_t point)
{
    if (!s->touch_of[point]) {
        if (s->touches == MOST_TOUCHED) return;
        s->touched[s->touches++] = point;
        s->touch_of[point] = s->touches;
    }
    s->is_known[s->touch_of[point] - 1] = 0;
}

/* What lies at a point has changed: so may have wheels whose middle one ends there. */
static void touch_with_wheels(State *s, int32_t point)
{
    touch(s, point);
    for (int32_t b = s->first[1][point]; b != NONE; b = s->block[b].after[1]) touch(s, s->block[b].lo);
}

static void enter(State *s, int32_t b)
{
    Block *block = &s->block[b];
    for (int end = 0; end < 2; end++) {
        int32_t point = end ? block->hi : block->lo, next = s->first[end][point];
        block->after[end] = next;
        block->before[end] = NONE;
        if (next != NONE) s->block[next].before[end] = b;
        s->first[end][point] = b;
        s->at[end][point]++;
        s->bytes[end][point] += block->size;
    }
    block->place = s->left;
    s->there[s->left++] = b;
}

static void leave(State *s, int32_t b)
{
    Block *block = &s->block[b];
    for (int end = 0; end < 2; end++) {
        int32_t point = end ? block->hi : block->lo;
        if (block->after[end] != NONE) s->block[block->after[end]].before[end] = block->before[end];
        if (block->before[end] != NONE) s->block[block->before[end]].after[end] = block->after[end];
        else s->first[end][point] = block->after[end];
        s->at[end][point]--;
        s->bytes[end][point] -= block->size;
    }
    int32_t last = s->there[--s->left];
    s->there[block->place] = last;
    s->block[last].place = block->place;
    block->place = NONE;
}

static void raise_live(State *s, int32_t b, int sign)
{
    const Block *block = &s->block[b];
    for (int32_t i = block->lo; i < block->hi; i++) s->live[i] += sign * block->size;
    for (int32_t k = 0; k < block->count; k++) {
        const Block *part = &s->block[block->part[k]];
        for (int32_t i = part->lo; i < part->hi; i++) s->live[i] -= sign * part->size;
    }
}

static void put_together(State *s, int32_t b)
{
    for (int32_t k = 0; k < s->block[b].count; k++) {
        leave(s, s->block[b].part[k]);
        s->block[s->block[b].part[k]].whole = b;
    }
    enter(s, b);
    raise_live(s, b, 1);
    s->price += s->block[b].price;
}

static void take_apart(State *s, int32_t b)
{
    leave(s, b);
    for (int32_t k = 0; k < s->block[b].count; k++) enter(s, s->block[b].part[k]);
    raise_live(s, b, -1);
    s->price -= s->block[b].price;
}

static void touch_block(State *s, int32_t b)
{
    touch_with_wheels(s, s->block[b].lo);
    touch_with_wheels(s, s->block[b].hi);
}

static double lacking(int64_t a, int64_t b)
{
    int64_t more = a > b ? a : b, less = a > b ? b : a;
    return (double)(more - less) / (double)more;
}

static const double BALANCE = 0.2;
static const double ALONE_LACKS = 0.25, PAIR_LACKS = 0.12, WHEEL_LACKS = 0.2;
static const double STACK_PRICE = 0.05, PAIR_PRICE = 0.3, LACK_SCALE = 0.12;

static double price_of(double lacks) { return 0.5 * (lacks / LACK_SCALE) * (lacks / LACK_SCALE); }

static int is_balanced(const State *s, int32_t point, int64_t ended, int64_t begun)
{
    int64_t before = s->bytes[1][point] - ended, after = s->bytes[0][point] - begun;
    return (before == 0 && after == 0) || (before > 0 && after > 0 && lacking(before, after) <= BALANCE);
}

/* The same noise for the same blocks throughout a trial; infinite for those that are left out. */
static double noise_of(const State *s, const int32_t *part, int32_t count)
{
    uint64_t x = s->trial;
    for (int32_t k = 0; k < count; k++) x = mixed(x + 0x9E3779B97F4A7C15u * (uint64_t)(part[k] + 1));
    double left_out = (double)(x & 0xFFFFF) / 1048576.0, a = (double)(x >> 20 & 0xFFFFF) / 1048576.0, b = (double)(x >> 40 & 0xFFFFF) / 1048576.0;
    return left_out < s->left_out ? INFINITY : s->noise * (a + b - 1.0);
}

static void consider(State *s, Candidate *best, double score, double price, int32_t count, const int32_t *part)
{
    s->looks++;
    if (score - s->noise >= best->score) return;
    score += noise_of(s, part, count);
    if (score >= best->score) return;
    best->score = score;
    best->price = price;
    best->count = count;
    memcpy(best->part, part, sizeof *part * (size_t)count);
}

static int is_crowded(const State *s, int32_t point, int32_t most) { return s->at[0][point] > most || s->at[1][point] > most; }

static int lives_as(const State *s, int32_t lo, int32_t hi)
{
    for (int32_t b = s->first[0][lo]; b != NONE; b = s->block[b].after[0])
        if (s->block[b].hi == hi) return 1;
    return 0;
}

static void consider_stacks(State *s, Candidate *best, int32_t point)
{
    for (int32_t a = s->first[0][point]; a != NONE; a = s->block[a].after[0])
        for (int32_t b = s->block[a].after[0]; b != NONE; b = s->block[b].after[0]) {
            s->looks++;
            if (s->block[a].hi != s->block[b].hi) continue;
            int32_t part[] = {a < b ? a : b, a < b ? b : a};
            consider(s, best, 0.0, STACK_PRICE, 2, part);
        }
}

static void consider_pairs(State *s, Candidate *best, int32_t point)
{
    int alone = s->at[0][point] == 1 && s->at[1][point] == 1;
    for (int32_t a = s->first[1][point]; a != NONE; a = s->block[a].after[1])
        for (int32_t b = s->first[0][point]; b != NONE; b = s->block[b].after[0]) {
            const Block *first = &s->block[a], *second = &s->block[b];
            double lacks = lacking(first->size, second->size);
            s->looks++;
            if (lacks > (alone ? ALONE_LACKS : PAIR_LACKS)) continue;
            if (!alone && !is_balanced(s, point, first->size, second->size)) continue;
            int32_t part[] = {a, b};
            double doubt = alone ? 0.0 : lives_as(s, first->lo, second->hi) ? -0.05 : 0.15 + lacks;
            consider(s, best, lacks + doubt, price_of(lacks) + (alone ? 0.0 : PAIR_PRICE), 2, part);
        }
}

static void consider_wheel(State *s, Candidate *best, const int32_t *part, int32_t first, int32_t second)
{
    const Block *early = &s->block[part[EARLY]], *late = &s->block[part[LATE]], *over = &s->block[part[OVER]];
    const Block *left = &s->block[part[LEFT]], *middle = &s->block[part[MIDDLE]];
    double below = lacking(early->size + middle->size, late->size), above = lacking(middle->size + over->size, left->size);
    s->looks++;
    if (below > WHEEL_LACKS || above > WHEEL_LACKS) return;
    if (!is_balanced(s, first, left->size, middle->size + over->size)) return;
    if (!is_balanced(s, second, early->size + middle->size, late->size)) return;
    double worse = below > above ? below : above;
    consider(s, best, worse - 0.15, price_of(below) + price_of(above), PARTS, part);
}

static void consider_wheels(State *s, Candidate *best, int32_t point)
{
    for (int32_t m = s->first[0][point]; m != NONE; m = s->block[m].after[0]) {
        int32_t end = s->block[m].hi;
        if (is_crowded(s, end, MOST_WITH_WHEELS)) continue;
        for (int32_t o = s->first[0][point]; o != NONE; o = s->block[o].after[0]) {
            if (s->block[o].hi <= end) continue;
            for (int32_t l = s->first[0][end]; l != NONE; l = s->block[l].after[0]) {
                s->looks++;
                if (s->block[l].hi != s->block[o].hi) continue;
                for (int32_t e = s->first[1][end]; e != NONE; e = s->block[e].after[1]) {
                    if (s->block[e].lo >= point) continue;
                    for (int32_t f = s->first[1][point]; f != NONE; f = s->block[f].after[1]) {
                        if (s->block[f].lo != s->block[e].lo) continue;
                        int32_t part[] = {e, l, o, f, m};
                        consider_wheel(s, best, part, point, end);
                    }
                }
            }
        }
    }
}

static Candidate best_at(State *s, int32_t point)
{
    Candidate best = {.score = INFINITY};
    if (is_crowded(s, point, MOST_AT_A_POINT)) return best;
    consider_stacks(s, &best, point);
    consider_pairs(s, &best, point);
    if (!is_crowded(s, point, MOST_WITH_WHEELS)) consider_wheels(s, &best, point);
    return best;
}

static Candidate best_candidate(State *s)
{
    Candidate best = {.score = INFINITY};
    for (int32_t k = 0; k < s->touches; k++) {
        if (!s->is_known[k]) s->best[k] = best_at(s, s->touched[k]);
        s->is_known[k] = 1;
        if (s->best[k].score < best.score) best = s->best[k];
    }
    return best;
}

/* The rectangle around the parts: what lies on others rests on the higher one of them. */
static void shape(State *s, int32_t b, const Candidate *c)
{
    Block *block = &s->block[b];
    const Block *part[PARTS];
    memcpy(block->part, c->part, sizeof *block->part * (size_t)c->count);
    block->count = c->count;
    block->price = c->price;
    for (int32_t k = 0; k < c->count; k++) part[k] = &s->block[c->part[k]], block->shift[k] = 0;
    if (c->count == 2 && part[0]->lo < part[1]->hi && part[1]->lo < part[0]->hi) {
        block->shift[1] = part[0]->size;
        block->lo = part[0]->lo, block->hi = part[0]->hi;
    } else if (c->count == 2) {
        block->lo = part[0]->lo, block->hi = part[1]->hi;
    } else {
        block->lo = part[EARLY]->lo, block->hi = part[LATE]->hi;
        block->shift[LEFT] = block->shift[MIDDLE] = part[EARLY]->size;
        int64_t top = part[EARLY]->size + part[MIDDLE]->size;
        block->shift[OVER] = top > part[LATE]->size ? top : part[LATE]->size;
    }
    block->size = 0;
    for (int32_t k = 0; k < c->count; k++)
        if (block->shift[k] + part[k]->size > block->size) block->size = block->shift[k] + part[k]->size;
}

static int is_too_high(const State *s, int32_t b)
{
    for (int32_t i = s->block[b].lo; i < s->block[b].hi; i++)
        if (s->live[i] > s->p->most_bytes) return 1;
    return 0;
}

static void glue_all(State *s)
{
    for (;;) {
        Candidate best = best_candidate(s);
        if (best.score == INFINITY || !s->spares) return;
        int32_t b = s->spare[--s->spares];
        shape(s, b, &best);
        put_together(s, b);
        s->noted[s->notes++] = b;
        touch_block(s, b);
        for (int32_t k = 0; k < best.count; k++) touch_block(s, best.part[k]);
        if (is_too_high(s, b)) {
            take_apart(s, b);
            s->spare[s->spares++] = b;
            s->notes--;
            return;
        }
    }
}

static void ruin(State *s, int32_t b, double deeper)
{
    touch_block(s, b);
    if (!s->block[b].count) return;
    take_apart(s, b);
    s->noted[s->notes++] = ~b;
    for (int32_t k = 0; k < s->block[b].count; k++)
        if (uniform(s) < deeper) ruin(s, s->block[b].part[k], deeper);
        else touch_block(s, s->block[b].part[k]);
}

/* All that a block is part of comes apart. */
static void uncover(State *s, int32_t b)
{
    int32_t path[MOST_DEPTH], depth = 0;
    for (; s->block[b].place == NONE && depth < MOST_DEPTH; b = s->block[b].whole) path[depth++] = b;
    if (s->block[b].place == NONE) return;
    for (;; b = path[--depth]) {
        touch_block(s, b);
        if (!depth) return;
        take_apart(s, b);
        s->noted[s->notes++] = ~b;
        for (int32_t k = 0; k < s->block[b].count; k++) touch_block(s, s->block[b].part[k]);
    }
}

/* Some block that a buffer is part of. */
static int32_t some_around(State *s, int32_t b)
{
    while (s->block[b].place == NONE && next_random(s) & 1) b = s->block[b].whole;
    return b;
}

/* A block that begins or ends where this one does; itself, now and then. */
static int32_t beside(State *s, int32_t b)
{
    int end = (int)(next_random(s) & 1);
    int32_t point = next_random(s) & 1 ? s->block[b].hi : s->block[b].lo;
    int32_t other = s->first[end][point];
    for (int32_t steps = s->at[end][point] ? below(s, s->at[end][point]) : 0; steps > 0; steps--) other = s->block[other].after[end];
    return other == NONE ? b : other;
}

static void ruin_some(State *s)
{
    int32_t chosen[MOST_RUINED], wanted = 1 + below(s, MOST_RUINED - 1), b = s->there[below(s, s->left)];
    double deeper = 0.9 * uniform(s);
    if (next_random(s) & 1) {
        b = some_around(s, below(s, s->p->n));
        uncover(s, b);
        deeper *= uniform(s);
    }
    for (int32_t k = 0; k < wanted; k++) {
        chosen[k] = b;
        b = beside(s, chosen[below(s, k + 1)]);
    }
    for (int32_t k = 0; k < wanted; k++)
        if (s->block[chosen[k]].place != NONE) ruin(s, chosen[k], deeper);
}

static void undo(State *s)
{
    while (s->notes) {
        int32_t b = s->noted[--s->notes];
        if (b < 0) put_together(s, ~b);
        else take_apart(s, b), s->spare[s->spares++] = b;
    }
}

static void keep(State *s)
{
    while (s->notes) {
        int32_t b = s->noted[--s->notes];
        if (b < 0) s->spare[s->spares++] = ~b;
    }
}

static void forget_touched(State *s)
{
    for (int32_t k = 0; k < s->touches; k++) s->touch_of[s->touched[k]] = 0;
    s->touches = 0;
}

static void try_once(State *s, double warmth)
{
    double before = s->left + s->price;
    ruin_some(s);
    s->trial = next_random(s);
    s->noise = 0.4 * uniform(s) * uniform(s);
    s->left_out = 0.3 * uniform(s);
    glue_all(s);
    s->left_out = 0.0;
    memset(s->is_known, 0, (size_t)s->touches);
    glue_all(s);
    forget_touched(s);
    double after = s->left + s->price;
    if (after <= before || (warmth > 0 && uniform(s) < exp((before - after) / warmth))) keep(s);
    else undo(s);
}

static int prepare(State *s, const RegluingProblem *p)
{
    size_t n = 2 * (size_t)p->n, points = (size_t)p->points;
    s->p = p;
    s->block = calloc(n, sizeof *s->block);
    s->there = malloc(sizeof *s->there * n);
    s->spare = malloc(sizeof *s->spare * n);
    s->noted = malloc(sizeof *s->noted * 2 * n);
    for (int end = 0; end < 2; end++) {
        s->first[end] = malloc(sizeof *s->first[end] * points);
        s->at[end] = calloc(points, sizeof *s->at[end]);
        s->bytes[end] = calloc(points, sizeof *s->bytes[end]);
    }
    s->live = calloc(points, sizeof *s->live);
    s->touched = malloc(sizeof *s->touched * MOST_TOUCHED);
    s->touch_of = calloc(points, sizeof *s->touch_of);
    if (!s->block || !s->there || !s->spare || !s->noted || !s->first[0] || !s->first[1] || !s->at[0] || !s->at[1] || !s->bytes[0] ||
        !s->bytes[1] || !s->live || !s->touched || !s->touch_of)
        return 0;
    for (int end = 0; end < 2; end++) memset(s->first[end], 0xff, sizeof *s->first[end] * points);
    for (int32_t b = 0; b < p->n; b++) {
        s->block[b].lo = p->lo[b], s->block[b].hi = p->hi[b], s->block[b].size = p->size[b];
        enter(s, b);
        for (int32_t i = p->lo[b]; i < p->hi[b]; i++) s->live[i] += p->size[b];
    }
    for (int32_t b = 2 * p->n - 1; b >= p->n; b--) s->spare[s->spares++] = b;
    return 1;
}

static void release(State *s)
{
    free(s->block);
    free(s->there);
    free(s->spare);
    free(s->noted);
    for (int end = 0; end < 2; end++) {
        free(s->first[end]);
        free(s->at[end]);
        free(s->bytes[end]);
    }
    free(s->live);
    free(s->touched);
    free(s->touch_of);
}

/* Where a buffer is: the number of the block, and where in it. */
static void spread(const State *s, int32_t b, int32_t number, int64_t at, int32_t *group, int64_t *shift)
{
    const Block *block = &s->block[b];
    if (!block->count) group[b] = number, shift[b] = at;
    for (int32_t k = 0; k < block->count; k++) spread(s, block->part[k], number, at + block->shift[k], group, shift);
}

/* Glues what belongs together; group and shift of each buffer, of `*left` blocks. report: looks, trials. */
int kilotune_reglue(const RegluingProblem *p, uint64_t seed, int32_t *group, int64_t *shift, int32_t *left, int64_t *report)
{
    State state = {.random = seed}, *s = &state;
    int64_t deadline = p->nanoseconds < INT64_MAX / 2 ? nanoseconds_now() + p->nanoseconds : INT64_MAX, trials = 0;
    int status = prepare(s, p) ? DONE : NO_MEMORY;
    for (int32_t point = 0; status == DONE && point < p->points; point++) {
        touch(s, point);
        glue_all(s);
        forget_touched(s);
    }
    s->notes = 0;
    while (status == DONE && s->left > 1 && s->looks < p->looks) {
        if (trials % TRIALS_PER_LOOK == 0 && (*p->stop || nanoseconds_now() > deadline)) status = STOPPED;
        try_once(s, p->warmth * (1.0 - (double)s->looks / (double)p->looks));
        trials++;
    }
    if (status != NO_MEMORY) {
        for (int32_t k = 0; k < s->left; k++) spread(s, s->there[k], k, 0, group, shift);
        *left = s->left;
        report[0] = s->looks;
        report[1] = trials;
    }
    release(s);
    return status;
}
