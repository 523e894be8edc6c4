/* What an iteration needs and releases more than the one before it, and where it sends. Many iterations of a stage are alike in
 * that: they are a class, whose key is kept once, so that little memory is read. The key of what an iteration needs or releases:
 * packets by input, whole LANES; then, of the former, by output, whole LANES: packets that take room (none on the way to GMEM),
 * and the events of those that it sends.
 */
#include "timing_gmem.h"

typedef struct {
    int32_t *slots;         /* a hash table of classes; -1: none */
    int32_t *so_far, *key;  /* by input: packets of the image; words of a key */
} ClassRoom;

static int32_t whole_lanes(int32_t numbers) { return (numbers + LANES - 1) / LANES; }

/* What has been needed or released so far, from before an image on; an image may leave something to the one that follows. */
static int begin_image(const Run *r, int32_t number, int begins, int later, int32_t *so_far) {
    const StartState *stage = &r->start[number];
    int32_t inputs = r->p->in_start[number + 1] - r->p->in_start[number];
    int left = 0;
    for (int32_t k = 0; k < inputs; k++) {
        const Input *input = &r->input[stage->inputs * LANES + k];
        const int32_t *counts = begins ? input->needed : input->released;
        int32_t most = 0;
        for (int32_t j = 0; j < stage->iterations; j++) most = counts[j] > most ? counts[j] : most;
        so_far[k] = later ? most - input->packets : 0;
        left |= most < input->packets;
    }
    return left;
}

/* An iteration that needs no packets of its image does not wait for those of the image before either. */
static void fill_key(const Run *r, int32_t number, int begins, int32_t j, ClassRoom *room) {
    const StartState *stage = &r->start[number];
    const Problem *p = r->p;
    int32_t inputs = p->in_start[number + 1] - p->in_start[number], lanes = (stage->end_inputs - stage->inputs) * LANES;
    for (int32_t k = 0; k < inputs; k++) {
        const Input *input = &r->input[stage->inputs * LANES + k];
        int32_t count = begins ? input->needed[j] : input->released[j], before = room->so_far[k];
        if (count > before && (count || !begins)) room->so_far[k] = count;
        room->key[k] = room->so_far[k] - before;
    }
    if (!begins) return;
    int32_t outputs = (stage->end_outputs - stage->outputs) * LANES, *takes = room->key + lanes, *asks = takes + outputs;
    for (int32_t k = 0; k < outputs; k++) takes[k] = 0, asks[k] = r->nothing;
    for (int32_t k = p->out_start[number]; k < p->out_start[number + 1]; k++) {
        int32_t at = k - p->out_start[number], stream = p->out_stream[k], mapped = p->route_start[stream] < p->route_start[stream + 1];
        if (!p->sends[stream][j]) continue;
        takes[at] = p->reader[stream] >= 0;
        asks[at] = mapped ? p->route_start[stream] : r->arrivals + r->input_of[stream]; /* if not, it can be read when it is finished */
    }
}

static uint32_t hash_of_key(const int32_t *key, int32_t words) {
    uint32_t hash = 1;
    for (int32_t k = 0; k < words; k++) hash = (hash ^ (uint32_t)key[k]) * 0x9E3779B1u, hash ^= hash >> 15;
    return hash;
}

/* NULL, and nothing left: out of memory. */
static int32_t *grown_keys(int32_t *keys, size_t bytes) {
    int32_t *grown = realloc(keys, bytes + 1);
    if (!grown) free(keys);
    return grown;
}

/* The iterations of a stage; -1: out of memory. */
static int classify(Run *r, int32_t number, int begins, int later, ClassRoom *room, Classes *found) {
    const StartState *stage = &r->start[number];
    int32_t words = begins ? stage->words : r->end[number].words, count = 0, last = -1, kept = 16;
    size_t bytes = sizeof(int32_t) * (size_t)words;
    int32_t *of = malloc(sizeof(int32_t) * ((size_t)stage->iterations + 1)), *keys = malloc(bytes * (size_t)kept + 1);
    uint32_t mask = 15;
    while (mask < 2 * (uint32_t)stage->iterations) mask = 2 * mask + 1;
    memset(room->slots, -1, sizeof(int32_t) * ((size_t)mask + 1));
    memset(room->key, 0, bytes);
    begin_image(r, number, begins, later, room->so_far);
    for (int32_t j = 0; of && keys && j < stage->iterations; j++) {
        fill_key(r, number, begins, j, room);
        if (last < 0 || memcmp(keys + (size_t)last * (size_t)words, room->key, bytes) != 0) {
            uint32_t at = hash_of_key(room->key, words) & mask;
            while (room->slots[at] >= 0 && memcmp(keys + (size_t)room->slots[at] * (size_t)words, room->key, bytes) != 0)
                at = (at + 1) & mask;
            if (room->slots[at] < 0) {
                if (count == kept) keys = grown_keys(keys, bytes * (size_t)(kept *= 2));
                if (!keys) break;
                memcpy(keys + (size_t)count * (size_t)words, room->key, bytes);
                room->slots[at] = count++;
            }
            last = room->slots[at];
        }
        of[j] = last;
    }
    r->kept[r->kept_count++] = of;
    r->kept[r->kept_count++] = keys;
    *found = (Classes){of, keys};
    return of && keys ? 0 : -1;
}

/* Of all stages. */
static int classify_all(Run *r) {
    int32_t most = 0, words = 0;
    for (int32_t s = 0; s < r->p->stage_count; s++) {
        const StartState *stage = &r->start[s];
        if (stage->iterations > most) most = stage->iterations;
        if (stage->words > words) words = stage->words;
    }
    size_t bytes = sizeof(int32_t) * ((size_t)words + 1);
    ClassRoom room = {malloc(sizeof(int32_t) * (4 * (size_t)most + 16)), malloc(bytes), malloc(bytes)};
    int failed = !room.slots || !room.so_far || !room.key;
    for (int32_t s = 0; s < r->p->stage_count && !failed; s++) {
        for (int begins = 0; begins < 2 && !failed; begins++) {
            Classes *first = begins ? &r->start[s].classes : &r->end[s].classes, *later = begins ? &r->later[s].begin : &r->later[s].end;
            failed = classify(r, s, begins, 0, &room, first);
            *later = *first;
            if (failed || !begin_image(r, s, begins, 1, room.so_far)) continue;
            r->later[s].leaves = 1;
            failed = classify(r, s, begins, 1, &room, later);
        }
    }
    free(room.slots);
    free(room.so_far);
    free(room.key);
    return failed ? -1 : 0;
}
