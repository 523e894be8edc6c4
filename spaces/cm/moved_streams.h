/* Streams on their routes while stages and routes change: what links carry, what that costs, whether chance lets a change pass, and how links
 * were before it.
 *
 * Most changes do not pass. So routes are written over only where one does, and links are put back as they were noted down.
 */
#include <math.h>
#include <string.h>

#include "random_walk.h"
#include "core_sharing.h"

#define EXCESS 100.0 /* of squares of shares of the target, against the temperatures of the walk */

typedef struct {
    int32_t cores, nodes, links, stages, streams, longest, strict;
    int32_t loads;                  /* links, and where they are shared cores behind them */
    int32_t wide;                   /* numbers of links have four bytes in the tables of routes, not two */
    const int16_t *distance;        /* links between nodes */
    const void *step_by_goal, *detour;
    const int32_t *link_target;
    const int32_t *width;           /* by load */
    const int32_t *writer, *reader; /* by stream; -1 is GMEM, node `cores` */
    const int64_t *amount;          /* by stream: elements per image */
    const int32_t *touch_start, *touch; /* streams of a stage */
    const int32_t *near_start, *near;   /* cores with a link to or from a node */
    const Rooms *rooms;
} Network;

typedef struct {
    int64_t load, capacity;
    int64_t allowed;          /* what leaves it less busy than the best state's busiest one */
    double scale, price;
} LinkState;                  /* or a shared core's */

typedef struct {
    int32_t link;
    int64_t load;
    double price;
} Undo;

typedef struct {
    double energy;
    int32_t over, above, far; /* links over the target; over `allowed`; links too many of streams between cores, when strict */
} Totals;

typedef struct {
    const Network *n;
    Occupants on;
    int32_t *core, *shape, *route, *length;
    LinkState *link;
    Totals now;
    double traffic_weight, hop_weight;
    int32_t polishing;        /* the least target is reached */
    int64_t target;
    int32_t *changed, *new_route, *new_length, *stamp, changed_count, stamp_now;
    Undo *undo;               /* how links were before the move, the last change last */
    int32_t undo_count;
    Random random;
} Walk;

static int32_t node_of(const Walk *w, int32_t stage) { return stage < 0 ? w->n->cores : w->core[stage]; }

static inline int32_t link_at(const Network *n, const void *table, int32_t at) {
    return n->wide ? ((const int32_t *)table)[at] : ((const int16_t *)table)[at];
}

/* The same walk as RouteTables.route. */
static int32_t find_route(const Network *n, int32_t start, int32_t goal, int32_t shape, int32_t *links) {
    int32_t count = 0, node = start, length = n->distance[start * n->nodes + goal], fixed = -1;
    if (shape >= 6) {
        int32_t detour = link_at(n, n->detour, ((shape - 6) * n->nodes + start) * n->nodes + goal);
        if (detour >= 0) {
            links[count++] = detour / 2;
            node = n->link_target[detour / 2];
            length = n->distance[node * n->nodes + goal];
            fixed = detour % 2;
        } else {
            shape -= 6;
        }
    }
    for (int32_t k = 0; node != goal && k < length + 2; k++) {
        int32_t table = fixed >= 0 ? fixed : shape < 2 ? shape : shape < 4 ? (k + shape) % 2 : (k >= length / 2) == (shape == 4);
        links[count] = link_at(n, n->step_by_goal, (table * n->nodes + goal) * n->nodes + node);
        node = n->link_target[links[count++]];
    }
    return count;
}

static inline double price(const Walk *w, const LinkState *link, int64_t load) {
    double use = (double)load * link->scale, excess = use - 1.0, square = use * use;
    if (!w->polishing && w->n->loads == w->n->links) return square * square * square * square / 8;
    return (excess > 0 ? EXCESS * excess * excess : 0.0) + w->traffic_weight * use;
}

static inline void add(Walk *w, int32_t number, int64_t amount) {
    LinkState *link = &w->link[number];
    int64_t before = link->load, after = before + amount;
    double costs = price(w, link, after);
    w->undo[w->undo_count++] = (Undo){number, before, link->price};
    w->now.energy += costs - link->price;
    w->now.over += (after > link->capacity) - (before > link->capacity);
    w->now.above += (after > link->allowed) - (before > link->allowed);
    link->load = after;
    link->price = costs;
}

static void count_hops(Walk *w, int32_t stream, int32_t length, int32_t sign) {
    if (w->n->strict && w->n->writer[stream] >= 0 && w->n->reader[stream] >= 0 && length > 1) {
        w->now.far += sign * (length - 1);
        w->now.energy += sign * w->hop_weight * (length - 1);
    }
}

static void begin_move(Walk *w) {
    w->changed_count = 0;
    w->undo_count = 0;
    w->stamp_now++;
}

/* Take a stream out of the links, to find another route for it; once a move. */
static void begin_change(Walk *w, int32_t stream) {
    if (w->stamp[stream] == w->stamp_now) return;
    w->stamp[stream] = w->stamp_now;
    w->changed[w->changed_count++] = stream;
    const int32_t *route = w->route + (int64_t)stream * w->n->longest;
    for (int32_t k = 0; k < w->length[stream]; k++) add(w, route[k], -w->n->amount[stream]);
    count_hops(w, stream, w->length[stream], -1);
}

/* A changed stream, by its number among these, onto the links of its new route. */
static void put_in(Walk *w, int32_t number) {
    int32_t stream = w->changed[number], *route = w->new_route + (int64_t)number * w->n->longest;
    int32_t start = node_of(w, w->n->writer[stream]), goal = node_of(w, w->n->reader[stream]);
    int32_t length = find_route(w->n, start, goal, w->shape[stream], route);
    w->new_length[number] = length;
    for (int32_t k = 0; k < length; k++) add(w, route[k], w->n->amount[stream]);
    count_hops(w, stream, length, 1);
}

/* Put in all changed streams; 0: the state is worse than what chance lets pass. As streams that are put in make it only worse, those behind
 * the one with which it is too bad already are not looked at. */
static int reroute(Walk *w, double before, double temperature) {
    double most = -1; /* worse */
    for (int32_t k = 0; k < w->changed_count; k++) {
        put_in(w, k);
        double worse = w->now.energy - before;
        if (worse <= 0) continue;
        if (most < 0) most = -temperature * log(uniform(&w->random));
        if (worse > most) return 0;
    }
    return 1;
}

static void take_over(Walk *w) {
    for (int32_t k = 0; k < w->changed_count; k++) {
        int32_t stream = w->changed[k];
        const int32_t *route = w->new_route + (int64_t)k * w->n->longest;
        memcpy(w->route + (int64_t)stream * w->n->longest, route, sizeof(int32_t) * (size_t)w->new_length[k]);
        w->length[stream] = w->new_length[k];
    }
}

static void restore(Walk *w, const Totals *before) {
    while (w->undo_count) {
        const Undo *undo = &w->undo[--w->undo_count];
        w->link[undo->link].load = undo->load;
        w->link[undo->link].price = undo->price;
    }
    w->now = *before;
}
