/* Local search for large placements: buffers that do not fit are put where the least weight of others makes way, and those
 * are put somewhere else in turn (guided ejection, after Nagata and Braysy 2009). See ejecting.py.
 *
 * The state is an offset a buffer, -1 for those that are out. Each call goes on from where the last one stopped.
 */
#include <stdint.h>
#include <stdlib.h>

#include "clock.h"

enum { FITS = 0, STOPPED = 2, NO_MEMORY = 3 };
enum { STEPS_PER_LOOK = 64 }; /* at the clock */

typedef struct {
    int64_t at, weight;
} Edge; /* where a neighbour begins or ends, and what moving it away costs */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

static int by_place(const void *left, const void *right)
{
    int64_t a = ((const Edge *)left)->at, b = ((const Edge *)right)->at;
    return (a > b) - (a < b);
}

static void sort_edges(Edge *edges, int32_t count)
{
    if (count > 48) {
        qsort(edges, (size_t)count, sizeof *edges, by_place);
        return;
    }
    for (int32_t i = 1; i < count; i++) {
        Edge edge = edges[i];
        int32_t at = i;
        for (; at > 0 && edges[at - 1].at > edge.at; at--) edges[at] = edges[at - 1];
        edges[at] = edge;
    }
}

/* In looks: each of n edges is compared with about log n others. */
static int64_t work_of_sorting(int64_t n)
{
    int64_t bits = 1;
    while (n >> bits) bits++;
    return (n + 1) * bits;
}

typedef struct {
    int64_t offset, weight;
    uint64_t ties;
} Choice;

/* A place at `offset` costs the weight of all that begins below its top and ends above its bottom. */
static void consider(Choice *best, int64_t offset, int64_t weight, uint64_t *random)
{
    if (weight > best->weight) return;
    if (weight < best->weight) {
        *best = (Choice){offset, weight, 1};
    } else if (weight == 0) {
        if (offset < best->offset) best->offset = offset;
    } else if (next_random(random) % ++best->ties == 0) {
        best->offset = offset;
    }
}

/* The cheapest place for a buffer among those that rest on a neighbour, the floor, or hang below a neighbour. */
static Choice cheapest(const Edge *begin, const Edge *end, int32_t count, int64_t size, int64_t alignment, int64_t capacity,
                       uint64_t *random)
{
    Choice best = {0, INT64_MAX, 0};
    for (int hanging = 0; hanging < 2; hanging++) {
        int64_t below_top = 0, below_bottom = 0;
        int32_t begun = 0, ended = 0;
        for (int32_t k = -1; k < count + hanging; k++) {
            int64_t at;
            if (!hanging) {
                at = k < 0 ? 0 : (end[k].at + alignment - 1) / alignment * alignment;
            } else {
                if (k < 0) continue;
                at = (k < count ? begin[k].at : capacity) - size;
                if (at < 0) continue;
                at -= at % alignment;
            }
            if (at + size > capacity) break;
            while (begun < count && begin[begun].at < at + size) below_top += begin[begun++].weight;
            while (ended < count && end[ended].at <= at) below_bottom += end[ended++].weight;
            consider(&best, at, below_top - below_bottom, random);
        }
    }
    return best;
}

/* Fills neighbours[start[b]] .. with all that are live together with b. */
void kilotune_neighbours(int32_t n, const int64_t *lower, const int64_t *upper, const int64_t *start, int32_t *neighbours)
{
    for (int32_t b = 0; b < n; b++) {
        int64_t at = start[b];
        for (int32_t c = 0; c < n; c++)
            if (c != b && lower[c] < upper[b] && lower[b] < upper[c]) neighbours[at++] = c;
    }
}

/* Tries to bring every buffer within `capacity`. Sizes are positive and at most the capacity. FITS: all are placed. It ends when edges of
 * neighbours were looked at so often; another thread ends it by `stop`. */
int kilotune_eject(int32_t n, const int64_t *size, const int64_t *alignment, const int64_t *start, const int32_t *neighbours,
                   const int64_t *worth, int64_t capacity, int64_t looks, int64_t nanoseconds, uint64_t *random,
                   int64_t *offset, int64_t *penalty, const volatile int32_t *stop)
{
    int64_t deadline = nanoseconds < INT64_MAX / 2 ? nanoseconds_now() + nanoseconds : INT64_MAX;
    int64_t most = 0;
    for (int32_t b = 0; b < n; b++)
        if (start[b + 1] - start[b] > most) most = start[b + 1] - start[b];
    int32_t *out = malloc(sizeof *out * (size_t)n);
    Edge *begin = malloc(2 * sizeof *begin * (size_t)(most + 1)), *end = begin + most + 1;
    int result = NO_MEMORY;
    if (!out || !begin) goto done;
    int32_t waiting = 0;
    for (int32_t b = 0; b < n; b++) {
        if (offset[b] >= 0 && offset[b] + size[b] <= capacity) continue;
        offset[b] = -1;
        int32_t at = waiting++;
        for (; at > 0 && size[out[at - 1]] > size[b]; at--) out[at] = out[at - 1];
        out[at] = b; /* the largest one is taken first */
    }
    result = FITS;
    for (int64_t step = 0; waiting > 0; step++) {
        if (looks <= 0 || (step % STEPS_PER_LOOK == 0 && (*stop || nanoseconds_now() > deadline))) {
            result = STOPPED;
            break;
        }
        int32_t b = out[--waiting], count = 0;
        looks -= work_of_sorting(start[b + 1] - start[b]);
        for (int64_t i = start[b]; i < start[b + 1]; i++) {
            int32_t c = neighbours[i];
            if (offset[c] < 0) continue;
            int64_t weight = penalty[c] * worth[c];
            begin[count] = (Edge){offset[c], weight};
            end[count++] = (Edge){offset[c] + size[c], weight};
        }
        sort_edges(begin, count);
        sort_edges(end, count);
        Choice best = cheapest(begin, end, count, size[b], alignment[b], capacity, random);
        if (best.weight > 0) {
            penalty[b]++;
            for (int64_t i = start[b]; i < start[b + 1]; i++) {
                int32_t c = neighbours[i];
                if (offset[c] < 0 || offset[c] >= best.offset + size[b] || best.offset >= offset[c] + size[c]) continue;
                offset[c] = -1;
                out[waiting++] = c;
            }
        }
        offset[b] = best.offset;
    }
done:
    free(out);
    free(begin);
    return result;
}
