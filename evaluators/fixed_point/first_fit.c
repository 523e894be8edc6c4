/* Greedy placements of a program's temporaries for many width maps: what codegen/placement.py defines, decision by decision,
 * down to the random numbers of its repairs, so that the same widths are placed alike with and without a compiler.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes an element are 1, 2 or 4; as an index 0, 1, 2. */

typedef struct {
    int32_t free;      /* the pair may share anything */
    int64_t low, high; /* else the result's offset less the operand's is not strictly between them */
} Between;

typedef struct {
    int32_t result, operand;
    int32_t apart;      /* another reason keeps the two apart: this one bounds shared bytes only */
    Between either[9];  /* by the widths of result and operand, 3 * the one + the other: whichever way the operation goes */
    Between forward[9]; /* and where it goes forward */
} Meeting;

typedef struct {
    int32_t count, apart_count, meeting_count, instant_count, number_count, repairs;
    int32_t two_ways; /* whether `either` and `forward` of some meeting differ */
    const int64_t *elements, *life, *start; /* of every temporary */
    const int32_t *apart;                   /* pairs of temporaries */
    const Meeting *meetings;
    const int32_t *held, *held_ends; /* temporaries of every instant, one after the other, and where each one's end */
    const int32_t *met, *met_ends;   /* meetings of every instant likewise */
    const uint32_t *numbers;         /* what Python's generator of seed 0 gives, 32 bits at a time */
} Temporaries;

typedef struct {
    int32_t other;
    int64_t low, high;
} Near;

typedef struct {
    int64_t first, second;
    int32_t number;
} Key;

typedef struct {
    const Temporaries *of;
    const int8_t *widths; /* 0, 1 or 2 */
    int64_t *sizes, *load, *offsets, *best, *other;
    int32_t *order, *best_order, *near_ends;
    Near *near, *taken; /* `taken` are intervals of offsets */
    Key *keys;
    int32_t next_number, forward; /* `forward`: where no operation goes backward */
} Work;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static const Between *between(const Work *w, const Meeting *m)
{
    return &(w->forward ? m->forward : m->either)[3 * w->widths[m->result] + w->widths[m->operand]];
}

/* The most that an operation may overwrite is not counted as held. */
static int64_t bound_bytes(const Work *w)
{
    const Temporaries *t = w->of;
    int64_t most = 0;
    for (int32_t i = 0; i < t->instant_count; i++) {
        int64_t held = 0;
        for (int32_t k = i ? t->held_ends[i - 1] : 0; k < t->held_ends[i]; k++) held += w->sizes[t->held[k]];
        if (held > most)
            for (int32_t k = i ? t->met_ends[i - 1] : 0; k < t->met_ends[i]; k++) {
                const Meeting *m = &t->meetings[t->met[k]];
                const Between *b = between(w, m);
                const int64_t result = w->sizes[m->result], operand = w->sizes[m->operand];
                int64_t shared = smaller(result, operand);
                if (!b->free) shared = larger(0, smaller(shared, larger(b->low + result, operand - b->high)));
                held -= shared;
            }
        most = larger(most, held);
    }
    return most;
}

/* Calls visit(work, a, b, low, high) for both directions of every forbidden interval. */
static void each_near(Work *w, void (*visit)(Work *, int32_t, int32_t, int64_t, int64_t))
{
    const Temporaries *t = w->of;
    for (int32_t k = 0; k < t->apart_count; k++) {
        const int32_t a = t->apart[2 * k], b = t->apart[2 * k + 1];
        visit(w, a, b, -w->sizes[a], w->sizes[b]);
        visit(w, b, a, -w->sizes[b], w->sizes[a]);
    }
    for (int32_t k = 0; k < t->meeting_count; k++) {
        const Meeting *m = &t->meetings[k];
        const Between *f = between(w, m);
        if (m->apart || f->free) continue;
        const int32_t a = m->result, b = m->operand;
        const int64_t low = larger(f->low, -w->sizes[a]), high = smaller(f->high, w->sizes[b]);
        visit(w, a, b, low, high);
        visit(w, b, a, -high, -low);
    }
}

static void count_near(Work *w, int32_t a, int32_t b, int64_t low, int64_t high)
{
    (void)low, (void)high;
    w->near_ends[a]++;
    w->load[a] += w->sizes[b];
}

static void put_near(Work *w, int32_t a, int32_t b, int64_t low, int64_t high)
{
    w->near[w->near_ends[a]++] = (Near){b, low, high};
}

static void find_near(Work *w)
{
    const int32_t n = w->of->count;
    memset(w->near_ends, 0, (size_t)n * sizeof *w->near_ends);
    memset(w->load, 0, (size_t)n * sizeof *w->load);
    each_near(w, count_near);
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t own = w->near_ends[i];
        w->near_ends[i] = sum; /* where it starts; put_near moves it on to where it ends */
        sum += own;
    }
    each_near(w, put_near);
}

static int by_low(const void *left, const void *right)
{
    const Near *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

#define FEW 40

static void sort_by_low(Near *intervals, int32_t count)
{
    if (count > FEW) {
        qsort(intervals, (size_t)count, sizeof *intervals, by_low);
        return;
    }
    for (int32_t i = 1; i < count; i++) {
        const Near moved = intervals[i];
        int32_t place = i;
        for (; place > 0 && intervals[place - 1].low > moved.low; place--) intervals[place] = intervals[place - 1];
        intervals[place] = moved;
    }
}

/* Offsets of a greedy pass, and its peak. */
static int64_t first_fit(Work *w)
{
    const int32_t n = w->of->count;
    int64_t peak = 0;
    for (int32_t i = 0; i < n; i++) w->offsets[i] = -1;
    for (int32_t k = 0; k < n; k++) {
        const int32_t number = w->order[k];
        int32_t taken = 0;
        for (int32_t j = number ? w->near_ends[number - 1] : 0; j < w->near_ends[number]; j++) {
            const int64_t other = w->offsets[w->near[j].other];
            if (other < 0) continue;
            w->taken[taken++] = (Near){0, other + w->near[j].low, other + w->near[j].high};
        }
        sort_by_low(w->taken, taken);
        const int shift = w->widths[number];
        int64_t offset = 0;
        for (int32_t j = 0; j < taken && offset > w->taken[j].low; j++)
            if (offset < w->taken[j].high) offset = (w->taken[j].high + (1 << shift) - 1) >> shift << shift;
        w->offsets[number] = offset;
        peak = larger(peak, offset + w->sizes[number]);
    }
    return peak;
}

static int by_key(const void *left, const void *right)
{
    const Key *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    if (a->second != b->second) return a->second < b->second ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

#define STATIC_ORDERS 7

static Key key_of(const Work *w, int which, int32_t i)
{
    const int64_t size = w->sizes[i], life = w->of->life[i], start = w->of->start[i];
    switch (which) {
    case 0: return (Key){-size, 0, i};
    case 1: return (Key){-size, -life, i};
    case 2: return (Key){-life, -size, i};
    case 3: return (Key){-size * life, 0, i};
    case 4: return (Key){-w->load[i] - size, -size, i};
    case 5: return (Key){start, -size, i};
    default: return (Key){-start, -size, i};
    }
}

static void static_order(Work *w, int which)
{
    const int32_t n = w->of->count;
    for (int32_t i = 0; i < n; i++) w->keys[i] = key_of(w, which, i);
    qsort(w->keys, (size_t)n, sizeof *w->keys, by_key);
    for (int32_t i = 0; i < n; i++) w->order[i] = w->keys[i].number;
}

static uint32_t next_bits(Work *w, int bits) { return w->of->numbers[w->next_number++ % w->of->number_count] >> (32 - bits); }

/* Python's random.random() < 0.5 */
static int coin(Work *w)
{
    const uint32_t high = next_bits(w, 27);
    w->next_number++;
    return high < 1u << 26;
}

/* Python's random.randrange(n) */
static int32_t below(Work *w, int32_t n)
{
    int bits = 0;
    while (n >> bits) bits++;
    uint32_t drawn = next_bits(w, bits);
    while (drawn >= (uint32_t)n) drawn = next_bits(w, bits);
    return (int32_t)drawn;
}

/* The best order with one temporary moved: forward if it is the one that reaches highest, else anywhere. */
static void move_one(Work *w)
{
    const int32_t n = w->of->count;
    int32_t from = 0, to;
    memcpy(w->order, w->best_order, (size_t)n * sizeof *w->order);
    if (coin(w)) {
        for (int32_t k = 1; k < n; k++) {
            const int32_t highest = w->order[from], next = w->order[k];
            if (w->best[next] + w->sizes[next] > w->best[highest] + w->sizes[highest]) from = k;
        }
        to = from ? below(w, from) : 0;
    } else {
        to = below(w, n);
        from = below(w, n);
    }
    const int32_t moved = w->order[from];
    memmove(w->order + from, w->order + from + 1, (size_t)(n - 1 - from) * sizeof *w->order);
    memmove(w->order + to + 1, w->order + to, (size_t)(n - 1 - to) * sizeof *w->order);
    w->order[to] = moved;
}

static void keep(Work *w)
{
    memcpy(w->best, w->offsets, (size_t)w->of->count * sizeof *w->best);
    memcpy(w->best_order, w->order, (size_t)w->of->count * sizeof *w->order);
}

/* Into `best`, until its peak is `bound`; the peak. */
static int64_t find_best(Work *w, int64_t bound)
{
    const int32_t n = w->of->count;
    int64_t best = -1;
    find_near(w);
    for (int which = 0; which < STATIC_ORDERS && (best < 0 || best > bound); which++) {
        static_order(w, which);
        const int64_t found = first_fit(w);
        if (best >= 0 && found >= best) continue;
        best = found;
        keep(w);
    }
    w->next_number = 0;
    for (int32_t pass = 0; pass < w->of->repairs && n > 1 && best > bound; pass++) {
        move_one(w);
        const int64_t found = first_fit(w);
        if (found > best) continue;
        best = found;
        keep(w);
    }
    return best;
}

static void place(Work *w, int64_t *peak, int64_t *bound)
{
    const int32_t n = w->of->count;
    for (int32_t i = 0; i < n; i++) w->sizes[i] = w->of->elements[i] << w->widths[i];
    w->forward = 0;
    *bound = bound_bytes(w);
    w->forward = 1;
    int64_t best = find_best(w, *bound);
    if (best > *bound && w->of->two_ways) {
        memcpy(w->other, w->best, (size_t)n * sizeof *w->other);
        w->forward = 0;
        const int64_t found = find_best(w, *bound);
        if (found < best)
            best = found;
        else
            memcpy(w->best, w->other, (size_t)n * sizeof *w->best);
    }
    *peak = larger(best, 0);
}

/* For `candidates` width maps [candidates][count]: offsets likewise, peaks and bounds in bytes. 0, or -1 without memory. */
int kilotune_first_fit(const Temporaries *of, int32_t candidates, const int8_t *widths, int64_t *offsets, int64_t *peaks,
                       int64_t *bounds)
{
    const size_t n = (size_t)of->count + 1, pairs = 2 * ((size_t)of->apart_count + (size_t)of->meeting_count) + 1;
    int64_t *numbers = malloc(5 * n * sizeof *numbers);
    int32_t *orders = malloc(3 * n * sizeof *orders);
    Near *near = malloc(2 * pairs * sizeof *near);
    Key *keys = malloc(n * sizeof *keys);
    const int failed = !numbers || !orders || !near || !keys;
    for (int32_t c = 0; c < candidates && !failed; c++) {
        Work w = {of, widths + (int64_t)c * of->count, numbers, numbers + n, numbers + 2 * n, numbers + 3 * n, numbers + 4 * n,
                  orders, orders + n, orders + 2 * n, near, near + pairs, keys, 0, 0};
        place(&w, &peaks[c], &bounds[c]);
        memcpy(offsets + (int64_t)c * of->count, w.best, (size_t)of->count * sizeof *offsets);
    }
    free(numbers);
    free(orders);
    free(near);
    free(keys);
    return failed ? -1 : 0;
}
