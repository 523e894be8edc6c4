/* A stream of images through a mapped pipeline, tick by tick, with contended links and finite buffers.
 *
 * Within a tick: packets arrive and finished iterations release buffers; then stages start; then packets ask for links,
 * in the order of their streams. A link moves `width` elements a tick, first come first served, so its state is one number: the
 * element slot until which it is taken. See reference_timing.py, which is the definition.
 *
 * Whenever an image is through, the whole state is compared, by a hash and relative to that tick and image, with that of the
 * last few images. Where it has come back, everything from there on is known: so many images more every so many ticks.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WHEEL 4096
#define COMPARED 8 /* images */
#define NEVER (-((int64_t)1 << 60))

typedef struct {
    int32_t stage_count, stream_count, link_count, images;
    const int32_t *iterations, *ticks;              /* by stage */
    const int32_t *writer, *reader;                 /* by stream; -1 is GMEM */
    const int32_t *elements, *packets, *capacity;   /* by stream */
    const int32_t *writer_iterations;               /* by stream: those of the image for GMEM */
    const int32_t *const *needed, *const *released; /* by stream, by reader iteration */
    const uint8_t *const *sends;                    /* by stream, by writer iteration */
    const int32_t *in_start, *in_stream, *out_start, *out_stream; /* streams into and out of a stage */
    const int32_t *route_start, *route;             /* link numbers by stream */
    const int32_t *width, *hop;                     /* by link */
    int64_t pace_ticks;                             /* of an image; 0: it is all there at once */
    const volatile int32_t *stop;                   /* set by another thread: end soon */
    int32_t settle;                                 /* end where the state comes back */
} Problem;

typedef struct {
    int64_t *next;       /* by stage: iterations started, over all images */
    int64_t *delivered, *issued, *freed; /* by stream: packets */
    int64_t *finish;     /* by image */
    int64_t **starts;    /* by stage; NULL: not wanted */
    int64_t ticks;       /* the tick of the last event */
    int64_t settled_at, period_images, period_ticks; /* where the state has come back: images that are through; else 0 */
} Outcome;

typedef struct { uint64_t hash; int64_t images, tick; } Snapshot;

typedef struct { int64_t tick; int32_t what, hop, next; } Event; /* hop -1: stage `what` has finished an iteration */

typedef struct {
    const Problem *p;
    Outcome *o;
    Event *events;
    int32_t event_count, event_room, free_event;
    int32_t head[WHEEL], tail[WHEEL];
    int64_t pending;
    int64_t *slot;       /* by link: elements it has moved or will, counted from tick 0 on */
    int64_t *free_at, *done;  /* by stage */
    int64_t *gmem_next;  /* by stream: position in the images' iterations */
    uint64_t *requests;  /* stream << 32 | hop */
    int32_t request_count, request_room;
    int32_t *marked; uint8_t *is_marked; int32_t marked_count;
    int64_t left;        /* outputs of images still to come */
    int64_t held_back;   /* the last tick at which GMEM waited for its pace */
    int64_t through;     /* images that have come out whole */
    Snapshot snapshots[COMPARED];
    int32_t snapshot_count;
} Run;

static int add_event(Run *r, int64_t tick, int32_t what, int32_t hop) {
    int32_t at = r->free_event;
    if (at >= 0) {
        r->free_event = r->events[at].next;
    } else {
        if (r->event_count == r->event_room) {
            int32_t room = r->event_room ? 2 * r->event_room : 4096;
            Event *grown = realloc(r->events, sizeof(Event) * (size_t)room);
            if (!grown) return -1;
            r->events = grown;
            r->event_room = room;
        }
        at = r->event_count++;
    }
    r->events[at] = (Event){tick, what, hop, -1};
    int32_t bucket = (int32_t)(tick & (WHEEL - 1));
    if (r->head[bucket] < 0) r->head[bucket] = at; else r->events[r->tail[bucket]].next = at;
    r->tail[bucket] = at;
    r->pending++;
    return 0;
}

static int add_request(Run *r, int32_t stream, int32_t hop) {
    if (r->request_count == r->request_room) {
        int32_t room = r->request_room ? 2 * r->request_room : 256;
        uint64_t *grown = realloc(r->requests, sizeof(uint64_t) * (size_t)room);
        if (!grown) return -1;
        r->requests = grown;
        r->request_room = room;
    }
    r->requests[r->request_count++] = (uint64_t)(uint32_t)stream << 32 | (uint32_t)hop;
    return 0;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_requests(Run *r) {
    /* Requests of one stream for one link at one tick are alike, so any order by value will do. */
    if (r->request_count > 48) {
        qsort(r->requests, (size_t)r->request_count, sizeof(uint64_t), by_value);
        return;
    }
    for (int32_t i = 1; i < r->request_count; i++) {
        uint64_t one = r->requests[i];
        int32_t k = i;
        for (; k > 0 && r->requests[k - 1] > one; k--) r->requests[k] = r->requests[k - 1];
        r->requests[k] = one;
    }
}

static void mark(Run *r, int32_t stage) {
    if (stage >= 0 && !r->is_marked[stage]) {
        r->is_marked[stage] = 1;
        r->marked[r->marked_count++] = stage;
    }
}

static int has_room(const Run *r, int32_t stream) {
    int32_t capacity = r->p->capacity[stream];
    return capacity == 0 || r->o->issued[stream] - r->o->freed[stream] < capacity;
}

static void deliver(Run *r, int32_t stream, int64_t tick) {
    const Problem *p = r->p;
    int64_t count = ++r->o->delivered[stream];
    if (p->reader[stream] >= 0) {
        mark(r, p->reader[stream]);
    } else if (count % p->packets[stream] == 0) {
        int64_t image = count / p->packets[stream] - 1;
        if (tick > r->o->finish[image]) r->o->finish[image] = tick;
        r->left--;
    }
}

static void finish_iteration(Run *r, int32_t stage) {
    const Problem *p = r->p;
    int64_t number = r->done[stage]++;
    int64_t image = number / p->iterations[stage], j = number % p->iterations[stage];
    for (int32_t k = p->in_start[stage]; k < p->in_start[stage + 1]; k++) {
        int32_t stream = p->in_stream[k];
        int64_t freed = image * p->packets[stream] + p->released[stream][j];
        if (freed > r->o->freed[stream]) {
            r->o->freed[stream] = freed;
            if (p->capacity[stream]) mark(r, p->writer[stream]);
        }
    }
    mark(r, stage);
}

static int may_start(const Run *r, int32_t stage, int64_t tick) {
    const Problem *p = r->p;
    int64_t number = r->o->next[stage];
    if (number >= (int64_t)p->images * p->iterations[stage] || r->free_at[stage] > tick) return 0;
    int64_t image = number / p->iterations[stage], j = number % p->iterations[stage];
    for (int32_t k = p->in_start[stage]; k < p->in_start[stage + 1]; k++) {
        int32_t stream = p->in_stream[k], needed = p->needed[stream][j];
        if (needed && r->o->delivered[stream] < image * p->packets[stream] + needed) return 0;
    }
    for (int32_t k = p->out_start[stage]; k < p->out_start[stage + 1]; k++) {
        int32_t stream = p->out_stream[k];
        if (p->sends[stream][j] && !has_room(r, stream)) return 0;
    }
    return 1;
}

static int start(Run *r, int32_t stage, int64_t tick) {
    const Problem *p = r->p;
    int64_t number = r->o->next[stage]++, j = number % p->iterations[stage];
    int32_t ticks = p->ticks[stage];
    if (r->o->starts) r->o->starts[stage][number] = tick;
    r->free_at[stage] = tick + ticks;
    if (add_event(r, tick + ticks, stage, -1)) return -1;
    for (int32_t k = p->out_start[stage]; k < p->out_start[stage + 1]; k++) {
        int32_t stream = p->out_stream[k];
        if (!p->sends[stream][j]) continue;
        r->o->issued[stream]++;
        if (p->route_start[stream] == p->route_start[stream + 1]) { /* unmapped: readable at the next tick */
            if (add_event(r, tick + ticks, stream, 0)) return -1;
        } else if (ticks == 1 ? add_request(r, stream, 0) : add_event(r, tick + ticks - 1, stream, 0)) {
            return -1;
        }
    }
    return 0;
}

/* The tick from which on iteration `at` of the stream of images may leave GMEM. */
static int64_t paced(const Problem *p, int32_t stream, int64_t at) {
    return p->pace_ticks == 0 ? 0 : at * p->pace_ticks / p->writer_iterations[stream];
}

/* All that GMEM may send on a stream at this tick. */
static int send_image(Run *r, int32_t stream, int64_t tick) {
    const Problem *p = r->p;
    int64_t end = (int64_t)p->images * p->writer_iterations[stream];
    int64_t *at = &r->gmem_next[stream];
    for (; *at < end && paced(p, stream, *at) <= tick; ++*at) {
        if (!p->sends[stream][*at % p->writer_iterations[stream]]) continue;
        if (!has_room(r, stream)) break;
        r->o->issued[stream]++;
        if (p->route_start[stream] == p->route_start[stream + 1]) deliver(r, stream, tick);
        else if (add_request(r, stream, 0)) return -1;
    }
    if (*at < end && paced(p, stream, *at) > tick) r->held_back = tick;
    return 0;
}

/* The next tick at which GMEM may send something for which there is room; -1: none. */
static int64_t next_image_tick(const Run *r) {
    const Problem *p = r->p;
    int64_t best = -1;
    for (int32_t s = 0; s < p->stream_count; s++) {
        if (p->writer[s] >= 0 || r->gmem_next[s] >= (int64_t)p->images * p->writer_iterations[s] || !has_room(r, s)) continue;
        int64_t tick = paced(p, s, r->gmem_next[s]);
        if (best < 0 || tick < best) best = tick;
    }
    return best;
}

static int take_events(Run *r, int64_t tick) {
    const Problem *p = r->p;
    int32_t bucket = (int32_t)(tick & (WHEEL - 1)), at = r->head[bucket], kept = -1, last = -1;
    while (at >= 0) {
        Event event = r->events[at];
        if (event.tick != tick) { /* of a later turn of the wheel */
            if (kept < 0) kept = at; else r->events[last].next = at;
            last = at;
            at = event.next;
            continue;
        }
        r->events[at].next = r->free_event;
        r->free_event = at;
        at = event.next;
        r->pending--;
        if (event.hop < 0) {
            finish_iteration(r, event.what);
        } else if (event.hop == p->route_start[event.what + 1] - p->route_start[event.what]) {
            deliver(r, event.what, tick);
        } else if (add_request(r, event.what, event.hop)) {
            return -1;
        }
    }
    if (last >= 0) r->events[last].next = -1;
    r->head[bucket] = kept;
    r->tail[bucket] = last;
    return 0;
}

static int serve_requests(Run *r, int64_t tick) {
    const Problem *p = r->p;
    sort_requests(r);
    for (int32_t i = 0; i < r->request_count; i++) {
        int32_t stream = (int32_t)(r->requests[i] >> 32), hop = (int32_t)(uint32_t)r->requests[i];
        int32_t link = p->route[p->route_start[stream] + hop];
        int64_t first = tick * p->width[link];
        if (r->slot[link] > first) first = r->slot[link];
        r->slot[link] = first + p->elements[stream];
        if (add_event(r, (r->slot[link] - 1) / p->width[link] + p->hop[link], stream, hop + 1)) return -1;
    }
    r->request_count = 0;
    return 0;
}

static uint64_t mixed(uint64_t hash, int64_t value) {
    uint64_t x = (hash ^ (uint64_t)value) * 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 32);
}

/* All that decides what happens after `tick`, counted from this tick and from image `r->through` on. */
static uint64_t state_hash(const Run *r, int64_t tick) {
    const Problem *p = r->p;
    const Outcome *o = r->o;
    uint64_t hash = 1, events = 0;
    for (int32_t s = 0; s < p->stage_count; s++) {
        int64_t before = r->through * p->iterations[s];
        hash = mixed(hash, r->free_at[s] > tick ? r->free_at[s] - tick : 0);
        hash = mixed(mixed(hash, r->done[s] - before), o->next[s] - before);
    }
    for (int32_t s = 0; s < p->stream_count; s++) {
        int64_t before = r->through * p->packets[s];
        hash = mixed(mixed(hash, o->delivered[s] - before), o->issued[s] - before);
        if (p->reader[s] >= 0) hash = mixed(hash, o->freed[s] - before);
        if (p->writer[s] < 0) hash = mixed(hash, r->gmem_next[s] - r->through * p->writer_iterations[s]);
    }
    for (int32_t k = 0; k < p->link_count; k++) {
        int64_t taken = r->slot[k] - (tick + 1) * p->width[k];
        hash = mixed(hash, taken > 0 ? taken : 0);
    }
    for (int32_t bucket = 0; bucket < WHEEL; bucket++)
        for (int32_t at = r->head[bucket]; at >= 0; at = r->events[at].next) {
            const Event *event = &r->events[at]; /* in any order: those of one tick do not depend on it */
            events += mixed(mixed(mixed(7, event->tick - tick), event->what), event->hop);
        }
    return mixed(hash, (int64_t)events);
}

/* Whether the state is that of some images ago. GMEM must be as far behind its pace as then, or the pace must not have
   mattered since, and matter less and less. */
static int has_settled(Run *r, int64_t tick) {
    const Problem *p = r->p;
    int64_t through = p->images;
    for (int32_t s = 0; s < p->stream_count; s++)
        if (p->reader[s] < 0 && r->o->delivered[s] / p->packets[s] < through) through = r->o->delivered[s] / p->packets[s];
    if (through == r->through) return 0;
    r->through = through;
    Snapshot now = {state_hash(r, tick), through, tick};
    int32_t kept = r->snapshot_count < COMPARED ? r->snapshot_count : COMPARED;
    for (int32_t k = 1; k <= kept; k++) {
        const Snapshot *before = &r->snapshots[(r->snapshot_count - k) % COMPARED];
        int64_t images = now.images - before->images, ticks = now.tick - before->tick;
        int64_t later = ticks - images * p->pace_ticks;
        if (before->hash != now.hash || later < 0 || (later > 0 && r->held_back >= before->tick)) continue;
        r->o->settled_at = through;
        r->o->period_images = images;
        r->o->period_ticks = ticks;
        return 1;
    }
    r->snapshots[r->snapshot_count++ % COMPARED] = now;
    return 0;
}

/* 0: all images are through. 1: deadlock. 2: the state has come back. 3: stopped. -1: out of memory. */
static int run(Run *r) {
    const Problem *p = r->p;
    int64_t tick = 0;
    for (int32_t s = 0; s < p->stage_count; s++) mark(r, s);
    for (;;) {
        if (take_events(r, tick)) return -1;
        for (int32_t s = 0; s < p->stream_count; s++)
            if (p->writer[s] < 0 && send_image(r, s, tick)) return -1;
        for (int32_t i = 0; i < r->marked_count; i++) {
            int32_t stage = r->marked[i];
            r->is_marked[stage] = 0;
            if (may_start(r, stage, tick) && start(r, stage, tick)) return -1;
        }
        r->marked_count = 0;
        if (serve_requests(r, tick)) return -1;
        r->o->ticks = tick;
        if (r->left == 0) return 0;
        if (p->settle && has_settled(r, tick)) return 2;
        if (*p->stop) return 3;
        int64_t sends = next_image_tick(r);
        if (!r->pending && sends < 0) return 1;
        tick++;
        if (!r->pending) tick = sends > tick ? sends : tick;
        else while (r->head[tick & (WHEEL - 1)] < 0 && (sends < 0 || sends > tick)) tick++;
    }
}

int kilotune_stream(const Problem *p, Outcome *o) {
    Run r = {.p = p, .o = o, .free_event = -1, .held_back = NEVER};
    for (int32_t i = 0; i < WHEEL; i++) r.head[i] = r.tail[i] = -1;
    size_t stages = (size_t)p->stage_count + 1, streams = (size_t)p->stream_count + 1;
    r.slot = calloc((size_t)p->link_count + 1, sizeof(int64_t));
    r.free_at = calloc(stages, sizeof(int64_t));
    r.done = calloc(stages, sizeof(int64_t));
    r.gmem_next = calloc(streams, sizeof(int64_t));
    r.marked = calloc(stages, sizeof(int32_t));
    r.is_marked = calloc(stages, 1);
    int status = -1;
    if (r.slot && r.free_at && r.done && r.gmem_next && r.marked && r.is_marked) {
        for (int32_t s = 0; s < p->stream_count; s++)
            if (p->reader[s] < 0) r.left += p->images;
        status = run(&r);
    }
    free(r.slot); free(r.free_at); free(r.done); free(r.gmem_next); free(r.marked); free(r.is_marked);
    free(r.events); free(r.requests);
    return status;
}
