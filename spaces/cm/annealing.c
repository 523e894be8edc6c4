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

#include "moved_streams.h"

#define HOT_MOVES 50 /* of a hundred, while links exceed the target */
#define TRIES 32     /* streams that are looked at for one over such a link */

typedef struct {
    int32_t *core;  /* by stage */
    int32_t *shape; /* by stream */
    int64_t ticks;  /* of the busiest link, or core where they are shared; with `strict`, more than any when a stream is longer than a link */
    int64_t kept;   /* how often a better state was found */
} State;

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
        int64_t ticks = (w->link[k].load + w->n->width[k] - 1) / w->n->width[k];
        if (ticks > most) most = ticks;
    }
    return most;
}

static void aim(Walk *w, int64_t target) {
    w->target = target;
    w->now.energy = 0;
    w->now.over = 0;
    for (int32_t k = 0; k < w->n->loads; k++) {
        LinkState *link = &w->link[k];
        link->capacity = target * w->n->width[k];
        link->scale = 1.0 / (double)link->capacity;
        link->price = price(w, link, link->load);
        w->now.energy += link->price;
        w->now.over += link->load > link->capacity;
    }
    w->now.energy += w->hop_weight * w->now.far;
}

/* A state counts as better from now on when all its links are busy for fewer ticks than these. */
static void beat(Walk *w, int64_t ticks) {
    w->now.above = 0;
    for (int32_t k = 0; k < w->n->loads; k++) {
        LinkState *link = &w->link[k];
        link->allowed = ticks - 1 < INT64_MAX / w->n->width[k] ? (ticks - 1) * w->n->width[k] : INT64_MAX;
        w->now.above += link->load > link->allowed;
    }
}

/* A stream over a link that exceeds the target, if there is one among some at random; else -1. */
static int32_t hot_stream(Walk *w) {
    for (int32_t tries = 0; tries < TRIES; tries++) {
        int32_t stream = below(&w->random, w->n->streams);
        const int32_t *route = w->route + (int64_t)stream * w->n->longest;
        for (int32_t k = 0; k < w->length[stream]; k++)
            if (w->link[route[k]].load > w->link[route[k]].capacity) return stream;
    }
    return -1;
}

/* A stage of a core that exceeds the target, if there is one among some at random; else -1. */
static int32_t hot_stage(Walk *w) {
    for (int32_t tries = 0; w->n->loads > w->n->links && tries < TRIES; tries++) {
        int32_t stage = below(&w->random, w->n->stages);
        const LinkState *core = &w->link[w->n->links + w->core[stage]];
        if (core->load > core->capacity) return stage;
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
    double least_energy = w->polishing && w->now.over == 0 && w->now.far == 0 ? w->now.energy : INFINITY;
    double cooling = pow(cold / hot, 1.0 / (double)(moves > 1 ? moves : 1)), temperature = hot;
    for (int64_t move = 0; move < moves; move++, temperature *= cooling) {
        if ((move & 8191) == 0) aim(w, w->target); /* rounding errors do not add up */
        if (*stop) return;
        Totals before = w->now;
        begin_move(w);
        int32_t a = -1, b = -1, s = -1, t = -1, stream = -1, shape = 0;
        int32_t hot_one = -1, hot_core = -1;
        if (w->now.over && below(&w->random, 100) < HOT_MOVES) {
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
        if (!reroute(w, before.energy, temperature)) {
            if (stream >= 0) w->shape[stream] = shape; else exchange(&w->on, s, t, a);
            restore(w, &before);
            continue;
        }
        take_over(w);
        if (w->polishing) {
            if (w->now.over == 0 && w->now.far == 0 && w->now.energy < least_energy - 1e-9) {
                keep(w, best);
                least_energy = w->now.energy;
            }
        } else if (w->now.above == 0 && w->now.far == 0) {
            keep(w, best);
            if (w->now.over) continue;
            if (best->ticks <= least) {
                w->polishing = 1;
                aim(w, least);
                least_energy = w->now.energy;
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
    w.link = calloc(links, sizeof(LinkState));
    w.undo = malloc(sizeof(Undo) * (2 * streams * longest + 4));
    int enough = w.core && ints && w.link && w.undo;
    if (enough) {
        memcpy(w.core, from->core, sizeof(int32_t) * (size_t)n->stages);
        enough = settle(&w.on, n->rooms, w.core, n->stages, n->cores);
    }
    if (enough) {
        w.shape = ints; w.length = ints + streams; w.changed = ints + 2 * streams; w.new_length = ints + 3 * streams;
        w.stamp = ints + 4 * streams; w.route = ints + 5 * streams; w.new_route = w.route + streams * longest;
        memcpy(w.shape, from->shape, sizeof(int32_t) * (size_t)n->streams);
        for (int32_t c = 0; n->links + c < n->loads; c++) w.link[n->links + c].load = w.on.ticks[c];
        aim(&w, target);
        begin_move(&w);
        for (int32_t e = 0; e < n->streams; e++) {
            begin_change(&w, e);
            put_in(&w, e);
        }
        take_over(&w);
        beat(&w, best->ticks);
        if (w.now.far == 0 && busiest(&w) < best->ticks) keep(&w, best);
        walk(&w, best, moves, target, least, step, hot, cold, stop);
    }
    clear(&w.on);
    free(w.core); free(ints); free(w.link); free(w.undo);
    return enough;
}
