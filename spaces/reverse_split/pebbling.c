/* The cheapest way to compute a program's results in so many registers, values computed again where that is needed.
 *
 * A state is the set of values that registers hold, and of results that are done with where those do not stay. A step computes a value whose
 * operands are held, into a free register or in the place of one value. Best first (A*) under the cost of what must still be computed
 * at least: results that are missing, what they take that is not held, and so on. That bound never falls by more than a step costs, so a
 * state is final when it is taken up. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = 0, FOUND = 1, UNKNOWN = 2, NO_MEMORY = 3, OPERANDS = 3, MOST_COST = 4096 };

typedef struct {
    int32_t steps, registers, kept, limit; /* limit: only what costs less is looked for */
    int32_t most_states;
    int32_t unused;
    uint64_t results;        /* bits of values; the image is bit 0 and no result */
    const int32_t *operands; /* [steps][OPERANDS], -1: none */
    const uint8_t *apart;    /* [steps]: bits of operands that may not leave for the result */
    const int32_t *cost;     /* [steps] */
} Pebbling;

typedef struct {
    uint64_t held, done;
    int32_t parent, step, cost, next; /* next: of a bucket */
    uint8_t closed;
} Node;

typedef struct {
    const Pebbling *p;
    uint64_t taken[64]; /* the operands of a value */
    Node *node;
    int32_t *slot, nodes, bucket[MOST_COST];
    uint32_t mask;
} Search;

static int32_t least_left(const Search *s, uint64_t held, uint64_t done)
{
    uint64_t need = s->p->results & ~(s->p->kept ? held : done);
    int32_t cost = 0;
    for (int v = s->p->steps; v > 0; v--)
        if (need >> v & 1) cost += s->p->cost[v - 1], need |= s->taken[v] & ~held;
    return cost;
}

static void reach(Search *s, uint64_t held, uint64_t done, int32_t parent, int32_t step, int32_t cost)
{
    int32_t whole = cost + least_left(s, held, done);
    if (whole >= s->p->limit || whole >= MOST_COST) return;
    uint32_t at = (uint32_t)(((held * 0x9e3779b97f4a7c15ULL) ^ (done * 0xc2b2ae3d27d4eb4fULL)) >> 32) & s->mask;
    for (; s->slot[at] >= 0; at = (at + 1) & s->mask) {
        const Node *n = &s->node[s->slot[at]];
        if (n->held == held && n->done == done) {
            if (n->closed || n->cost <= cost) return;
            break; /* the cheaper one takes its place in the table; the other is passed over when its turn comes */
        }
    }
    if (s->nodes == s->p->most_states) return;
    s->slot[at] = s->nodes;
    s->node[s->nodes] = (Node){held, done, parent, step, cost, s->bucket[whole], 0};
    s->bucket[whole] = s->nodes++;
}

static void expand(Search *s, int32_t at)
{
    const Pebbling *p = s->p;
    const Node n = s->node[at];
    int full = __builtin_popcountll(n.held) >= p->registers;
    for (int v = 1; v <= p->steps; v++) {
        if (n.held >> v & 1 || s->taken[v] & ~n.held) continue;
        uint64_t bit = (uint64_t)1 << v, done = p->kept ? 0 : n.done | (bit & p->results), bound_to_stay = 0;
        for (int k = 0; k < OPERANDS; k++)
            if (p->apart[v - 1] >> k & 1) bound_to_stay |= (uint64_t)1 << p->operands[OPERANDS * (v - 1) + k];
        if (!full) reach(s, n.held | bit, done, at, v, n.cost + p->cost[v - 1]);
        for (uint64_t rest = full ? n.held & ~bound_to_stay : 0; rest; rest &= rest - 1)
            reach(s, (n.held & ~(rest & -rest)) | bit, done, at, v, n.cost + p->cost[v - 1]);
    }
}

static int goal(const Search *s, const Node *n) { return !(s->p->results & ~(s->p->kept ? n->held : n->done)); }

static int search(Search *s)
{
    memset(s->bucket, 0xff, sizeof s->bucket);
    reach(s, 1, 0, -1, 0, 0);
    for (int32_t cost = 0; cost < MOST_COST;) {
        int32_t at = s->bucket[cost];
        if (at < 0) {
            cost++;
            continue;
        }
        s->bucket[cost] = s->node[at].next;
        if (goal(s, &s->node[at])) return at;
        s->node[at].closed = 1;
        if (s->nodes == s->p->most_states) return -2;
        expand(s, at);
    }
    return -1;
}

/* order, [MOST_COST]: the values in the order of their computation; count: how many. */
int kilotune_pebble(const Pebbling *p, int32_t *order, int32_t *count)
{
    Search *s = calloc(1, sizeof *s);
    if (!s) return NO_MEMORY;
    s->p = p, s->mask = 1023;
    while (s->mask < 2 * (uint32_t)p->most_states) s->mask = 2 * s->mask + 1;
    s->node = malloc(sizeof *s->node * (size_t)p->most_states);
    s->slot = malloc(sizeof *s->slot * ((size_t)s->mask + 1));
    int result = NO_MEMORY;
    if (s->node && s->slot) {
        memset(s->slot, 0xff, sizeof *s->slot * ((size_t)s->mask + 1));
        for (int v = 1; v <= p->steps; v++)
            for (int k = 0; k < OPERANDS; k++)
                if (p->operands[OPERANDS * (v - 1) + k] >= 0) s->taken[v] |= (uint64_t)1 << p->operands[OPERANDS * (v - 1) + k];
        int32_t at = search(s);
        result = at >= 0 ? FOUND : at == -1 ? NONE : UNKNOWN;
        *count = 0;
        for (int32_t n = at; n > 0; n = s->node[n].parent) ++*count;
        for (int32_t n = at, k = *count; n > 0; n = s->node[n].parent) order[--k] = s->node[n].step;
    }
    free(s->node), free(s->slot), free(s);
    return result;
}
