/* A stream of images through a mapped pipeline, tick by tick, with contended links and finite buffers.
 *
 * Within a tick: packets arrive and finished iterations release buffers; then stages start; then packets ask for links,
 * in the order of their streams. A link moves `width` elements a tick, first come first served, so its state is one place in
 * time: the tick, and the elements in it, until which it is taken. See reference_timing.py, which is the definition.
 *
 * Of the stages of a core that may start, the one with the earliest image does, of those the one of the highest number.
 *
 * What makes it fast: a core where nothing may start is looked at again only when what a stage waits for has come. All that asks for
 * links at a tick is a set of places on routes, numbered by stream, which is in order without being sorted. A link that one stream
 * alone takes has nothing to decide: its packets are sent over it as soon as it is known when they come.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "timing_repeats.h"

static void mark(Run *r, int32_t stage) { /* its core */
    int32_t core = r->p->core[stage];
    if (!r->is_marked[core]) {
        r->is_marked[core] = 1;
        r->marked[r->marked_count++] = core;
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
        const StageState *reader = &r->stage[p->reader[stream]];
        if (reader->input == stream && count >= reader->waits_for) mark(r, p->reader[stream]);
    } else if (count % p->packets[stream] == 0) {
        int64_t image = count / p->packets[stream] - 1;
        if (tick > r->o->finish[image]) r->o->finish[image] = tick;
        r->left -= image < p->wanted;
        r->came_out = 1;
    }
}

/* When a packet that asks for a link at a tick, all before it having asked, is behind it. */
static int64_t pass(Run *r, const Place *place, int64_t tick) {
    const Problem *p = r->p;
    Taken *taken = &r->taken[place->link];
    int32_t width = p->width[place->link];
    if (taken->tick < tick) *taken = (Taken){tick, 0};
    taken->tick += place->whole;
    taken->used += place->rest;
    if (taken->used >= width) {
        taken->used -= width;
        taken->tick++;
    }
    return taken->tick - (taken->used == 0) + p->hop[place->link];
}

/* A packet comes to a place of its route at tick `then`, which may be `now`: over all links that it has for itself. */
static int travel(Run *r, int32_t at, int64_t then, int64_t now) {
    while (at < r->places && r->alone[at]) {
        then = pass(r, &r->place[at], then);
        at = r->place[at].next;
    }
    if (then > now) return add_event(&r->wheel, then, at);
    r->asking[at >> 6] |= (uint64_t)1 << (at & 63);
    r->askers[at]++;
    return 0;
}

static void finish_iteration(Run *r, int32_t stage) {
    const Problem *p = r->p;
    StageState *s = &r->stage[stage];
    for (int32_t k = p->in_start[stage]; k < p->in_start[stage + 1]; k++) {
        int32_t stream = p->in_stream[k], writer = p->writer[stream];
        int64_t freed = s->end_image * p->packets[stream] + p->released[stream][s->end_at];
        if (freed > r->o->freed[stream]) {
            r->o->freed[stream] = freed;
            if (writer >= 0 && r->stage[writer].output == stream) mark(r, writer);
        }
    }
    if (++s->end_at == p->iterations[stage]) {
        s->end_at = 0;
        s->end_image++;
    }
    mark(r, stage);
}

static int may_start(Run *r, int32_t stage) { /* its core is free */
    const Problem *p = r->p;
    StageState *s = &r->stage[stage];
    if (s->start_image == p->images) return 0;
    s->input = s->output = -1;
    for (int32_t k = p->in_start[stage]; k < p->in_start[stage + 1]; k++) {
        int32_t stream = p->in_stream[k], needed = p->needed[stream][s->start_at];
        int64_t wanted = s->start_image * p->packets[stream] + needed;
        if (needed && r->o->delivered[stream] < wanted) {
            s->input = stream;
            s->waits_for = wanted;
            return 0;
        }
    }
    for (int32_t k = p->out_start[stage]; k < p->out_start[stage + 1]; k++) {
        int32_t stream = p->out_stream[k];
        if (p->sends[stream][s->start_at] && !has_room(r, stream)) {
            s->output = stream;
            return 0;
        }
    }
    return 1;
}

static int start(Run *r, int32_t stage, int64_t tick) {
    const Problem *p = r->p;
    StageState *s = &r->stage[stage];
    int64_t number = r->o->next[stage]++, j = s->start_at;
    int32_t ticks = p->ticks[stage];
    if (r->o->starts) r->o->starts[stage][number] = tick;
    r->free_at[p->core[stage]] = tick + ticks;
    if (++s->start_at == p->iterations[stage]) {
        s->start_at = 0;
        s->start_image++;
    }
    if (add_event(&r->wheel, tick + ticks, r->places + p->stream_count + stage)) return -1;
    for (int32_t k = p->out_start[stage]; k < p->out_start[stage + 1]; k++) {
        int32_t stream = p->out_stream[k];
        if (!p->sends[stream][j]) continue;
        r->o->issued[stream]++;
        int mapped = p->route_start[stream] < p->route_start[stream + 1]; /* if not, it can be read when it is finished */
        int32_t first = mapped ? p->route_start[stream] : r->places + stream;
        if (travel(r, first, tick + ticks - mapped, tick)) return -1;
    }
    return 0;
}

/* The stage of a core that may start next; -1: none. */
static int32_t next_to_start(Run *r, int32_t core, int64_t tick) {
    const Problem *p = r->p;
    if (r->free_at[core] > tick) return -1;
    int32_t found = -1;
    for (int32_t k = p->core_start[core + 1] - 1; k >= p->core_start[core]; k--) {
        int32_t stage = p->core_stage[k];
        if (found >= 0 && r->stage[stage].start_image >= r->stage[found].start_image) continue;
        if (may_start(r, stage)) found = stage;
    }
    return found;
}

/* The tick from which on the next iteration of the stream of images may leave GMEM. */
static int64_t paced(const Run *r, int32_t stream) {
    return r->p->pace_ticks == 0 ? 0 : r->gmem_next[stream] * r->p->pace_ticks / r->p->writer_iterations[stream];
}

/* All that GMEM may send on a stream at this tick. */
static int send_image(Run *r, int32_t stream, int64_t tick) {
    const Problem *p = r->p;
    int64_t end = (int64_t)p->images * p->writer_iterations[stream];
    int64_t *at = &r->gmem_next[stream];
    while (*at < end && r->gmem_due[stream] <= tick) {
        if (p->sends[stream][*at % p->writer_iterations[stream]]) {
            if (!has_room(r, stream)) break;
            r->o->issued[stream]++;
            if (p->route_start[stream] == p->route_start[stream + 1]) deliver(r, stream, tick);
            else if (travel(r, p->route_start[stream], tick, tick)) return -1;
        }
        ++*at;
        r->gmem_due[stream] = paced(r, stream);
    }
    if (*at < end && r->gmem_due[stream] > tick) r->held_back = tick;
    return 0;
}

/* The next tick at which GMEM may send something for which there is room; -1: none. */
static int64_t next_image_tick(const Run *r) {
    const Problem *p = r->p;
    int64_t best = -1;
    for (int32_t k = 0; k < r->from_gmem_count; k++) {
        int32_t s = r->from_gmem[k];
        if (r->gmem_next[s] >= (int64_t)p->images * p->writer_iterations[s] || !has_room(r, s)) continue;
        if (best < 0 || r->gmem_due[s] < best) best = r->gmem_due[s];
    }
    return best;
}

static int take_events(Run *r, int64_t tick) {
    Bucket due = take_bucket(&r->wheel, tick);
    for (int32_t at = due.first; at >= 0; at = next_chunk(&r->wheel, at)) {
        for (int32_t k = 0; k < r->wheel.chunks[at].count; k++) {
            Event event = r->wheel.chunks[at].events[k];
            if (event.turn != turn_of(tick)) {
                if (add_event(&r->wheel, tick_of(event.turn, tick), event.what)) return -1;
            } else if (event.what < r->places) {
                r->asking[event.what >> 6] |= (uint64_t)1 << (event.what & 63);
                r->askers[event.what]++;
            } else if (event.what < r->places + r->p->stream_count) {
                deliver(r, event.what - r->places, tick);
            } else {
                finish_iteration(r, event.what - r->places - r->p->stream_count);
            }
        }
    }
    give_back(&r->wheel, due);
    return 0;
}

/* The links of all that asks, in the order of streams and then of places: those of one place are alike. */
static int serve(Run *r, int64_t tick) {
    for (int32_t word = 0; word <= r->places >> 6; word++) {
        while (r->asking[word]) {
            int32_t at = word << 6 | __builtin_ctzll(r->asking[word]);
            r->asking[word] &= r->asking[word] - 1;
            for (; r->askers[at]; r->askers[at]--)
                if (travel(r, r->place[at].next, pass(r, &r->place[at], tick), tick)) return -1;
        }
    }
    return 0;
}

/* 0: all wanted images are through. 1: deadlock. 2: the state has come back. 3: stopped. -1: out of memory. */
static int run(Run *r) {
    const Problem *p = r->p;
    int64_t tick = 0;
    for (int32_t s = 0; s < p->stage_count; s++) mark(r, s);
    for (;;) {
        if (take_events(r, tick)) return -1;
        for (int32_t k = 0; k < r->from_gmem_count; k++)
            if (send_image(r, r->from_gmem[k], tick)) return -1;
        for (int32_t i = 0; i < r->marked_count; i++) {
            r->is_marked[r->marked[i]] = 0;
            int32_t stage = next_to_start(r, r->marked[i], tick);
            if (stage >= 0 && start(r, stage, tick)) return -1;
        }
        r->marked_count = 0;
        if (serve(r, tick)) return -1;
        r->o->ticks = tick;
        if (r->left == 0) return 0;
        if (p->settle && r->came_out && has_settled(r, tick)) return 2;
        r->came_out = 0;
        if (*p->stop) return 3;
        int64_t sends = next_image_tick(r);
        if (!r->wheel.pending && sends < 0) return 1;
        tick++;
        if (!r->wheel.pending) tick = sends > tick ? sends : tick;
        else while (is_empty(&r->wheel, tick) && (sends < 0 || sends > tick)) tick++;
    }
}

/* Where every packet goes: the places of all routes, and which of them a stream has for itself. */
static int lay_out(Run *r) {
    const Problem *p = r->p;
    int32_t *takers = calloc((size_t)p->link_count + 1, sizeof(int32_t));
    if (!takers) return -1;
    for (int32_t at = 0; at < r->places; at++) takers[p->route[at]]++;
    for (int32_t s = 0; s < p->stream_count; s++) {
        for (int32_t at = p->route_start[s]; at < p->route_start[s + 1]; at++) {
            int32_t link = p->route[at], width = p->width[link];
            int32_t next = at + 1 < p->route_start[s + 1] ? at + 1 : r->places + s;
            r->place[at] = (Place){link, p->elements[s] / width, p->elements[s] % width, next};
            r->alone[at] = takers[link] == 1;
        }
        if (p->writer[s] < 0) r->from_gmem[r->from_gmem_count++] = s;
        if (p->reader[s] < 0) {
            r->to_gmem[r->to_gmem_count++] = s;
            r->left += p->wanted;
        }
    }
    free(takers);
    return 0;
}

int kilotune_stream(const Problem *p, Outcome *o) {
    Run *r = calloc(1, sizeof(Run));
    if (!r) return -1;
    r->p = p;
    r->o = o;
    r->held_back = NEVER;
    r->places = p->route_start[p->stream_count];
    size_t stages = (size_t)p->stage_count + 1, streams = (size_t)p->stream_count + 1, places = (size_t)r->places + 64;
    r->place = calloc(places, sizeof(Place));
    r->alone = calloc(places, 1);
    r->asking = calloc(places / 64 + 1, sizeof(uint64_t));
    r->askers = calloc(places, sizeof(int32_t));
    r->taken = calloc((size_t)p->link_count + 1, sizeof(Taken));
    r->stage = calloc(stages, sizeof(StageState));
    r->free_at = calloc(stages, sizeof(int64_t));
    r->gmem_next = calloc(2 * streams, sizeof(int64_t));
    r->from_gmem = calloc(2 * streams, sizeof(int32_t));
    r->marked = calloc(stages, sizeof(int32_t));
    r->is_marked = calloc(stages, 1);
    int status = -1;
    if (r->place && r->alone && r->asking && r->askers && r->taken && r->stage && r->free_at && r->gmem_next && r->from_gmem
        && r->marked && r->is_marked) {
        r->gmem_due = r->gmem_next + streams;
        r->to_gmem = r->from_gmem + streams;
        for (int32_t s = 0; s < p->stage_count; s++) r->stage[s].input = r->stage[s].output = -1;
        clear_wheel(&r->wheel);
        status = lay_out(r) ? -1 : run(r);
    }
    free(r->place); free(r->alone); free(r->asking); free(r->askers); free(r->taken); free(r->stage); free(r->free_at);
    free(r->gmem_next); free(r->from_gmem); free(r->marked); free(r->is_marked); free(r->wheel.chunks);
    free(r);
    return status;
}
