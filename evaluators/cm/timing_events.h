/* What happens at later ticks: a wheel of buckets, a tick each. An event of a later turn of the wheel waits in its bucket.
 * Buckets are chains of chunks, which are used again at once, so that what is written and read stays in the cache. */
#include <stdint.h>
#include <stdlib.h>

#define WHEEL 1024
#define CHUNK 31

typedef struct { int32_t turn, what; } Event; /* turn: of the wheel */

typedef struct { int32_t next, count; Event events[CHUNK]; } Chunk;

typedef struct { int32_t first, last; } Bucket;

typedef struct {
    Chunk *chunks;
    int32_t chunk_count, chunk_room, spare;
    Bucket buckets[WHEEL];
    int64_t pending;
} Wheel;

static void clear_wheel(Wheel *w) {
    w->spare = -1;
    for (int32_t k = 0; k < WHEEL; k++) w->buckets[k] = (Bucket){-1, -1};
}

static int32_t turn_of(int64_t tick) { return (int32_t)(tick / WHEEL); }
static int64_t tick_of(int32_t turn, int64_t tick) { return (int64_t)turn * WHEEL + (tick & (WHEEL - 1)); }
static int is_empty(const Wheel *w, int64_t tick) { return w->buckets[tick & (WHEEL - 1)].first < 0; }
static int32_t next_chunk(const Wheel *w, int32_t at) { return w->chunks[at].next; }

/* Another chunk at the end of a bucket. */
static int extend(Wheel *w, Bucket *bucket) {
    int32_t at = w->spare;
    if (at >= 0) {
        w->spare = w->chunks[at].next;
    } else {
        if (w->chunk_count == w->chunk_room) {
            int32_t room = w->chunk_room ? 2 * w->chunk_room : 256;
            Chunk *grown = realloc(w->chunks, sizeof(Chunk) * (size_t)room);
            if (!grown) return -1;
            w->chunks = grown;
            w->chunk_room = room;
        }
        at = w->chunk_count++;
    }
    w->chunks[at].next = -1;
    w->chunks[at].count = 0;
    if (bucket->last >= 0) w->chunks[bucket->last].next = at; else bucket->first = at;
    bucket->last = at;
    return 0;
}

static int add_event(Wheel *w, int64_t tick, int32_t what) {
    Bucket *bucket = &w->buckets[tick & (WHEEL - 1)];
    if ((bucket->last < 0 || w->chunks[bucket->last].count == CHUNK) && extend(w, bucket)) return -1;
    Chunk *chunk = &w->chunks[bucket->last];
    chunk->events[chunk->count++] = (Event){turn_of(tick), what};
    w->pending++;
    return 0;
}

/* All events of a tick's bucket, which is empty then. Those of later turns are to be added again. */
static Bucket take_bucket(Wheel *w, int64_t tick) {
    Bucket taken = w->buckets[tick & (WHEEL - 1)];
    w->buckets[tick & (WHEEL - 1)] = (Bucket){-1, -1};
    for (int32_t at = taken.first; at >= 0; at = w->chunks[at].next) w->pending -= w->chunks[at].count;
    return taken;
}

static void give_back(Wheel *w, Bucket taken) {
    if (taken.first < 0) return;
    w->chunks[taken.last].next = w->spare;
    w->spare = taken.first;
}
