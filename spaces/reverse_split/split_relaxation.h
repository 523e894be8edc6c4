/* What a plan of splits costs once it is relaxed. Part of splitting.c. */

#pragma once

#include "split_sums.h"

/* ---- relaxation (Section 3.2): the least sum of |edge weights| over positions of the values --------------------- */

#define MOST_NODES (3 * MOST_DEPTH + MOST_SUMS + 2)
#define MOST_EDGES (6 * MOST_DEPTH)

typedef struct {
    int from, to;
    int weight[3];
} Edge;

typedef struct {
    uint64_t values[MOST_NODES];
    uint8_t fixed[MOST_NODES];
    Edge edges[MOST_EDGES];
    int nodes, edge_count, additions;
    int64_t work; /* edges looked at */
} Graph;

static int node_of(Graph *g, uint64_t value) {
    for (int k = 0; k < g->nodes; k++)
        if (g->values[k] == value) return k;
    g->values[g->nodes] = value;
    g->fixed[g->nodes] = 0;
    return g->nodes++;
}

static int fresh_node(Graph *g) {
    g->values[g->nodes] = ~0ULL - (uint64_t)g->nodes;
    g->fixed[g->nodes] = 0;
    return g->nodes++;
}

static void edge(Graph *g, int from, int to, int dx, int dy, int doublings) {
    Edge e = {from, to, {dx, dy, doublings}};
    g->edges[g->edge_count++] = e;
}

/* One augmenting path by breadth first search; unit capacities between nodes, `gain` from the source, `loss` to the sink. */
static int augment(Graph *g, int *gain, int *loss, int8_t *reached, int8_t (*flow)[2], const int *tight, int tight_count) {
    const Edge *edges = g->edges;
    int nodes = g->nodes;
    int queue[MOST_NODES], from[MOST_NODES], by[MOST_NODES], head = 0, tail = 0;
    memset(reached, 0, (size_t)nodes);
    for (int v = 0; v < nodes; v++)
        if (gain[v] > 0) reached[v] = 1, from[v] = -1, queue[tail++] = v;
    while (head < tail) {
        int v = queue[head++];
        if (loss[v] > 0) {
            loss[v]--;
            for (; from[v] >= 0; v = from[v]) flow[by[v] >> 1][by[v] & 1]--, flow[by[v] >> 1][!(by[v] & 1)]++;
            gain[v]--;
            return 1;
        }
        g->work += tight_count;
        for (int k = 0; k < tight_count; k++) {
            const Edge *e = &edges[tight[k]];
            for (int side = 0; side < 2; side++) {
                int tail_node = side ? e->to : e->from, to = side ? e->from : e->to;
                if (tail_node != v || reached[to] || flow[k][side] <= 0) continue;
                reached[to] = 1;
                from[to] = v;
                by[to] = 2 * k + side;
                queue[tail++] = to;
            }
        }
    }
    return 0;
}

/* The sum of |weight + at[from] - at[to]| is L-natural convex: where no set of nodes can move by one to its gain, it is
   least (Murota 2003). The best set is a minimum cut: edges that are tight hold together, the others pull. */
static int relaxed_dimension(Graph *g, int dimension) {
    int at[MOST_NODES] = {0}, gain[MOST_NODES], loss[MOST_NODES], tight[MOST_EDGES];
    int8_t reached[MOST_NODES], flow[MOST_EDGES][2];
    for (int direction = 1, failed = 0; failed < 2;) {
        int tight_count = 0, wanted = 0, found = 0, pull[MOST_NODES] = {0};
        for (int k = 0; k < g->edge_count; k++) {
            const Edge *e = &g->edges[k];
            int length = e->weight[dimension] + at[e->from] - at[e->to];
            if (e->from == e->to) continue;
            if (!length) {
                flow[tight_count][0] = flow[tight_count][1] = 1;
                tight[tight_count++] = k;
            } else {
                int sign = (length > 0) == (direction > 0) ? 1 : -1;
                pull[e->from] += sign;
                pull[e->to] -= sign;
            }
        }
        for (int v = 0; v < g->nodes; v++) {
            gain[v] = pull[v] < 0 && !g->fixed[v] ? -pull[v] : 0;
            loss[v] = g->fixed[v] ? 1 << 20 : pull[v] > 0 ? pull[v] : 0;
            wanted += gain[v];
        }
        while (augment(g, gain, loss, reached, flow, tight, tight_count)) found++;
        if (found < wanted) {
            for (int v = 0; v < g->nodes; v++)
                if (reached[v] && !g->fixed[v]) at[v] += direction;
            failed = 0;
        } else {
            failed++;
            direction = -direction;
        }
    }
    int total = 0;
    for (int k = 0; k < g->edge_count; k++)
        total += abs(g->edges[k].weight[dimension] + at[g->edges[k].from] - at[g->edges[k].to]);
    return total;
}

/* Instructions of the plan of a path after relaxation, before what equal edges share. */
static int relaxed_cost(Search *s, int depth) {
    static __thread Graph graph;
    Graph *g = &graph;
    g->nodes = g->edge_count = g->additions = 0;
    g->work = 0;
    int image = fresh_node(g);
    g->fixed[image] = 1;
    for (int k = 0; k < s->target_count; k++) g->fixed[node_of(g, s->targets[k])] = 1;
    for (int d = 0; d < depth; d++) {
        const Level *before = &s->levels[d];
        const Split *split = &s->path[d];
        int within = split->a_from == split->b_from;
        uint64_t b_value = s->b_values[d];
        int b = node_of(g, b_value);
        uint64_t a_value = transformed(s, b_value, split);
        uint64_t a_sum = before->sums[split->a_from].value, b_sum = before->sums[split->b_from].value;
        uint64_t rest = minus(a_sum, within ? plus(a_value, b_value) : a_value);
        int whole = node_of(g, a_sum);
        edge(g, b, whole, split->dx, split->dy, split->doublings);
        if (within) edge(g, b, whole, 0, 0, 0);
        if (rest) edge(g, node_of(g, rest), whole, 0, 0, 0);
        g->additions += within + (rest != 0);
        if (!within && minus(b_sum, b_value)) {
            int other = node_of(g, b_sum);
            edge(g, b, other, 0, 0, 0);
            edge(g, node_of(g, minus(b_sum, b_value)), other, 0, 0, 0);
            g->additions++;
        }
    }
    const Level *last = &s->levels[depth];
    if (last->count) {
        Term only = last->terms[last->sums[0].first];
        int exponent = 31 - __builtin_clz((unsigned)abs(only.weight));
        edge(g, image, node_of(g, last->sums[0].value), only.cell / s->height - s->image_x,
             only.cell % s->height - s->image_y, exponent - s->depth_bits);
    }
    int total = g->additions;
    for (int dimension = 0; dimension < 3; dimension++) total += relaxed_dimension(g, dimension);
    s->work += g->work;
    return total;
}
