/* Placement of buffers: in a given order (placing_in_order.h), and the exact search (see exact.py for its rules).
 *
 * Times are sections, the maximal sets of buffers live together; buffer b is live in sections [lo, hi). Offsets and
 * sizes are bytes. Everything lives on the heap of one call: the functions are reentrant.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { NODES_PER_LOOK = 256 }; /* at the clock */
enum { FITS = 0, FAILS = 1, STOPPED = 2, NO_MEMORY = 3 };

static int64_t align_up(int64_t address, int64_t alignment)
{
    int64_t over = address % alignment;
    return over ? address + alignment - over : address;
}

#include "placing_in_order.h"

typedef struct {
    int64_t *at;
    int64_t old;
} Undo;

typedef struct {
    int32_t n, sections, rank_bits; /* a key is offset << rank_bits | rank: one comparison orders by both */
    const int32_t *lo, *hi, *rank;
    const int64_t *size, *alignment;
    int64_t capacity, rank_mask;
    int64_t *floor;    /* of an unplaced buffer: the lowest offset above all that are placed and conflict */
    int64_t *waiting;  /* of a section: bytes of its unplaced buffers */
    int64_t *crossing; /* of a section: unplaced buffers that are live in it and in the one before */
    int64_t *unplaced; /* of a buffer: 1 or 0 */
    int64_t *offset;
    int32_t *by_rank, *next, *owner;
    int64_t *second;
    uint8_t *owns_all;
    int64_t *neighbour_start;
    int32_t *neighbours;
    Undo *trail;
    size_t trail_length, trail_room;
    int64_t *blame; /* of a section: how often something did not fit there */
    int64_t nodes, work, work_limit, least_excess;
    int64_t deadline; /* nanoseconds of the monotonic clock */
    const volatile int32_t *stop; /* set by another thread */
} Search;

static int set(Search *s, int64_t *at, int64_t value)
{
    if (s->trail_length == s->trail_room) {
        size_t room = s->trail_room * 2;
        Undo *grown = realloc(s->trail, room * sizeof *grown);
        if (!grown) return 0;
        s->trail = grown;
        s->trail_room = room;
    }
    s->trail[s->trail_length++] = (Undo){at, *at};
    *at = value;
    return 1;
}

static void undo_to(Search *s, size_t mark)
{
    while (s->trail_length > mark) {
        Undo *u = &s->trail[--s->trail_length];
        *u->at = u->old;
    }
}

/* A branch in which every placement reaches `peak` is cut; the least such peak is a bound for a failed search. */
static void cut(Search *s, int64_t peak)
{
    if (peak < s->least_excess) s->least_excess = peak;
}

static int32_t unpainted(int32_t *next, int32_t section)
{
    int32_t root = section;
    while (next[root] != root) root = next[root];
    while (next[section] != root) {
        int32_t after = next[section];
        next[section] = root;
        section = after;
    }
    return root;
}

/* Every section with the lowest unplaced buffer over it: do all that wait fit above? Keys ascend. `sole` is set to a
 * place in keys of a buffer that has the lowest floor in all its sections and a top that all others there are above, else
 * to -1: whatever comes, it may as well go down to its floor. */
static int sections_fit(Search *s, const int64_t *keys, int32_t m, int32_t left, int32_t right, int64_t last,
                        int32_t *sole)
{
    int32_t *next = s->next, *owner = s->owner;
    *sole = -1;
    for (int32_t i = left; i <= right; i++) next[i] = i;
    for (int32_t k = 0; k < m; k++) {
        int32_t b = s->by_rank[keys[k] & s->rank_mask];
        int64_t lowest = keys[k] >> s->rank_bits;
        int32_t owned = 0;
        for (int32_t i = unpainted(next, s->lo[b]); i < s->hi[b]; i = unpainted(next, i)) {
            if (lowest + s->waiting[i] > s->capacity) {
                cut(s, lowest + s->waiting[i]);
                s->blame[i]++;
                return 0;
            }
            next[i] = i + 1;
            owner[i] = k;
            s->second[i] = INT64_MAX;
            owned++;
        }
        s->owns_all[k] = owned == s->hi[b] - s->lo[b] && s->floor[b] == lowest && keys[k] > last;
    }
    for (int32_t i = left; i <= right; i++) next[i] = i;
    for (int32_t k = 0; k < m; k++) {
        int32_t b = s->by_rank[keys[k] & s->rank_mask];
        for (int32_t i = unpainted(next, s->lo[b]); i < s->hi[b]; i = unpainted(next, i)) {
            if (owner[i] == k) {
                i++;
                continue;
            }
            s->second[i] = keys[k] >> s->rank_bits;
            next[i] = i + 1;
        }
    }
    for (int32_t k = 0; k < m && *sole < 0; k++) {
        if (!s->owns_all[k]) continue;
        int32_t b = s->by_rank[keys[k] & s->rank_mask];
        int64_t top = s->floor[b] + s->size[b];
        int32_t i = s->lo[b];
        while (i < s->hi[b] && s->second[i] >= top) i++;
        if (i == s->hi[b]) *sole = k;
    }
    return 1;
}

/* Places b on its floor. 1: go on; 0: a neighbour is pushed out of the capacity; -1: no memory. */
static int place(Search *s, int32_t b, int *hatless, int *splits)
{
    int64_t top = s->floor[b] + s->size[b];
    int fits = 1;
    *hatless = 1;
    *splits = 0;
    if (!set(s, &s->unplaced[b], 0)) return -1;
    s->offset[b] = s->floor[b];
    for (int64_t i = s->neighbour_start[b]; i < s->neighbour_start[b + 1]; i++) {
        int32_t c = s->neighbours[i];
        if (!s->unplaced[c]) continue;
        *hatless = 0;
        if (s->floor[c] >= top) continue;
        int64_t raised = align_up(top, s->alignment[c]);
        if (!set(s, &s->floor[c], raised)) return -1;
        if (raised + s->size[c] > s->capacity) {
            cut(s, raised + s->size[c]);
            for (int32_t j = s->lo[c]; j < s->hi[c]; j++) s->blame[j]++;
            fits = 0;
        }
    }
    if (!fits) return 0;
    for (int32_t i = s->lo[b]; i < s->hi[b]; i++) {
        if (!set(s, &s->waiting[i], s->waiting[i] - s->size[b])) return -1;
        if (i > s->lo[b]) {
            if (!set(s, &s->crossing[i], s->crossing[i] - 1)) return -1;
            if (s->crossing[i] == 0) *splits = 1;
        }
    }
    return 1;
}

static int solve(Search *s, const int32_t *list, int32_t m, int32_t left, int32_t right, int64_t last);

/* The unplaced buffers fall apart: each part is solved by itself, the smallest first, and no part is searched again for
 * another's sake. */
static int solve_parts(Search *s, int32_t *list, int32_t m, int32_t left, int32_t right, int64_t last)
{
    if (m == 0) return FITS;
    int32_t *part = malloc(3 * sizeof *part * (size_t)m);
    if (!part) return NO_MEMORY;
    int32_t *from = part + m, *count = part + 2 * m, parts = 0, begin = left;
    for (int32_t at = left + 1; at <= right; at++) {
        if (at < right && s->crossing[at] > 0) continue;
        int32_t inside = 0;
        for (int32_t i = 0; i < m; i++) inside += s->lo[list[i]] >= begin && s->lo[list[i]] < at;
        if (inside) {
            int32_t k = parts++;
            for (; k > 0 && count[k - 1] > inside; k--) {
                from[k] = from[k - 1];
                count[k] = count[k - 1];
            }
            from[k] = begin;
            count[k] = inside;
        }
        begin = at;
    }
    int result = FITS;
    for (int32_t k = 0; k < parts && result == FITS; k++) {
        int32_t to = from[k] + 1, inside = 0;
        while (to < right && s->crossing[to] > 0) to++;
        for (int32_t i = 0; i < m; i++)
            if (s->lo[list[i]] >= from[k] && s->lo[list[i]] < to) part[inside++] = list[i];
        result = solve(s, part, inside, from[k], to, last);
    }
    free(part);
    return result;
}

/* The least floor of a buffer that was passed over: it wants to rest on a neighbour that is still to be placed. */
static int64_t waiting_floor(const Search *s, int32_t b, int64_t last, int64_t least_open_top)
{
    int64_t lowest = INT64_MAX;
    for (int64_t i = s->neighbour_start[b]; i < s->neighbour_start[b + 1]; i++) {
        int32_t c = s->neighbours[i];
        if (!s->unplaced[c]) continue;
        int64_t at = s->floor[c];
        if ((at << s->rank_bits | s->rank[c]) <= last && at < least_open_top) at = least_open_top;
        if (at + s->size[c] < lowest) lowest = at + s->size[c];
    }
    return lowest == INT64_MAX ? s->capacity : align_up(lowest, s->alignment[b]);
}

/* FITS leaves the placement in s->offset; otherwise the caller undoes. Buffers are placed in ascending (offset, rank). */
static int solve(Search *s, const int32_t *list, int32_t m, int32_t left, int32_t right, int64_t last)
{
    if (m == 0) return FITS;
    s->nodes++;
    s->work += m;
    if (s->work > s->work_limit) return STOPPED;
    if (s->nodes % NODES_PER_LOOK == 0 && (*s->stop || nanoseconds_now() > s->deadline)) {
        s->work_limit = 0;
        return STOPPED;
    }
    int64_t least_top = INT64_MAX, least_open_top = INT64_MAX;
    for (int32_t k = 0; k < m; k++) {
        int32_t b = list[k];
        int64_t top = s->floor[b] + s->size[b];
        if (top < least_top) least_top = top;
        if ((s->floor[b] << s->rank_bits | s->rank[b]) > last && top < least_open_top) least_open_top = top;
    }
    if (least_open_top == INT64_MAX) return FAILS;
    int64_t *keys = malloc((sizeof *keys + sizeof *list) * (size_t)m);
    if (!keys) return NO_MEMORY;
    int32_t *rest = (int32_t *)(keys + m);
    int result = FAILS;
    for (int32_t k = 0; k < m; k++) {
        int32_t b = list[k];
        int64_t lowest = s->floor[b];
        if ((lowest << s->rank_bits | s->rank[b]) <= last)
            lowest = waiting_floor(s, b, last, least_open_top);
        if (lowest + s->size[b] > s->capacity) {
            cut(s, lowest + s->size[b]);
            for (int32_t j = s->lo[b]; j < s->hi[b]; j++) s->blame[j]++;
            goto done;
        }
        int64_t key = lowest << s->rank_bits | s->rank[b];
        int32_t at = k;
        while (at > 0 && keys[at - 1] > key) {
            keys[at] = keys[at - 1];
            at--;
        }
        keys[at] = key;
    }
    int32_t sole;
    if (!sections_fit(s, keys, m, left, right, last, &sole)) goto done;
    for (int32_t k = sole < 0 ? 0 : sole; k < m; k++) {
        int32_t b = s->by_rank[keys[k] & s->rank_mask];
        if (s->floor[b] != keys[k] >> s->rank_bits || keys[k] <= last) continue; /* passed over before */
        if (sole < 0 && s->floor[b] >= least_top) break; /* another one fits below it whole */
        size_t mark = s->trail_length;
        int hatless, splits, placed = place(s, b, &hatless, &splits);
        if (placed < 0) {
            result = NO_MEMORY;
            goto done;
        }
        if (placed) {
            int32_t count = 0;
            for (int32_t i = 0; i < m; i++)
                if (i != k) rest[count++] = s->by_rank[keys[i] & s->rank_mask];
            int64_t after = sole < 0 ? keys[k] : last;
            result = splits ? solve_parts(s, rest, count, left, right, after)
                            : solve(s, rest, count, left, right, after);
            if (result != FAILS) goto done;
        }
        undo_to(s, mark);
        if (hatless || sole >= 0) goto done; /* nothing was above it: what failed, failed without it */
    }
done:
    free(keys);
    return result;
}

/* Is there a placement of `n` connected buffers within `capacity`, which is below 2^(62 - bits of a rank)? `rank` is a permutation: who is
 * tried first.
 * FITS fills `offset`; FAILS sets report[1] to a peak that every placement reaches. report[0]: nodes visited.
 * Work is counted in buffers looked at: a node costs as many as wait in it. The clock stops it after `nanoseconds`,
 * and another thread by `stop`. */
int kilotune_search(int32_t n, int32_t sections, const int32_t *lo, const int32_t *hi, const int64_t *size,
                    const int64_t *alignment, const int32_t *rank, int64_t capacity, int64_t work_limit,
                    int64_t nanoseconds, int64_t *offset, int64_t *blame, int64_t *report,
                    const volatile int32_t *stop)
{
    Search s = {.n = n, .sections = sections, .lo = lo, .hi = hi, .rank = rank, .size = size, .alignment = alignment,
                .capacity = capacity, .offset = offset, .blame = blame, .work_limit = work_limit, .least_excess = INT64_MAX,
                .trail_room = 4096, .deadline = INT64_MAX, .stop = stop};
    while (n - 1 >> s.rank_bits) s.rank_bits++;
    s.rank_mask = ((int64_t)1 << s.rank_bits) - 1;
    if (nanoseconds < INT64_MAX / 2) s.deadline = nanoseconds_now() + nanoseconds;
    int result = NO_MEMORY;
    int32_t *list = malloc(sizeof *list * (size_t)n);
    s.floor = calloc((size_t)n, sizeof *s.floor);
    s.unplaced = malloc(sizeof *s.unplaced * (size_t)n);
    s.waiting = calloc((size_t)sections, sizeof *s.waiting);
    s.crossing = calloc((size_t)sections, sizeof *s.crossing);
    s.by_rank = malloc(sizeof *s.by_rank * (size_t)n);
    s.next = malloc(sizeof *s.next * (size_t)(sections + 1));
    s.owner = malloc(sizeof *s.owner * (size_t)(sections + 1));
    s.second = malloc(sizeof *s.second * (size_t)(sections + 1));
    s.owns_all = malloc((size_t)n);
    s.neighbour_start = malloc(sizeof *s.neighbour_start * (size_t)(n + 1));
    s.trail = malloc(sizeof *s.trail * s.trail_room);
    if (!list || !s.floor || !s.unplaced || !s.waiting || !s.crossing || !s.by_rank || !s.next || !s.neighbour_start ||
        !s.trail || !s.owner || !s.second || !s.owns_all)
        goto done;
    int64_t pairs = 0;
    for (int32_t b = 0; b < n; b++) {
        s.unplaced[b] = 1;
        s.by_rank[rank[b]] = b;
        for (int32_t i = lo[b]; i < hi[b]; i++) {
            s.waiting[i] += size[b];
            if (i > lo[b]) s.crossing[i]++;
        }
        s.neighbour_start[b] = pairs;
        for (int32_t c = 0; c < n; c++) pairs += c != b && lo[c] < hi[b] && lo[b] < hi[c];
    }
    s.neighbour_start[n] = pairs;
    s.neighbours = malloc(sizeof *s.neighbours * (size_t)(pairs ? pairs : 1));
    if (!s.neighbours) goto done;
    for (int32_t b = 0, at = 0; b < n; b++)
        for (int32_t c = 0; c < n; c++)
            if (c != b && lo[c] < hi[b] && lo[b] < hi[c]) s.neighbours[at++] = c;
    for (int32_t k = 0; k < n; k++) list[k] = s.by_rank[k];
    result = solve(&s, list, n, 0, sections, -1);
done:
    report[0] = s.nodes;
    report[1] = s.least_excess;
    free(list);
    free(s.floor);
    free(s.unplaced);
    free(s.waiting);
    free(s.crossing);
    free(s.by_rank);
    free(s.next);
    free(s.owner);
    free(s.second);
    free(s.owns_all);
    free(s.neighbour_start);
    free(s.neighbours);
    free(s.trail);
    return result;
}
