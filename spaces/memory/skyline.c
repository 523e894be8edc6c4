/* Placement from below: the lowest valley of what is placed gets a buffer that is live within it, or is given up (see skyline.py).
 *
 * Times are sections; buffer b is live in sections [lo, hi). The skyline is a list of segments, each as high as all below it reach; a
 * heap finds the lowest one, and a tree over the buffers by their first section those that still wait and end within a valley.
 * Everything lives on the heap of one call: the functions are reentrant.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { FITS = 0, STOPPED = 2, NO_MEMORY = 3 };
enum { STEPS_PER_LOOK = 1024 }; /* at the clock */
static const int64_t NO_NEIGHBOUR = INT64_MAX / 4; /* as high as nothing is */

typedef struct {
    int32_t n, sections;
    const int32_t *lo, *hi;
    const int64_t *size, *alignment;
    const double *before; /* [sections + 1]: what the sections before one weigh together */
    const double *worth;  /* of a buffer: what speaks for it wherever it lies */
    double waste, flush;  /* what counts against unused bytes, as a share of a buffer; what speaks for an end that is the valley's */
    int32_t most_looks;   /* buffers that are compared for one place */
    int64_t nanoseconds;
    const volatile int32_t *stop; /* set by another thread */
} SkylineProblem;

typedef struct {
    int64_t height;
    int32_t begin;
} Valley;

/* All that is asked of a buffer, side by side: those that are compared lie near each other when they are sorted. */
typedef struct {
    int64_t size, alignment;
    double worth;
    int32_t lo, hi, number;
} Waiting;

typedef struct {
    const SkylineProblem *p;
    int32_t leaves;
    Waiting *by_lo; /* buffers by their first section */
    int32_t *first; /* where those of a section begin */
    int32_t *earliest;      /* tree over by_lo: the earliest end of those that wait */
    int64_t *height;        /* of the segment that begins at a section */
    int32_t *end, *before;  /* its end, -1: none begins there; where the segment before it begins */
    Valley *heap;
    int32_t heaped, room;
    int64_t looks;
} Skyline;

static inline int is_lower(const Valley *a, const Valley *b)
{
    return a->height < b->height || (a->height == b->height && a->begin < b->begin);
}

static int push(Skyline *s, int64_t height, int32_t begin)
{
    if (s->heaped == s->room) {
        Valley *grown = realloc(s->heap, 2 * sizeof *grown * (size_t)s->room);
        if (!grown) return 0;
        s->heap = grown;
        s->room *= 2;
    }
    Valley valley = {height, begin};
    int32_t at = s->heaped++;
    for (; at > 0 && is_lower(&valley, &s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = valley;
    return 1;
}

static Valley pop(Skyline *s)
{
    Valley top = s->heap[0], last = s->heap[--s->heaped];
    int32_t at = 0;
    for (int32_t below = 1; below < s->heaped; below = 2 * at + 1) {
        if (below + 1 < s->heaped && is_lower(&s->heap[below + 1], &s->heap[below])) below++;
        if (is_lower(&last, &s->heap[below])) break;
        s->heap[at] = s->heap[below];
        at = below;
    }
    s->heap[at] = last;
    return top;
}

static inline int32_t earlier(int32_t a, int32_t b) { return a < b ? a : b; }

static void wait_no_more(Skyline *s, int32_t place)
{
    int32_t at = place + s->leaves;
    s->earliest[at] = INT32_MAX;
    for (at /= 2; at; at /= 2) s->earliest[at] = earlier(s->earliest[2 * at], s->earliest[2 * at + 1]);
}

/* The first place from `from` on of a buffer that waits and ends at `end` or before; `leaves`: none. */
static int32_t next_within(const Skyline *s, int32_t from, int32_t end)
{
    if (from >= s->leaves) return s->leaves;
    int32_t at = from + s->leaves;
    while (s->earliest[at] > end) {
        while (at & 1) at /= 2;
        if (!at) return s->leaves;
        at++;
    }
    while (at < s->leaves) {
        at *= 2;
        if (s->earliest[at] > end) at++;
    }
    return at - s->leaves;
}

static inline int64_t align_up(int64_t address, int64_t alignment)
{
    int64_t over = address % alignment;
    return over ? address + alignment - over : address;
}

/* How well a buffer lies in the valley from `l` to `r`. At its sides bytes are given up as high as it or the neighbour is. */
static inline double score(const Skyline *s, const Waiting *b, int32_t l, int32_t r, int64_t left, int64_t right)
{
    const SkylineProblem *p = s->p;
    int64_t floor = s->height[l], up = align_up(floor, b->alignment) + b->size - floor;
    double from = p->before[b->lo], to = p->before[b->hi], beside_left = from - p->before[l], beside_right = p->before[r] - to;
    double unused = beside_left * (double)(left - floor < up ? left - floor : up);
    unused += beside_right * (double)(right - floor < up ? right - floor : up);
    double own = (to - from) * (double)up;
    return b->worth - p->waste * unused / own + p->flush * ((b->lo == l) + (b->hi == r));
}

/* The place in by_lo of the best buffer for the valley from `l` to `r`; -1: none is live within it. */
static int32_t best_within(Skyline *s, int32_t l, int32_t r, int64_t left, int64_t right)
{
    int32_t best = -1, looked = 0, past = s->first[r];
    double most = 0;
    for (int32_t i = next_within(s, s->first[l], r); i < past && looked < s->p->most_looks; i = next_within(s, i + 1, r)) {
        double found = score(s, &s->by_lo[i], l, r, left, right);
        if (best < 0 || found > most) most = found, best = i;
        looked++;
    }
    s->looks += looked + 1;
    return best;
}

static void set_segment(Skyline *s, int32_t begin, int32_t end, int64_t height)
{
    s->height[begin] = height;
    s->end[begin] = end;
    if (end < s->p->sections) s->before[end] = begin;
}

/* Joins a segment with neighbours of its height; where it begins then. */
static int32_t joined(Skyline *s, int32_t begin)
{
    int32_t after = s->end[begin], earlier_one = begin ? s->before[begin] : -1;
    if (after < s->p->sections && s->height[after] == s->height[begin]) {
        int32_t end = s->end[after];
        s->end[after] = -1;
        set_segment(s, begin, end, s->height[begin]);
    }
    if (earlier_one >= 0 && s->height[earlier_one] == s->height[begin]) {
        int32_t end = s->end[begin];
        s->end[begin] = -1;
        set_segment(s, earlier_one, end, s->height[earlier_one]);
        return earlier_one;
    }
    return begin;
}

/* A buffer into the valley from `l` to `r`, or none: then it rises to its lower neighbour. 0: no memory. */
static int fill(Skyline *s, int32_t l, int32_t r, int64_t *offset, int32_t *left_over)
{
    const SkylineProblem *p = s->p;
    int64_t floor = s->height[l];
    int64_t left = l ? s->height[s->before[l]] : NO_NEIGHBOUR, right = r < p->sections ? s->height[r] : NO_NEIGHBOUR;
    int32_t place = best_within(s, l, r, left, right);
    if (place < 0) {
        s->height[l] = left < right ? left : right;
        l = joined(s, l);
        return push(s, s->height[l], l);
    }
    const Waiting *b = &s->by_lo[place];
    int32_t lo = b->lo, hi = b->hi;
    int64_t begin = align_up(floor, b->alignment);
    offset[b->number] = begin;
    wait_no_more(s, place);
    --*left_over;
    int done = 1;
    if (hi < r) {
        set_segment(s, hi, r, floor);
        done &= push(s, floor, hi);
    }
    if (lo > l) {
        set_segment(s, l, lo, floor);
        done &= push(s, floor, l);
    }
    set_segment(s, lo, hi, begin + b->size);
    lo = joined(s, lo);
    return done & push(s, s->height[lo], lo);
}

static int prepare(Skyline *s, const SkylineProblem *p)
{
    size_t n = (size_t)p->n, sections = (size_t)p->sections + 2;
    s->p = p;
    for (s->leaves = 1; s->leaves < p->n;) s->leaves *= 2;
    s->room = 1024;
    s->by_lo = malloc(sizeof *s->by_lo * n);
    s->first = calloc(sections, sizeof *s->first);
    s->earliest = malloc(2 * sizeof *s->earliest * (size_t)s->leaves);
    s->height = malloc(sizeof *s->height * sections);
    s->end = malloc(sizeof *s->end * sections);
    s->before = malloc(sizeof *s->before * sections);
    s->heap = malloc(sizeof *s->heap * (size_t)s->room);
    if (!s->by_lo || !s->first || !s->earliest || !s->height || !s->end || !s->before || !s->heap) return 0;
    for (int32_t b = 0; b < p->n; b++) s->first[p->lo[b] + 1]++;
    for (int32_t i = 0; i < p->sections; i++) s->first[i + 1] += s->first[i];
    for (int32_t b = 0; b < p->n; b++)
        s->by_lo[s->first[p->lo[b]]++] = (Waiting){p->size[b], p->alignment[b], p->worth[b], p->lo[b], p->hi[b], b};
    memmove(s->first + 1, s->first, sizeof *s->first * (size_t)p->sections); /* each had moved to where the next one begins */
    s->first[0] = 0;
    for (int32_t i = 0; i < s->leaves; i++) s->earliest[s->leaves + i] = i < p->n ? s->by_lo[i].hi : INT32_MAX;
    for (int32_t i = s->leaves - 1; i; i--) s->earliest[i] = earlier(s->earliest[2 * i], s->earliest[2 * i + 1]);
    memset(s->end, 0xff, sizeof *s->end * sections);
    set_segment(s, 0, p->sections, 0);
    return push(s, 0, 0);
}

static void release(Skyline *s)
{
    free(s->by_lo);
    free(s->first);
    free(s->earliest);
    free(s->height);
    free(s->end);
    free(s->before);
    free(s->heap);
}

/* Places all buffers, whose sizes are positive. looks: how many were compared. STOPPED: some have no offset. */
int kilotune_skyline(const SkylineProblem *p, int64_t *offset, int64_t *looks)
{
    Skyline skyline = {0}, *s = &skyline;
    int64_t deadline = p->nanoseconds < INT64_MAX / 2 ? nanoseconds_now() + p->nanoseconds : INT64_MAX;
    int32_t left_over = p->n;
    int status = prepare(s, p) ? FITS : NO_MEMORY;
    for (int64_t step = 1; status == FITS && left_over > 0; step++) {
        Valley lowest = pop(s);
        int32_t end = s->end[lowest.begin];
        if (end < 0 || s->height[lowest.begin] != lowest.height) continue; /* it has become another one since */
        if (!fill(s, lowest.begin, end, offset, &left_over)) status = NO_MEMORY;
        else if (step % STEPS_PER_LOOK == 0 && (*p->stop || nanoseconds_now() > deadline)) status = STOPPED;
    }
    *looks = s->looks;
    release(s);
    return status;
}
