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
#include <time.h>

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
    int32_t width, children, raises; /* states at a time; of each, and for each valley of it; valleys given up though something fits */
    int64_t nanoseconds;
    const volatile int32_t *stop; /* set by another thread */
} BeamProblem;

typedef struct {
    double score;
    uint64_t hash; /* of what is placed */
    int32_t node;  /* the last step to it; -1: none */
    int64_t *height, *reach;
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
    int64_t floor, left, right; /* heights: its own, and its neighbours' */
    int32_t l, r;
} Valley;

typedef struct {
    const BeamProblem *p;
    int32_t words, *first; /* of waits; the first buffer that begins at a section or later */
    State *now, *then, scratch;
    int32_t states, waiting; /* how many; buffers that wait in the first one */
    Child *child;
    int32_t children, room;
    Step *step;
    int32_t steps;
    int64_t looks;
} Beam;

#include "skyline_beam_state.h"

static int64_t nanoseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

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

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void copy_state(const Beam *s, State *to, const State *from)
{
    memcpy(to->height, from->height, sizeof *to->height * (size_t)s->p->sections);
    memcpy(to->reach, from->reach, sizeof *to->reach * (size_t)s->p->sections);
    memcpy(to->waits, from->waits, sizeof *to->waits * (size_t)s->words);
    to->score = from->score, to->hash = from->hash, to->node = from->node;
}

static Valley lowest_valley(const Beam *s, const State *state)
{
    const int64_t *height = state->height;
    Valley v = {.floor = INT64_MAX};
    for (int32_t i = 0; i < s->p->sections; i++)
        if (height[i] < v.floor) v.floor = height[i], v.l = i;
    for (v.r = v.l + 1; v.r < s->p->sections && height[v.r] == v.floor;) v.r++;
    v.left = v.l ? height[v.l - 1] : NO_NEIGHBOUR;
    v.right = v.r < s->p->sections ? height[v.r] : NO_NEIGHBOUR;
    return v;
}

/* What it costs that sections stay unused for so many bytes; infinite: one would reach above the capacity. */
static double cost_of(const Beam *s, const State *state, int32_t l, int32_t r, int64_t bytes)
{
    const BeamProblem *p = s->p;
    double cost = 0.0, scale = p->steepness / (double)p->bound;
    if (!bytes) return 0.0;
    for (int32_t i = l; i < r; i++) {
        int64_t reach = state->reach[i] + bytes;
        if (reach > p->capacity) return INFINITY;
        double middle = (double)(reach - p->bound) - 0.5 * (double)bytes;
        cost += (double)bytes * exp(scale * middle);
    }
    return cost;
}

static void raise_sections(State *state, int32_t l, int32_t r, int64_t bytes)
{
    for (int32_t i = l; i < r; i++) state->height[i] += bytes, state->reach[i] += bytes;
}

static int waits(const State *state, int32_t b) { return (int)(state->waits[b >> 6] >> (b & 63) & 1); }

/* Which parts of a valley nothing that waits fits into: those that end before `earliest_end`, and that begin after `latest_begin`. */
typedef struct {
    int32_t count, earliest_end, latest_begin;
} Fitting;

static Fitting fitting(Beam *s, const State *state, const Valley *v)
{
    const BeamProblem *p = s->p;
    Fitting f = {0, INT32_MAX, -1};
    for (int32_t b = s->first[v->l]; b < s->first[v->r]; b++) {
        if (p->hi[b] > v->r || !waits(state, b)) continue;
        f.count++;
        if (p->hi[b] < f.earliest_end) f.earliest_end = p->hi[b];
        f.latest_begin = p->lo[b];
    }
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

static double score_of(const Beam *s, const State *state, const Valley *v, const Fitting *f, int32_t b)
{
    const BeamProblem *p = s->p;
    int64_t left, right;
    dead_parts(p, v, f, b, &left, &right);
    double cost = cost_of(s, state, p->lo[b], p->hi[b], align_up(v->floor, p->alignment[b]) - v->floor);
    cost += cost_of(s, state, v->l, p->lo[b], left) + cost_of(s, state, p->hi[b], v->r, right);
    return state->score + p->credit[b] - cost;
}

/* The best buffers for a valley become children; the rest of those that fit are forgotten. */
static void add_children(Beam *s, const State *state, const Valley *v, const Fitting *f, int32_t number, int32_t raised)
{
    const BeamProblem *p = s->p;
    Child *from = s->child + s->children;
    int32_t count = 0;
    for (int32_t b = s->first[v->l]; b < s->first[v->r]; b++) {
        if (p->hi[b] > v->r || !waits(state, b)) continue;
        double score = score_of(s, state, v, f, b);
        if (score == -INFINITY || (count == p->children && score <= from[count - 1].score)) continue;
        int32_t at = count < p->children ? count++ : count - 1;
        for (; at > 0 && from[at - 1].score < score; at--) from[at] = from[at - 1];
        from[at] = (Child){score, state->hash + name_of(b), number, b, raised};
    }
    s->children += count;
}

/* A valley rises to its lower neighbour; 0: too high. */
static int give_up(const Beam *s, State *state, const Valley *v)
{
    int64_t bytes = least(v->left, v->right) - v->floor;
    double cost = v->left == v->right && v->left == NO_NEIGHBOUR ? INFINITY : cost_of(s, state, v->l, v->r, bytes);
    if (cost == INFINITY) return 0;
    state->score -= cost;
    raise_sections(state, v->l, v->r, bytes);
    return 1;
}

static void expand(Beam *s, int32_t number)
{
    State *state = &s->scratch;
    copy_state(s, state, &s->now[number]);
    for (int32_t raised = 0, more = s->p->raises;; raised++) {
        Valley v = lowest_valley(s, state);
        Fitting f = fitting(s, state, &v);
        if (f.count) add_children(s, state, &v, &f, number, raised);
        if ((f.count && !more--) || !give_up(s, state, &v)) return;
    }
}

static int better_first(const void *left, const void *right)
{
    const Child *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->hash > b->hash) - (a->hash < b->hash);
}

static void become(Beam *s, State *to, const Child *c)
{
    const BeamProblem *p = s->p;
    int32_t b = c->buffer;
    copy_state(s, to, &s->now[c->state]);
    for (int32_t k = 0; k < c->raised; k++) {
        Valley v = lowest_valley(s, to);
        give_up(s, to, &v);
    }
    Valley v = lowest_valley(s, to);
    Fitting f = fitting(s, to, &v);
    int64_t left, right, begin = align_up(v.floor, p->alignment[b]);
    dead_parts(p, &v, &f, b, &left, &right);
    raise_sections(to, v.l, p->lo[b], left);
    raise_sections(to, p->hi[b], v.r, right);
    raise_sections(to, p->lo[b], p->hi[b], begin - v.floor);
    for (int32_t i = p->lo[b]; i < p->hi[b]; i++) to->height[i] += p->size[b];
    to->waits[b >> 6] &= ~((uint64_t)1 << (b & 63));
    to->score = c->score, to->hash = c->hash;
    s->step[s->steps] = (Step){to->node, b, begin};
    to->node = s->steps++;
}

/* The best children, of each that come to the same once, are the states that follow. */
static void choose(Beam *s)
{
    qsort(s->child, (size_t)s->children, sizeof *s->child, better_first);
    int32_t count = 0;
    for (int32_t k = 0; k < s->children && count < s->p->width; k++) {
        int is_known = 0;
        for (int32_t e = k - 1; e >= 0 && !is_known && s->child[e].score - s->child[k].score < SAME; e--)
            is_known = s->child[e].hash == s->child[k].hash;
        if (!is_known) become(s, &s->then[count++], &s->child[k]);
    }
    State *last = s->now;
    s->now = s->then, s->then = last;
    s->states = count;
}

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
        s->children = 0;
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
