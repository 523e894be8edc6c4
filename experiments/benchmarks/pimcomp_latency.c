/* The latency that PIMCOMP-NN's batch-mode evaluator gives a mapping, from a description of it in words (see pimcomp_latency.py): every
 * core's list of loads, copies, products, additions and transfers of a step, and the time that they take with one global memory and one
 * bus, whose nanoseconds are handed out one by one in the order of the evaluation.
 *
 * Row blocks come sorted by layer, replica and row. Of every replica the output positions ("windows") follow from how many replicas have
 * their first row block on which core. Sizes are counted in elements of two bytes, times in nanoseconds. */

#include "pimcomp_steps.h"

enum { PRODUCT = 800, NEXT_PRODUCT = 200 };

typedef struct {
    int32_t *next;
    int32_t room;
} Slots;

/* The first free slot from t on; -1 beyond the table. */
static int32_t free_slot(Slots *slots, int64_t t) {
    if (t >= slots->room) return -1;
    int32_t root = (int32_t)t;
    while (root < slots->room && slots->next[root]) root = slots->next[root];
    for (int32_t k = (int32_t)t; k < slots->room && slots->next[k];) {
        int32_t further = slots->next[k];
        slots->next[k] = root;
        k = further;
    }
    return root < slots->room ? root : -1;
}

/* Occupy the first n free slots from t on: how long that takes; -1 beyond the table. */
static int64_t take(Slots *slots, int32_t n, int64_t t) {
    int64_t last = t;
    if (n <= 0) return 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t slot = free_slot(slots, last);
        if (slot < 0) return -1;
        slots->next[slot] = slot + 1;
        last = slot;
    }
    return last - t + 1;
}

static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t memory_slots(int64_t elements) { return over(2 * elements, 64); }
static int64_t local_ns(int64_t elements) { return over(20 * elements, 256); }
static int64_t vector_ns(int64_t elements) { return over(2 * elements, 64) * 10; }

typedef struct {
    int64_t until, prepared, preparation, started, met; /* L, P, q, X and Y of the description */
    int32_t place;
    int8_t first, visited;
    int64_t waiting; /* the transfer that it waits at, 0: none */
} Core;

typedef struct {
    Steps steps;
    Core *core;
    int64_t *last_start; /* by row block */
    Slots memory, bus;
    int64_t loaded;
} Evaluation;

static int64_t load(Evaluation *e, Core *core, int32_t elements) {
    int64_t cost = take(&e->memory, (int32_t)memory_slots(elements), core->prepared);
    e->loaded += 2 * elements;
    core->prepared += cost;
    core->preparation += cost;
    return cost;
}

static void copy(Core *core, int32_t elements, int times) {
    int64_t cost = times * local_ns(elements);
    core->prepared += cost;
    core->preparation += cost;
}

static void multiply(Evaluation *e, Core *core, int32_t block) {
    int64_t start = core->prepared;
    if (core->first) {
        core->until += PRODUCT;
        core->first = 0;
    } else {
        int64_t prepared = core->prepared - core->started, before = e->last_start[block];
        start = core->started + (prepared > NEXT_PRODUCT ? prepared : NEXT_PRODUCT);
        if (before > 0 && before + PRODUCT > start) start = before + PRODUCT;
        if (start < core->met) start = core->met + core->preparation;
        core->until = start + PRODUCT;
    }
    core->started = e->last_start[block] = start;
    core->preparation = 0;
}

typedef enum { ENDED, WAITS, MET, TOO_LONG } Stop;

/* Go on with a core until it waits for another, meets one that waits, or ends. */
static Stop run(Evaluation *e, int32_t c) {
    Core *core = &e->core[c];
    for (; core->place < e->steps.lists[c].count; core->place++) {
        const Instruction *one = &e->steps.lists[c].at[core->place];
        int64_t cost = 0;
        switch (one->kind) {
        case LOAD:
            cost = load(e, core, one->amount);
            if (core->until < core->prepared) core->until = core->prepared;
            break;
        case PACKED_LOAD:
            if (one->packed) cost = load(e, core, one->packed);
            if (core->until < core->prepared) core->until = core->prepared;
            copy(core, one->amount, 2);
            break;
        case FILL: copy(core, one->amount, 1); break;
        case COPY: copy(core, one->amount, 2); break;
        case MULTIPLY: multiply(e, core, one->block); break;
        case ADD: core->until += vector_ns(one->amount); break;
        case CROSS_ADD:
            core->until += vector_ns(one->amount);
            core->met += vector_ns(one->amount);
            break;
        case STORE:
            cost = take(&e->memory, (int32_t)memory_slots(one->amount), core->until);
            core->until += cost;
            break;
        case TRANSFER: {
            Core *other = &e->core[one->partner];
            if (other->waiting != one->from) {
                core->waiting = one->from;
                return WAITS;
            }
            int64_t t = core->until > other->until ? core->until : other->until;
            core->met = other->met = t;
            cost = take(&e->bus, (int32_t)local_ns(one->amount), t);
            core->until = other->until = t + cost;
            other->waiting = 0;
            core->place++;
            other->place++;
            return cost < 0 ? TOO_LONG : MET;
        }
        }
        if (cost < 0) return TOO_LONG;
    }
    return ENDED;
}

/* One step of all cores, depth first; 0 where the table of slots ends. */
static int run_step(Evaluation *e, int32_t *stack) {
    for (int32_t begin = 0; begin < e->steps.cores; begin++) {
        int32_t depth = 0;
        if (e->core[begin].visited) continue;
        e->core[begin].visited = 1;
        stack[depth++] = begin;
        while (depth) {
            int32_t c = stack[--depth];
            Stop stop = run(e, c);
            if (stop == TOO_LONG) return 0;
            if (stop == MET) {
                stack[depth++] = c;
                stack[depth++] = e->steps.lists[c].at[e->core[c].place - 1].partner;
            } else if (stop == WAITS) {
                for (int32_t k = c + 1; k < e->steps.cores; k++)
                    if (!e->core[k].visited) {
                        e->core[k].visited = 1;
                        stack[depth++] = k;
                        break;
                    }
            }
        }
    }
    return 1;
}

/* Nanoseconds until the last core ends; -1: more than `most`, or no mapping that ends. cores_until, or NULL, gets when each core ends,
 * loaded how many bytes come from global memory. */
int64_t kilotune_pimcomp_latency(const Layer *layers, int32_t layer_count, const RowBlock *blocks, const int32_t *first_block,
                                 const Replica *replicas, const int32_t *first_replica, int32_t cores, const int32_t *keys, int64_t most,
                                 int64_t *cores_until, int64_t *loaded) {
    Evaluation e = {.steps = {layers, blocks, replicas, first_block, first_replica, cores, keys, NULL}};
    int64_t found = 0, stamp = 0;
    int32_t steps = 0, ends = 1;
    for (int32_t k = 0; k < first_replica[layer_count]; k++)
        if (replicas[k].count > steps) steps = replicas[k].count;
    e.core = calloc((size_t)cores, sizeof *e.core);
    e.steps.lists = calloc((size_t)cores, sizeof *e.steps.lists);
    e.last_start = calloc((size_t)first_block[cores] + 1, sizeof *e.last_start);
    e.memory = (Slots){calloc((size_t)most + 2, sizeof(int32_t)), (int32_t)most};
    e.bus = (Slots){calloc((size_t)most + 2, sizeof(int32_t)), (int32_t)most};
    Seen *seen = calloc(SEEN, sizeof *seen);
    int32_t *stack = malloc((size_t)(4 * cores + 4) * sizeof *stack);
    for (int32_t g = 0; g < steps && ends; g++) {
        make_lists(&e.steps, g, seen, &stamp);
        for (int32_t c = 0; c < cores; c++) {
            Core *core = &e.core[c];
            core->place = 0, core->first = 1, core->visited = 0, core->waiting = 0;
        }
        ends = run_step(&e, stack);
        for (int32_t c = 0; c < cores; c++) {
            Core *core = &e.core[c];
            if (core->waiting) ends = 0;
            core->prepared = core->until;
            core->preparation = 0;
            if (core->until > found) found = core->until;
        }
    }
    for (int32_t c = 0; c < cores; c++) {
        if (cores_until) cores_until[c] = e.core[c].until;
        free(e.steps.lists[c].at);
    }
    *loaded = e.loaded;
    free(e.core), free(e.steps.lists), free(e.last_start), free(e.memory.next), free(e.bus.next), free(seen), free(stack);
    return ends && found < most ? found : -1;
}
