/* Local search through placements whose buffers overlap, in a memory that is lower than the best placement: guided local search for
 * packing (Egeblad, Nielsen and Odgaard 2007; Umetani, Yagiura, Imahori et al. 2009). See separating.py.
 *
 * Two buffers that are live together cost the bytes in which they overlap, times a weight of the two: the times at which both live, and how
 * long they have overlapped. A buffer that overlaps others goes where it costs least; the weights of what overlaps still grow.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { FITS = 0, STOPPED = 2, NO_MEMORY = 3 };
enum { STEPS_PER_LOOK = 64 }; /* at the clock */
enum { RUN = 8 };             /* edges that are sorted by insertion before runs are merged */
enum { KEY_BITS = 32 };       /* of a pair's number, and whether its neighbour ends; addresses have the other ones */
enum { FIRST_TIMES = 16, LEAST_TIMES_MORE = 1, MOST_TIMES_MORE = 5 }; /* how often the overlap of a pair counts, in sixteenths */
enum { MOST_TIMES = 1 << 15 }; /* at which it is given up: sums have 63 bits */

static const uint64_t KEY_MASK = ((uint64_t)1 << KEY_BITS) - 1;

typedef struct {
    int32_t n;
    const int64_t *size, *alignment;
    const int64_t *start; /* those live together with b are neighbours[start[b]] .. neighbours[start[b + 1] - 1] */
    const int32_t *neighbours;
    const int32_t *together; /* of each of them: what an overlapping byte costs */
    int64_t capacity;        /* no buffer is larger */
    int64_t looks, nanoseconds;
    const volatile int32_t *stop; /* set by another thread */
} SeparationProblem;

/* Where a neighbour begins or ends. Up to it, bytes times weights have summed to `sum`, which grows by `slope` a byte from there. Sums may
 * wrap around; their differences, which are what is asked for, do not. */
typedef struct {
    int64_t at;
    int is_end;
    uint64_t sum, slope;
} Edge;

typedef struct {
    const SeparationProblem *p;
    int64_t *offset;
    int32_t *times;       /* of each pair, twice: how often its overlap counts */
    int32_t *clashes;     /* of a buffer: others that it overlaps */
    int32_t *clashing;    /* the buffers that do */
    int32_t *place, many; /* where a buffer is among them; how many */
    int32_t *turn;        /* those of a round, in a random order */
    uint64_t *key, *merged; /* address, pair and whether it is an end, of edges to be sorted */
    Edge *edge;
    uint64_t random;
    int64_t looks;
} Separation;

typedef struct {
    int64_t offset, cost;
    uint64_t ties;
} Choice;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

static inline int64_t overlap(int64_t a, int64_t size_of_a, int64_t b, int64_t size_of_b)
{
    int64_t from = a > b ? a : b, to = a + size_of_a < b + size_of_b ? a + size_of_a : b + size_of_b;
    return to > from ? to - from : 0;
}

static inline int64_t overlap_of(const Separation *s, int32_t b, int32_t c)
{
    return overlap(s->offset[b], s->p->size[b], s->offset[c], s->p->size[c]);
}

static inline int64_t weight_of(const Separation *s, int64_t pair) { return (int64_t)s->p->together[pair] * s->times[pair]; }

/* Runs by insertion, then merged; `key` is where the result is. */
static void sort_keys(Separation *s, int32_t count)
{
    for (int32_t begin = 0; begin < count; begin += RUN) {
        int32_t end = begin + RUN < count ? begin + RUN : count;
        for (int32_t i = begin + 1; i < end; i++) {
            uint64_t key = s->key[i];
            int32_t at = i;
            for (; at > begin && s->key[at - 1] > key; at--) s->key[at] = s->key[at - 1];
            s->key[at] = key;
        }
    }
    for (int64_t width = RUN; width < count; width *= 2) {
        const uint64_t *from = s->key;
        for (int64_t begin = 0, to = 0; begin < count; begin += 2 * width) {
            int64_t middle = begin + width < count ? begin + width : count, end = middle + width < count ? middle + width : count;
            int64_t i = begin, j = middle;
            while (i < middle && j < end) {
                int takes_later = from[j] < from[i];
                s->merged[to++] = takes_later ? from[j] : from[i];
                j += takes_later, i += !takes_later;
            }
            while (i < middle) s->merged[to++] = from[i++];
            while (j < end) s->merged[to++] = from[j++];
        }
        uint64_t *sorted = s->merged;
        s->merged = s->key, s->key = sorted;
    }
}

/* The edges of all neighbours of b, ascending, with their sums; how many. */
static int32_t edges_of(Separation *s, int32_t b)
{
    const SeparationProblem *p = s->p;
    int32_t count = 0;
    for (int64_t pair = p->start[b]; pair < p->start[b + 1]; pair++) {
        int32_t c = p->neighbours[pair];
        uint64_t number = (uint64_t)(pair - p->start[b]) << 1, at = (uint64_t)s->offset[c];
        s->key[count++] = at << KEY_BITS | number;
        s->key[count++] = (at + (uint64_t)p->size[c]) << KEY_BITS | number | 1;
    }
    sort_keys(s, count);
    uint64_t sum = 0, slope = 0;
    int64_t before = 0;
    for (int32_t i = 0; i < count; i++) {
        uint64_t key = s->key[i];
        int64_t at = (int64_t)(key >> KEY_BITS), weight = weight_of(s, p->start[b] + (int64_t)((key & KEY_MASK) >> 1));
        sum += slope * (uint64_t)(at - before);
        slope += (uint64_t)(key & 1 ? -weight : weight);
        s->edge[i] = (Edge){at, (int)(key & 1), sum, slope};
        before = at;
    }
    return count;
}

/* Bytes times weights below an address, of which `*below` edges are not above it; these only ever become more. */
static inline uint64_t sum_below(const Edge *edge, int32_t count, int32_t *below, int64_t address)
{
    while (*below < count && edge[*below].at <= address) ++*below;
    if (!*below) return 0;
    const Edge *last = &edge[*below - 1];
    return last->sum + last->slope * (uint64_t)(address - last->at);
}

static inline void consider(Choice *best, int64_t offset, int64_t cost, uint64_t *random)
{
    if (cost > best->cost) return;
    if (cost < best->cost) *best = (Choice){offset, cost, 1};
    else if (next_random(random) % ++best->ties == 0) best->offset = offset;
}

/* The cheapest place for a buffer. Where it rests on a neighbour or the floor, or hangs below a neighbour or the capacity, costs have their
 * corners that point down. */
static Choice cheapest(Separation *s, int32_t b)
{
    const SeparationProblem *p = s->p;
    int32_t count = edges_of(s, b);
    int64_t size = p->size[b], alignment = p->alignment[b], top = p->capacity - size;
    const Edge *edge = s->edge;
    Choice best = {0, INT64_MAX, 0};
    for (int hanging = 0; hanging < 2; hanging++) {
        int32_t below = 0, below_top = 0;
        for (int32_t i = hanging ? 0 : -1; i < count + hanging; i++) {
            int64_t at = i < 0 ? 0 : i == count ? top : edge[i].at - (hanging ? size : 0);
            if (i >= 0 && i < count && edge[i].is_end == hanging) continue;
            if (at < 0) continue;
            at = hanging ? at - at % alignment : (at + alignment - 1) / alignment * alignment;
            if (at > top) break;
            uint64_t low = sum_below(edge, count, &below, at), high = sum_below(edge, count, &below_top, at + size);
            consider(&best, at, (int64_t)(high - low), &s->random);
        }
    }
    return best;
}

static void clash(Separation *s, int32_t b, int32_t change)
{
    int32_t before = s->clashes[b], after = s->clashes[b] += change;
    if (!before && after) {
        s->place[b] = s->many;
        s->clashing[s->many++] = b;
    } else if (before && !after) {
        int32_t last = s->clashing[--s->many];
        s->clashing[s->place[b]] = last;
        s->place[last] = s->place[b];
    }
}

/* To where it costs least, unless it costs less where it is. */
static void move(Separation *s, int32_t b)
{
    const SeparationProblem *p = s->p;
    int64_t cost = 0, from = s->offset[b];
    for (int64_t pair = p->start[b]; pair < p->start[b + 1]; pair++)
        cost += overlap_of(s, b, p->neighbours[pair]) * weight_of(s, pair);
    Choice best = cheapest(s, b);
    if (best.cost > cost || best.offset == from) return;
    s->offset[b] = best.offset;
    for (int64_t pair = p->start[b]; pair < p->start[b + 1]; pair++) {
        int32_t c = p->neighbours[pair];
        int32_t change = (overlap_of(s, b, c) > 0) - (overlap(from, p->size[b], s->offset[c], p->size[c]) > 0);
        if (!change) continue;
        clash(s, b, change);
        clash(s, c, change);
    }
}

/* What overlaps counts more; the more, the more bytes. 0: too much for sums. */
static int learn(Separation *s)
{
    const SeparationProblem *p = s->p;
    int64_t most = 1;
    int32_t highest = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t k = 0; k < s->many; k++) {
            int32_t b = s->clashing[k];
            for (int64_t pair = p->start[b]; pair < p->start[b + 1]; pair++) {
                int64_t bytes = overlap_of(s, b, p->neighbours[pair]);
                if (!bytes) continue;
                if (!pass) {
                    if (bytes > most) most = bytes;
                    continue;
                }
                double share = (double)bytes / (double)most;
                s->times[pair] += LEAST_TIMES_MORE + (int32_t)((MOST_TIMES_MORE - LEAST_TIMES_MORE) * share + 0.5);
                if (s->times[pair] > highest) highest = s->times[pair];
            }
            s->looks -= (p->start[b + 1] - p->start[b]) / 2;
        }
    return highest < MOST_TIMES;
}

/* Each of those that overlap others gets its turn, in a random order. 0: no looks are left, or time. */
static int go_round(Separation *s, int64_t deadline, int64_t *step)
{
    const SeparationProblem *p = s->p;
    int32_t turns = s->many;
    memcpy(s->turn, s->clashing, sizeof *s->turn * (size_t)turns);
    for (int32_t k = turns; k-- > 0;) {
        int32_t other = (int32_t)(next_random(&s->random) % (uint64_t)(k + 1)), b = s->turn[other];
        s->turn[other] = s->turn[k];
        if (!s->clashes[b]) continue;
        int64_t bits = 1, edges = 2 * (p->start[b + 1] - p->start[b]);
        while (edges >> bits) bits++;
        s->looks -= (edges + 1) * bits;
        if (s->looks <= 0 || ((*step)++ % STEPS_PER_LOOK == 0 && (*p->stop || nanoseconds_now() > deadline))) return 0;
        move(s, b);
    }
    return 1;
}

static int prepare(Separation *s)
{
    const SeparationProblem *p = s->p;
    size_t n = (size_t)p->n, pairs = (size_t)p->start[p->n];
    int64_t most = 0;
    for (int32_t b = 0; b < p->n; b++)
        if (p->start[b + 1] - p->start[b] > most) most = p->start[b + 1] - p->start[b];
    s->times = malloc(sizeof *s->times * (pairs + 1));
    s->clashes = calloc(n, sizeof *s->clashes);
    s->clashing = malloc(sizeof *s->clashing * n);
    s->place = malloc(sizeof *s->place * n);
    s->turn = malloc(sizeof *s->turn * n);
    s->edge = malloc(sizeof *s->edge * (size_t)(2 * most + 1));
    s->key = malloc(sizeof *s->key * (size_t)(2 * most + 1));
    s->merged = malloc(sizeof *s->merged * (size_t)(2 * most + 1));
    if (!s->times || !s->clashes || !s->clashing || !s->place || !s->turn || !s->edge) return 0;
    if (!s->key || !s->merged) return 0;
    for (size_t pair = 0; pair < pairs; pair++) s->times[pair] = FIRST_TIMES;
    for (int32_t b = 0; b < p->n; b++) {
        int64_t top = p->capacity - p->size[b];
        if (s->offset[b] > top) s->offset[b] = top - top % p->alignment[b];
    }
    for (int32_t b = 0; b < p->n; b++) {
        int32_t others = 0;
        for (int64_t pair = p->start[b]; pair < p->start[b + 1]; pair++) others += overlap_of(s, b, p->neighbours[pair]) > 0;
        clash(s, b, others);
    }
    return 1;
}

static void release(Separation *s)
{
    free(s->times);
    free(s->clashes);
    free(s->clashing);
    free(s->place);
    free(s->turn);
    free(s->edge);
    free(s->key);
    free(s->merged);
}

/* Brings all buffers within the capacity. FITS: none overlaps another. STOPPED: some do when the looks or the time are spent, or since
 * overlaps counted too much. `looks`: how many were taken. */
int kilotune_separate(const SeparationProblem *p, int64_t *offset, uint64_t *random, int64_t *looks)
{
    Separation separation = {.p = p, .offset = offset, .random = *random, .looks = p->looks}, *s = &separation;
    int64_t deadline = p->nanoseconds < INT64_MAX / 2 ? nanoseconds_now() + p->nanoseconds : INT64_MAX, step = 0;
    int status = prepare(s) ? FITS : NO_MEMORY;
    while (status == FITS && s->many)
        if (!go_round(s, deadline, &step) || !learn(s)) status = STOPPED;
    *random = s->random;
    *looks = p->looks - s->looks;
    release(s);
    return status;
}
