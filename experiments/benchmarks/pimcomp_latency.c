/* The latency that PIMCOMP-NN's batch-mode evaluator gives a mapping, from a description of it in words (see pimcomp_latency.py): every
 * core's list of loads, copies, products, additions and transfers of a step, and the time that they take with one global memory and one
 * bus, whose nanoseconds are handed out one by one in the order of the evaluation.
 *
 * Row blocks come sorted by layer, replica and row. Of every replica the output positions ("windows") follow from how many replicas have
 * their first row block on which core. Sizes are counted in elements of two bytes, times in nanoseconds. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCT = 800, NEXT_PRODUCT = 200, SMALL = 64, BLOCK = 128, KEYS = 50000 };

typedef struct {
    int32_t channels, height, width, out_width, kernel_width, stride_y, stride_x, pad_top, pad_left;
    int32_t rows, columns, windows, bias, activation, dense;
} Layer;

typedef struct {
    int32_t layer, replica, row, core;
} RowBlock;

/* One replica: its first row block's core, and its windows: the first one, how far apart they are, and how many. */
typedef struct {
    int32_t head, first, apart, count;
} Replica;

typedef enum { LOAD, PACKED_LOAD, FILL, COPY, MULTIPLY, ADD, CROSS_ADD, STORE, TRANSFER } Kind;

typedef struct {
    Kind kind;
    int32_t amount, block, partner, replica; /* block: of MULTIPLY; partner: the other core of TRANSFER */
    int64_t from; /* its id for TRANSFER, else the address of the piece */
    int32_t packed; /* of a small LOAD: how much is loaded in its place before it is copied; 0 for one that another has loaded */
} Instruction;

typedef struct {
    Instruction *at;
    int32_t count, room;
} List;

typedef struct {
    int32_t *next;
    int32_t room;
} Slots;

static void push(List *list, Instruction one) {
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->at = realloc(list->at, (size_t)list->room * sizeof *list->at);
    }
    list->at[list->count++] = one;
}

static void insert(List *list, int32_t place, Instruction one) {
    push(list, one);
    memmove(list->at + place + 1, list->at + place, (size_t)(list->count - 1 - place) * sizeof *list->at);
    list->at[place] = one;
}

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

/* What addresses below `size` are compared by: the tool's own hash, so that different ones may count as the same. */
void kilotune_pimcomp_keys(int32_t size, int32_t *keys) {
    for (int32_t address = 0; address < size; address++) {
        double a = address, roots = pow(a, 1.0 / 2) + pow(a, 1.0 / 3) + pow(a, 1.0 / 5) + pow(a, 1.0 / 7);
        keys[address] = (int32_t)((int64_t)(address / 5 + roots) % KEYS);
    }
}

/* What a core has loaded in this step, by layer, address and length; an entry of another stamp is empty. */
typedef struct {
    int64_t name, stamp;
} Seen;

enum { SEEN_BITS = 14, SEEN = 1 << SEEN_BITS }; /* twice as many as 64 row blocks have rows */

static int seen_before(Seen *table, int64_t stamp, int64_t name) {
    uint64_t place = (uint64_t)name * 0x9E3779B97F4A7C15u >> (64 - SEEN_BITS);
    while (table[place].stamp == stamp) {
        if (table[place].name == name) return 1;
        place = (place + 1) % SEEN;
    }
    table[place] = (Seen){name, stamp};
    return 0;
}

/* The pieces of a row block's input for a window, those that adjoin as one. */
static void add_input(List *list, const Layer *layer, int32_t index, int32_t window, int32_t low, int32_t high, Seen *seen, int64_t stamp,
                      const int32_t *keys) {
    int32_t begin = list->count;
    if (layer->dense) {
        push(list, (Instruction){.kind = LOAD, .amount = high - low, .from = low});
        return;
    }
    int32_t top = window / layer->out_width * layer->stride_y - layer->pad_top;
    int32_t left = window % layer->out_width * layer->stride_x - layer->pad_left;
    int32_t tap = low / layer->channels, right = left + layer->kernel_width;
    int32_t y = top + tap / layer->kernel_width, x = left + tap % layer->kernel_width;
    for (int32_t first = tap * layer->channels; first < high; first += layer->channels, x++) {
        int32_t last = first + layer->channels, from = low > first ? low : first, to = high < last ? high : last;
        if (x == right) x = left, y++;
        Kind kind = FILL;
        int64_t address = 0;
        if (y >= 0 && y < layer->height && x >= 0 && x < layer->width) {
            address = ((int64_t)y * layer->width + x) * layer->channels + from - first;
            kind = seen_before(seen, stamp, (((int64_t)index << 20 | keys[address]) << 16) + (to - from)) ? COPY : LOAD;
        }
        Instruction *before = list->count > begin ? &list->at[list->count - 1] : NULL;
        if (before && before->kind == kind && (kind == FILL || before->from + before->amount == address))
            before->amount += to - from;
        else
            push(list, (Instruction){.kind = kind, .amount = to - from, .from = address, .block = index});
    }
}

typedef struct {
    int32_t layer, place;
    int64_t address;
} SmallLoad;

static int by_address(const void *a, const void *b) {
    const SmallLoad *one = a, *other = b;
    if (one->layer != other->layer) return one->layer < other->layer ? -1 : 1;
    if (one->address != other->address) return one->address < other->address ? -1 : 1;
    return (one->place > other->place) - (one->place < other->place);
}

/* Loads of fewer than 64 elements become one of 64 and copies of their own lengths. */
static void pack_small_loads(List *list, const Layer *layers, int32_t bias_loads) {
    int32_t count = 0;
    SmallLoad *small = malloc((size_t)(list->count + 1) * sizeof *small);
    for (int32_t k = bias_loads; k < list->count; k++)
        if (list->at[k].kind == LOAD && list->at[k].amount < SMALL && !layers[list->at[k].block].dense)
            small[count++] = (SmallLoad){list->at[k].block, k, list->at[k].from};
    qsort(small, (size_t)count, sizeof *small, by_address);
    for (int32_t i = 0; i < count;) {
        const Layer *layer = &layers[small[i].layer];
        int64_t end = (int64_t)layer->height * layer->width * layer->channels - small[i].address;
        int32_t earliest = small[i].place, j = i;
        for (; j < count && small[j].layer == small[i].layer; j++) {
            Instruction *one = &list->at[small[j].place];
            if (j > i && small[j].address + one->amount > small[i].address + SMALL) break;
            one->kind = PACKED_LOAD;
            one->packed = 0;
            if (small[j].place < earliest) earliest = small[j].place;
        }
        list->at[earliest].packed = (int32_t)(end < SMALL ? end : SMALL);
        i = j;
    }
    free(small);
}

typedef struct {
    int64_t until, prepared, preparation, started, met; /* L, P, q, X and Y of the description */
    int32_t place;
    int8_t first, visited;
    int64_t waiting; /* the transfer that it waits at, 0: none */
} Core;

typedef struct {
    const Layer *layers;
    const RowBlock *blocks;
    const Replica *replicas;
    const int32_t *first_block, *first_replica; /* by core, and by layer */
    int32_t cores;
    Core *core;
    List *lists;
    int64_t *last_start; /* by row block */
    Slots memory, bus;
    int64_t loaded;
    const int32_t *keys; /* by address */
} Evaluation;

/* The lists of all cores for step g. */
static void make_lists(Evaluation *e, int32_t g, Seen *seen, int64_t *stamp) {
    int64_t transfers = 0;
    for (int32_t c = 0; c < e->cores; c++) e->lists[c].count = 0;
    List *sends = calloc((size_t)e->cores, sizeof *sends);
    for (int32_t c = 0; c < e->cores; c++) {
        List *list = &e->lists[c];
        int32_t begin = e->first_block[c], end = e->first_block[c + 1], bias_loads = 0;
        ++*stamp;
        if (g == 0)
            for (int32_t b = begin; b < end; b++)
                if ((b == begin || e->blocks[b].layer != e->blocks[b - 1].layer) && e->layers[e->blocks[b].layer].bias) {
                    push(list, (Instruction){.kind = LOAD, .amount = e->layers[e->blocks[b].layer].columns});
                    bias_loads++;
                }
        for (int32_t b = begin; b < end; b++) {
            const RowBlock *block = &e->blocks[b];
            const Layer *layer = &e->layers[block->layer];
            int32_t at = e->first_replica[block->layer] + block->replica;
            const Replica *replica = &e->replicas[at];
            if (g >= replica->count) continue;
            int32_t low = BLOCK * block->row, high = low + BLOCK < layer->rows ? low + BLOCK : layer->rows;
            add_input(list, layer, block->layer, replica->first + g * replica->apart, low, high, seen, *stamp, e->keys);
            push(list, (Instruction){.kind = MULTIPLY, .block = b, .replica = at});
            int later = b > begin && e->blocks[b - 1].layer == block->layer && e->blocks[b - 1].replica == block->replica;
            if (later || (block->row == 0 && layer->bias)) push(list, (Instruction){.kind = ADD, .amount = layer->columns});
            if (!later && block->row != 0 && replica->head != c)
                push(&sends[c], (Instruction){.kind = TRANSFER, .amount = layer->columns, .partner = replica->head, .replica = at});
        }
        pack_small_loads(list, e->layers, bias_loads);
    }
    for (int32_t c = 0; c < e->cores; c++)
        for (int32_t k = 0; k < sends[c].count; k++) {
            Instruction one = sends[c].at[k];
            int32_t head = one.partner;
            one.from = ++transfers;
            push(&e->lists[c], one);
            one.partner = c;
            push(&e->lists[head], one);
            push(&e->lists[head], (Instruction){.kind = CROSS_ADD, .amount = one.amount, .replica = one.replica});
        }
    for (int32_t c = 0; c < e->cores; c++) free(sends[c].at);
    free(sends);
    for (int32_t c = 0; c < e->cores; c++) {
        List *list = &e->lists[c];
        for (int32_t b = e->first_block[c + 1] - 1; b >= e->first_block[c]; b--) {
            const Layer *layer = &e->layers[e->blocks[b].layer];
            int32_t at = e->first_replica[e->blocks[b].layer] + e->blocks[b].replica, place = list->count - 1;
            if (e->blocks[b].row != 0 || !layer->activation || g >= e->replicas[at].count) continue;
            while (place >= 0 && !((list->at[place].kind == MULTIPLY || list->at[place].kind == CROSS_ADD) && list->at[place].replica == at)) place--;
            while (place + 1 < list->count && list->at[place + 1].kind == ADD) place++;
            insert(list, place + 1, (Instruction){.kind = ADD, .amount = layer->columns});
        }
        for (int32_t b = e->first_block[c]; b < e->first_block[c + 1]; b++)
            if (e->blocks[b].row == 0 && g < e->replicas[e->first_replica[e->blocks[b].layer] + e->blocks[b].replica].count)
                push(list, (Instruction){.kind = STORE, .amount = e->layers[e->blocks[b].layer].columns});
    }
}

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
    for (; core->place < e->lists[c].count; core->place++) {
        const Instruction *one = &e->lists[c].at[core->place];
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
    for (int32_t begin = 0; begin < e->cores; begin++) {
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
                stack[depth++] = e->lists[c].at[e->core[c].place - 1].partner;
            } else if (stop == WAITS) {
                for (int32_t k = c + 1; k < e->cores; k++)
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
    Evaluation e = {.layers = layers, .blocks = blocks, .replicas = replicas, .first_block = first_block, .first_replica = first_replica,
                    .cores = cores, .keys = keys};
    int64_t found = 0, stamp = 0;
    int32_t steps = 0, ends = 1;
    for (int32_t k = 0; k < first_replica[layer_count]; k++)
        if (replicas[k].count > steps) steps = replicas[k].count;
    e.core = calloc((size_t)cores, sizeof *e.core);
    e.lists = calloc((size_t)cores, sizeof *e.lists);
    e.last_start = calloc((size_t)first_block[cores] + 1, sizeof *e.last_start);
    e.memory = (Slots){calloc((size_t)most + 2, sizeof(int32_t)), (int32_t)most};
    e.bus = (Slots){calloc((size_t)most + 2, sizeof(int32_t)), (int32_t)most};
    Seen *seen = calloc(SEEN, sizeof *seen);
    int32_t *stack = malloc((size_t)(4 * cores + 4) * sizeof *stack);
    for (int32_t g = 0; g < steps && ends; g++) {
        make_lists(&e, g, seen, &stamp);
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
        free(e.lists[c].at);
    }
    *loaded = e.loaded;
    free(e.core), free(e.lists), free(e.last_start), free(e.memory.next), free(e.bus.next), free(seen), free(stack);
    return ends && found < most ? found : -1;
}
