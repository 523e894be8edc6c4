/* Annealing over programs that walk over the cells of kernels and take a total along, while a few registers hold multiples of the image that
 * change on the way (see changing_constants.py). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "draws.h"
#include "walk_moves.h"

enum { LANES = 8, FIRST = 4, UNIT = 256, NONE = 255, NOWHERE = 1 << 30, SLOTS = 8, MOST_STEPS = 96, BLOCK = 32, MISSING = 16, KEPT = 1 << 14 };
/* Lanes of a price: 2 * taken + out, and FIRST + out where a walk begins. MISSING: instructions of a weight that is no sum, besides its
 * signed digits. */
enum { ADD, SUB, ADD3, NEG, HALVE, ADDNEG };

typedef struct {
    int32_t kind, into, a, b, c, at; /* a register becomes a sum of others before the walks come to their `at`th cell */
} ConstantStep;

typedef struct {
    int32_t kernels, registers, kept, macros, image, bound, turns; /* bound: of what is held, in magnitude */
    int32_t far;          /* what a move by two cells takes more, of UNIT */
    double warm, cold;    /* the first and the last temperature, in instructions; in between they fall by the same factor each turn */
    uint64_t random;      /* the state of the generator, before and after */
    const int32_t *begin; /* [kernels + 1]: where their cells begin */
    const int32_t *cell;  /* [cells][3]: across, up, weight */
    const int32_t *rows;  /* [SLOTS + 1]: where the sums of so many registers begin; multiples of BLOCK */
    const int16_t *counts; /* [SLOTS][rows]: how often a sum has a register */
    const uint8_t *prices; /* [rows][LANES] */
} ChangingProblem;

typedef struct {
    ConstantStep *steps;
    int32_t *order, *path; /* kernels as they come; numbers of cells, kernel after kernel as they come */
    int32_t *count, *cost; /* of the steps; UNIT an instruction */
} ChangingChoice;

typedef struct {
    int16_t held[SLOTS]; /* the registers, and how many in the last place */
} Held;

typedef struct {
    Held held;
    int32_t weight;
    uint8_t lanes[LANES];
} Priced;

typedef struct {
    ChangingProblem *p;
    ChangingChoice now, tried;
    Priced *priced; /* [KEPT] */
    int16_t *value;
    Held valued;
    int32_t missed; /* how many weights are no sums */
} Walker;

/* The sums of what is held. */
static void value_sums(Walker *w, const Held *held)
{
    const ChangingProblem *p = w->p;
    if (!memcmp(held, &w->valued, sizeof *held)) return;
    w->valued = *held;
    int32_t n = held->held[SLOTS - 1], from = p->rows[n], count = p->rows[n + 1] - from;
    int16_t *restrict value = w->value;
    memset(value, 0, sizeof *value * (size_t)count);
    for (int32_t k = 0; k < n; k++) {
        const int16_t *restrict counts = p->counts + (size_t)k * (size_t)p->rows[SLOTS] + from;
        int16_t times = held->held[k];
        for (int32_t i = 0; i < count; i++) value[i] = (int16_t)(value[i] + counts[i] * times);
    }
}

/* The least prices of a weight. */
static void least_prices(Walker *w, const Held *held, int32_t weight, uint8_t *least)
{
    const ChangingProblem *p = w->p;
    value_sums(w, held);
    int32_t n = held->held[SLOTS - 1], from = p->rows[n], count = p->rows[n + 1] - from;
    int16_t wanted = (int16_t)weight;
    memset(least, NONE, LANES);
    for (int32_t i = 0; i < count; i += BLOCK) {
        const int16_t *restrict value = w->value + i;
        int16_t hit = 0;
        for (int32_t k = 0; k < BLOCK; k++) hit |= (int16_t)-(value[k] == wanted);
        if (!hit) continue;
        for (int32_t k = 0; k < BLOCK; k++) {
            if (value[k] != wanted) continue;
            const uint8_t *price = p->prices + (size_t)(from + i + k) * LANES;
            for (int lane = 0; lane < LANES; lane++) least[lane] = price[lane] < least[lane] ? price[lane] : least[lane];
        }
    }
}

/* The same, kept for the next time. */
static const uint8_t *price_weight(Walker *w, const Held *held, uint64_t hash, int32_t weight)
{
    hash = (hash ^ (uint64_t)(uint32_t)weight) * 0x9e3779b97f4a7c15ULL;
    Priced *found = w->priced + (hash >> 50);
    if (found->weight != weight || memcmp(&found->held, held, sizeof *held)) {
        found->held = *held, found->weight = weight;
        least_prices(w, held, weight, found->lanes);
    }
    return found->lanes;
}

static uint64_t hash_held(const Held *held)
{
    uint64_t half[2];
    memcpy(half, held, sizeof half);
    uint64_t z = (half[0] ^ half[1] * 0xbf58476d1ce4e5b9ULL) * 0x94d049bb133111ebULL;
    return z ^ (z >> 29);
}

/* Signed digits. */
static int32_t digits(int32_t weight)
{
    uint32_t n = (uint32_t)abs(weight);
    return __builtin_popcount(n ^ (3 * n));
}

static int32_t cells_of(const ChangingProblem *p, int32_t kernel) { return p->begin[kernel + 1] - p->begin[kernel]; }
static int32_t all_cells(const Walker *w) { return w->p->begin[w->p->kernels]; }

/* Whether a step can be done; what it makes is there then. */
static int take_step(const ChangingProblem *p, const ConstantStep *step, int32_t *held, int32_t limit)
{
    if (step->into >= limit || step->a >= limit || !held[step->a]) return 0;
    int32_t a = held[step->a], b = 0, made = 0;
    if (step->kind == ADD || step->kind == SUB || step->kind == ADD3 || step->kind == ADDNEG) {
        if (step->b >= limit || !(b = held[step->b])) return 0;
    }
    switch (step->kind) {
    case ADD:
        if (p->macros && step->a == step->b) return 0;
        made = a + b;
        break;
    case SUB:
        if (p->macros && step->b == step->into) return 0;
        made = a - b;
        break;
    case ADD3:
        if (!p->macros || step->c >= limit || !held[step->c] || step->a == step->b || step->a == step->c || step->b == step->c) return 0;
        made = a + b + held[step->c];
        break;
    case ADDNEG:
        if (p->macros) return 0;
        made = -a - b;
        break;
    case NEG:
        if (p->macros && step->a == step->into) return 0;
        made = -a;
        break;
    default:
        if ((p->macros && step->a == step->into) || a % 2) return 0;
        made = a / 2;
    }
    if (!made || abs(made) > p->bound) return 0;
    held[step->into] = made;
    return 1;
}

/* The cost of what is tried, where it is possible and within the limit; else something that is not. */
static int32_t whole_cost(Walker *w, double limit)
{
    const ChangingProblem *p = w->p;
    const ChangingChoice *c = &w->tried;
    int32_t held[SLOTS] = {p->image}, step = 0, at = 0, steps = *c->count, whole = steps * UNIT;
    w->missed = 0;
    for (int32_t place = 0; place < p->kernels; place++) {
        int32_t count = cells_of(p, c->order[place]), room = p->registers - (p->kept ? place : 0), fresh = 1;
        int32_t cost[2] = {0, NOWHERE};
        Held now = {{0}};
        uint64_t hash = 0;
        for (int32_t i = 0; i < count; i++, at++) {
            for (; step < steps && c->steps[step].at == at; step++, fresh = 1)
                if (!take_step(p, &c->steps[step], held, i ? room - 1 : room)) return NOWHERE;
            if (!i)
                for (int32_t k = room - 1; k < SLOTS; k++) held[k] = 0;
            if (fresh) {
                for (int32_t k = 0; k < room - 1; k++) now.held[k] = (int16_t)held[k];
                now.held[SLOTS - 1] = (int16_t)(room - 1);
                hash = hash_held(&now), fresh = 0;
            }
            const int32_t *cell = p->cell + 3 * c->path[at], *next = i + 1 < count ? p->cell + 3 * c->path[at + 1] : 0;
            const uint8_t *price = price_weight(w, &now, hash, cell[2]);
            int32_t missing = 0;
            if (price[0] == NONE) missing = (MISSING + digits(cell[2])) * UNIT, w->missed++;
            price += i ? 0 : FIRST;
            int32_t way = abs(cell[0] - (next ? next[0] : 0)) + abs(cell[1] - (next ? next[1] : 0));
            int32_t hops = p->macros ? (way + 1) / 2 : way, absorbs = p->macros ? hops : 0, after[2] = {NOWHERE, NOWHERE};
            whole += hops * UNIT + (p->macros ? way / 2 * p->far : 0);
            for (int taken = 0; taken < 2; taken++)
                for (int out = 0; out < 2 && cost[taken] < NOWHERE; out++)
                    for (int following = 0; following < 2; following++) {
                        if (out + following > absorbs) continue;
                        int32_t sum = cost[taken] + (missing ? missing : price[i ? 2 * taken + out : out] * UNIT);
                        if (sum < after[following]) after[following] = sum;
                    }
            cost[0] = after[0], cost[1] = after[1];
            if (whole + (cost[0] < cost[1] ? cost[0] : cost[1]) > limit) return NOWHERE;
        }
        whole += cost[0];
    }
    return step == steps ? whole : NOWHERE;
}

static ConstantStep any_step(Walker *w, int32_t at)
{
    static const int32_t MACROS[10] = {ADD, ADD, ADD, SUB, SUB, SUB, ADD3, NEG, HALVE, HALVE}, OTHERS[10] = {ADD, ADD, ADD, SUB, SUB, SUB, ADDNEG, NEG, HALVE, HALVE};
    int32_t kind = (w->p->macros ? MACROS : OTHERS)[below(&w->p->random, 10)], room = w->p->registers - (below(&w->p->random, 4) > 0);
    return (ConstantStep){kind, below(&w->p->random, room), below(&w->p->random, room), below(&w->p->random, room), below(&w->p->random, room), at};
}

/* Puts a step where it belongs, before or behind those that stand there. */
static void insert(Walker *w, ConstantStep step)
{
    ConstantStep *steps = w->tried.steps;
    int32_t first = 0, last, count = *w->tried.count;
    while (first < count && steps[first].at < step.at) first++;
    for (last = first; last < count && steps[last].at == step.at;) last++;
    int32_t place = first + below(&w->p->random, last - first + 1);
    memmove(steps + place + 1, steps + place, sizeof step * (size_t)(count - place));
    steps[place] = step;
    ++*w->tried.count;
}

static ConstantStep removed(Walker *w, int32_t place)
{
    ConstantStep step = w->tried.steps[place];
    --*w->tried.count;
    memmove(w->tried.steps + place, w->tried.steps + place + 1, sizeof step * (size_t)(*w->tried.count - place));
    return step;
}

static int32_t near(Walker *w, int32_t at)
{
    int32_t cells = all_cells(w);
    if (!below(&w->p->random, 3)) return below(&w->p->random, 2) ? below(&w->p->random, cells) : 0;
    int32_t to = at + below(&w->p->random, 9) - 4;
    return to < 0 ? 0 : to >= cells ? cells - 1 : to;
}

static void vary_steps(Walker *w)
{
    int32_t count = *w->tried.count, cells = all_cells(w), chance = below(&w->p->random, 100), place = count ? below(&w->p->random, count) : 0;
    ConstantStep *step = w->tried.steps + place;
    if (!count || (chance < 18 && count < MOST_STEPS - 2)) {
        insert(w, any_step(w, below(&w->p->random, 3) ? below(&w->p->random, cells) : 0));
    } else if (chance < 36) {
        removed(w, place);
    } else if (chance < 54) {
        *step = any_step(w, step->at);
    } else if (chance < 68) {
        ConstantStep other = any_step(w, step->at);
        switch (below(&w->p->random, 5)) {
        case 0: step->into = other.into; break;
        case 1: step->a = other.a; break;
        case 2: step->b = other.b; break;
        case 3: step->c = other.c; break;
        default: step->kind = other.kind;
        }
    } else if (chance < 88) {
        ConstantStep moved = removed(w, place);
        moved.at = near(w, moved.at);
        insert(w, moved);
    } else if (chance < 94 && place + 1 < count) {
        ConstantStep first = step[0], second = step[1];
        int32_t at = first.at;
        first.at = second.at, second.at = at;
        step[0] = second, step[1] = first;
    } else {
        removed(w, place);
        insert(w, any_step(w, below(&w->p->random, 3) ? below(&w->p->random, cells) : 0));
    }
}

/* Where the cells of a place begin. */
static int32_t beginning(const ChangingProblem *p, const int32_t *order, int32_t place)
{
    int32_t from = 0;
    for (int32_t k = 0; k < place; k++) from += cells_of(p, order[k]);
    return from;
}

/* A part of a walk backwards, or some cells elsewhere on it. */
static void vary_walk(Walker *w)
{
    int32_t cell = below(&w->p->random, all_cells(w)), place = 0;
    while (cell >= cells_of(w->p, w->now.order[place])) cell -= cells_of(w->p, w->now.order[place++]);
    int32_t from = beginning(w->p, w->now.order, place), count = cells_of(w->p, w->now.order[place]);
    vary_part_of_walk(&w->p->random, w->now.path + from, count, w->tried.path + from);
}

/* Two kernels change places. */
static void vary_order(Walker *w)
{
    const ChangingProblem *p = w->p;
    int32_t a = below(&w->p->random, p->kernels), b = below(&w->p->random, p->kernels), to = 0;
    w->tried.order[a] = w->now.order[b], w->tried.order[b] = w->now.order[a];
    for (int32_t place = 0; place < p->kernels; place++) {
        int32_t kernel = w->tried.order[place], count = cells_of(p, kernel), before = 0;
        while (w->now.order[before] != kernel) before++;
        memcpy(w->tried.path + to, w->now.path + beginning(p, w->now.order, before), sizeof(int32_t) * (size_t)count);
        to += count;
    }
}

static void copy_choice(const ChangingProblem *p, const ChangingChoice *from, const ChangingChoice *to)
{
    memcpy(to->steps, from->steps, sizeof *to->steps * (size_t)*from->count);
    memcpy(to->order, from->order, sizeof(int32_t) * (size_t)p->kernels);
    memcpy(to->path, from->path, sizeof *to->path * (size_t)p->begin[p->kernels]);
    *to->count = *from->count, *to->cost = *from->cost;
}

static int open_walker(Walker *w)
{
    const ChangingProblem *p = w->p;
    int32_t most = 0;
    for (int32_t n = 0; n < SLOTS; n++) most = p->rows[n + 1] - p->rows[n] > most ? p->rows[n + 1] - p->rows[n] : most;
    w->priced = calloc(KEPT, sizeof *w->priced);
    w->value = calloc((size_t)most + BLOCK, sizeof *w->value);
    w->tried.steps = calloc(MOST_STEPS, sizeof *w->tried.steps);
    w->tried.order = calloc((size_t)(p->kernels + p->begin[p->kernels] + 2), sizeof(int32_t));
    if (!w->priced || !w->value || !w->tried.steps || !w->tried.order) return 0;
    w->tried.path = w->tried.order + p->kernels;
    w->tried.count = w->tried.path + p->begin[p->kernels];
    w->tried.cost = w->tried.count + 1;
    return 1;
}

static void close_walker(Walker *w) { free(w->priced), free(w->value), free(w->tried.steps), free(w->tried.order); }

#include "last_walk.h"

static void vary(Walker *w)
{
    int32_t chance = below(&w->p->random, 100);
    if (chance < 40)
        vary_walk(w);
    else if (chance < 42 && w->p->kernels > 1)
        vary_order(w);
    else
        vary_steps(w);
}

/* So many turns from `now` on, the best choice so far in `best`. Says whether there was memory for it. */
int kilotune_anneal_changing(ChangingProblem *p, const ChangingChoice *now, const ChangingChoice *best)
{
    Walker w = {.p = p, .now = *now};
    int there = open_walker(&w);
    double temperature = UNIT * p->warm, falling = pow(p->cold / p->warm, 1.0 / p->turns);
    for (int32_t turn = 0; there && turn < p->turns; turn++, temperature *= falling) {
        copy_choice(p, &w.now, &w.tried);
        if (turn)
            vary(&w);
        else
            *now->cost = NOWHERE; /* what it is is found out */
        double limit = *now->cost - temperature * log(1.0 - share(&w.p->random));
        int32_t cost = whole_cost(&w, limit);
        if (cost > limit) continue;
        *w.tried.cost = cost;
        copy_choice(p, &w.tried, &w.now);
        if (!w.missed && cost < *best->cost) copy_choice(p, &w.now, best);
    }
    close_walker(&w);
    return there;
}

/* See `walk_last`: `now` is what `best` is, with a walk for the last kernel of the problem, which `best` lacks. */
int kilotune_walk_last(ChangingProblem *p, const ChangingChoice *best, const ChangingChoice *now, int32_t width)
{
    Walker w = {.p = p, .now = *now};
    int found = open_walker(&w) ? walk_last(&w, best, now, width) : -1;
    close_walker(&w);
    return found;
}
