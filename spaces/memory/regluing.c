/* Ruin and recreate over what is glued: some blocks come apart, and what lies there is glued anew in another order (see regluing.py).
 *
 * Everything lives on the heap of one call: the functions are reentrant.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { DONE = 0, STOPPED = 2, NO_MEMORY = 3 };
enum { TRIALS_PER_LOOK = 64 }; /* at the clock */
enum { MOST_AT_A_POINT = 200, MOST_WITH_WHEELS = 40 }; /* blocks that begin, or end, above which nothing, or no wheel, is looked for there */
enum { MOST_RUINED = 64, LOG_SMALL = 5, POLISH = 2000, MOST_DEPTH = 200 };
enum { EARLY, LATE, OVER, LEFT, MIDDLE };

typedef struct {
    int32_t n, points;
    const int32_t *lo, *hi; /* of a buffer: the points where it begins and ends */
    const int64_t *size;
    int64_t most_bytes; /* what live sums may rise to */
    int64_t looks; /* at candidates; it ends at the first point after which there were more */
    int64_t nanoseconds;
    int32_t most_left; /* blocks after the first gluing of all, above which nothing is tried */
    double likeness;   /* how much sizes differ that lay beside each other, as a share of what is usual */
    double warmth;     /* what a trial may cost, at first, as it is accepted now and then */
    const volatile int32_t *stop; /* set by another thread */
} RegluingProblem;

#include "regluing_state.h"

/* What the lower one of two lacks. */
static double lacking(int64_t a, int64_t b)
{
    int64_t more = a > b ? a : b, less = a > b ? b : a;
    return (double)(more - less) / (double)more;
}

static const double BALANCE = 0.2; /* how much of the higher side of a point the lower one may lack, without what is glued there */
static const double LEAST_LACK = 0.2, MOST_LACK = 0.25; /* how much the lower one of two that lay beside each other may lack, by trial */
static const double ALONE_LACKS = 0.3; /* and where nothing else begins or ends */
static const double STACK_PRICE = 0.05, DOUBT_PRICE = 0.3, LACK_SCALE = 0.12;
static const double WHEELS_FIRST = 0.15, PAIRS_FIRST = 0.01;
static const double CONFIRMED_CHANCE = 0.3; /* the part of the pairs that are there by chance whose life another block has */
static const double ALIKE_LATER = 0.1;      /* for each further block that lives as long as two that may be stacked */
static const double MOST_NOISE = 0.4, MOST_LEFT_OUT = 0.3, DEEPEST = 0.9;

static double price_of(double lacks) { return 0.5 * (lacks / LACK_SCALE) * (lacks / LACK_SCALE); }

static int is_balanced(const State *s, int32_t point, int64_t ended, int64_t begun)
{
    int64_t before = s->bytes[1][point] - ended, after = s->bytes[0][point] - begun;
    return (before == 0 && after == 0) || (before > 0 && after > 0 && lacking(before, after) <= BALANCE);
}

static uint64_t name_of(const State *s, const int32_t *part, int32_t count)
{
    uint64_t name = s->trial;
    for (int32_t k = 0; k < count; k++) name = mixed(name + 0x9E3779B97F4A7C15u * (uint64_t)(part[k] + 1));
    return name;
}

/* The same noise for the same blocks throughout a trial; infinite for those that are left out. */
static double noise_of(const State *s, const int32_t *part, int32_t count)
{
    uint64_t name = name_of(s, part, count);
    for (int32_t k = 0; k < s->refusals; k++)
        if (s->refused[k] == name) return INFINITY;
    double share[3];
    for (int k = 0; k < 3; k++) share[k] = (double)(name >> 20 * k & 0xFFFFF) / 1048576.0;
    return share[0] < s->left_out ? INFINITY : s->noise * (share[1] + share[2] - 1.0);
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

static int32_t count_alike(const State *s, int32_t b)
{
    int32_t count = 0;
    for (int32_t c = s->first[0][s->block[b].lo]; c != NONE; c = s->block[c].after[0]) count += s->block[c].hi == s->block[b].hi;
    return count;
}

/* Two alone that live equally long lay on each other; of more, some may have lain elsewhere. */
static void consider_stacks(State *s, Candidate *best, int32_t point)
{
    for (int32_t a = s->first[0][point]; a != NONE; a = s->block[a].after[0])
        for (int32_t b = s->block[a].after[0]; b != NONE; b = s->block[b].after[0]) {
            s->looks++;
            if (s->block[a].hi != s->block[b].hi) continue;
            int32_t part[] = {a < b ? a : b, a < b ? b : a};
            consider(s, best, ALIKE_LATER * (count_alike(s, a) - 2), STACK_PRICE, 2, part);
        }
}

/* Of those that meet at a point the pairs come first of which chance has the fewest that are as much alike. */
static void consider_pairs(State *s, Candidate *best, int32_t point)
{
    int alone = s->at[0][point] == 1 && s->at[1][point] == 1;
    for (int32_t a = s->first[1][point]; a != NONE; a = s->block[a].after[1])
        for (int32_t b = s->first[0][point]; b != NONE; b = s->block[b].after[0]) {
            const Block *first = &s->block[a], *second = &s->block[b];
            double different = lacking(first->size, second->size), lacks = different / s->p->likeness;
            s->looks++;
            if (lacks > (alone ? ALONE_LACKS : s->most_lack)) continue;
            if (!alone && !is_balanced(s, point, first->size, second->size)) continue;
            int32_t part[] = {a, b};
            double by_chance = different * s->at[0][point] * s->at[1][point];
            if (!alone && lives_as(s, first->lo, second->hi)) by_chance *= CONFIRMED_CHANCE;
            consider(s, best, alone ? lacks : by_chance - PAIRS_FIRST, price_of(lacks) + (alone ? 0.0 : DOUBT_PRICE), 2, part);
        }
}

static void consider_wheel(State *s, Candidate *best, const int32_t *part, int32_t first, int32_t second)
{
    const Block *early = &s->block[part[EARLY]], *late = &s->block[part[LATE]], *over = &s->block[part[OVER]];
    const Block *left = &s->block[part[LEFT]], *middle = &s->block[part[MIDDLE]];
    double below = lacking(early->size + middle->size, late->size) / s->p->likeness;
    double above = lacking(middle->size + over->size, left->size) / s->p->likeness;
    s->looks++;
    if (below > s->most_lack || above > s->most_lack) return;
    if (!is_balanced(s, first, left->size, middle->size + over->size)) return;
    if (!is_balanced(s, second, early->size + middle->size, late->size)) return;
    double worse = below > above ? below : above;
    consider(s, best, worse - WHEELS_FIRST, price_of(below) + price_of(above), PARTS, part);
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

static int is_too_high(const State *s, int32_t b)
{
    for (int32_t i = s->block[b].lo; i < s->block[b].hi; i++)
        if (s->live[i] > s->p->most_bytes) return 1;
    return 0;
}

static void glue_all(State *s)
{
    memset(s->is_known, 0, (size_t)s->touches);
    s->refusals = 0;
    while (s->spares && s->looks < s->p->looks) {
        Candidate best = best_candidate(s);
        if (best.score == INFINITY) return;
        int32_t b = s->spare[--s->spares];
        shape(s, b, &best);
        put_together(s, b);
        touch_block(s, b);
        for (int32_t k = 0; k < best.count; k++) touch_block(s, best.part[k]);
        if (is_too_high(s, b)) {
            take_apart(s, b);
            s->spare[s->spares++] = b;
            if (s->refusals == MOST_REFUSED) return;
            s->refused[s->refusals++] = name_of(s, best.part, best.count);
        } else {
            s->noted[s->notes++] = b;
        }
    }
}

static void ruin(State *s, int32_t b, double deeper, int32_t small)
{
    touch_block(s, b);
    if (!s->block[b].count) return;
    take_apart(s, b);
    s->noted[s->notes++] = ~b;
    for (int32_t k = 0; k < s->block[b].count; k++)
        if (uniform(s) < (s->block[b].buffers <= small ? 1.0 : deeper)) ruin(s, s->block[b].part[k], deeper, small);
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
    int32_t chosen[MOST_RUINED], wanted = 1 + below(s, 1 + below(s, MOST_RUINED)), b = s->there[below(s, s->left)];
    double deeper = DEEPEST * uniform(s);
    int32_t small = next_random(s) & 1 ? 0 : 2 << below(s, LOG_SMALL);
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
        if (s->block[chosen[k]].place != NONE) ruin(s, chosen[k], deeper, small);
}

/* Some of what is glued comes apart, and is glued in another order. */
static void glue_anew(State *s)
{
    ruin_some(s);
    s->trial = next_random(s);
    s->noise = MOST_NOISE * uniform(s) * uniform(s);
    s->most_lack = LEAST_LACK + (MOST_LACK - LEAST_LACK) * uniform(s);
    s->left_out = MOST_LEFT_OUT * uniform(s);
    glue_all(s);
    s->left_out = 0.0;
    glue_all(s);
    forget_touched(s);
}

/* A trial that is kept when it is no worse, or by chance. */
static void try_once(State *s, double warmth)
{
    double before = s->left + s->price;
    glue_anew(s);
    double after = s->left + s->price;
    if (after <= before || (warmth > 0 && uniform(s) < exp((before - after) / warmth))) keep(s);
    else undo(s);
}

/* A trial that is kept when what is left is one block again, and no higher. */
static void lower_once(State *s)
{
    int64_t before = s->block[s->there[0]].size;
    glue_anew(s);
    if (s->left == 1 && s->block[s->there[0]].size <= before) keep(s);
    else undo(s);
}

static int is_over(const RegluingProblem *p, int64_t deadline) { return *p->stop || nanoseconds_now() > deadline; }

/* Glues what belongs together; group and shift of each buffer, of `*left` blocks. report: looks, trials. */
int kilotune_reglue(const RegluingProblem *p, uint64_t seed, int32_t *group, int64_t *shift, int32_t *left, int64_t *report)
{
    State state = {.random = seed}, *s = &state;
    int64_t deadline = p->nanoseconds < INT64_MAX / 2 ? nanoseconds_now() + p->nanoseconds : INT64_MAX, trials = 0;
    int status = prepare(s, p) ? DONE : NO_MEMORY;
    s->most_lack = LEAST_LACK;
    for (int32_t point = 0; status == DONE && point < p->points && s->looks < p->looks; point++) {
        touch(s, point);
        glue_all(s);
        forget_touched(s);
        if (is_over(p, deadline)) status = STOPPED;
    }
    s->notes = 0;
    int64_t looks = p->looks, height = INT64_MAX;
    while (status == DONE && s->left <= p->most_left && s->looks < looks) {
        if (trials++ % TRIALS_PER_LOOK == 0 && is_over(p, deadline)) status = STOPPED;
        if (s->left > 1) {
            try_once(s, p->warmth * (1.0 - (double)s->looks / (double)p->looks));
            continue;
        }
        if (height == INT64_MAX) looks = s->looks + (int64_t)POLISH * p->n < looks ? s->looks + (int64_t)POLISH * p->n : looks, height = 0;
        lower_once(s);
    }
    if (status != NO_MEMORY) {
        spread(s, group, shift);
        *left = s->left;
        report[0] = s->looks;
        report[1] = trials;
    }
    release(s);
    return status;
}
