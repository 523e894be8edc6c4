/* The walk over the cells of the last of several kernels, whose registers hold but two constants: by a beam, as annealing hardly ever finds
 * one. Part of changing_constants.c. */
#ifndef KILOTUNE_LAST_WALK_H
#define KILOTUNE_LAST_WALK_H

enum { PAIR = 2, CHANGES = 4, MOST_CHANGES = 3, MOST_CELLS = 16, MOST_BEFORE = 3, MOST_BEGUN = 1 << 17, TABLE = 1 << 16, RANKS = 1 << 12, FINE = 16, ELSEWHERE = 4 * UNIT };
/* FINE: ranks an instruction; what ranks beyond the last one is as good as that; ELSEWHERE: what a weight is thought to take that is no sum of
 * the two constants. */

typedef struct {
    int32_t cost[2], rank, parent; /* cost: without and with a term of the last cell that the move from there adds; parent: in the beam before */
    int16_t pair[PAIR];
    uint16_t visited;
    uint8_t cell, count, change[MOST_CHANGES]; /* before the cell */
} Stop;

typedef struct {
    Walker *w;
    int32_t cells, first, width; /* first: of its cells among those of all kernels */
    Stop *table, *beams;
    int32_t *size;
    uint8_t lanes[MOST_CELLS][LANES];
    ConstantStep (*before)[MOST_BEFORE]; /* [MOST_BEGUN]: what comes before the first cell; `at` is -1 where there are fewer */
    int32_t begun;
} Beam;

static int changed_pair(const ChangingProblem *p, const int16_t *pair, int change, int16_t *after)
{
    int32_t a = pair[0], b = pair[1];
    switch (change) {
    case 0: a = a + b; break;
    case 1: a = a - b; break;
    case 2: b = b + a; break;
    default: b = b - a;
    }
    if (!a || !b || abs(a) > p->bound || abs(b) > p->bound) return 0;
    after[0] = (int16_t)a, after[1] = (int16_t)b;
    return 1;
}

static ConstantStep change_step(int change, int32_t at)
{
    int32_t into = change / 2;
    return (ConstantStep){change % 2 ? SUB : ADD, into, into, 1 - into, 0, at};
}

/* What the weights of the cells that are left cost; in the sum, those that are no sums of the pair are made later. */
static int32_t price_cells(Beam *b, const int16_t *pair, uint16_t visited)
{
    const ChangingProblem *p = b->w->p;
    Held held = {{pair[0], pair[1]}};
    held.held[SLOTS - 1] = PAIR;
    int32_t sum = 0;
    for (int32_t i = 0; i < b->cells; i++) {
        if (visited >> i & 1) continue;
        least_prices(b->w, &held, p->cell[3 * (b->first + i) + 2], b->lanes[i]);
        int32_t price = b->lanes[i][0] == NONE ? ELSEWHERE : b->lanes[i][0] * UNIT;
        sum += price < ELSEWHERE ? price : ELSEWHERE;
    }
    return sum;
}

/* Keeps a stop where none better has its place. */
static void offer_stop(Beam *b, Stop stop)
{
    uint64_t key = ((uint64_t)(uint16_t)stop.pair[0] << 48) ^ ((uint64_t)(uint16_t)stop.pair[1] << 32) ^ ((uint64_t)stop.visited << 8) ^ stop.cell;
    key = (key ^ (key >> 29)) * 0xbf58476d1ce4e5b9ULL;
    Stop *there = b->table + (key >> 48);
    if (there->count != NONE && there->rank <= stop.rank) return;
    *there = stop;
}

/* The cells that may come next, from a stop (none: the walk begins) after changes of the pair. */
static void go_on(Beam *b, const Stop *from, Stop next, int32_t spent)
{
    const ChangingProblem *p = b->w->p;
    int32_t left = price_cells(b, next.pair, next.visited);
    const int32_t *here = from ? p->cell + 3 * (b->first + from->cell) : 0;
    for (int32_t i = 0; i < b->cells; i++) {
        const uint8_t *lanes = b->lanes[i];
        if (next.visited >> i & 1 || lanes[0] == NONE) continue;
        const int32_t *there = p->cell + 3 * (b->first + i);
        int32_t cost[2] = {spent, NOWHERE};
        if (from) {
            int32_t way = abs(here[0] - there[0]) + abs(here[1] - there[1]), hops = p->macros ? (way + 1) / 2 : way, absorbs = p->macros ? hops : 0;
            int32_t moving = hops * UNIT + (p->macros ? way / 2 * p->far : 0);
            for (int following = 0; following < 2; following++) {
                cost[following] = NOWHERE;
                for (int out = 0; out < 2; out++)
                    if (out + following <= absorbs && from->cost[out] + moving + spent < cost[following]) cost[following] = from->cost[out] + moving + spent;
            }
        }
        Stop stop = next;
        for (int out = 0; out < 2; out++) {
            int32_t without = cost[0] + lanes[from ? out : FIRST + out] * UNIT, with = cost[1] + lanes[2 + out] * UNIT;
            stop.cost[out] = from && with < without ? with : without;
        }
        stop.visited |= (uint16_t)(1 << i), stop.cell = (uint8_t)i;
        stop.rank = (stop.cost[0] < stop.cost[1] + UNIT ? stop.cost[0] : stop.cost[1] + UNIT) + left - (lanes[0] * UNIT < ELSEWHERE ? lanes[0] * UNIT : ELSEWHERE);
        offer_stop(b, stop);
    }
}

static void change_on(Beam *b, const Stop *from, Stop next, int32_t spent)
{
    go_on(b, from, next, spent);
    for (int change = 0; change < CHANGES && next.count < MOST_CHANGES; change++) {
        Stop after = next;
        if (next.count && next.change[next.count - 1] == (change ^ 1)) continue; /* back */
        if (!changed_pair(b->w->p, next.pair, change, after.pair)) continue;
        after.change[after.count++] = (uint8_t)change;
        change_on(b, from, after, spent + UNIT);
    }
}

static int32_t rank_of(const Stop *stop)
{
    int32_t rank = stop->rank / (UNIT / FINE);
    return rank < RANKS ? rank : RANKS - 1; /* cells may lie hundreds of moves apart */
}

/* The best stops of the table, which is empty then. */
static int32_t take_best(Beam *b, Stop *beam)
{
    int32_t counts[RANKS] = {0}, most = 0, taken = 0, kept = 0;
    for (int32_t i = 0; i < TABLE; i++)
        if (b->table[i].count != NONE) counts[rank_of(b->table + i)]++;
    while (most < RANKS && taken + counts[most] <= b->width) taken += counts[most++];
    for (int32_t i = 0; i < TABLE; i++) {
        Stop *stop = b->table + i;
        if (stop->count != NONE && (rank_of(stop) < most || (rank_of(stop) == most && kept < b->width - taken))) {
            kept += rank_of(stop) == most;
            *beam++ = *stop;
        }
        stop->count = NONE;
    }
    return taken + kept;
}

/* All ways to begin: steps on three registers, of which the first two stay. */
static void begin_walks(Beam *b, const int32_t *held, ConstantStep *before, int32_t count)
{
    static const int32_t KINDS[6] = {ADD, SUB, ADDNEG, NEG, HALVE, ADD3};
    if (held[0] && held[1] && b->begun < MOST_BEGUN) {
        Stop stop = {.parent = b->begun, .pair = {(int16_t)held[0], (int16_t)held[1]}};
        for (int32_t i = 0; i < MOST_BEFORE; i++) b->before[b->begun][i] = i < count ? before[i] : (ConstantStep){.at = -1};
        b->begun++;
        go_on(b, 0, stop, count * UNIT);
    }
    for (int32_t code = 0; code < 6 * 27 && count < MOST_BEFORE; code++) {
        int32_t kind = KINDS[code / 27], into = code / 9 % 3, x = code / 3 % 3, y = code % 3;
        if ((kind > SUB && kind != ADDNEG && y) || (kind == ADD3 && x) || (kind != SUB && y && y < x)) continue;
        ConstantStep step = {kind, into, x, kind == ADD3 ? 1 : y, 2, b->first};
        int32_t after[3] = {held[0], held[1], held[2]};
        if (!take_step(b->w->p, &step, after, 3) || after[into] == held[into]) continue;
        before[count] = step;
        begin_walks(b, after, before, count + 1);
    }
}

/* The beams, one a cell, from what is held. */
static void walk_beams(Beam *b, const int32_t *held)
{
    ConstantStep before[MOST_BEFORE];
    for (int32_t i = 0; i < TABLE; i++) b->table[i].count = NONE;
    begin_walks(b, held, before, 0);
    b->size[0] = take_best(b, b->beams);
    for (int32_t level = 1; level < b->cells; level++) {
        const Stop *beam = b->beams + (level - 1) * b->width;
        for (int32_t i = 0; i < b->size[level - 1]; i++) {
            Stop next = {.parent = i, .pair = {beam[i].pair[0], beam[i].pair[1]}, .visited = beam[i].visited};
            change_on(b, beam + i, next, 0);
        }
        b->size[level] = take_best(b, b->beams + level * b->width);
    }
}

/* Where the cheapest walk ends; null where there is none. */
static const Stop *cheapest_end(const Beam *b)
{
    const ChangingProblem *p = b->w->p;
    const Stop *end = 0;
    int32_t least = NOWHERE;
    for (int32_t i = 0; i < b->size[b->cells - 1]; i++) {
        const Stop *stop = b->beams + (b->cells - 1) * b->width + i;
        const int32_t *cell = p->cell + 3 * (b->first + stop->cell);
        int32_t way = abs(cell[0]) + abs(cell[1]), hops = p->macros ? (way + 1) / 2 : way;
        for (int out = 0; out <= (p->macros && hops); out++)
            if (stop->cost[out] + hops * UNIT < least) least = stop->cost[out] + hops * UNIT, end = stop;
    }
    return end;
}

static void write_walk(const Beam *b, const Stop *end, const ChangingChoice *to)
{
    const Stop *stops[MOST_CELLS];
    for (int32_t at = b->cells; at-- > 0;) {
        stops[at] = end;
        if (at) end = b->beams + (at - 1) * b->width + end->parent;
    }
    const ConstantStep *before = b->before[end->parent];
    for (int32_t i = 0; i < MOST_BEFORE && before[i].at >= 0; i++) to->steps[(*to->count)++] = before[i];
    for (int32_t at = 0; at < b->cells; at++) {
        to->path[b->first + at] = b->first + stops[at]->cell;
        for (int32_t i = 0; i < stops[at]->count; i++) to->steps[(*to->count)++] = change_step(stops[at]->change[i], b->first + at);
    }
}

/* 1 where `to` has the kernels of `from` and a walk over the cells of the last one behind them, 0 where none was found, -1 without memory. */
static int walk_last(Walker *w, const ChangingChoice *from, const ChangingChoice *to, int32_t width)
{
    const ChangingProblem *p = w->p;
    int32_t last = p->kernels - 1, held[SLOTS] = {p->image}, found = -1;
    Beam b = {.w = w, .cells = cells_of(p, last), .first = p->begin[last], .width = width};
    if (b.cells > MOST_CELLS || *from->count + MOST_BEFORE + b.cells * MOST_CHANGES > MOST_STEPS) return 0;
    b.before = malloc(MOST_BEGUN * sizeof *b.before), b.table = malloc(TABLE * sizeof *b.table);
    b.beams = malloc((size_t)(b.cells * width) * sizeof *b.beams), b.size = calloc((size_t)b.cells, sizeof *b.size);
    if (b.before && b.table && b.beams && b.size) {
        for (int32_t i = 0; i < *from->count; i++) take_step(p, from->steps + i, held, SLOTS);
        walk_beams(&b, held);
        const Stop *end = cheapest_end(&b);
        found = end != 0;
        copy_choice(p, from, to);
        to->order[last] = last;
        if (end) write_walk(&b, end, to);
    }
    free(b.before), free(b.table), free(b.beams), free(b.size);
    return found;
}

#endif
