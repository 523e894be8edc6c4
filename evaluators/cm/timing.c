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

/* Packets for a stage. Whether one comes when it is waited for, no branch would guess. The new end of the list of what is ready, which stays
 * in a register. */
static inline int32_t *deliver(Run *r, int32_t number, int32_t packets, int32_t *ready) {
    int32_t *missing = (int32_t *)r->missing + number, before = *missing, after = before - packets;
    int32_t stage = r->reader[number], has_come = (before > 0) & (after <= 0);
    *missing = after;
    *ready = stage;
    return ready + (has_come & ((r->waits[stage].packets -= has_come) == 0));
}

static void deliver_to_gmem(Run *r, int32_t number, int32_t packets, int64_t tick) {
    Input *input = &r->input[number];
    int32_t *missing = (int32_t *)r->missing + number;
    for (*missing -= packets; *missing <= 0; *missing += input->packets) {
        int64_t image = input->through++;
        if (tick > r->o->finish[image]) r->o->finish[image] = tick;
        r->left -= image < r->p->wanted;
        r->came_out = 1;
    }
}

/* Several packets of a stream that ask for a link at a tick and do not all fit in what is left of the tick until which it is taken. */
static __attribute__((noinline)) int pass_apart(Run *r, const Place *place, int32_t packets, int64_t tick) {
    Taken *link = &r->taken[place->link];
    int64_t now = tick > link->tick ? tick : link->tick, from = tick > link->tick ? 0 : link->used;
    int64_t width = link->width, load = place->whole * width + place->rest, all = load * packets;
    int64_t first = (from + load - 1) / width, last = (from + all - 1) / width;
    link->tick = now + last;
    link->used = (int32_t)(from + all - last * width);
    while (first < last) {
        int32_t together = (int32_t)(((first + 1) * width - from) / load);
        if (add_events(&r->events, now + first + place->hop, place->next, together, tick)) return -1;
        packets -= together;
        from += together * load;
        first = (from + load - 1) / width;
    }
    return add_events(&r->events, now + last + place->hop, place->next, packets, tick);
}

/* Packets that ask for a link at a tick, all before them having asked: those that are behind it in the same tick go on together. */
static inline int pass(Run *r, const Place *place, int32_t packets, int64_t tick) {
    Taken *link = &r->taken[place->link];
    int64_t first = link->tick;
    int32_t taken = -(first >= tick), width = link->width, whole = place->whole;
    int64_t all = (link->used & taken) + (int64_t)place->rest * packets;
    int32_t over = (int32_t)((width - all) >> 63); /* masks: no branch would guess which it is */
    if (__builtin_expect(((whole | -over) & -(packets > 1)) != 0, 0)) return pass_apart(r, place, packets, tick);
    first = first >= tick ? first : tick;
    first += whole - over;
    link->tick = first;
    link->used = (int32_t)all - (width & over);
    return add_events(&r->events, first + place->hop, place->next, packets, tick);
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

/* There is room again on a stream: its writer may have waited for it. */
static inline int32_t *release(Run *r, int32_t number, int32_t packets, int32_t *ready) {
    int32_t *spare = (int32_t *)r->spare + number, before = *spare, after = before + packets;
    int32_t stage = r->writer[number], has_come = (before < 0) & (after >= 0);
    *spare = after;
    *ready = stage;
    return ready + (has_come & ((r->waits[stage].lacks -= has_come) == 0) & (r->waits[stage].packets == 0));
}

static inline int32_t *finish_iteration(Run *r, int32_t number, int32_t *ready) {
    EndState *stage = &r->end[number];
    const int32_t *key = stage->classes.keys + (size_t)stage->classes.of[stage->at] * (size_t)stage->words;
    for (int32_t k = 0; k < stage->words; k += LANES)
        for (int32_t lane = 0; lane < LANES; lane++) ready = release(r, stage->freed[k + lane], key[k + lane], ready);
    if (++stage->at == stage->iterations) {
        stage->at = 0;
        stage->image++;
        stage->classes = r->later[number].end;
    }
    *ready = number;
    return ready + ((--r->waits[number].packets == 0) | stage->shares);
}

/* What an iteration sends asks for the first links of its routes, or is there when it has finished. */
static __attribute__((noinline)) int send_later(Run *r, const int32_t *asks, int32_t count, int64_t end, int64_t tick) {
    for (int32_t k = 0; k < count; k++)
        if (asks[k] != r->nothing && add_events(&r->events, end - (asks[k] < r->arrivals), asks[k], 1, tick)) return -1;
    return 0;
}

static int send_from(Run *r, const StartState *stage, int64_t tick) {
    const int32_t count = (stage->end_outputs - stage->outputs) * LANES, *asks = stage->key + stage->words - count;
    int64_t then = tick + stage->ticks - 1;
    if (stage->mixed || stage->ticks >= NEAR) return send_later(r, asks, count, then + 1, tick);
    uint8_t *row = row_of(&r->events, then), *groups = groups_of(&r->events, then);
    for (int32_t k = 0; k < count; k++) { /* nothing else asks there */
        row[asks[k]] = 1;
        groups[(uint32_t)asks[k] / GROUP] = 1;
    }
    r->events.in_row[then & (NEAR - 1)] = 1;
    return 0;
}

static int start(Run *r, int32_t number, int64_t tick) {
    StartState *stage = &r->start[number];
    int64_t end = tick + stage->ticks;
    if (r->o->starts) r->o->starts[number][started_by(r, number)] = tick;
    if (stage->shares) r->free_at[stage->core] = end;
    if (send_from(r, stage, tick)) return -1;
    for (int32_t k = stage->outputs; k < stage->end_outputs; k++) {
        Lanes less = r->spare[k] < r->least_spare[k];
        r->least_spare[k] = (r->spare[k] & less) | (r->least_spare[k] & ~less);
    }
    if (++stage->at == stage->iterations) {
        stage->at = 0;
        if (++r->later[number].image > r->latest_image) r->latest_image = r->later[number].image;
        stage->classes = r->later[number].begin;
    }
    stage->key = stage->classes.keys + (size_t)stage->classes.of[stage->at] * (size_t)stage->words;
    if (stage->at == 0 && r->later[number].image == r->p->images) r->waits[number] = (Waits){2, 0}; /* for ever */
    else await(r, number, stage, 1);
    return add_end(&r->events, end, r->finishes + number, tick);
}

static inline int has_room(Run *r, int32_t stage) {
    if (__builtin_expect(r->waits[stage].lacks == 0, 1)) return 1;
    r->o->was_full = 1;
    return 0;
}

/* The stage of a core that may start next; -1: none. */
static int32_t next_to_start(Run *r, int32_t core, int64_t tick) {
    const Problem *p = r->p;
    if (r->free_at[core] > tick) return -1;
    int32_t found = -1;
    for (int32_t k = p->core_start[core + 1] - 1; k >= p->core_start[core]; k--) {
        int32_t stage = p->core_stage[k];
        if (found >= 0 && r->later[stage].image >= r->later[found].image) continue;
        if (r->waits[stage].packets == 0 && has_room(r, stage)) found = stage;
    }
    return found;
}

static int start_stages(Run *r, int64_t tick) {
    for (int32_t k = 0; k < r->ready_count; k++) {
        int32_t number = r->ready[k];
        if (r->start[number].shares) number = next_to_start(r, r->start[number].core, tick);
        else if (r->waits[number].packets > 0 || !has_room(r, number)) number = -1; /* it may be there twice */
        if (number >= 0 && start(r, number, tick)) return -1;
    }
    r->ready_count = 0;
    return 0;
}

/* Packets that are delivered and iterations that have finished. */
static int take_events(Run *r, int64_t tick) {
    if (turn_wheel(&r->events, tick)) return -1;
    int32_t *ready = r->ready + r->ready_count;
    int32_t count = list_events(&r->events, tick, r->arrivals, r->to_gmem, r->listed);
    for (int32_t k = 0; k < count; k++) ready = deliver(r, r->listed[k] - r->arrivals, count_of(&r->events, tick, r->listed[k]), ready);
    count = list_events(&r->events, tick, r->to_gmem, r->nothing, r->listed);
    for (int32_t k = 0; k < count; k++) deliver_to_gmem(r, r->listed[k] - r->arrivals, count_of(&r->events, tick, r->listed[k]), tick);
    const int32_t *ends = ends_of(&r->events, tick);
    for (int32_t k = 0; k < r->events.end_count[tick & (NEAR - 1)]; k++) ready = finish_iteration(r, ends[k], ready);
    r->ready_count = (int32_t)(ready - r->ready);
    return 0;
}

static int send_images(Run *r, int64_t tick) {
    for (int32_t k = 0; k < r->image_count; k++) {
        ImageState *image = &r->image[k];
        int64_t packets = sent_of_image(r, image, tick);
        if (packets == 0) continue;
        if (image->first < 0) r->ready_count = (int32_t)(deliver(r, image->input, (int32_t)packets, r->ready + r->ready_count) - r->ready);
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
