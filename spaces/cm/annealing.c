/* Simulated annealing of placement and routing (Kirkpatrick, Gelatt, Vecchi 1983), with link loads kept up to date.
 *
 * A state is a core for every stage and a route shape for every stream. What is asked is whether all links can do their
 * elements in `target` ticks an image: the energy is the sum of eighth powers of what they take of it, so that links below the target
 * are brought down as well, on which others will have to find room: with what exceeds the target alone, all of them fill up to it.
 * A state whose busiest link is less busy than that of all before is kept, however far the target is. When the target is
 * reached it goes down; at the least one that makes sense, what is left to lower is the traffic, which is memory and latency, and
 * the energy that of all traffic, with squares of what exceeds the target.
 * Where stages share cores, which are full to the target wherever work is spread well, the energy is the latter from the beginning.
 * Half of the moves are of a stream over a link that exceeds the target, or of a stage at its end.
 *
 * Where stages may share a core, what they do on it is a load as well, in ticks: cores are loads of width 1 behind those of the links.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "random_walk.h"
#include "core_sharing.h"

#define HOT_MOVES 50 /* of a hundred, while links exceed the target */
#define TRIES 32     /* streams that are looked at for one over such a link */
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
    int32_t *core;  /* by stage */
    int32_t *shape; /* by stream */
    int64_t ticks;  /* of the busiest link, or core where they are shared; with `strict`, more than any when a stream is longer than a link */
    int64_t kept;   /* how often a better state was found */
} State;

typedef struct {
    const Network *n;
    Occupants on;
    int32_t *core, *shape, *route, *length;
    int64_t *load, *capacity;
    double *scale, energy, traffic_weight, hop_weight;
    int32_t polishing;        /* the least target is reached */
    int64_t target;
    int64_t *allowed;         /* by link: what leaves it less busy than the best state's busiest one */
    int32_t over, above, far; /* links over the target; over `allowed`; links too many of streams between cores, when strict */
    int32_t *changed, *old_route, *old_length, *stamp, changed_count, stamp_now;
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

static inline double price(const Walk *w, int32_t link, int64_t load) {
    double use = (double)load * w->scale[link], excess = use - 1.0, square = use * use;
    if (!w->polishing && w->n->loads == w->n->links) return square * square * square * square / 8;
    return (excess > 0 ? EXCESS * excess * excess : 0.0) + w->traffic_weight * use;
}

static inline void add_load(Walk *w, int32_t link, int64_t amount) {
    int64_t before = w->load[link], after = before + amount;
    w->over += (after > w->capacity[link]) - (before > w->capacity[link]);
    w->above += (after > w->allowed[link]) - (before > w->allowed[link]);
    w->load[link] = after;
}

static void add(Walk *w, int32_t link, int64_t amount) {
    int64_t before = w->load[link];
    w->energy += price(w, link, before + amount) - price(w, link, before);
    add_load(w, link, amount);
}

static void count_hops(Walk *w, int32_t stream, int32_t length, int32_t sign) {
    if (w->n->strict && w->n->writer[stream] >= 0 && w->n->reader[stream] >= 0 && length > 1) {
        w->far += sign * (length - 1);
        w->energy += sign * w->hop_weight * (length - 1);
    }
}

static void take_out(Walk *w, int32_t stream) {
    const int32_t *route = w->route + (int64_t)stream * w->n->longest;
    for (int32_t k = 0; k < w->length[stream]; k++) add(w, route[k], -w->n->amount[stream]);
    count_hops(w, stream, w->length[stream], -1);
}

static void put_in(Walk *w, int32_t stream) {
    const int32_t *route = w->route + (int64_t)stream * w->n->longest;
    for (int32_t k = 0; k < w->length[stream]; k++) add(w, route[k], w->n->amount[stream]);
    count_hops(w, stream, w->length[stream], 1);
}

/* Remember a stream's route and take it out of the links; once a move. */
static void begin_change(Walk *w, int32_t stream) {
    if (w->stamp[stream] == w->stamp_now) return;
    w->stamp[stream] = w->stamp_now;
    int64_t at = (int64_t)w->changed_count * w->n->longest;
    memcpy(w->old_route + at, w->route + (int64_t)stream * w->n->longest, sizeof(int32_t) * (size_t)w->length[stream]);
    w->old_length[w->changed_count] = w->length[stream];
    w->changed[w->changed_count++] = stream;
    take_out(w, stream);
}

static void reroute(Walk *w) {
    for (int32_t i = 0; i < w->changed_count; i++) {
        int32_t stream = w->changed[i];
        int32_t start = node_of(w, w->n->writer[stream]), goal = node_of(w, w->n->reader[stream]);
        w->length[stream] = find_route(w->n, start, goal, w->shape[stream], w->route + (int64_t)stream * w->n->longest);
        put_in(w, stream);
    }
}

/* The energy is known, so that no price is asked for. */
static void restore(Walk *w, double energy) {
    for (int32_t i = 0; i < w->changed_count; i++) {
        int32_t stream = w->changed[i], *route = w->route + (int64_t)stream * w->n->longest;
        for (int32_t k = 0; k < w->length[stream]; k++) add_load(w, route[k], -w->n->amount[stream]);
        count_hops(w, stream, w->length[stream], -1);
        w->length[stream] = w->old_length[i];
        memcpy(route, w->old_route + (int64_t)i * w->n->longest, sizeof(int32_t) * (size_t)w->length[stream]);
        for (int32_t k = 0; k < w->length[stream]; k++) add_load(w, route[k], w->n->amount[stream]);
        count_hops(w, stream, w->length[stream], 1);
    }
    w->energy = energy;
}

static void change_places(Walk *w, int32_t stage, int32_t other, int32_t core) { /* see `exchange` */
    if (w->n->loads > w->n->links) {
        const int64_t *ticks = w->n->rooms->ticks;
        int64_t more = ticks[stage] - (other < 0 ? 0 : ticks[other]);
        add(w, w->n->links + core, more);
        add(w, w->n->links + w->core[stage], -more);
    }
    exchange(&w->on, stage, other, core);
}

static int64_t busiest(const Walk *w) {
    int64_t most = 0;
    for (int32_t k = 0; k < w->n->loads; k++) {
        int64_t ticks = (w->load[k] + w->n->width[k] - 1) / w->n->width[k];
        if (ticks > most) most = ticks;
    }
    return most;
}

static void aim(Walk *w, int64_t target) {
    w->target = target;
    w->energy = 0;
    w->over = 0;
    for (int32_t k = 0; k < w->n->loads; k++) {
        w->capacity[k] = target * w->n->width[k];
        w->scale[k] = 1.0 / (double)w->capacity[k];
        w->energy += price(w, k, w->load[k]);
        w->over += w->load[k] > w->capacity[k];
    }
    w->energy += w->hop_weight * w->far;
}

/* A state counts as better from now on when all its links are busy for fewer ticks than these. */
static void beat(Walk *w, int64_t ticks) {
    w->above = 0;
    for (int32_t k = 0; k < w->n->loads; k++) {
        w->allowed[k] = ticks - 1 < INT64_MAX / w->n->width[k] ? (ticks - 1) * w->n->width[k] : INT64_MAX;
        w->above += w->load[k] > w->allowed[k];
    }
}

/* A stream over a link that exceeds the target, if there is one among some at random; else -1. */
static int32_t hot_stream(Walk *w) {
    for (int32_t tries = 0; tries < TRIES; tries++) {
        int32_t stream = below(&w->random, w->n->streams);
        const int32_t *route = w->route + (int64_t)stream * w->n->longest;
        for (int32_t k = 0; k < w->length[stream]; k++)
            if (w->load[route[k]] > w->capacity[route[k]]) return stream;
    }
    return -1;
}

/* A stage of a core that exceeds the target, if there is one among some at random; else -1. */
static int32_t hot_stage(Walk *w) {
    for (int32_t tries = 0; w->n->loads > w->n->links && tries < TRIES; tries++) {
        int32_t stage = below(&w->random, w->n->stages), at = w->n->links + w->core[stage];
        if (w->load[at] > w->capacity[at]) return stage;
    }
    return -1;
}

/* One of a stage's streams at random, of two the thicker one; where cores are shared, any: places are not what is short there. */
static int32_t a_stream_of(Walk *w, int32_t stage, int32_t count) {
    const int32_t *own = w->n->touch + w->n->touch_start[stage];
    if (w->n->loads > w->n->links) return own[below(&w->random, count)];
    int32_t one = own[below(&w->random, count)], other = own[below(&w->random, count)];
    return w->n->amount[other] > w->n->amount[one] ? other : one;
}

static int32_t an_end(Walk *w, int32_t stream) { /* a stage that writes or reads it */
    int32_t writer = w->n->writer[stream], reader = w->n->reader[stream];
    return reader < 0 || (writer >= 0 && below(&w->random, 2)) ? writer : reader;
}

static void keep(Walk *w, State *best) {
    memcpy(best->core, w->core, sizeof(int32_t) * (size_t)w->n->stages);
    memcpy(best->shape, w->shape, sizeof(int32_t) * (size_t)w->n->streams);
    best->ticks = busiest(w);
    best->kept++;
    beat(w, best->ticks);
}

static void walk(Walk *w, State *best, int64_t moves, int64_t target, int64_t least, double step, double hot, double cold,
                 const volatile int32_t *stop) {
    const Network *n = w->n;
    w->polishing = best->ticks <= least;
    aim(w, w->polishing ? least : target);
    double least_energy = w->polishing && w->over == 0 && w->far == 0 ? w->energy : INFINITY;
    double cooling = pow(cold / hot, 1.0 / (double)(moves > 1 ? moves : 1)), temperature = hot;
    for (int64_t move = 0; move < moves; move++, temperature *= cooling) {
        if ((move & 8191) == 0) aim(w, w->target); /* rounding errors do not add up */
        if (*stop) return;
        double before = w->energy;
        w->changed_count = 0;
        w->stamp_now++;
        int32_t a = -1, b = -1, s = -1, t = -1, stream = -1, shape = 0;
        int32_t hot_one = -1, hot_core = -1;
        if (w->over && below(&w->random, 100) < HOT_MOVES) {
            hot_core = hot_stage(w);
            hot_one = hot_core >= 0 && below(&w->random, 2) ? -1 : hot_stream(w);
        }
        if (below(&w->random, 100) < 65) {
            s = hot_one >= 0 ? an_end(w, hot_one) : hot_core >= 0 ? hot_core : below(&w->random, n->stages);
            a = w->core[s];
            int32_t count = n->touch_start[s + 1] - n->touch_start[s];
            if (count && below(&w->random, 100) < 80) { /* next to one that it talks with */
                int32_t one = a_stream_of(w, s, count);
                int32_t other = n->writer[one] == s ? n->reader[one] : n->writer[one];
                int32_t near = node_of(w, other);
                int32_t cores = n->near_start[near + 1] - n->near_start[near];
                if (n->rooms->slots > 1 && other >= 0 && below(&w->random, 2)) b = near;
                else if (cores) b = n->near[n->near_start[near] + below(&w->random, cores)];
            }
            if (b < 0) b = below(&w->random, n->cores);
            if (a == b) continue;
            t = partner(&w->on, b, &w->random);
            if (!has_room(&w->on, b, s, t) || !has_room(&w->on, a, t, s)) continue;
            for (int32_t k = n->touch_start[s]; k < n->touch_start[s + 1]; k++) begin_change(w, n->touch[k]);
            if (t >= 0)
                for (int32_t k = n->touch_start[t]; k < n->touch_start[t + 1]; k++) begin_change(w, n->touch[k]);
            change_places(w, s, t, b);
        } else {
            stream = hot_one < 0 ? below(&w->random, n->streams) : hot_one;
            shape = w->shape[stream];
            begin_change(w, stream);
            w->shape[stream] = below(&w->random, 8);
        }
        reroute(w);
        double worse = w->energy - before;
        if (worse > 0 && uniform(&w->random) >= exp(-worse / temperature)) {
            if (stream >= 0) w->shape[stream] = shape; else change_places(w, s, t, a);
            restore(w, before);
        } else if (w->polishing) {
            if (w->over == 0 && w->far == 0 && w->energy < least_energy - 1e-9) {
                keep(w, best);
                least_energy = w->energy;
            }
        } else if (w->above == 0 && w->far == 0) {
            keep(w, best);
            if (w->over) continue;
            if (best->ticks <= least) {
                w->polishing = 1;
                aim(w, least);
                least_energy = w->energy;
                continue;
            }
            int64_t lower = (int64_t)((1.0 - step) * (double)best->ticks);
            aim(w, lower < least ? least : lower < best->ticks ? lower : best->ticks - 1);
        }
    }
}

/* Walk from `from`, for `moves` moves, towards links busy for `target` ticks. `best` changes when the busiest one is busy for fewer
 * ticks than it has.
 * `stop`: set by another thread, the walk ends. 0: out of memory. */
int kilotune_anneal(const Network *n, const State *from, State *best, int64_t moves, int64_t target, int64_t least,
                    double step, double hot, double cold, double traffic_weight, uint64_t seed,
                    const volatile int32_t *stop) {
    Walk w = {.n = n, .random = random_from(seed), .traffic_weight = traffic_weight, .hop_weight = 30.0};
    size_t stages = (size_t)n->stages + 1, streams = (size_t)n->streams + 1, links = (size_t)n->loads + 1;
    size_t longest = (size_t)n->longest;
    w.core = malloc(sizeof(int32_t) * stages);
    int32_t *ints = calloc(streams * (5 + 2 * longest), sizeof(int32_t));
    w.load = calloc(links * 3, sizeof(int64_t));
    w.scale = calloc(links, sizeof(double));
    int enough = w.core && ints && w.load && w.scale;
    if (enough) {
        memcpy(w.core, from->core, sizeof(int32_t) * (size_t)n->stages);
        enough = settle(&w.on, n->rooms, w.core, n->stages, n->cores);
    }
    if (enough) {
        w.capacity = w.load + links;
        w.allowed = w.capacity + links;
        w.shape = ints; w.length = ints + streams; w.changed = ints + 2 * streams; w.old_length = ints + 3 * streams;
        w.stamp = ints + 4 * streams; w.route = ints + 5 * streams; w.old_route = w.route + streams * longest;
        memcpy(w.shape, from->shape, sizeof(int32_t) * (size_t)n->streams);
        for (int32_t c = 0; n->links + c < n->loads; c++) w.load[n->links + c] = w.on.ticks[c];
        aim(&w, target);
        w.changed_count = 0;
        for (int32_t e = 0; e < n->streams; e++) w.changed[w.changed_count++] = e;
        reroute(&w);
        beat(&w, best->ticks);
        if (w.far == 0 && busiest(&w) < best->ticks) keep(&w, best);
        walk(&w, best, moves, target, least, step, hot, cold, stop);
    }
    clear(&w.on);
    free(w.core); free(ints); free(w.load); free(w.scale);
    return enough;
}
