/* Whenever an image is through, the whole state is compared, by a hash and relative to that tick and image, with that of the
 * last few images. Where it has come back, everything from there on is known: so many images more every so many ticks.
 */
#include "timing_counts.h"

static uint64_t mixed(uint64_t hash, int64_t value) {
    uint64_t x = (hash ^ (uint64_t)value) * 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 32);
}

/* In any order, and as often as there are of them: those of one tick do not depend on it. */
static uint64_t hash_of_event(int64_t ticks, int32_t what, int64_t count) {
    return mixed(mixed(7, ticks), what) * (uint64_t)count;
}

/* With what is missing and where its reader is, all is known that has come and was released, but for what an image leaves to the next one. */
static uint64_t hash_of_input(const Run *r, uint64_t hash, int32_t number) {
    const Input *input = &r->input[number];
    int64_t before = r->through * input->packets;
    int leaves = input->packets && input->reader >= 0 && r->later[input->reader].leaves;
    if (!leaves) return mixed(hash, ((const int32_t *)r->missing)[number]);
    return mixed(mixed(hash, delivered_to(r, number) - before), freed_by(r, input->reader, input) - before);
}

/* All that decides what happens after `tick`, counted from this tick and from image `r->through` on. */
static uint64_t state_hash(const Run *r, int64_t tick) {
    const Problem *p = r->p;
    uint64_t hash = 1, events = 0;
    for (int32_t s = 0; s < p->stage_count; s++) {
        const StartState *start = &r->start[s];
        const EndState *end = &r->end[s];
        int64_t before = r->through * start->iterations;
        hash = mixed(mixed(hash, end->image * end->iterations + end->at - before), started_by(r, s) - before);
    }
    for (int32_t k = 0; k < r->input_count; k++) hash = hash_of_input(r, hash, k);
    for (int32_t k = 0; k < r->image_count; k++) hash = mixed(hash, r->image[k].next - r->through * r->image[k].pixels);
    for (int32_t k = 0; k < p->link_count; k++) {
        int64_t taken = (r->taken[k].tick - tick - 1) * r->taken[k].width + r->taken[k].used;
        hash = mixed(hash, taken > 0 ? taken : 0);
    }
    for (int64_t then = tick + 1; then < tick + NEAR; then++) {
        int32_t count = list_events(&r->events, then, 0, r->nothing, r->listed);
        for (int32_t k = 0; k < count; k++)
            events += hash_of_event(then - tick, r->listed[k], count_of(&r->events, then, r->listed[k]));
        for (int32_t k = 0; k < r->events.end_count[then & (NEAR - 1)]; k++)
            events += hash_of_event(then - tick, r->finishes + ends_of(&r->events, then)[k], 1);
    }
    for (int32_t bucket = 0; bucket < WHEEL; bucket++)
        for (int32_t at = r->events.buckets[bucket].first; at >= 0; at = r->events.chunks[at].next)
            for (int32_t k = 0; k < r->events.chunks[at].count; k++) {
                const Event *event = &r->events.chunks[at].events[k];
                events += hash_of_event((int64_t)event->turn * WHEEL + bucket - tick, event->what, event->count);
            }
    return mixed(hash, (int64_t)events);
}

/* Whether the state is that of some images ago. GMEM must be as far behind its pace as then, or the pace must not have
   mattered since, and matter less and less. */
static int has_settled(Run *r, int64_t tick) {
    const Problem *p = r->p;
    int64_t through = p->images;
    for (int32_t k = r->gmem_input; k < r->input_count; k++) through = r->input[k].through < through ? r->input[k].through : through;
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
