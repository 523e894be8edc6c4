/* The state of a run, for another one that goes on alone from there. */
#include "timing_layout.h"

/* Both are between two ticks, of the same streams over the same links; `to` may be of fewer images, of which all has been sent. */
static int copy_state(Run *to, const Run *from) {
    const Problem *p = to->p;
    if (copy_events(&to->events, &from->events)) return -1;
    memcpy(to->taken, from->taken, sizeof(Taken) * (size_t)p->link_count);
    memcpy(to->stage, from->stage, sizeof(StageState) * (size_t)p->stage_count);
    memcpy(to->stream, from->stream, sizeof(StreamState) * (size_t)p->stream_count);
    memcpy(to->free_at, from->free_at, sizeof(int64_t) * (size_t)p->core_count);
    memcpy(to->is_marked, from->is_marked, (size_t)p->stage_count);
    memcpy(to->marked, from->marked, sizeof(int32_t) * (size_t)from->marked_count);
    to->marked_count = from->marked_count;
    for (int32_t k = 0; k < to->image_count; k++) {
        to->image[k].next = from->image[k].next;
        to->image[k].in_image = from->image[k].in_image;
        to->image[k].due = from->image[k].due;
    }
    for (int32_t s = 0; s < p->stream_count; s++) {
        const StreamState *stream = &to->stream[s];
        int64_t through = stream->reader < 0 ? stream->delivered / stream->packets : 0;
        to->left -= through < p->wanted ? through : p->wanted;
    }
    for (int32_t image = 0; image < p->images; image++) to->o->finish[image] = from->o->finish[image];
    to->o->was_full = from->o->was_full;
    to->tick = from->tick;
    return 0;
}
