/* Placement from below with many placements at a time: a beam search over the choices that skyline.c takes once (see skyline_beam.py).
 *
 * Times are sections; buffer b is live in sections [lo, hi). A state is what one placement has come to: the height of each section, and
 * its reach, which is the height that it will have at least when all is placed: what it has, and what still waits there.
 * Everything lives on the heap of one call: the functions are reentrant.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { FITS = 0, FAILS = 1, STOPPED = 2, NO_MEMORY = 3 };
static const double SAME = 1e-3; /* by how many bytes scores differ that were summed in another order */
static const int64_t NO_NEIGHBOUR = INT64_MAX / 4; /* as high as nothing is */

typedef struct {
    int32_t n, sections;
    const int64_t *live;    /* of each section */
    const int32_t *lo, *hi; /* ascending by lo */
    const int64_t *size, *alignment;
    const int64_t *kept;  /* of a buffer: the offset at which it lies from the beginning; -1: it waits. Nothing waits below what is kept */
    const double *credit; /* of a buffer: what it is worth to have it placed, in bytes left unused at a section of the largest live sum */
    double steepness;       /* a byte left unused counts exp(steepness * (reach / bound - 1)) */
    int64_t bound, capacity; /* the largest live sum; what no section may reach above */
    int32_t width, looked_ahead; /* states at a time; so many children are made, of which the best ones by what will stay unused follow */
    int32_t children, raises;    /* of each state, and for each valley of it; valleys given up though something fits */
    int64_t nanoseconds;
    const volatile int32_t *stop; /* set by another thread */
} BeamProblem;

typedef struct {
    double score;
    uint64_t hash; /* of what is placed */
    int32_t node;  /* the last step to it; -1: none */
    int64_t *height, *reach;
    double *weight;  /* of a section: what a byte left unused there would count */
    double *unused;  /* of the section where a valley begins: what it costs that nothing can fill it; of others 0 */
    uint64_t *waits; /* a bit a buffer */
} State;

typedef struct {
    int32_t before, buffer;
    int64_t offset;
} Step;

typedef struct {
    double score;
    uint64_t hash;
    int32_t state, buffer, raised; /* valleys that were given up before */
} Child;

typedef struct {
    const Child *next, *end; /* of the children of a valley: the best one that was not taken, and where they end */
} Run;

typedef struct {
    double hoped;
    int32_t number; /* among those that were made */
} Rank;

typedef struct {
    int64_t floor, left, right; /* heights: its own, and its neighbours' */
    int32_t l, r;
} Valley;

typedef struct {
    const BeamProblem *p;
    int32_t words, *first; /* of waits; the first buffer that begins at a section or later */
    State *now, *then, *made, scratch;
    Rank *rank; /* of what was made, the best one first */
    int32_t states, waiting; /* how many; buffers that wait in the first one */
    Child *child;
    Run *run;
    const Child **taken; /* all that were */
    int32_t runs;
    int32_t children;
    Step *step;
    int32_t steps;
    int32_t *fits;            /* the buffers that fit into a valley */
    double *weight_before;   /* of a section of a valley: what those of the valley before it weigh together */
    int64_t *filling; /* of a section: the bytes that wait and fit into its valley */
    int64_t *left_reach, *right_reach; /* and the highest reach of those before it, and from it on */
    double scale;
    int64_t looks;
} Beam;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t name_of(int32_t buffer) { return mixed(0x9E3779B97F4A7C15u * (uint64_t)(buffer + 1)); }

static int64_t align_up(int64_t address, int64_t alignment)
{
    int64_t over = address % alignment;
    return over ? address + alignment - over : address;
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int32_t earlier(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The buffers that wait and live within sections [l, r) become `fits`, by when they begin; how many. */
static int32_t waiting_within(const Beam *s, const State *state, int32_t l, int32_t r)
{
    const int32_t *hi = s->p->hi;
    int32_t begin = s->first[l], end = s->first[r], count = 0;
    for (int32_t word = begin >> 6; word << 6 < end; word++) {
        uint64_t waiting = state->waits[word];
        if (word == begin >> 6) waiting &= ~(uint64_t)0 << (begin & 63);
        for (; waiting; waiting &= waiting - 1) {
            int32_t b = (word << 6) + __builtin_ctzll(waiting);
            if (b >= end) break;
            if (hi[b] <= r) s->fits[count++] = b;
        }
    }
    return count;
}

#include "skyline_beam_unused.h"
#include "skyline_beam_state.h"

static void copy_state(const Beam *s, State *to, const State *from)
{
    memcpy(to->height, from->height, sizeof *to->height * (size_t)s->p->sections);
    memcpy(to->reach, from->reach, sizeof *to->reach * (size_t)s->p->sections);
    memcpy(to->weight, from->weight, sizeof *to->weight * (size_t)s->p->sections);
    memcpy(to->unused, from->unused, sizeof *to->unused * (size_t)s->p->sections);
    memcpy(to->waits, from->waits, sizeof *to->waits * (size_t)s->words);
    to->score = from->score, to->hash = from->hash, to->node = from->node;
}

static Valley lowest_valley(const Beam *s, const State *state)
{
    const int64_t *height = state->height;
    int32_t sections = s->p->sections;
    Valley v = {.floor = INT64_MAX};
    for (int32_t i = 0; i < sections; i++) v.floor = least(v.floor, height[i]);
    while (height[v.l] != v.floor) v.l++;
    for (v.r = v.l + 1; v.r < sections && height[v.r] == v.floor;) v.r++;
    v.left = v.l ? height[v.l - 1] : NO_NEIGHBOUR;
    v.right = v.r < sections ? height[v.r] : NO_NEIGHBOUR;
    return v;
}

/* What it costs that sections of the valley that was looked at last stay unused for so many bytes; `highest`: of their reaches. Infinite:
 * one would reach above the capacity. */
static inline double cost_of(const Beam *s, int32_t l, int32_t r, int64_t highest, int64_t bytes)
{
    if (!bytes || l == r) return 0.0;
    if (highest + bytes > s->p->capacity) return INFINITY;
    return (double)bytes * exp(0.5 * s->scale * (double)bytes) * (s->weight_before[r] - s->weight_before[l]);
}

static void raise_sections(const Beam *s, State *state, int32_t l, int32_t r, int64_t bytes)
{
    if (!bytes || l == r) return;
    double heavier = exp(s->scale * (double)bytes);
    for (int32_t i = l; i < r; i++) state->height[i] += bytes, state->reach[i] += bytes, state->weight[i] *= heavier;
}

/* Sums and maxima over the sections of a valley, for what parts of it cost. */
static void look_at_sections(Beam *s, const State *state, const Valley *v)
{
    s->weight_before[v->l] = 0.0, s->left_reach[v->l] = s->right_reach[v->r] = 0;
    for (int32_t i = v->l; i < v->r; i++) {
        s->weight_before[i + 1] = s->weight_before[i] + state->weight[i];
        s->left_reach[i + 1] = most(s->left_reach[i], state->reach[i]);
    }
    for (int32_t i = v->r - 1; i >= v->l; i--) s->right_reach[i] = most(s->right_reach[i + 1], state->reach[i]);
}

/* Which parts of a valley nothing that waits fits into: those that end before `earliest_end`, and that begin after `latest_begin`. */
typedef struct {
    int32_t count, earliest_end, latest_begin;
} Fitting;

static Fitting fitting(Beam *s, const State *state, const Valley *v)
{
    const BeamProblem *p = s->p;
    Fitting f = {waiting_within(s, state, v->l, v->r), INT32_MAX, -1};
    for (int32_t k = 0; k < f.count; k++) f.earliest_end = earlier(f.earliest_end, p->hi[s->fits[k]]);
    if (f.count) f.latest_begin = p->lo[s->fits[f.count - 1]];
    s->looks += s->first[v->r] - s->first[v->l] + p->sections;
    return f;
}

/* The bytes by which the parts beside a buffer rise, as nothing fits into them. */
static void dead_parts(const BeamProblem *p, const Valley *v, const Fitting *f, int32_t b, int64_t *left, int64_t *right)
{
    int64_t top = align_up(v->floor, p->alignment[b]) + p->size[b];
    *left = p->lo[b] > v->l && f->earliest_end > p->lo[b] ? least(v->left, top) - v->floor : 0;
    *right = p->hi[b] < v->r && f->latest_begin < p->hi[b] ? least(v->right, top) - v->floor : 0;
}

static int64_t highest_reach(const State *state, int32_t l, int32_t r)
{
    int64_t highest = 0;
    for (int32_t i = l; i < r; i++) highest = most(highest, state->reach[i]);
    return highest;
}

static inline double score_of(const Beam *s, const State *state, const Valley *v, const Fitting *f, int32_t b)
{
    const BeamProblem *p = s->p;
    int32_t lo = p->lo[b], hi = p->hi[b];
    int64_t left, right, below = align_up(v->floor, p->alignment[b]) - v->floor;
    dead_parts(p, v, f, b, &left, &right);
    double cost = cost_of(s, v->l, lo, s->left_reach[lo], left) + cost_of(s, hi, v->r, s->right_reach[hi], right);
    if (below) cost += cost_of(s, lo, hi, highest_reach(state, lo, hi), below);
    return state->score + p->credit[b] - cost;
}

/* The best buffers for a valley become children; the rest of those that fit are forgotten. */
static void add_children(Beam *s, const State *state, const Valley *v, const Fitting *f, int32_t number, int32_t raised)
{
    const BeamProblem *p = s->p;
    Child *from = s->child + s->children;
    int32_t count = 0;
    for (int32_t k = 0; k < f->count; k++) {
        int32_t b = s->fits[k];
        double score = score_of(s, state, v, f, b);
        if (score == -INFINITY || (count == p->children && score <= from[count - 1].score)) continue;
        int32_t at = count < p->children ? count++ : count - 1;
        for (; at > 0 && from[at - 1].score < score; at--) from[at] = from[at - 1];
        from[at] = (Child){score, state->hash + name_of(b), number, b, raised};
    }
    if (!count) return;
    s->run[s->runs++] = (Run){from, from + count};
    s->children += count;
}

/* A valley rises to its lower neighbour; 0: too high. */
static int give_up(Beam *s, State *state, const Valley *v)
{
    int64_t bytes = least(v->left, v->right) - v->floor;
    double cost = v->left == v->right && v->left == NO_NEIGHBOUR ? INFINITY : cost_of(s, v->l, v->r, s->left_reach[v->r], bytes);
    if (cost == INFINITY) return 0;
    state->score -= cost;
    raise_sections(s, state, v->l, v->r, bytes);
    return 1;
}

static void expand(Beam *s, int32_t number)
{
    State *state = &s->scratch;
    copy_state(s, state, &s->now[number]);
    for (int32_t raised = 0, more = s->p->raises;; raised++) {
        Valley v = lowest_valley(s, state);
        Fitting f = fitting(s, state, &v);
        look_at_sections(s, state, &v);
        if (f.count) add_children(s, state, &v, &f, number, raised);
        if ((f.count && !more--) || !give_up(s, state, &v)) return;
    }
}

static void become(Beam *s, State *to, const Child *c)
{
    const BeamProblem *p = s->p;
    int32_t b = c->buffer;
    int32_t changed_l = p->sections, changed_r = 0;
    copy_state(s, to, &s->now[c->state]);
    for (int32_t k = 0; k < c->raised; k++) {
        Valley v = lowest_valley(s, to);
        look_at_sections(s, to, &v);
        give_up(s, to, &v);
        if (v.l < changed_l) changed_l = v.l;
        if (v.r > changed_r) changed_r = v.r;
    }
    Valley v = lowest_valley(s, to);
    Fitting f = fitting(s, to, &v);
    int64_t left, right, begin = align_up(v.floor, p->alignment[b]);
    dead_parts(p, &v, &f, b, &left, &right);
    raise_sections(s, to, v.l, p->lo[b], left);
    raise_sections(s, to, p->hi[b], v.r, right);
    raise_sections(s, to, p->lo[b], p->hi[b], begin - v.floor);
    for (int32_t i = p->lo[b]; i < p->hi[b]; i++) to->height[i] += p->size[b];
    to->waits[b >> 6] &= ~((uint64_t)1 << (b & 63));
    to->score = c->score, to->hash = c->hash;
    look_at_valleys(s, to, v.l < changed_l ? v.l : changed_l, v.r > changed_r ? v.r : changed_r);
    s->step[s->steps] = (Step){to->node, b, begin};
    to->node = s->steps++;
}

#include "skyline_beam_choice.h"

static int64_t peak_of(const Beam *s, const State *state)
{
    int64_t peak = 0;
    for (int32_t i = 0; i < s->p->sections; i++)
        if (state->height[i] > peak) peak = state->height[i];
    return peak;
}

/* Places all buffers within the capacity: FITS, with the lowest of the placements that were met. FAILS: none was. */
int kilotune_beam(const BeamProblem *p, int64_t *offset, int64_t *looks)
{
    Beam beam = {0}, *s = &beam;
    int64_t deadline = p->nanoseconds < INT64_MAX / 2 ? nanoseconds_now() + p->nanoseconds : INT64_MAX;
    int status = !prepare(s, p) ? NO_MEMORY : s->states ? FITS : FAILS;
    for (int32_t placed = 0; status == FITS && placed < s->waiting; placed++) {
        s->children = s->runs = 0;
        for (int32_t k = 0; k < s->states; k++) expand(s, k);
        choose(s);
        if (!s->states) status = FAILS;
        else if (*p->stop || nanoseconds_now() > deadline) status = STOPPED;
    }
    if (status == FITS) {
        const State *best = &s->now[0];
        for (int32_t k = 1; k < s->states; k++)
            if (peak_of(s, &s->now[k]) < peak_of(s, best)) best = &s->now[k];
        for (int32_t b = 0; b < p->n; b++) offset[b] = p->kept[b];
        for (int32_t at = best->node; at >= 0; at = s->step[at].before) offset[s->step[at].buffer] = s->step[at].offset;
    }
    *looks = s->looks;
    release(s);
    return status;
}
