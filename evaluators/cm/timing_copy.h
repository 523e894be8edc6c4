/* The state of a run, for another one that goes on alone from there. */
#include "timing_told.h"

/* The next iteration of a stage would be one of another image, but there is none. */
static void end_stage(Run *r, int32_t number) {
    const StartState *stage = &r->start[number];
    const Lanes *key = (const Lanes *)stage->key;
    for (int32_t k = stage->inputs; k < stage->end_inputs; k++) r->missing[k] -= *key++;
    for (int32_t k = stage->outputs; k < stage->end_outputs; k++) r->spare[k] += *key++;
    r->waits[number] = (Waits){1 + (r->end[number].image < r->later[number].image), 0};
}

/* Both are between two ticks, of the same streams over the same links; `to` may be of fewer images, of which all has been sent. */
static int copy_state(Run *to, const Run *from) {
    const Problem *p = to->p;
    if (copy_events(&to->events, &from->events)) return -1;
    memcpy(to->taken, from->taken, sizeof(Taken) * (size_t)p->link_count);
    size_t stages = (size_t)p->stage_count, inputs = (size_t)from->input_count, outputs = (size_t)from->output_count;
    memcpy(to->start, from->start, sizeof(StartState) * stages);
    memcpy(to->end, from->end, sizeof(EndState) * stages);
    memcpy(to->later, from->later, sizeof(LaterImages) * stages);
    memcpy(to->waits, from->waits, sizeof(Waits) * stages);
    memcpy(to->missing, from->missing, sizeof(int32_t) * inputs);
    memcpy(to->spare, from->spare, sizeof(int32_t) * outputs);
    memcpy(to->least_spare, from->least_spare, sizeof(int32_t) * outputs);
    memcpy(to->input, from->input, sizeof(Input) * inputs);
    memcpy(to->free_at, from->free_at, sizeof(int64_t) * (size_t)p->core_count);
    memcpy(to->ready, from->ready, sizeof(int32_t) * (size_t)from->ready_count);
    to->ready_count = from->ready_count;
    for (int32_t k = 0; k < to->image_count; k++) {
        to->image[k].next = from->image[k].next;
        to->image[k].in_image = from->image[k].in_image;
        to->image[k].due = from->image[k].due;
    }
    for (int32_t s = 0; s < p->stage_count; s++)
        if (to->later[s].image == p->images) end_stage(to, s);
    for (int32_t k = to->gmem_input; k < to->input_count; k++) {
        int64_t through = to->input[k].through;
        to->left -= through < p->wanted ? through : p->wanted;
    }
    for (int32_t image = 0; image < p->images; image++) to->o->finish[image] = from->o->finish[image];
    to->o->was_full = from->o->was_full;
    to->tick = from->tick;
    return 0;
}
