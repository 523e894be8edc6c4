/* Counts of iterations and packets over all images, from a state that has only what changes. */
#include "timing_state.h"

/* What iterations have needed or released, the last of them iteration `count` - 1 of all images; `exempt`: an iteration that needs none
 * of its image does not wait for those of the image before. */
static int64_t counted(const int32_t *counts, int32_t iterations, int32_t packets, int64_t count, int exempt) {
    int64_t image = (count - 1) / iterations, end = count - image * iterations;
    int32_t most = 0, here = 0, any = 0;
    if (count == 0) return 0;
    for (int32_t j = 0; j < iterations; j++) {
        most = counts[j] > most ? counts[j] : most;
        if (j < end) here = most, any |= counts[j] > 0;
    }
    if (exempt && most == 0) return 0;
    if (image && exempt && !any) return (image - 1) * packets + most;
    return image * packets + here;
}

static int64_t started_by(const Run *r, int32_t stage) { return r->later[stage].image * r->start[stage].iterations + r->start[stage].at; }

/* The packets that a stream's buffer holds at most; so many never come without a limit. */
static int32_t room_for(const Problem *p, int32_t stream) {
    int32_t capacity = p->capacity[stream];
    return capacity > 0 && capacity < ANY_ROOM ? capacity : ANY_ROOM;
}

/* Packets that have been delivered to an input. */
static int64_t delivered_to(const Run *r, int32_t number) {
    const Input *input = &r->input[number];
    int64_t needed = (input->through + 1) * input->packets;
    if (input->reader >= 0) {
        int32_t iterations = r->start[input->reader].iterations;
        int64_t all = (int64_t)r->p->images * iterations, next = started_by(r, input->reader) + 1;
        needed = counted(input->needed, iterations, input->packets, next < all ? next : all, 1);
    }
    return needed - ((const int32_t *)r->missing)[number];
}

/* Packets that its reader has released. */
static int64_t freed_by(const Run *r, int32_t stage, const Input *input) {
    const EndState *end = &r->end[stage];
    return counted(input->released, end->iterations, input->packets, end->image * end->iterations + end->at, 0);
}
