/* How many instructions make multiples of the image: what `chain_of` of constants.py takes, choice by choice. Part of cell_annealing.c. */
#ifndef KILOTUNE_CHAIN_LENGTHS_H
#define KILOTUNE_CHAIN_LENGTHS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THERE = 192, MOST_HALVED = 1024, HALVED_AFTER = 3, MINUS = 0, PLUS = 1, TWICE = 2, UNMADE = 127 };

typedef struct {
    int32_t there[MOST_THERE], count; /* values that are made */
    int32_t halved[MOST_HALVED], halves;
    int32_t room;  /* values up to it, in magnitude */
    uint8_t *away; /* by value + room: how many halvings from what is there, UNMADE for others */
} Chain;

typedef struct {
    int32_t length, times, operation, a, b;
} ChainWay;

static int open_chain(Chain *c, int32_t largest)
{
    c->room = 32 * largest; /* more than any sum of constants, of which each is at most twice the largest */
    c->away = malloc((size_t)(2 * c->room + 1));
    if (c->away) memset(c->away, UNMADE, (size_t)(2 * c->room + 1));
    return c->away != 0;
}

static void close_chain(Chain *c) { free(c->away); }

static inline int32_t away_of(const Chain *c, int64_t value)
{
    return value < -c->room || value > c->room ? UNMADE : c->away[value + c->room];
}

static void push_there(Chain *c, int32_t value)
{
    if (c->count < MOST_THERE) c->there[c->count++] = value;
}

static void find_halved(Chain *c)
{
    c->halves = 0;
    for (int32_t i = 0; i < c->count; i++) {
        int32_t value = c->there[i];
        for (int32_t away = 0; away < away_of(c, value) && c->halves < MOST_HALVED && abs(value) <= c->room; away++, value /= 2) {
            if (c->away[value + c->room] == UNMADE) c->halved[c->halves++] = value;
            c->away[value + c->room] = (uint8_t)away;
            if (value % 2) break;
        }
    }
}

static void forget_halved(Chain *c)
{
    for (int32_t i = 0; i < c->halves; i++) c->away[c->halved[i] + c->room] = UNMADE;
}

static int is_less(const ChainWay *one, const ChainWay *other)
{
    if (one->length != other->length) return one->length < other->length;
    if (one->times != other->times) return one->times < other->times;
    if (one->operation != other->operation) return one->operation < other->operation;
    return one->a != other->a ? one->a < other->a : one->b < other->b;
}

/* The best sum of two halved values that becomes the constant, perhaps halved afterwards; its length is 0 where there is none. */
static ChainWay best_way(const Chain *c, int32_t constant)
{
    ChainWay best = {0, 0, 0, 0, 0};
    for (int32_t times = 0; times <= HALVED_AFTER; times++)
        for (int32_t i = 0; i < c->halves; i++) {
            int32_t total = constant * (1 << times), a = c->halved[i], b = total - a, count = away_of(c, a);
            ChainWay ways[2];
            int found = 0;
            if (a <= b && away_of(c, b) != UNMADE) {
                int32_t price = count + (a == b ? 2 : away_of(c, b) + 1) + times;
                ways[found++] = (ChainWay){price, times, a == b ? TWICE : PLUS, a, b};
            }
            if (away_of(c, -(int64_t)b) != UNMADE)
                ways[found++] = (ChainWay){count + away_of(c, -(int64_t)b) + 1 + times, times, MINUS, a, -b};
            for (int k = 0; k < found; k++)
                if (!best.length || is_less(&ways[k], &best)) best = ways[k];
        }
    return best;
}

/* Halvings down to a value: how many of their values are not yet among those from `since` on. */
static int32_t halve_down(Chain *c, int32_t value, int32_t away, int32_t since)
{
    int32_t made = 0;
    for (int32_t n = away - 1; n >= 0; n--) {
        int32_t half = value * (1 << n), known = 0;
        for (int32_t i = since; i < c->count; i++) known |= c->there[i] == half;
        if (!known) push_there(c, half), made++;
    }
    return made;
}

static int32_t steps_to(Chain *c, int32_t constant);

/* Through the constant without its lowest signed digit. */
static int32_t steps_by_digits(Chain *c, int32_t constant)
{
    int32_t low = constant & -constant, digit = ((constant / low) & 3) == 1 ? low : -low, rest = constant - digit, length, known = 0;
    if (!rest) {
        length = steps_to(c, constant / 2) + 2;
        push_there(c, constant);
        return length;
    }
    length = steps_to(c, rest);
    for (int32_t i = 0; i < c->count; i++) known |= c->there[i] == low;
    if (!known && constant != low) length += steps_to(c, low);
    push_there(c, constant);
    return length + 1;
}

/* Instructions to a constant from what is there; what they make is there afterwards. */
static int32_t steps_to(Chain *c, int32_t constant)
{
    find_halved(c);
    int32_t away = away_of(c, constant), opposite = away_of(c, -(int64_t)constant), length = 0, since = c->count;
    ChainWay way = {0, 0, 0, 0, 0};
    if (away == UNMADE && opposite == UNMADE) way = best_way(c, constant);
    int32_t away_a = way.length ? away_of(c, way.a) : 0, away_b = way.length ? away_of(c, way.b) : 0;
    forget_halved(c);
    if (away != UNMADE) return halve_down(c, constant, away, since);
    if (opposite != UNMADE) {
        length = halve_down(c, -constant, opposite, since) + 1;
        push_there(c, constant);
        return length;
    }
    if (!way.length) return steps_by_digits(c, constant);
    length = halve_down(c, way.a, away_a, since);
    length += halve_down(c, way.b, away_b, since);
    for (int32_t n = way.times; n >= 0; n--) push_there(c, constant * (1 << n));
    return length + (way.operation == TWICE ? 2 : 1) + way.times;
}

static int is_there(const Chain *c, int32_t value)
{
    for (int32_t i = 0; i < c->count; i++)
        if (c->there[i] == value) return 1;
    return 0;
}

/* Instructions that make all constants, the nearest one first. */
static int32_t chain_length(Chain *c, const int32_t *constants, int32_t count, int32_t image)
{
    int32_t length = 0;
    c->count = 0;
    push_there(c, image);
    for (;;) {
        int32_t nearest = 0, least = 0, before = c->count;
        for (int32_t i = 0; i < count; i++) {
            if (is_there(c, constants[i])) continue;
            int32_t steps = steps_to(c, constants[i]);
            c->count = before;
            if (!nearest || steps < least || (steps == least && constants[i] < nearest)) nearest = constants[i], least = steps;
        }
        if (!nearest || c->count > MOST_THERE / 2) return length;
        length += steps_to(c, nearest);
    }
}

#endif
