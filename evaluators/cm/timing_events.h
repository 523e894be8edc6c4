/* What happens at later ticks: packets that ask for a link or are delivered, iterations that finish; each is a number, and how many there
 * are of it. Of the next NEAR ticks a row of bits says which, in order without being sorted: most packets are behind a link after a tick
 * or a few. What is further away waits on a wheel of buckets, a tick each, where that of a later turn of the wheel stays.
 */
#include <stdint.h>
#include <stdlib.h>

#define NEAR 16
#define WHEEL 1024
#define CHUNK 20

typedef struct { uint64_t any, several; } Word; /* of a row: what happens, and of what `more` says how many */

typedef struct { int32_t turn, what, count; } Event; /* turn: of the wheel */

typedef struct { int32_t next, count; Event events[CHUNK]; } Chunk;

typedef struct { int32_t first, last; } Bucket;

typedef struct {
    int32_t kinds, words; /* events are numbers below `kinds`; words of a row */
    Word *rows;           /* NEAR times `words` */
    int32_t *more;        /* NEAR times `kinds`: besides one */
    uint8_t in_row[NEAR]; /* whether there is anything */
    int64_t on_wheel;
    Chunk *chunks;
    int32_t chunk_count, chunk_room, spare;
    Bucket buckets[WHEEL];
} Events;

static int open_events(Events *e, int32_t kinds) {
    e->kinds = kinds;
    e->words = (kinds + 63) / 64;
    e->rows = calloc((size_t)NEAR * (size_t)e->words, sizeof(Word));
    e->more = calloc((size_t)NEAR * (size_t)kinds, sizeof(int32_t));
    e->spare = -1;
    for (int32_t k = 0; k < WHEEL; k++) e->buckets[k] = (Bucket){-1, -1};
    return e->rows && e->more ? 0 : -1;
}

static void close_events(Events *e) {
    free(e->rows);
    free(e->more);
    free(e->chunks);
}

static int32_t turn_of(int64_t tick) { return (int32_t)(tick / WHEEL); }
static Word *row_of(const Events *e, int64_t tick) { return e->rows + (size_t)(tick & (NEAR - 1)) * (size_t)e->words; }
static int32_t *more_of(const Events *e, int64_t tick) { return e->more + (size_t)(tick & (NEAR - 1)) * (size_t)e->kinds; }

static int is_empty(const Events *e, int64_t tick) {
    return !e->in_row[tick & (NEAR - 1)] && e->buckets[tick & (WHEEL - 1)].first < 0;
}

static int are_coming(const Events *e) {
    int found = e->on_wheel > 0;
    for (int32_t k = 0; k < NEAR; k++) found |= e->in_row[k];
    return found;
}

/* All of a tick has happened. */
static void end_tick(Events *e, int64_t tick) { e->in_row[tick & (NEAR - 1)] = 0; }

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

static int add_far(Events *e, int32_t turn, int64_t tick, int32_t what, int32_t count) {
    Bucket *bucket = &e->buckets[tick & (WHEEL - 1)];
    if ((bucket->last < 0 || e->chunks[bucket->last].count == CHUNK) && extend(e, bucket)) return -1;
    Chunk *chunk = &e->chunks[bucket->last];
    chunk->events[chunk->count++] = (Event){turn, what, count};
    e->on_wheel++;
    return 0;
}

static void add_near(Events *e, int64_t tick, int32_t what, int32_t count) {
    Word *word = row_of(e, tick) + (what >> 6);
    uint64_t bit = (uint64_t)1 << (what & 63);
    int64_t further = count - !(word->any & bit);
    e->in_row[tick & (NEAR - 1)] = 1;
    word->any |= bit;
    if (further) {
        word->several |= bit;
        more_of(e, tick)[what] += (int32_t)further;
    }
}

/* At a tick from `now` on. */
static int add_events(Events *e, int64_t tick, int32_t what, int32_t count, int64_t now) {
    if (tick - now >= NEAR) return add_far(e, turn_of(tick), tick, what, count);
    add_near(e, tick, what, count);
    return 0;
}

/* The number of the first event of a word of a tick's row, which has some: it is taken out; `count`: how many there are of it. */
static int32_t take_first(Events *e, Word *word, int64_t tick, int32_t number, int32_t *count) {
    int32_t what = number << 6 | __builtin_ctzll(word->any);
    uint64_t bit = word->any & -word->any;
    *count = 1;
    word->any ^= bit;
    if (word->several & bit) {
        int32_t *more = more_of(e, tick) + what;
        *count += *more;
        *more = 0;
        word->several ^= bit;
    }
    return what;
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
            if (event.turn == turn_of(tick)) add_near(e, tick, event.what, event.count);
            else if (add_far(e, event.turn, tick, event.what, event.count)) return -1;
        }
    }
    e->chunks[taken.last].next = e->spare;
    e->spare = taken.first;
    return 0;
}
