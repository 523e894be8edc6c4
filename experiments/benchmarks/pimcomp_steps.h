/* What the cores of a mapping do in a step, in PIMCOMP-NN's batch mode: lists of loads, copies, products, additions and transfers. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 64, BLOCK = 128, KEYS = 50000 };

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

/* A mapping, and what its cores do in a step. */
typedef struct {
    const Layer *layers;
    const RowBlock *blocks;
    const Replica *replicas;
    const int32_t *first_block, *first_replica; /* by core, and by layer */
    int32_t cores;
    const int32_t *keys; /* by address */
    List *lists;
} Steps;

/* The lists of all cores for step g. */
static void make_lists(Steps *steps, int32_t g, Seen *seen, int64_t *stamp) {
    int64_t transfers = 0;
    for (int32_t c = 0; c < steps->cores; c++) steps->lists[c].count = 0;
    List *sends = calloc((size_t)steps->cores, sizeof *sends);
    for (int32_t c = 0; c < steps->cores; c++) {
        List *list = &steps->lists[c];
        int32_t begin = steps->first_block[c], end = steps->first_block[c + 1], bias_loads = 0;
        ++*stamp;
        if (g == 0)
            for (int32_t b = begin; b < end; b++)
                if ((b == begin || steps->blocks[b].layer != steps->blocks[b - 1].layer) && steps->layers[steps->blocks[b].layer].bias) {
                    push(list, (Instruction){.kind = LOAD, .amount = steps->layers[steps->blocks[b].layer].columns});
                    bias_loads++;
                }
        for (int32_t b = begin; b < end; b++) {
            const RowBlock *block = &steps->blocks[b];
            const Layer *layer = &steps->layers[block->layer];
            int32_t at = steps->first_replica[block->layer] + block->replica;
            const Replica *replica = &steps->replicas[at];
            if (g >= replica->count) continue;
            int32_t low = BLOCK * block->row, high = low + BLOCK < layer->rows ? low + BLOCK : layer->rows;
            add_input(list, layer, block->layer, replica->first + g * replica->apart, low, high, seen, *stamp, steps->keys);
            push(list, (Instruction){.kind = MULTIPLY, .block = b, .replica = at});
            int later = b > begin && steps->blocks[b - 1].layer == block->layer && steps->blocks[b - 1].replica == block->replica;
            if (later || (block->row == 0 && layer->bias)) push(list, (Instruction){.kind = ADD, .amount = layer->columns});
            if (!later && block->row != 0 && replica->head != c)
                push(&sends[c], (Instruction){.kind = TRANSFER, .amount = layer->columns, .partner = replica->head, .replica = at});
        }
        pack_small_loads(list, steps->layers, bias_loads);
    }
    for (int32_t c = 0; c < steps->cores; c++)
        for (int32_t k = 0; k < sends[c].count; k++) {
            Instruction one = sends[c].at[k];
            int32_t head = one.partner;
            one.from = ++transfers;
            push(&steps->lists[c], one);
            one.partner = c;
            push(&steps->lists[head], one);
            push(&steps->lists[head], (Instruction){.kind = CROSS_ADD, .amount = one.amount, .replica = one.replica});
        }
    for (int32_t c = 0; c < steps->cores; c++) free(sends[c].at);
    free(sends);
    for (int32_t c = 0; c < steps->cores; c++) {
        List *list = &steps->lists[c];
        for (int32_t b = steps->first_block[c + 1] - 1; b >= steps->first_block[c]; b--) {
            const Layer *layer = &steps->layers[steps->blocks[b].layer];
            int32_t at = steps->first_replica[steps->blocks[b].layer] + steps->blocks[b].replica, place = list->count - 1;
            if (steps->blocks[b].row != 0 || !layer->activation || g >= steps->replicas[at].count) continue;
            while (place >= 0 && !((list->at[place].kind == MULTIPLY || list->at[place].kind == CROSS_ADD) && list->at[place].replica == at)) place--;
            while (place + 1 < list->count && list->at[place + 1].kind == ADD) place++;
            insert(list, place + 1, (Instruction){.kind = ADD, .amount = layer->columns});
        }
        for (int32_t b = steps->first_block[c]; b < steps->first_block[c + 1]; b++)
            if (steps->blocks[b].row == 0 && g < steps->replicas[steps->first_replica[steps->blocks[b].layer] + steps->blocks[b].replica].count)
                push(list, (Instruction){.kind = STORE, .amount = steps->layers[steps->blocks[b].layer].columns});
    }
}
