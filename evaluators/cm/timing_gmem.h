/* GMEM, which sends the pixels of image after image, each at its pace, on each of its streams. */
#include "timing_repeats.h"

#define NOBODY INT64_MAX

static int64_t room_of(const Run *r, const ImageState *image) {
    return image->is_bounded ? ((const int32_t *)r->spare)[image->output] : NOBODY;
}

static inline void issue(const Run *r, const ImageState *image, int32_t packets) {
    int32_t left = ((int32_t *)r->spare)[image->output] -= packets, *least = (int32_t *)r->least_spare + image->output;
    if (left < *least) *least = left;
}

/* Of an image's iterations from `at` to before `end`, those that send. */
static int64_t sent_between(const uint64_t *sends, int64_t at, int64_t end) {
    int64_t found = 0;
    while (at < end) {
        int64_t last = (at | 63) + 1 < end ? (at | 63) + 1 : end;
        uint64_t bits = sends[at >> 6] >> (at & 63);
        if (last - at < 64) bits &= ((uint64_t)1 << (last - at)) - 1;
        found += __builtin_popcountll(bits);
        at = last;
    }
    return found;
}

/* The iterations of images of so many pixels that may have left GMEM after a tick. All streams mostly ask the same. */
static int64_t due_now(Run *r, int64_t pixels, int64_t tick) {
    if (r->due_pixels != pixels || r->due_tick != tick) {
        r->due_pixels = pixels;
        r->due_tick = tick;
        r->due_count = r->p->pace_ticks ? ((tick + 1) * pixels - 1) / r->p->pace_ticks + 1 : r->p->images * pixels;
    }
    return r->due_count;
}

/* On to another iteration, all before it having been sent or not being sent on this stream; the packets that are. */
static int64_t go_on(ImageState *image, int64_t to) {
    int64_t packets = 0;
    while (image->next < to) {
        int64_t here = image->pixels - image->in_image;
        if (here > to - image->next) here = to - image->next;
        packets += sent_between(image->sends, image->in_image, image->in_image + here);
        image->next += here;
        image->in_image += here;
        if (image->in_image == image->pixels) image->in_image = 0;
    }
    return packets;
}

/* The iteration before which so many packets are sent and the next one would be another; `last` where that is none. */
static int64_t until_full(const ImageState *image, int64_t room, int64_t last) {
    int64_t at = image->next, in_image = image->in_image;
    for (; at < last; at++) {
        int64_t sends = image->sends[in_image >> 6] >> (in_image & 63) & 1;
        if (sends && room == 0) break;
        room -= sends;
        if (++in_image == image->pixels) in_image = 0;
    }
    return at;
}

/* All that GMEM may send on a stream at this tick: the number of packets. */
static int64_t sent_of_image(Run *r, ImageState *image, int64_t tick) {
    int64_t end = r->p->images * image->pixels, packets = 0;
    if (image->next == end) return 0;
    if (image->due <= tick) {
        int64_t due = due_now(r, image->pixels, tick), last = due < end ? due : end;
        int64_t room = room_of(r, image);
        if (room < last - image->next) {
            int64_t full = until_full(image, room, last);
            r->o->was_full |= full < last;
            last = full;
        }
        packets = go_on(image, last);
        image->due = r->p->pace_ticks ? image->next * r->p->pace_ticks / image->pixels : 0;
        if (packets) issue(r, image, (int32_t)packets);
    }
    if (image->next < end && image->due > tick) r->held_back = tick;
    return packets;
}

/* The next tick at which GMEM may send something for which there is room; -1: none. */
static int64_t next_image_tick(const Run *r) {
    int64_t best = -1;
    for (int32_t k = 0; k < r->image_count; k++) {
        const ImageState *image = &r->image[k];
        if (image->next == r->p->images * image->pixels || room_of(r, image) <= 0) continue;
        if (best < 0 || image->due < best) best = image->due;
    }
    return best;
}
