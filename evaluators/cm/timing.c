/* A stream of images through a mapped pipeline, tick by tick, with contended links and finite buffers.
 *
 * Within a tick: packets arrive and finished iterations release buffers; then stages start; then packets ask for links,
 * in the order of their streams. A link moves `width` elements a tick, first come first served, so its state is one place in
 * time: the tick, and the elements in it, until which it is taken. See reference_timing.py, which is the definition.
 *
 * Of the stages of a core that may start, the one with the earliest image does, of those the one of the highest number.
 *
 * What makes it fast: a core where nothing may start is looked at again only when what a stage waits for has come. All that asks for
 * links at a tick is a row of counts by place on a route, numbered by stream, which is in order without being sorted; packets of a stream
 * that ask for a link in the same tick are one event. What happens next is never sorted, and hardly ever branched on: the places of
 * a tick are listed first, and when a packet is behind a link is a product and a shift.
 */
#include <stdint.h>
#include <stdlib.h>

#include "timing_copy.h"

static inline void mark(Run *r, int32_t core) {
    if (!r->is_marked[core]) {
        r->is_marked[core] = 1;
        r->marked[r->marked_count++] = core;
    }
}

/* A stream has brought what was awaited. */
static void tell_reader(Run *r, StreamState *stream, int64_t tick) {
    if (stream->reader >= 0) {
        stream->awaited = NOBODY;
        mark(r, stream->reader_core);
        return;
    }
    for (; stream->delivered >= stream->awaited; stream->awaited += stream->packets) {
        int64_t image = stream->awaited / stream->packets - 1;
        if (tick > r->o->finish[image]) r->o->finish[image] = tick;
        r->left -= image < r->p->wanted;
        r->came_out = 1;
    }
}

static inline void deliver(Run *r, int32_t number, int32_t packets, int64_t tick) {
    StreamState *stream = &r->stream[number];
    stream->delivered += packets;
    if (stream->delivered >= stream->awaited) tell_reader(r, stream, tick);
}

/* The ticks that a link takes to move so many elements, without what is left of the last one. */
static inline int32_t ticks_of(const Taken *link, uint64_t elements) {
    if (__builtin_expect(elements >= LARGE || !link->reciprocal, 0)) return (int32_t)(elements / link->width);
    return (int32_t)(elements * link->reciprocal >> 32); /* exact: the product of what is divided and the divisor is below 2 ** 32 */
}

/* Packets that ask for a link at a tick, all before them having asked: those that are behind it in the same tick go on together. */
static inline int pass(Run *r, const Place *place, int32_t packets, int64_t tick) {
    Taken *link = &r->taken[place->link];
    int64_t now = tick * link->width, from = link->until > now ? link->until - now : 0;
    int64_t load = place->load, all = load * packets;
    int32_t first = ticks_of(link, (uint64_t)(from + load - 1)), last = ticks_of(link, (uint64_t)(from + all - 1));
    link->until = now + from + all;
    while (__builtin_expect(first < last, 0)) {
        int32_t together = (int32_t)(((int64_t)(first + 1) * link->width - from) / load);
        if (add_events(&r->events, tick + first + place->hop, place->next, together, tick)) return -1;
        packets -= together;
        from += together * load;
        first = ticks_of(link, (uint64_t)(from + load - 1));
    }
    return add_events(&r->events, tick + last + place->hop, place->next, packets, tick);
}

/* The links of all that asks, in the order of streams and then of places: those of one place are alike. */
static int serve(Run *r, int64_t tick) {
    int32_t count = list_events(&r->events, tick, 0, r->arrivals, r->listed);
    for (int32_t k = 0; k < count; k++) {
        int32_t at = r->listed[k];
        if (pass(r, &r->place[at], count_of(&r->events, tick, at), tick)) return -1;
    }
    return 0;
}

static void finish_iteration(Run *r, int32_t number) {
    StageState *stage = &r->stage[number];
    for (int32_t k = stage->first_input; k < stage->end_input; k++) {
        const Input *input = &r->input[k];
        StreamState *stream = &r->stream[input->stream];
        int64_t freed = stage->end_image * input->packets + input->released[stage->end_at];
        if (freed <= stream->freed) continue;
        stream->freed = freed;
        if (stream->is_awaited) {
            stream->is_awaited = 0;
            mark(r, stream->writer_core);
        }
    }
    if (++stage->end_at == stage->iterations) {
        stage->end_at = 0;
        stage->end_image++;
    }
    mark(r, stage->core);
}

static int may_start(Run *r, StageState *stage) { /* its core is free */
    if (stage->start_image == r->p->images) return 0;
    for (int32_t k = stage->first_input; k < stage->end_input; k++) {
        const Input *input = &r->input[k];
        StreamState *stream = &r->stream[input->stream];
        int32_t needed = input->needed[stage->start_at];
        int64_t wanted = stage->start_image * input->packets + needed;
        if (needed && stream->delivered < wanted) {
            stream->awaited = wanted;
            return 0;
        }
    }
    for (int32_t k = stage->first_output; k < stage->end_output; k++) {
        const Output *output = &r->output[k];
        StreamState *stream = &r->stream[output->stream];
        if (stream->capacity && output->sends[stage->start_at] && room_of(stream) <= 0) {
            r->o->was_full = 1;
            stream->is_awaited = 1;
            return 0;
        }
    }
    return 1;
}

static int start(Run *r, int32_t number, int64_t tick) {
    StageState *stage = &r->stage[number];
    int64_t j = stage->start_at, end = tick + stage->ticks;
    if (r->o->starts) r->o->starts[number][stage->started] = tick;
    stage->started++;
    r->free_at[stage->core] = end;
    if (++stage->start_at == stage->iterations) {
        stage->start_at = 0;
        if (++stage->start_image > r->latest_image) r->latest_image = stage->start_image;
    }
    for (int32_t k = stage->first_output; k < stage->end_output; k++) {
        const Output *output = &r->output[k];
        if (!output->sends[j]) continue;
        issue(&r->stream[output->stream], 1);
        if (add_events(&r->events, end - output->asks_before, output->first, 1, tick)) return -1;
    }
    return add_events(&r->events, end, r->finishes + number, 1, tick);
}

/* The stage of a core that may start next; -1: none. */
static int32_t next_to_start(Run *r, int32_t core, int64_t tick) {
    const Problem *p = r->p;
    if (r->free_at[core] > tick) return -1;
    int32_t found = -1;
    for (int32_t k = p->core_start[core + 1] - 1; k >= p->core_start[core]; k--) {
        int32_t stage = p->core_stage[k];
        if (found >= 0 && r->stage[stage].start_image >= r->stage[found].start_image) continue;
        if (may_start(r, &r->stage[stage])) found = stage;
    }
    return found;
}

static int start_stages(Run *r, int64_t tick) {
    for (int32_t k = 0; k < r->marked_count; k++) {
        r->is_marked[r->marked[k]] = 0;
        int32_t stage = next_to_start(r, r->marked[k], tick);
        if (stage >= 0 && start(r, stage, tick)) return -1;
    }
    r->marked_count = 0;
    return 0;
}

/* Packets that are delivered and iterations that have finished. */
static int take_events(Run *r, int64_t tick) {
    if (turn_wheel(&r->events, tick)) return -1;
    int32_t count = list_events(&r->events, tick, r->arrivals, r->finishes, r->listed);
    for (int32_t k = 0; k < count; k++)
        deliver(r, r->listed[k] - r->arrivals, count_of(&r->events, tick, r->listed[k]), tick);
    count = list_events(&r->events, tick, r->finishes, r->events.kinds, r->listed);
    for (int32_t k = 0; k < count; k++) finish_iteration(r, r->listed[k] - r->finishes);
    return 0;
}

static int send_images(Run *r, int64_t tick) {
    for (int32_t k = 0; k < r->image_count; k++) {
        ImageState *image = &r->image[k];
        int64_t packets = sent_of_image(r, image, tick);
        if (packets == 0) continue;
        if (image->first < 0) deliver(r, image->stream, (int32_t)packets, tick);
        else if (add_events(&r->events, tick, image->first, (int32_t)packets, tick)) return -1;
    }
    return 0;
}

/* Whether something of image `before` may happen at this tick. It did not before: GMEM has not sent anything of it, and no stage has come to it. */
static int comes_to(const Run *r, int64_t before) {
    return before && (r->tick >= before * r->p->pace_ticks || r->latest_image >= before);
}

/* 0: all wanted images are through. 1: deadlock. 2: the state has come back. 3: stopped. 4: it comes to image `before`, counted from 0; 0: no
 * matter. -1: out of memory. */
static int run(Run *r, int64_t before) {
    for (;;) {
        int64_t tick = r->tick;
        if (comes_to(r, before)) return 4;
        if (take_events(r, tick) || send_images(r, tick) || start_stages(r, tick) || serve(r, tick)) return -1;
        r->o->ticks = tick;
        if (r->left == 0) return 0;
        if (r->p->settle && r->came_out && has_settled(r, tick)) return 2;
        r->came_out = 0;
        if (*r->p->stop) return 3;
        end_tick(&r->events, tick);
        tick++;
        r->tick = tick;
        if (r->events.in_row[tick & (NEAR - 1)]) continue;
        int64_t sends = next_image_tick(r);
        int coming = are_coming(&r->events);
        if (!coming && sends < 0) return 1;
        if (!coming) tick = sends > tick ? sends : tick;
        else while (is_empty(&r->events, tick) && (sends < 0 || sends > tick)) tick++;
        r->tick = tick;
    }
}

/* A run before anything has happened; NULL: out of memory. It ends with `kilotune_stream_close`. */
Run *kilotune_stream_open(const Problem *p, Outcome *o) {
    Run *r = calloc(1, sizeof(Run));
    if (!r) return NULL;
    r->p = p;
    r->o = o;
    if (open_run(r)) {
        kilotune_stream_close(r);
        return NULL;
    }
    for (int32_t s = 0; s < p->stage_count; s++) mark(r, r->stage[s].core);
    return r;
}

/* On to where it comes to an image, 0: to its end; see `run`. */
int kilotune_stream_run(Run *r, int32_t before) {
    int status = run(r, before);
    if (status >= 0) tell(r);
    return status;
}

/* What would have come of a run that is before its image `p->images` if that many were all. `p`: else as the run's own, without `settle`. */
int kilotune_stream_alone(const Run *r, const Problem *p, Outcome *o) {
    Run *alone = kilotune_stream_open(p, o);
    if (!alone) return -1;
    int status = copy_state(alone, r) ? -1 : kilotune_stream_run(alone, 0);
    kilotune_stream_close(alone);
    return status;
}

int kilotune_stream(const Problem *p, Outcome *o) {
    Run *r = kilotune_stream_open(p, o);
    if (!r) return -1;
    int status = kilotune_stream_run(r, 0);
    kilotune_stream_close(r);
    return status;
}
