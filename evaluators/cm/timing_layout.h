/* The state of a simulation before anything has happened, from arrays of numbers; and what has come of it. */
#include "timing_classes.h"

#define PLACES_AT_ONCE 8 /* `list_events` writes so many numbers too many */

/* The ends of streams by the stages that they belong to, GMEM's behind them. */
static void number_ends(Run *r) {
    const Problem *p = r->p;
    int32_t inputs = 0, outputs = 0, gmem = r->gmem_input;
    for (int32_t s = 0; s < p->stage_count; s++) {
        StartState *stage = &r->start[s];
        stage->inputs = inputs;
        stage->outputs = outputs;
        for (int32_t k = p->in_start[s]; k < p->in_start[s + 1]; k++) r->input_of[p->in_stream[k]] = inputs * LANES + k - p->in_start[s];
        for (int32_t k = p->out_start[s]; k < p->out_start[s + 1]; k++)
            r->output_of[p->out_stream[k]] = outputs * LANES + k - p->out_start[s];
        stage->end_inputs = inputs += whole_lanes(p->in_start[s + 1] - p->in_start[s]);
        stage->end_outputs = outputs += whole_lanes(p->out_start[s + 1] - p->out_start[s]);
    }
    outputs *= LANES;
    for (int32_t s = 0; s < p->stream_count; s++) {
        if (p->reader[s] < 0) r->input_of[s] = gmem++;
        if (p->writer[s] < 0) r->output_of[s] = outputs++;
    }
}

static void lay_out_stages(Run *r) {
    const Problem *p = r->p;
    for (int32_t s = 0; s < p->stage_count; s++) {
        StartState *stage = &r->start[s];
        int32_t core = p->core[s], inputs = stage->end_inputs - stage->inputs;
        stage->iterations = p->iterations[s];
        stage->ticks = p->ticks[s];
        stage->core = core;
        stage->shares = p->core_start[core + 1] - p->core_start[core] > 1;
        stage->words = (inputs + 2 * (stage->end_outputs - stage->outputs)) * LANES;
        for (int32_t k = p->out_start[s]; k < p->out_start[s + 1]; k++)
            stage->mixed |= p->route_start[p->out_stream[k]] == p->route_start[p->out_stream[k] + 1];
        const int32_t *freed = r->freed + stage->inputs * LANES;
        r->end[s] = (EndState){{NULL, NULL}, freed, 0, p->iterations[s], stage->inputs, inputs * LANES, stage->shares, 0};
    }
}

static void lay_out_image(Run *r, int32_t s, uint64_t *sends) {
    const Problem *p = r->p;
    ImageState *image = &r->image[r->image_count++];
    image->output = r->output_of[s];
    image->input = r->input_of[s];
    image->first = p->route_start[s] < p->route_start[s + 1] ? p->route_start[s] : -1;
    image->is_bounded = p->capacity[s] > 0;
    image->pixels = p->writer_iterations[s];
    image->sends = sends;
    for (int64_t k = 0; k < image->pixels; k++) sends[k >> 6] |= (uint64_t)p->sends[s][k] << (k & 63);
}

static void lay_out_route(Run *r, int32_t s) {
    const Problem *p = r->p;
    int32_t end = p->route_start[s + 1];
    for (int32_t at = p->route_start[s]; at < end; at++) {
        int32_t link = p->route[at], whole = (p->elements[s] - 1) / p->width[link];
        int32_t next = at + 1 < end ? at + 1 : r->arrivals + r->input_of[s];
        r->place[at] = (Place){link, next, p->hop[link], whole, p->elements[s] - whole * p->width[link]};
    }
}

static void lay_out_streams(Run *r) {
    const Problem *p = r->p;
    int32_t *missing = (int32_t *)r->missing, *spare = (int32_t *)r->spare, *least = (int32_t *)r->least_spare;
    uint64_t *sends = r->sends;
    for (int32_t k = 0; k < r->input_count; k++) r->freed[k] = r->output_count - 1; /* of an input that is none */
    for (int32_t s = 0; s < p->stream_count; s++) {
        int32_t reader = p->reader[s], input = r->input_of[s], output = r->output_of[s];
        r->input[input] = (Input){p->packets[s], reader, p->needed[s], p->released[s], 0};
        r->reader[input] = reader;
        r->writer[output] = p->writer[s] < 0 ? p->stage_count : p->writer[s];
        r->freed[input] = output;
        spare[output] = least[output] = room_for(p, s);
        lay_out_route(r, s);
        if (reader < 0) {
            missing[input] = p->packets[s];
            r->left += p->wanted;
        }
        if (p->writer[s] < 0) {
            lay_out_image(r, s, sends);
            sends += p->writer_iterations[s] / 64 + 1;
        }
    }
    for (int32_t k = 0; k < p->link_count; k++) r->taken[k] = (Taken){0, 0, p->width[k]};
}

/* A stage waits for the packets that its next iteration needs, and for room for those that it sends. */
static inline void await(Run *r, int32_t number, const StartState *stage, int32_t running) {
    const Lanes *key = (const Lanes *)stage->key;
    Lanes packets = {0}, lacks = {0};
    for (int32_t k = stage->inputs; k < stage->end_inputs; k++) {
        r->missing[k] += *key++;
        packets -= r->missing[k] > 0;
    }
    for (int32_t k = stage->outputs; k < stage->end_outputs; k++) {
        r->spare[k] -= *key++;
        lacks -= r->spare[k] < 0;
    }
    for (int32_t k = 1; k < LANES; k++) packets[0] += packets[k], lacks[0] += lacks[k];
    r->waits[number] = (Waits){running + packets[0], lacks[0]};
}

static void begin_stages(Run *r) {
    for (int32_t s = 0; s < r->p->stage_count; s++) {
        StartState *stage = &r->start[s];
        stage->key = stage->classes.keys + (size_t)stage->classes.of[0] * (size_t)stage->words;
        await(r, s, stage, 0);
        if (r->waits[s].packets == 0) r->ready[r->ready_count++] = s;
    }
}

/* How many ends of streams there are, and where numbers of events begin and end. */
static void count_ends(Run *r) {
    const Problem *p = r->p;
    int32_t inputs = 0, outputs = 0, to_gmem = 0, from_gmem = 0;
    for (int32_t s = 0; s < p->stage_count; s++) {
        inputs += whole_lanes(p->in_start[s + 1] - p->in_start[s]);
        outputs += whole_lanes(p->out_start[s + 1] - p->out_start[s]);
    }
    for (int32_t s = 0; s < p->stream_count; s++) {
        to_gmem += p->reader[s] < 0;
        from_gmem += p->writer[s] < 0;
    }
    r->arrivals = whole_groups(p->route_start[p->stream_count]);
    r->gmem_input = whole_groups(inputs * LANES);
    r->input_count = r->gmem_input + to_gmem;
    r->output_count = outputs * LANES + from_gmem + 1;
    r->to_gmem = r->arrivals + r->gmem_input;
    r->nothing = whole_groups(r->to_gmem + to_gmem);
    r->finishes = r->nothing + GROUP;
}

typedef struct { void *at; size_t count, bytes; } Part; /* at: of a pointer */

/* Whole cache lines of zeros; -1: out of memory. */
static int open_parts(const Part *parts, size_t count) {
    int failed = 0;
    for (size_t k = 0; k < count; k++) {
        size_t bytes = (parts[k].count * parts[k].bytes / LINE + 1) * LINE;
        void *part = aligned_alloc(LINE, bytes);
        if (part) memset(part, 0, bytes); else failed = -1;
        memcpy(parts[k].at, &part, sizeof(part));
    }
    return failed;
}

static int open_run(Run *r) {
    const Problem *p = r->p;
    size_t words = 1, images = 1;
    for (int32_t s = 0; s < p->stream_count; s++) {
        words += p->writer[s] < 0 ? (size_t)p->writer_iterations[s] / 64 + 1 : 0;
        images += p->writer[s] < 0;
    }
    count_ends(r);
    size_t stages = (size_t)p->stage_count + 1, streams = (size_t)p->stream_count + 1, inputs = (size_t)r->input_count;
    size_t outputs = (size_t)r->output_count, number = sizeof(int32_t);
    Part parts[] = {
        {&r->place, (size_t)r->arrivals + 1, sizeof(Place)}, {&r->listed, (size_t)r->finishes + PLACES_AT_ONCE, number},
        {&r->taken, (size_t)p->link_count + 1, sizeof(Taken)}, {&r->start, stages, sizeof(StartState)}, {&r->end, stages, sizeof(EndState)},
        {&r->later, stages, sizeof(LaterImages)}, {&r->waits, stages, sizeof(Waits)}, {&r->missing, inputs, number}, {&r->spare, outputs, number},
        {&r->least_spare, outputs, number}, {&r->reader, inputs, number}, {&r->writer, outputs, number}, {&r->freed, inputs, number},
        {&r->input, inputs, sizeof(Input)}, {&r->input_of, streams, number}, {&r->output_of, streams, number},
        {&r->kept, 8 * stages, sizeof(void *)}, {&r->free_at, stages, sizeof(int64_t)}, {&r->image, images, sizeof(ImageState)},
        {&r->sends, words, sizeof(uint64_t)},
        {&r->ready, 3 * stages + streams, number}, /* in a tick, each for its packets, its own iteration, and room on any stream */
    };
    if (open_parts(parts, sizeof(parts) / sizeof(parts[0])) | open_events(&r->events, r->finishes, p->stage_count)) return -1;
    r->held_back = NEVER;
    r->due_tick = -1;
    number_ends(r);
    lay_out_stages(r);
    lay_out_streams(r);
    if (classify_all(r)) return -1;
    begin_stages(r);
    return 0;
}

void kilotune_stream_close(Run *r) {
    void *parts[] = {r->place, r->listed, r->taken, r->start, r->end, r->later, r->waits, r->missing, r->spare, r->least_spare,
                     r->reader, r->writer, r->freed, r->input, r->input_of, r->output_of, r->free_at, r->image, r->sends, r->ready};
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) free(parts[k]);
    for (int32_t k = 0; k < r->kept_count; k++) free(r->kept[k]);
    free(r->kept);
    close_events(&r->events);
    free(r);
}
