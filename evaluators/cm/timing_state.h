/* What the simulation of a stream of images is given, what it finds, and all that changes meanwhile. */
#include <stdint.h>

#include "timing_events.h"

#define COMPARED 8 /* images */
#define NEVER (-((int64_t)1 << 60))
#define LARGE ((uint64_t)1 << 16) /* widths and loads below it are divided by a product */

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

typedef struct { int32_t link, load, next, hop; } Place; /* a link on a route, what a packet takes of it, the event behind it, and when */

typedef struct {
    int64_t until;    /* all up to here is taken: ticks times width and what is taken of a tick */
    uint32_t width, reciprocal;
} Taken;              /* a link */

typedef struct { const int32_t *needed, *released; int32_t stream, packets; } Input;

typedef struct { const uint8_t *sends; int32_t stream, first, asks_before; } Output; /* first: event; so many ticks before the iteration ends */

typedef struct {
    int64_t start_image, start_at, end_image, end_at; /* the next iteration to start and to finish: image, and number in it */
    int64_t started;
    int32_t iterations, ticks, core;
    int32_t first_input, end_input, first_output, end_output; /* among those of all stages */
} StageState;

typedef struct {
    int64_t delivered, issued, freed, most_held; /* packets */
    int64_t awaited;      /* its reader is to be told of so many delivered packets; of GMEM's, another image is through */
    int32_t capacity, packets;
    int32_t reader, reader_core, writer_core; /* core -1: GMEM */
    int32_t is_awaited;   /* its writer is to be told of room */
} StreamState;

typedef struct {
    int64_t next, in_image, due; /* the iteration of the images that is sent next: among all, in its image; and its tick */
    const uint64_t *sends;       /* bits, by iteration of an image */
    int64_t pixels;
    int32_t stream, first;       /* event */
} ImageState;                    /* of a stream from GMEM */

typedef struct {
    const Problem *p;
    Outcome *o;
    Events events;
    int64_t tick;        /* that comes next */
    int64_t latest_image; /* that a stage has come to */
    int32_t arrivals, finishes; /* An event is a place where packets ask for a link, or from these numbers on a stream that delivers */
    Place *place;               /* packets, a stage that finishes an iteration */
    int32_t *listed;            /* events of a tick */
    Taken *taken;               /* by link */
    StageState *stage;
    StreamState *stream;
    Input *input;
    Output *output;
    int64_t *free_at;           /* by core */
    ImageState *image;
    int32_t image_count;
    uint64_t *sends;            /* of all images' streams */
    int64_t due_pixels, due_tick, due_count; /* see `due_now` */
    int32_t *marked; uint8_t *is_marked; int32_t marked_count; /* cores */
    int64_t left;        /* outputs of wanted images still to come */
    int64_t held_back;   /* the last tick at which GMEM waited for its pace */
    int64_t through;     /* images that have come out whole */
    int32_t came_out;    /* a stream has brought the last of an image in this tick */
    Snapshot snapshots[COMPARED];
    int32_t snapshot_count;
} Run;
