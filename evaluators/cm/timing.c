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
 * alone takes has nothing to decide: its packets are sent over it as soon as it is known when they come. Packets of a stream that
 * ask for a link in the same tick and are behind it in the same tick go together from there on.
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

static void issue(Run *r, int32_t stream, int32_t packets) {
    int64_t held = (r->o->issued[stream] += packets) - r->o->freed[stream];
    if (held > r->o->most_held[stream]) r->o->most_held[stream] = held;
}

static void deliver(Run *r, int32_t stream, int32_t packets, int64_t tick) {
    const Problem *p = r->p;
    int64_t before = r->o->delivered[stream], count = r->o->delivered[stream] += packets;
    if (p->reader[stream] >= 0) {
        const StageState *reader = &r->stage[p->reader[stream]];
        if (reader->input == stream && count >= reader->waits_for) mark(r, p->reader[stream]);
        return;
    }
    for (int64_t image = before / p->packets[stream]; image < count / p->packets[stream]; image++) {
        if (tick > r->o->finish[image]) r->o->finish[image] = tick;
        r->left -= image < p->wanted;
        r->came_out = 1;
    }
}

/* How many of some packets that ask for a link at a tick, all before them having asked, are behind it together, and at which tick: the
   first one, and those that the link moves in the same tick. */
static int32_t pass(Run *r, const Place *place, int32_t packets, int64_t tick, int64_t *behind) {
    const Problem *p = r->p;
    Taken *taken = &r->taken[place->link];
    int64_t width = p->width[place->link], fresh = taken->tick < tick;
    int64_t used = (fresh ? 0 : taken->used) + place->rest, at = (fresh ? tick : taken->tick) + place->whole;
    int64_t over = used >= width;
    at += over;
    used -= over ? width : 0;
    *behind = at - (used == 0) + p->hop[place->link];
    int32_t together = 1;
    if (packets > 1 && place->whole == 0 && place->rest && used) {
        int64_t more = (uint32_t)(width - used) / (uint32_t)place->rest;
        if (more > packets - 1) more = packets - 1;
        together += (int32_t)more;
        used += more * place->rest;
        over = used == width;
        at += over;
        used -= over ? width : 0;
    }
    *taken = (Taken){at, used};
    return together;
}

/* Packets come to a place of their route at tick `then`, which may be `now`: over all links that they have for themselves. */
static int travel(Run *r, int32_t at, int32_t packets, int64_t then, int64_t now) {
    while (at < r->places && r->alone[at]) {
        int64_t behind;
        int32_t together = pass(r, &r->place[at], packets, then, &behind);
        if (together < packets) {
            if (travel(r, r->place[at].next, together, behind, now)) return -1;
            packets -= together;
        } else {
            at = r->place[at].next;
            then = behind;
        }
    }
    return add_events(&r->events, then, at, packets, now);
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
            r->o->was_full = 1;
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
    if (add_events(&r->events, tick + ticks, r->finishes + stage, 1, tick)) return -1;
    for (int32_t k = p->out_start[stage]; k < p->out_start[stage + 1]; k++) {
        int32_t stream = p->out_stream[k];
        if (!p->sends[stream][j]) continue;
        issue(r, stream, 1);
        int mapped = p->route_start[stream] < p->route_start[stream + 1]; /* if not, it can be read when it is finished */
        int32_t first = mapped ? p->route_start[stream] : r->arrivals + stream;
        if (travel(r, first, 1, tick + ticks - mapped, tick)) return -1;
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
    int64_t pixels = p->writer_iterations[stream], end = (int64_t)p->images * pixels, at = r->gmem_next[stream];
    if (at < end && r->gmem_due[stream] <= tick) {
        int64_t due = p->pace_ticks ? ((tick + 1) * pixels - 1) / p->pace_ticks + 1 : end; /* iterations that may have left */
        int64_t in_image = at % pixels, last = due < end ? due : end;
        int64_t room = p->capacity[stream] ? p->capacity[stream] - (r->o->issued[stream] - r->o->freed[stream]) : end;
        int32_t packets = 0;
        for (; at < last; at++) {
            int32_t sends = p->sends[stream][in_image];
            if (sends && packets == room) break;
            packets += sends;
            if (++in_image == pixels) in_image = 0;
        }
        r->o->was_full |= at < last;
        r->gmem_next[stream] = at;
        r->gmem_due[stream] = paced(r, stream);
        issue(r, stream, packets);
        if (packets && p->route_start[stream] == p->route_start[stream + 1]) deliver(r, stream, packets, tick);
        else if (packets && travel(r, p->route_start[stream], packets, tick, tick)) return -1;
    }
    if (at < end && r->gmem_due[stream] > tick) r->held_back = tick;
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

/* Packets that are delivered and iterations that have finished. */
static int take_events(Run *r, int64_t tick) {
    if (turn_wheel(&r->events, tick)) return -1;
    Word *row = row_of(&r->events, tick);
    for (int32_t number = r->arrivals >> 6; number < r->events.words; number++) {
        while (row[number].any) {
            int32_t count, what = take_first(&r->events, &row[number], tick, number, &count);
            if (what < r->finishes) deliver(r, what - r->arrivals, count, tick);
            else finish_iteration(r, what - r->finishes);
        }
    }
    return 0;
}

/* The links of all that asks, in the order of streams and then of places: those of one place are alike. */
static int serve(Run *r, int64_t tick) {
    Word *row = row_of(&r->events, tick);
    for (int32_t number = 0; number < r->arrivals >> 6; number++) {
        while (row[number].any) {
            int32_t count, at = take_first(&r->events, &row[number], tick, number, &count);
            while (count) {
                int64_t behind;
                int32_t together = pass(r, &r->place[at], count, tick, &behind);
                if (travel(r, r->place[at].next, together, behind, tick)) return -1;
                count -= together;
            }
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
        end_tick(&r->events, tick);
        int coming = are_coming(&r->events);
        if (!coming && sends < 0) return 1;
        tick++;
        if (!coming) tick = sends > tick ? sends : tick;
        else while (is_empty(&r->events, tick) && (sends < 0 || sends > tick)) tick++;
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
            int32_t next = at + 1 < p->route_start[s + 1] ? at + 1 : r->arrivals + s;
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
    r->arrivals = (r->places + 63) / 64 * 64;
    r->finishes = r->arrivals + p->stream_count;
    size_t stages = (size_t)p->stage_count + 1, streams = (size_t)p->stream_count + 1, places = (size_t)r->places + 64;
    r->place = calloc(places, sizeof(Place));
    r->alone = calloc(places, 1);
    r->taken = calloc((size_t)p->link_count + 1, sizeof(Taken));
    r->stage = calloc(stages, sizeof(StageState));
    r->free_at = calloc(stages, sizeof(int64_t));
    r->gmem_next = calloc(2 * streams, sizeof(int64_t));
    r->from_gmem = calloc(2 * streams, sizeof(int32_t));
    r->marked = calloc(stages, sizeof(int32_t));
    r->is_marked = calloc(stages, 1);
    int status = -1;
    if (r->place && r->alone && r->taken && r->stage && r->free_at && r->gmem_next && r->from_gmem
        && r->marked && r->is_marked) {
        r->gmem_due = r->gmem_next + streams;
        r->to_gmem = r->from_gmem + streams;
        for (int32_t s = 0; s < p->stage_count; s++) r->stage[s].input = r->stage[s].output = -1;
        status = open_events(&r->events, r->finishes + p->stage_count) || lay_out(r) ? -1 : run(r);
    }
    free(r->place); free(r->alone); free(r->taken); free(r->stage); free(r->free_at);
    free(r->gmem_next); free(r->from_gmem); free(r->marked); free(r->is_marked);
    close_events(&r->events);
    free(r);
    return status;
}
