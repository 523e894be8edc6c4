/* The state of a simulation before anything has happened, from arrays of numbers; and what has come of it. */
#include "timing_gmem.h"

#define PLACES_AT_ONCE 8 /* `list_events` writes so many numbers too many */

static void lay_out_stages(Run *r) {
    const Problem *p = r->p;
    int32_t inputs = 0, outputs = 0;
    for (int32_t s = 0; s < p->stage_count; s++) {
        StageState *stage = &r->stage[s];
        stage->iterations = p->iterations[s];
        stage->ticks = p->ticks[s];
        stage->core = p->core[s];
        stage->first_input = inputs;
        for (int32_t k = p->in_start[s]; k < p->in_start[s + 1]; k++) {
            int32_t stream = p->in_stream[k];
            r->input[inputs++] = (Input){p->needed[stream], p->released[stream], stream, p->packets[stream]};
        }
        stage->end_input = inputs;
        stage->first_output = outputs;
        for (int32_t k = p->out_start[s]; k < p->out_start[s + 1]; k++) {
            int32_t stream = p->out_stream[k];
            int32_t mapped = p->route_start[stream] < p->route_start[stream + 1]; /* if not, it can be read when it is finished */
            int32_t first = mapped ? p->route_start[stream] : r->arrivals + stream;
            r->output[outputs++] = (Output){p->sends[stream], stream, first, mapped};
        }
        stage->end_output = outputs;
    }
}

static void lay_out_image(Run *r, int32_t s, uint64_t *sends) {
    const Problem *p = r->p;
    ImageState *image = &r->image[r->image_count++];
    image->stream = s;
    image->first = p->route_start[s] < p->route_start[s + 1] ? p->route_start[s] : -1;
    image->pixels = p->writer_iterations[s];
    image->sends = sends;
    for (int64_t k = 0; k < image->pixels; k++) sends[k >> 6] |= (uint64_t)p->sends[s][k] << (k & 63);
}

static void lay_out_streams(Run *r) {
    const Problem *p = r->p;
    uint64_t *sends = r->sends;
    for (int32_t s = 0; s < p->stream_count; s++) {
        StreamState *stream = &r->stream[s];
        int32_t writer = p->writer[s], reader = p->reader[s], end = p->route_start[s + 1];
        stream->capacity = p->capacity[s];
        stream->packets = p->packets[s];
        stream->reader = reader;
        stream->reader_core = reader < 0 ? -1 : p->core[reader];
        stream->writer_core = writer < 0 ? -1 : p->core[writer];
        stream->awaited = reader < 0 ? p->packets[s] : NOBODY;
        for (int32_t at = p->route_start[s]; at < end; at++) {
            int32_t next = at + 1 < end ? at + 1 : r->arrivals + s;
            r->place[at] = (Place){p->route[at], p->elements[s], next, p->hop[p->route[at]]};
        }
        if (reader < 0) r->left += p->wanted;
        if (writer < 0) {
            lay_out_image(r, s, sends);
            sends += p->writer_iterations[s] / 64 + 1;
        }
    }
    for (int32_t k = 0; k < p->link_count; k++) {
        uint32_t width = (uint32_t)p->width[k];
        r->taken[k] = (Taken){0, width, width > 1 && width < LARGE ? (uint32_t)(((uint64_t)1 << 32) / width + 1) : 0};
    }
}

static int open_run(Run *r) {
    const Problem *p = r->p;
    int32_t places = p->route_start[p->stream_count], words = 0, images = 0;
    for (int32_t s = 0; s < p->stream_count; s++) {
        words += p->writer[s] < 0 ? p->writer_iterations[s] / 64 + 1 : 0;
        images += p->writer[s] < 0;
    }
    r->arrivals = whole_groups(places);
    r->finishes = whole_groups(r->arrivals + p->stream_count);
    int32_t kinds = whole_groups(r->finishes + p->stage_count);
    size_t stages = (size_t)p->stage_count + 1, streams = (size_t)p->stream_count + 1;
    r->place = calloc((size_t)places + 1, sizeof(Place));
    r->listed = calloc((size_t)kinds + PLACES_AT_ONCE, sizeof(int32_t));
    r->taken = calloc((size_t)p->link_count + 1, sizeof(Taken));
    r->stage = calloc(stages, sizeof(StageState));
    r->stream = calloc(streams, sizeof(StreamState));
    r->input = calloc(streams, sizeof(Input));
    r->output = calloc(streams, sizeof(Output));
    r->free_at = calloc(stages, sizeof(int64_t));
    r->image = calloc((size_t)images + 1, sizeof(ImageState));
    r->sends = calloc((size_t)words + 1, sizeof(uint64_t));
    r->marked = calloc(stages, sizeof(int32_t));
    r->is_marked = calloc(stages, 1);
    r->held_back = NEVER;
    r->due_tick = -1;
    int opened = open_events(&r->events, kinds) == 0 && r->place && r->listed && r->taken && r->stage && r->stream && r->input
                 && r->output && r->free_at && r->image && r->sends && r->marked && r->is_marked;
    if (!opened) return -1;
    lay_out_stages(r);
    lay_out_streams(r);
    return 0;
}

void kilotune_stream_close(Run *r) {
    void *parts[] = {r->place, r->listed, r->taken, r->stage, r->stream, r->input, r->output, r->free_at, r->image, r->sends, r->marked,
                     r->is_marked};
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) free(parts[k]);
    close_events(&r->events);
    free(r);
}

static void tell(const Run *r) {
    for (int32_t s = 0; s < r->p->stage_count; s++) r->o->next[s] = r->stage[s].started;
    for (int32_t s = 0; s < r->p->stream_count; s++) {
        r->o->delivered[s] = r->stream[s].delivered;
        r->o->issued[s] = r->stream[s].issued;
        r->o->freed[s] = r->stream[s].freed;
        r->o->most_held[s] = r->stream[s].most_held;
    }
}
