/* What the simulation of a stream of images is given, what it finds, and all that changes meanwhile. */
#include <stdint.h>

#include "timing_events.h"

#define COMPARED 8 /* images */
#define NEVER (-((int64_t)1 << 60))

typedef struct {
    int32_t stage_count, stream_count, link_count, images;
    const int32_t *iterations, *ticks;              /* by stage */
    const int32_t *writer, *reader;                 /* by stream; -1 is GMEM */
    const int32_t *elements, *packets, *capacity;   /* by stream */
    const int32_t *writer_iterations;               /* by stream: those of the image for GMEM */
    const int32_t *const *needed, *const *released; /* by stream, by reader iteration */
    const uint8_t *const *sends;                    /* by stream, by writer iteration */
    const int32_t *in_start, *in_stream, *out_start, *out_stream; /* streams into and out of a stage */
    const int32_t *route_start, *route;             /* link numbers by stream */
    const int32_t *width, *hop;                     /* by link */
    int64_t pace_ticks;                             /* of an image; 0: it is all there at once */
    const volatile int32_t *stop;                   /* set by another thread: end soon */
    int32_t settle;                                 /* end where the state comes back */
    int32_t wanted;                                 /* end where so many images are through */
    int32_t core_count;                             /* that are in use */
    const int32_t *core, *core_start, *core_stage;  /* by stage; the stages of a core, in their order */
} Problem;

typedef struct {
    int64_t *next;       /* by stage: iterations started, over all images */
    int64_t *delivered, *issued, *freed; /* by stream: packets */
    int64_t *most_held;  /* by stream: issued and not freed, at any time */
    int64_t *finish;     /* by image */
    int64_t **starts;    /* by stage; NULL: not wanted */
    int64_t ticks;       /* the tick of the last event */
    int64_t was_full;    /* something had to wait for room, or would have had to if it had been its turn on its core */
    int64_t settled_at, period_images, period_ticks; /* where the state has come back: images that are through; else 0 */
} Outcome;

typedef struct { uint64_t hash; int64_t images, tick; } Snapshot;

typedef struct { int64_t tick, used; } Taken; /* a link: all before this tick, and so many elements in it */

typedef struct {
    int64_t start_image, start_at, end_image, end_at; /* the next iteration to start and to finish: image, and number in it */
    int64_t waits_for;               /* packets delivered on `input` */
    int32_t input, output;           /* streams that it waits for; -1: none */
} StageState;

typedef struct { int32_t link, whole, rest, next; } Place; /* a link on a route; a packet's ticks on it; the event behind it */

typedef struct {
    const Problem *p;
    Outcome *o;
    Events events;
    int32_t places;      /* on all routes. An event is a place where packets ask for a link, */
    int32_t arrivals, finishes; /* or from these numbers on a stream that delivers packets, a stage that finishes an iteration */
    Place *place;
    uint8_t *alone;      /* by place: no other stream takes the link */
    Taken *taken;        /* by link */
    StageState *stage;
    int64_t *free_at;    /* by core */
    int32_t *from_gmem, from_gmem_count, *to_gmem, to_gmem_count;
    int64_t *gmem_next, *gmem_due; /* by stream: position in the images' iterations, and its tick */
    int32_t *marked; uint8_t *is_marked; int32_t marked_count; /* cores */
    int64_t left;        /* outputs of wanted images still to come */
    int64_t held_back;   /* the last tick at which GMEM waited for its pace */
    int64_t through;     /* images that have come out whole */
    int32_t came_out;    /* a stream has brought the last of an image in this tick */
    Snapshot snapshots[COMPARED];
    int32_t snapshot_count;
} Run;
