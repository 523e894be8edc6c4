/* Where stages lie before any route is looked at: simulated annealing of the wirelength, the sum over all streams of load times
 * links between their ends (a quadratic assignment problem; Koopmans and Beckmann 1957).
 *
 * A move takes a stage to another core, mostly next to one that it talks with, or where stages may share one to the same, and what is there to its own; it costs a look into
 * the table of distances for each stream of the two. A move that keeps the loads of all links up to date takes ten times as long.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "random_walk.h"
#include "core_sharing.h"

typedef struct {
    int32_t cores, nodes, stages, streams;
    const int16_t *distance;            /* links between nodes */
    const int32_t *writer, *reader;     /* by stream; -1 - k is GMEM by its port at core port[k] */
    const int32_t *port;
    const double *weight;               /* by stream */
    const int32_t *touch_start, *touch; /* streams of a stage */
    const int32_t *near_start, *near;   /* cores with a link to or from a node */
    const Rooms *rooms;
} StageGraph;

typedef struct {
    const StageGraph *g;
    Occupants on;
    int32_t *core;
    Random random;
} Walk;

static int32_t node_of(const Walk *w, int32_t stage) { return stage < 0 ? w->g->port[-1 - stage] : w->core[stage]; }

/* The wirelength of a stage's streams, but for those that it shares with another one. Of no stage: 0. */
static double wirelength(const Walk *w, int32_t stage, int32_t but) {
    const StageGraph *g = w->g;
    double sum = 0;
    if (stage < 0) return 0;
    for (int32_t k = g->touch_start[stage]; k < g->touch_start[stage + 1]; k++) {
        int32_t e = g->touch[k], a = g->writer[e], b = g->reader[e];
        if (but >= 0 && (a == but || b == but)) continue;
        sum += g->weight[e] * g->distance[(int64_t)node_of(w, a) * g->nodes + node_of(w, b)];
    }
    return sum;
}

static int32_t other_core(Walk *w, int32_t stage) {
    const StageGraph *g = w->g;
    int32_t count = g->touch_start[stage + 1] - g->touch_start[stage];
    if (count && below(&w->random, 100) < 80) {
        int32_t e = g->touch[g->touch_start[stage] + below(&w->random, count)];
        int32_t end = g->writer[e] == stage ? g->reader[e] : g->writer[e], near = node_of(w, end);
        if (end < 0 && below(&w->random, 2)) return near; /* a port is at a core, which is as good as those around it */
        if (end >= 0 && g->rooms->slots > 1 && below(&w->random, 2)) return near;
        int32_t cores = g->near_start[near + 1] - g->near_start[near];
        if (cores) return g->near[g->near_start[near] + below(&w->random, cores)];
    }
    return below(&w->random, g->cores);
}

/* 0: out of memory. `core`, by stage, is where it begins and where it ends. */
int kilotune_arrange(const StageGraph *g, int32_t *core, int64_t moves, double hot, double cold, uint64_t seed,
                     const volatile int32_t *stop) {
    Walk w = {.g = g, .core = core, .random = random_from(seed)};
    if (!settle(&w.on, g->rooms, core, g->stages, g->cores)) {
        clear(&w.on);
        return 0;
    }
    double cooling = pow(cold / hot, 1.0 / (double)(moves > 1 ? moves : 1)), temperature = hot;
    for (int64_t move = 0; move < moves && !*stop; move++, temperature *= cooling) {
        int32_t s = below(&w.random, g->stages), a = core[s], b = other_core(&w, s);
        if (a == b) continue;
        int32_t t = partner(&w.on, b, &w.random);
        if (!has_room(&w.on, b, s, t) || !has_room(&w.on, a, t, s)) continue;
        double before = wirelength(&w, s, -1) + wirelength(&w, t, s);
        exchange(&w.on, s, t, b);
        double worse = wirelength(&w, s, -1) + wirelength(&w, t, s) - before;
        if (worse > 0 && uniform(&w.random) >= exp(-worse / temperature)) exchange(&w.on, s, t, a);
    }
    clear(&w.on);
    return 1;
}
