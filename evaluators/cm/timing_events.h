/* What happens at later ticks: packets that ask for a link or are delivered, iterations that finish; each is a number, and how many there
 * are of it. Of the next NEAR ticks a row of bytes says how many, in order without being sorted: most packets are behind a link after a
 * tick or a few. Large networks have many numbers and few events a tick: bytes of their own say which groups of a row to look at. The
 * order of iterations that finish in one tick does not matter: theirs are numbers behind those of a row, in a list of the tick. What is
 * further away waits on a wheel of buckets, a tick each, where that of a later turn of the wheel stays.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512BW__
#include <immintrin.h>
#elif defined __SSE2__
#include <emmintrin.h>
#endif

#define NEAR 16
#define WHEEL 1024
#define CHUNK 20
#define MANY 255 /* of a row: as many as `many` says */
#define GROUP 64 /* bytes of a row that are looked at together; what begins on a row begins with a group */

typedef struct { int32_t turn, what, count; } Event; /* turn: of the wheel */

typedef struct { int32_t next, count; Event events[CHUNK]; } Chunk;

typedef struct { int32_t first, last; } Bucket;

typedef struct {
    int32_t kinds;        /* events are numbers below it; whole groups */
    uint8_t *rows;        /* NEAR times `kinds` */
    uint8_t *groups;      /* NEAR times `blocks` groups: a byte for each group of a row in which there may be anything */
    int32_t blocks;
    int32_t *many;        /* likewise */
    uint8_t in_row[NEAR]; /* whether there is anything */
    int32_t *ends;        /* NEAR times `end_room` numbers from `kinds` on, less `kinds`; so many of them: */
    int32_t end_count[NEAR], end_room;
    int64_t on_wheel;
    Chunk *chunks;
    int32_t chunk_count, chunk_room, spare;
    Bucket buckets[WHEEL];
} Events;

static int32_t whole_groups(int32_t numbers) { return (numbers + GROUP - 1) / GROUP * GROUP; }

/* `lasting`: as many numbers from `kinds` on, each of which is there once at most. */
static int open_events(Events *e, int32_t kinds, int32_t lasting) {
    e->kinds = kinds;
    e->end_room = lasting;
    e->ends = calloc(NEAR * sizeof(int32_t), (size_t)lasting + 1);
    e->rows = calloc(NEAR, (size_t)kinds);
    e->many = calloc(NEAR * sizeof(int32_t), (size_t)kinds);
    e->blocks = whole_groups(kinds / GROUP) / GROUP;
    e->groups = calloc(NEAR * GROUP, (size_t)e->blocks + 1);
    e->spare = -1;
    for (int32_t k = 0; k < WHEEL; k++) e->buckets[k] = (Bucket){-1, -1};
    return e->rows && e->many && e->groups && e->ends ? 0 : -1;
}

static void close_events(Events *e) {
    free(e->rows);
    free(e->many);
    free(e->groups);
    free(e->ends);
    free(e->chunks);
}

/* `to` is empty and of as many kinds. */
static int copy_events(Events *to, const Events *from) {
    Chunk *chunks = malloc(sizeof(Chunk) * (size_t)(from->chunk_room + 1));
    if (!chunks) return -1;
    if (from->chunk_count) memcpy(chunks, from->chunks, sizeof(Chunk) * (size_t)from->chunk_count);
    memcpy(to->rows, from->rows, NEAR * (size_t)from->kinds);
    memcpy(to->many, from->many, NEAR * sizeof(int32_t) * (size_t)from->kinds);
    memcpy(to->groups, from->groups, NEAR * GROUP * (size_t)from->blocks);
    memcpy(to->ends, from->ends, NEAR * sizeof(int32_t) * (size_t)from->end_room);
    Events copied = *from;
    copied.rows = to->rows;
    copied.many = to->many;
    copied.groups = to->groups;
    copied.ends = to->ends;
    copied.chunks = chunks;
    *to = copied;
    return 0;
}

static int32_t turn_of(int64_t tick) { return (int32_t)(tick / WHEEL); }
static uint8_t *row_of(const Events *e, int64_t tick) { return e->rows + (size_t)(tick & (NEAR - 1)) * (size_t)e->kinds; }
static int32_t *many_of(const Events *e, int64_t tick) { return e->many + (size_t)(tick & (NEAR - 1)) * (size_t)e->kinds; }

static uint8_t *groups_of(const Events *e, int64_t tick) { return e->groups + (size_t)(tick & (NEAR - 1)) * GROUP * (size_t)e->blocks; }

static int32_t *ends_of(const Events *e, int64_t tick) { return e->ends + (size_t)(tick & (NEAR - 1)) * (size_t)e->end_room; }

static int is_empty(const Events *e, int64_t tick) {
    return !e->in_row[tick & (NEAR - 1)] && e->buckets[tick & (WHEEL - 1)].first < 0;
}

static int are_coming(const Events *e) {
    int found = e->on_wheel > 0;
    for (int32_t k = 0; k < NEAR; k++) found |= e->in_row[k];
    return found;
}

/* A bit for each byte of a group that is not 0. */
static inline uint64_t bits_of_group(const uint8_t *bytes) {
#ifdef __AVX512BW__
    __m512i all = _mm512_loadu_si512(bytes);
    return _mm512_test_epi8_mask(all, all);
#else
    uint64_t bits = 0;
#ifdef __SSE2__
    for (int32_t k = 0; k < GROUP; k += 16) {
        __m128i none = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(bytes + k)), _mm_setzero_si128());
        bits |= (uint64_t)(uint16_t)~_mm_movemask_epi8(none) << k;
    }
#else
    for (int32_t k = 0; k < GROUP; k++) bits |= (uint64_t)(bytes[k] != 0) << k;
#endif
    return bits;
#endif
}

/* All of a tick has happened. */
static void end_tick(Events *e, int64_t tick) {
    uint8_t *row = row_of(e, tick);
    uint8_t *groups = groups_of(e, tick);
    if (!e->in_row[tick & (NEAR - 1)]) return;
    for (int32_t block = 0; block < e->blocks; block++) {
        for (uint64_t left = bits_of_group(groups + block * GROUP); left; left &= left - 1)
            memset(row + (size_t)(block * GROUP + __builtin_ctzll(left)) * GROUP, 0, GROUP);
        memset(groups + block * GROUP, 0, GROUP);
    }
    e->in_row[tick & (NEAR - 1)] = 0;
    e->end_count[tick & (NEAR - 1)] = 0;
}

/* Another chunk at the end of a bucket. */
static int extend(Events *e, Bucket *bucket) {
    int32_t at = e->spare;
    if (at >= 0) {
        e->spare = e->chunks[at].next;
    } else {
        if (e->chunk_count == e->chunk_room) {
            int32_t room = e->chunk_room ? 2 * e->chunk_room : 256;
            Chunk *grown = realloc(e->chunks, sizeof(Chunk) * (size_t)room);
            if (!grown) return -1;
            e->chunks = grown;
            e->chunk_room = room;
        }
        at = e->chunk_count++;
    }
    e->chunks[at].next = -1;
    e->chunks[at].count = 0;
    if (bucket->last >= 0) e->chunks[bucket->last].next = at; else bucket->first = at;
    bucket->last = at;
    return 0;
}

static __attribute__((noinline)) int add_far(Events *e, int32_t turn, int64_t tick, int32_t what, int32_t count) {
    Bucket *bucket = &e->buckets[tick & (WHEEL - 1)];
    if ((bucket->last < 0 || e->chunks[bucket->last].count == CHUNK) && extend(e, bucket)) return -1;
    Chunk *chunk = &e->chunks[bucket->last];
    chunk->events[chunk->count++] = (Event){turn, what, count};
    e->on_wheel++;
    return 0;
}

static inline void add_near(Events *e, int64_t tick, int32_t what, int32_t count) {
    uint8_t *there = row_of(e, tick) + what;
    int32_t together = *there + count;
    e->in_row[tick & (NEAR - 1)] = 1;
    groups_of(e, tick)[(uint32_t)what / GROUP] = 1;
    if (__builtin_expect(together >= MANY, 0)) {
        int32_t *many = many_of(e, tick) + what;
        *many = (*there == MANY ? *many : *there) + count;
        together = MANY;
    }
    *there = (uint8_t)together;
}

static inline void add_near_end(Events *e, int64_t tick, int32_t what) {
    ends_of(e, tick)[e->end_count[tick & (NEAR - 1)]++] = what - e->kinds;
    e->in_row[tick & (NEAR - 1)] = 1;
}

/* One of the numbers from `kinds` on, at a tick behind `now`. */
static inline int add_end(Events *e, int64_t tick, int32_t what, int64_t now) {
    if (__builtin_expect(tick - now >= NEAR, 0)) return add_far(e, turn_of(tick), tick, what, 1);
    add_near_end(e, tick, what);
    return 0;
}

/* At a tick from `now` on. */
static inline int add_events(Events *e, int64_t tick, int32_t what, int32_t count, int64_t now) {
    if (__builtin_expect(tick - now >= NEAR, 0)) return add_far(e, turn_of(tick), tick, what, count);
    add_near(e, tick, what, count);
    return 0;
}

/* How many there are of an event at a tick of the row. */
static inline int32_t count_of(const Events *e, int64_t tick, int32_t what) {
    int32_t count = row_of(e, tick)[what];
    return __builtin_expect(count == MANY, 0) ? many_of(e, tick)[what] : count;
}

/* Of the groups of a block, bits, those from `first` to before `end`. */
static inline uint64_t groups_between(uint64_t bits, int32_t block, int32_t first, int32_t end) {
    if (first > block * GROUP) bits &= ~(uint64_t)0 << (first - block * GROUP);
    if (end < block * GROUP + GROUP) bits &= ((uint64_t)1 << (end - block * GROUP)) - 1;
    return bits;
}

/* The numbers from `first` to before `end`, whole groups, of which there is an event at a tick; how many. `numbers`: room for eight more. */
static inline int32_t list_events(const Events *e, int64_t tick, int32_t first, int32_t end, int32_t *numbers) {
    const uint8_t *row = row_of(e, tick);
    const uint8_t *groups = groups_of(e, tick);
    int32_t count = 0;
    for (int32_t block = first / GROUP / GROUP; block * GROUP < end / GROUP; block++) {
        uint64_t left = groups_between(bits_of_group(groups + block * GROUP), block, first / GROUP, end / GROUP);
        for (; left; left &= left - 1) {
            int32_t group = (block * GROUP + __builtin_ctzll(left)) * GROUP;
            uint64_t bits = bits_of_group(row + group);
            int32_t next = count + __builtin_popcountll(bits);
            for (; count < next; count += 8) /* a branch in eight that could be guessed wrong */
                for (int32_t k = 0; k < 8; k++) {
                    numbers[count + k] = group + __builtin_ctzll(bits | (uint64_t)1 << 63);
                    bits &= bits - 1;
                }
            count = next;
        }
    }
    return count;
}

/* What has waited on the wheel for a tick comes into its row. */
static int turn_wheel(Events *e, int64_t tick) {
    Bucket taken = e->buckets[tick & (WHEEL - 1)];
    if (taken.first < 0) return 0;
    e->buckets[tick & (WHEEL - 1)] = (Bucket){-1, -1};
    for (int32_t at = taken.first; at >= 0; at = e->chunks[at].next) {
        e->on_wheel -= e->chunks[at].count;
        for (int32_t k = 0; k < e->chunks[at].count; k++) {
            Event event = e->chunks[at].events[k];
            if (event.turn == turn_of(tick) && event.what >= e->kinds) add_near_end(e, tick, event.what);
            else if (event.turn == turn_of(tick)) add_near(e, tick, event.what, event.count);
            else if (add_far(e, event.turn, tick, event.what, event.count)) return -1;
        }
    }
    e->chunks[taken.last].next = e->spare;
    e->spare = taken.first;
    return 0;
}
