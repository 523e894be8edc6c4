/* Which stages are on which core, and whether a core has room for one more: of its stages, crossbars, memory and time. */
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    int32_t slots;            /* stages that may share a core; where it is 1, nothing else is asked of a core */
    int32_t row_room;         /* rows of a core's crossbars, one below another */
    int64_t byte_room;        /* of a core's memory */
    int64_t tick_room;        /* ticks an image of a core; more only where it was more before */
    const int32_t *rows;      /* by stage */
    const int64_t *bytes, *ticks;
} Rooms;

typedef struct {
    const Rooms *rooms;
    int32_t *core;            /* by stage */
    int32_t *place;           /* by stage: its number on its core */
    int32_t *count, *stage;   /* by core: how many stages, and which */
    int64_t *rows, *bytes, *ticks; /* by core */
} Occupants;

static void leave(Occupants *o, int32_t stage) {
    int32_t core = o->core[stage], *own = o->stage + (int64_t)core * (o->rooms->slots + 1);
    int32_t last = own[--o->count[core]];
    own[o->place[stage]] = last;
    o->place[last] = o->place[stage];
    o->rows[core] -= o->rooms->rows[stage];
    o->bytes[core] -= o->rooms->bytes[stage];
    o->ticks[core] -= o->rooms->ticks[stage];
}

static void enter(Occupants *o, int32_t stage, int32_t core) {
    o->core[stage] = core;
    o->place[stage] = o->count[core];
    o->stage[(int64_t)core * (o->rooms->slots + 1) + o->count[core]++] = stage;
    o->rows[core] += o->rooms->rows[stage];
    o->bytes[core] += o->rooms->bytes[stage];
    o->ticks[core] += o->rooms->ticks[stage];
}

/* Two stages change places; of no second one, -1, the first goes to that core. */
static void exchange(Occupants *o, int32_t stage, int32_t other, int32_t core) {
    int32_t before = o->core[stage];
    leave(o, stage);
    if (other >= 0) leave(o, other);
    enter(o, stage, core);
    if (other >= 0) enter(o, other, before);
}

/* With whom a stage that comes to a core changes places; -1: with nobody. */
static int32_t partner(const Occupants *o, int32_t core, Random *random) {
    const int32_t *own = o->stage + (int64_t)core * (o->rooms->slots + 1);
    if (o->count[core] == 0) return -1;
    if (o->rooms->slots == 1) return own[0];
    if (o->count[core] < o->rooms->slots && below(random, 2)) return -1;
    return own[below(random, o->count[core])];
}

/* Whether a core has room for a stage when another one, or none, -1, leaves it. */
static int has_room(const Occupants *o, int32_t core, int32_t stage, int32_t other) {
    const Rooms *r = o->rooms;
    if (r->slots == 1 || stage < 0) return 1;
    int64_t rows = o->rows[core] + r->rows[stage], bytes = o->bytes[core] + r->bytes[stage];
    int64_t ticks = o->ticks[core] + r->ticks[stage];
    if (other >= 0) {
        rows -= r->rows[other];
        bytes -= r->bytes[other];
        ticks -= r->ticks[other];
    }
    int alone = o->count[core] == (other >= 0);
    return rows <= r->row_room && (alone || bytes <= r->byte_room || bytes <= o->bytes[core])
        && (alone || ticks <= r->tick_room || ticks <= o->ticks[core]);
}

/* 0: out of memory. `core`, by stage: it stays the caller's, and says where they are from then on. */
static int settle(Occupants *o, const Rooms *rooms, int32_t *core, int32_t stages, int32_t cores) {
    *o = (Occupants){.rooms = rooms, .core = core};
    o->place = malloc(sizeof(int32_t) * ((size_t)stages + 1));
    o->count = calloc((size_t)cores * (size_t)(rooms->slots + 2), sizeof(int32_t));
    o->rows = calloc((size_t)cores * 3, sizeof(int64_t));
    if (!o->place || !o->count || !o->rows) return 0;
    o->stage = o->count + cores;
    o->bytes = o->rows + cores;
    o->ticks = o->bytes + cores;
    for (int32_t s = 0; s < stages; s++) enter(o, s, core[s]);
    return 1;
}

static void clear(Occupants *o) {
    free(o->place); free(o->count); free(o->rows);
}
