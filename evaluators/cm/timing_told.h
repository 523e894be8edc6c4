/* What is told of a run. */
#include "timing_layout.h"

/* Packets that a writer has sent on a stream, GMEM being `image`. */
static int64_t issued_on(const Run *r, int32_t stream, const ImageState *image) {
    const Problem *p = r->p;
    int32_t iterations = p->writer_iterations[stream];
    int64_t count = image ? image->next : started_by(r, p->writer[stream]), rest = count % iterations;
    int64_t found = count / iterations * p->packets[stream];
    for (int64_t j = 0; j < rest; j++) found += p->sends[stream][j];
    return found;
}

static void tell_stream(const Run *r, int32_t s, const ImageState *image) {
    const Problem *p = r->p;
    const Input *input = &r->input[r->input_of[s]];
    int32_t reader = input->reader;
    int64_t freed = reader < 0 ? 0 : freed_by(r, reader, input);
    r->o->delivered[s] = delivered_to(r, r->input_of[s]);
    r->o->issued[s] = issued_on(r, s, image);
    r->o->freed[s] = freed;
    r->o->most_held[s] = reader < 0 ? r->o->issued[s] : room_for(p, s) - ((const int32_t *)r->least_spare)[r->output_of[s]];
}

static void tell(const Run *r) {
    const ImageState *image = r->image;
    for (int32_t s = 0; s < r->p->stage_count; s++) r->o->next[s] = started_by(r, s);
    for (int32_t s = 0; s < r->p->stream_count; s++) {
        int is_image = r->p->writer[s] < 0; /* they are in the order of streams */
        tell_stream(r, s, is_image ? image : NULL);
        image += is_image;
    }
}
