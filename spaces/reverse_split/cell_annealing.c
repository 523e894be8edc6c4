/* Annealing over what a program by Horner's scheme over cells is made of: its constants, the order of its kernels, and the walk over the
 * cells of each (see horner.py and nested_constants.py). What terms take is term_prices.py's, what constants take chain_lengths.h's. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "chain_lengths.h"
#include "draws.h"
#include "walk_moves.h"

enum { LANES = 8, FIRST = 4, NONE = 255, UNIT = 256, MISSING = 1 << 20, NOWHERE = 1 << 30 };
/* Lanes of a price: 2 * taken + out, and FIRST + out where a walk begins. */

typedef struct {
    int32_t kernels, constants, dropped, halvings; /* each kernel takes so many constants fewer than the one before; the first constant is the
                                                      image, or a half of it, ..., of so many; 0: any */
    int32_t image, largest, macros, far; /* far: what a move by two cells takes more, of UNIT */
    int32_t turns, apart;   /* 1: each cell is priced for itself (`apart_cost`), and walks stay as they are */
    double warm, cold;      /* the first and the last temperature, in instructions */
    uint64_t random;        /* the state of the generator, before and after */
    const int32_t *begin;   /* [kernels + 1]: where their cells begin */
    const int32_t *cell;    /* [cells][3]: across, up, weight */
    const int32_t *rows;    /* [constants + 2]: where the sums of so many begin */
    const int32_t *counts;  /* [constants][rows]: how often a sum has a constant */
    const uint8_t *prices;  /* [rows][LANES] */
} CellProblem;

typedef struct {
    int32_t *constants, *order, *path; /* path: numbers of cells, kernel after kernel */
    int32_t *cost;                     /* one number */
} CellChoice;

typedef struct {
    CellProblem *p;
    CellChoice now;
    int32_t *walked, *tried_walked; /* [kernels]: what a walk takes */
    int32_t *tried, *tried_path, *value;
    uint8_t *wanted; /* by weight + chain.room: whether a cell has it */
    uint8_t **table, **tried_table; /* [places]: by weight + largest, LANES prices each */
    int32_t chained, tried_chained;
    Chain chain;
} Walker;

static int32_t constants_at(const Walker *w, int32_t place) { return w->p->constants - place * w->p->dropped; }
static int32_t places(const Walker *w) { return w->p->dropped ? w->p->kernels : 1; }

/* The least prices of all weights, as sums of the first so many constants. */
static void fill(Walker *w, const int32_t *constants, int32_t count, uint8_t *table)
{
    const CellProblem *p = w->p;
    int32_t sums = p->rows[count + 1] - p->rows[count], *value = w->value;
    memset(table, NONE, (size_t)(2 * p->largest + 1) * LANES);
    for (int32_t i = 0; i < sums; i++) value[i] = w->chain.room;
    for (int32_t k = 0; k < count; k++) {
        const int32_t *counts = p->counts + (size_t)k * p->rows[p->constants + 1] + p->rows[count];
        for (int32_t i = 0; i < sums; i++) value[i] += counts[i] * constants[k];
    }
    const uint8_t *price = p->prices + (size_t)p->rows[count] * LANES;
    for (int32_t i = 0; i < sums; i++, price += LANES) {
        if (value[i] < 0 || value[i] > 2 * w->chain.room || !w->wanted[value[i]]) continue; /* sums may be larger than any weight */
        uint8_t *least = table + (size_t)(value[i] - w->chain.room + p->largest) * LANES;
        for (int lane = 0; lane < LANES; lane++) least[lane] = price[lane] < least[lane] ? price[lane] : least[lane];
    }
}

/* What the terms of a kernel take if every cell has a move of its own that absorbs one of them, as a walk has it that is good for them;
 * with the moves. */
static int32_t apart_cost(const Walker *w, int32_t kernel, const uint8_t *table)
{
    const CellProblem *p = w->p;
    int32_t cost = 0;
    for (int32_t i = p->begin[kernel]; i < p->begin[kernel + 1]; i++) {
        const uint8_t *price = table + (size_t)(p->cell[3 * i + 2] + p->largest) * LANES;
        int32_t terms = !p->macros ? price[0] : price[1] < price[2] ? price[1] : price[2];
        cost += terms == NONE ? MISSING : (terms + 1) * UNIT;
    }
    return cost;
}

/* What a walk takes: its moves, and the terms that these do not absorb (`walked` of term_prices.py). */
static int32_t walk_cost(const Walker *w, int32_t kernel, const int32_t *path, const uint8_t *table)
{
    const CellProblem *p = w->p;
    if (p->apart) return apart_cost(w, kernel, table);
    int32_t count = p->begin[kernel + 1] - p->begin[kernel], moves = 0, cost[2] = {0, NOWHERE};
    for (int32_t i = 0; i < count; i++) {
        const int32_t *cell = p->cell + 3 * path[i], *next = i + 1 < count ? p->cell + 3 * path[i + 1] : 0;
        int32_t way = abs(cell[0] - (next ? next[0] : 0)) + abs(cell[1] - (next ? next[1] : 0));
        int32_t hops = p->macros ? (way + 1) / 2 : way, absorbs = p->macros ? hops : 0, after[2] = {NOWHERE, NOWHERE};
        moves += hops * UNIT + (p->macros ? way / 2 * p->far : 0);
        const uint8_t *price = table + (size_t)(cell[2] + p->largest) * LANES;
        for (int taken = 0; taken < 2; taken++)
            for (int out = 0; out < 2 && cost[taken] < NOWHERE; out++)
                for (int following = 0; following < 2; following++) {
                    if (out + following > absorbs) continue;
                    uint8_t terms = price[i ? 2 * taken + out : FIRST + out];
                    int32_t sum = cost[taken] + (terms == NONE ? MISSING : terms * UNIT);
                    if (sum < after[following]) after[following] = sum;
                }
        cost[0] = after[0], cost[1] = after[1];
    }
    return cost[0] + moves;
}

static int32_t chain_cost(Walker *w, const int32_t *constants)
{
    const CellProblem *p = w->p;
    int32_t again = 0; /* to double what the image became */
    for (int32_t image = p->image; p->halvings && image > constants[0]; image /= 2) again += 2;
    return (again + chain_length(&w->chain, constants, p->constants, p->image)) * UNIT;
}

/* The cost of these constants in this order, each walk as it is; as soon as it is known to exceed the limit, what is known. From
 * `from` on constants are others. */
static int32_t whole_cost(Walker *w, const int32_t *constants, const int32_t *order, int32_t from, double limit)
{
    const CellProblem *p = w->p;
    int32_t cost = 0, same = from >= p->constants;
    for (int32_t place = p->kernels - 1; place >= 0; place--) {
        int32_t kernel = order[place], at = p->dropped ? place : 0, count = constants_at(w, at);
        int32_t fresh = from < count;
        if (fresh && (p->dropped || place == p->kernels - 1)) fill(w, constants, count, w->tried_table[at]);
        const uint8_t *table = fresh ? w->tried_table[at] : w->table[at];
        w->tried_walked[kernel] = fresh || kernel != w->now.order[place]
                                      ? walk_cost(w, kernel, w->now.path + p->begin[kernel], table)
                                      : w->walked[kernel];
        cost += w->tried_walked[kernel];
        if (cost > limit) return cost;
    }
    w->tried_chained = same ? w->chained : chain_cost(w, constants);
    return cost + w->tried_chained;
}

/* What was tried becomes what is. */
static void take(Walker *w, const int32_t *constants, const int32_t *order, int32_t from, int32_t cost)
{
    const CellProblem *p = w->p;
    for (int32_t place = 0; place < places(w); place++)
        if (from < constants_at(w, place)) {
            uint8_t *other = w->table[place];
            w->table[place] = w->tried_table[place], w->tried_table[place] = other;
        }
    memmove(w->now.constants, constants, sizeof *constants * (size_t)p->constants);
    memmove(w->now.order, order, sizeof *order * (size_t)p->kernels);
    memcpy(w->walked, w->tried_walked, sizeof *w->walked * (size_t)p->kernels);
    w->chained = w->tried_chained;
    *w->now.cost = cost;
}

/* One that stands in the place of an old one, or is drawn anew. */
static int32_t another(Walker *w, const int32_t *constants, int32_t at)
{
    int32_t old = constants[at], other = constants[below(&w->p->random, w->p->constants)];
    static const int32_t BESIDE[8] = {-8, -4, -2, -1, 1, 2, 4, 8};
    int32_t bits = 0, sign = below(&w->p->random, 2) ? 1 : -1;
    while (w->p->largest >> bits) bits++;
    switch (below(&w->p->random, 6)) {
    case 0: return sign * (1 + below(&w->p->random, w->p->largest));
    case 1: return -old;
    case 2: return old + BESIDE[below(&w->p->random, 8)];
    case 3: return sign * (1 << below(&w->p->random, bits));
    case 4: return old + sign * other;
    default: return sign > 0 ? old * 2 : old / 2;
    }
}

static int are_constants(const Walker *w, const int32_t *constants)
{
    int32_t most = 2 * (w->p->largest > w->p->image ? w->p->largest : w->p->image);
    for (int32_t i = 0; i < w->p->constants; i++) {
        if (!constants[i] || abs(constants[i]) > most) return 0;
        for (int32_t j = 0; j < i; j++)
            if (abs(constants[i]) == abs(constants[j])) return 0;
    }
    return 1;
}

static void exchange(Walker *w, int32_t *values, int32_t first, int32_t count)
{
    int32_t a = first + below(&w->p->random, count - first), b = first + below(&w->p->random, count - first), value = values[a];
    values[a] = values[b], values[b] = value;
}

/* Other constants, or the kernels in another order. */
static void vary_constants(Walker *w, double limit)
{
    const CellProblem *p = w->p;
    int32_t *constants = w->tried, *order = w->tried + p->constants, from = p->constants, fixed = p->halvings > 0, chance = below(&w->p->random, 100);
    memcpy(constants, w->now.constants, sizeof *constants * (size_t)p->constants);
    memcpy(order, w->now.order, sizeof *order * (size_t)p->kernels);
    if (p->dropped && p->kernels > 1 && chance < 8)
        exchange(w, order, 0, p->kernels);
    else if (p->dropped && p->constants - fixed > 1 && chance < 20) {
        exchange(w, constants, fixed, p->constants);
    } else {
        int32_t at = below(&w->p->random, p->constants);
        constants[at] = at < fixed ? p->image >> below(&w->p->random, p->halvings) : another(w, constants, at);
    }
    for (int32_t i = p->constants - 1; i >= 0; i--)
        if (constants[i] != w->now.constants[i]) from = i;
    if (!are_constants(w, constants)) return;
    int32_t cost = whole_cost(w, constants, order, from, limit);
    if (cost <= limit) take(w, constants, order, from, cost);
}

static void vary_walk(Walker *w, double limit)
{
    const CellProblem *p = w->p;
    int32_t cell = below(&w->p->random, p->begin[p->kernels]), kernel = 0, place = 0;
    while (p->begin[kernel + 1] <= cell) kernel++;
    while (w->now.order[place] != kernel) place++;
    int32_t count = p->begin[kernel + 1] - p->begin[kernel], *path = w->now.path + p->begin[kernel];
    memcpy(w->tried_path, path, sizeof *path * (size_t)count);
    vary_part_of_walk(&w->p->random, path, count, w->tried_path);
    int32_t walked = walk_cost(w, kernel, w->tried_path, w->table[p->dropped ? place : 0]);
    int32_t cost = *w->now.cost - w->walked[kernel] + walked;
    if (cost > limit) return;
    memcpy(path, w->tried_path, sizeof *path * (size_t)count);
    w->walked[kernel] = walked;
    *w->now.cost = cost;
}

static void note(const Walker *w, const CellChoice *best)
{
    const CellProblem *p = w->p;
    if (*w->now.cost >= *best->cost) return;
    *best->cost = *w->now.cost;
    memcpy(best->constants, w->now.constants, sizeof(int32_t) * (size_t)p->constants);
    memcpy(best->order, w->now.order, sizeof(int32_t) * (size_t)p->kernels);
    memcpy(best->path, w->now.path, sizeof(int32_t) * (size_t)p->begin[p->kernels]);
}

static int open_walker(Walker *w)
{
    const CellProblem *p = w->p;
    size_t cells = (size_t)p->begin[p->kernels], kernels = (size_t)p->kernels;
    w->walked = calloc(2 * kernels, sizeof *w->walked);
    w->tried_walked = w->walked ? w->walked + kernels : 0;
    w->tried = calloc(kernels + (size_t)p->constants, sizeof *w->tried);
    w->tried_path = malloc(sizeof *w->tried_path * cells);
    w->value = malloc(sizeof *w->value * (size_t)p->rows[p->constants + 1]);
    w->table = calloc(2 * (size_t)places(w), sizeof *w->table);
    if (!w->walked || !w->tried || !w->tried_path || !w->value || !w->table) return 0;
    w->tried_table = w->table + places(w);
    for (int32_t i = 0; i < 2 * places(w); i++)
        if (!(w->table[i] = malloc((size_t)(2 * p->largest + 1) * LANES))) return 0;
    if (!open_chain(&w->chain, p->largest > p->image ? p->largest : p->image)) return 0;
    w->wanted = calloc((size_t)(2 * w->chain.room + 1), 1);
    for (size_t i = 0; w->wanted && i < cells; i++) w->wanted[p->cell[3 * i + 2] + w->chain.room] = 1;
    return w->wanted != 0;
}

static void close_walker(Walker *w)
{
    for (int32_t i = 0; w->table && i < 2 * places(w); i++) free(w->table[i]);
    free(w->walked), free(w->tried), free(w->tried_path), free(w->value), free(w->table), free(w->wanted);
    close_chain(&w->chain);
}

/* So many turns from `now` on, the best choice so far in `best`; costs are UNIT an instruction, and MISSING for each weight that is no
 * sum of the constants. Says whether there was memory for it. */
int kilotune_anneal_cells(CellProblem *p, const CellChoice *now, const CellChoice *best)
{
    Walker w = {.p = p, .now = *now};
    int there = open_walker(&w);
    if (there) {
        int32_t cost = whole_cost(&w, w.now.constants, w.now.order, 0, INFINITY);
        take(&w, w.now.constants, w.now.order, 0, cost);
        note(&w, best);
    }
    for (int32_t turn = 0; there && turn < p->turns; turn++) {
        double temperature = UNIT * (p->warm + (p->cold - p->warm) * turn / p->turns);
        double limit = *now->cost - temperature * log(1.0 - share(&w.p->random));
        if (!p->apart && below(&w.p->random, 2))
            vary_walk(&w, limit);
        else
            vary_constants(&w, limit);
        note(&w, best);
    }
    close_walker(&w);
    return there;
}
