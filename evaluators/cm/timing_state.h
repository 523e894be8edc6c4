/* What the simulation of a stream of images is given, what it finds, and all that changes meanwhile. */
#include <stdint.h>

#include "timing_events.h"

#define COMPARED 8 /* images */
#define LINE 64 /* bytes of a cache */
#define NEVER (-((int64_t)1 << 60))
#define LANES 4 /* inputs or outputs that are looked at together */
#define ANY_ROOM (1 << 30) /* packets of a stream without a limit */

typedef int32_t Lanes __attribute__((vector_size(4 * LANES), may_alias));

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

typedef struct {
    int32_t link, next, hop; /* the event behind it, and when */
    int32_t whole, rest;     /* what a packet takes of the link: so many whole ticks and 1 to `width` elements */
} Place;                     /* a link on a route */

typedef struct {
    int64_t tick;         /* all before it is taken, and so much of it: */
    int32_t used, width;  /* elements */
} Taken;                  /* a link */

typedef struct {
    int32_t packets;      /* of an image */
    int32_t reader;       /* -1: GMEM */
    const int32_t *needed, *released;
    int64_t through;      /* GMEM's: images that have come whole */
} Input;                  /* the reader's end of a stream */

typedef struct {
    const int32_t *of;    /* class by iteration */
    const int32_t *keys;  /* by class; see timing_classes.h */
} Classes;                /* what iterations do, which many of them do alike */

typedef struct {
    const int32_t *key;   /* the class of the iteration that starts next */
    Classes classes;
    int32_t at, iterations, words;                     /* words: of a key */
    int32_t inputs, end_inputs, outputs, end_outputs;  /* LANES each */
    int32_t ticks, core;
    uint8_t shares, mixed;  /* its core with other stages; packets that go to links with others that do not */
} __attribute__((aligned(LINE))) StartState;               /* of a stage: a cache line */

typedef struct {
    Classes classes;
    const int32_t *freed; /* by input: the writer's end of the stream */
    int32_t at, iterations, inputs, words, shares;
    int64_t image;
} __attribute__((aligned(LINE))) EndState;               /* of a stage: a cache line */

typedef struct { int32_t packets, lacks; } Waits; /* inputs, with packets missing, and its own iteration that runs; outputs without room */

typedef struct {
    Classes begin, end;
    int32_t leaves;       /* whether they differ from the first one, in which no image before it has left anything */
    int64_t image;        /* of the iteration that starts next */
} LaterImages;            /* of a stage */

typedef struct {
    int64_t next, in_image, due; /* the iteration of the images that is sent next: among all, in its image; and its tick */
    const uint64_t *sends;       /* bits, by iteration of an image */
    int64_t pixels;
    int32_t output, input, first; /* event */
    int32_t is_bounded;
} ImageState;                    /* of a stream from GMEM */

typedef struct {
    const Problem *p;
    Outcome *o;
    Events events;
    int64_t tick;        /* that comes next */
    int64_t latest_image; /* that a stage has come to */
    int32_t arrivals;    /* An event is a place where packets ask for a link, or from this number on an input that is delivered to, */
    int32_t to_gmem, finishes; /* which is GMEM's from `to_gmem` on, or a stage that finishes an iteration */
    int32_t nothing;            /* an event that nobody looks at */
    Place *place;
    int32_t *listed;            /* events of a tick */
    Taken *taken;               /* by link */
    StartState *start;          /* by stage */
    EndState *end;
    LaterImages *later;
    Waits *waits;
    Lanes *missing;             /* by input: packets that must come before the next iteration of its stage starts */
    Lanes *spare, *least_spare; /* by output: packets for which there is room besides that of the next iteration of its stage; at any time */
    int32_t *reader;            /* by input: a stage */
    int32_t *writer;            /* by output */
    int32_t *freed;             /* by input: an output */
    Input *input;
    int32_t input_count, gmem_input, output_count; /* inputs of GMEM are from `gmem_input` on */
    int32_t *input_of, *output_of; /* by stream */
    void **kept; int32_t kept_count; /* arrays of classes */
    int64_t *free_at;           /* by core that stages share */
    ImageState *image;
    int32_t image_count;
    uint64_t *sends;            /* of all images' streams */
    int64_t due_pixels, due_tick, due_count; /* see `due_now` */
    int32_t *ready, ready_count; /* stages that may be able to start */
    int64_t left;        /* outputs of wanted images still to come */
    int64_t held_back;   /* the last tick at which GMEM waited for its pace */
    int64_t through;     /* images that have come out whole */
    int32_t came_out;    /* a stream has brought the last of an image in this tick */
    Snapshot snapshots[COMPARED];
    int32_t snapshot_count;
} Run;
