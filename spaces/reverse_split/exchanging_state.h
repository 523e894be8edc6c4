/* A program as the set of its values, and a table of all that is one instruction away from them. Part of exchanging.c. */
#ifndef KILOTUNE_EXCHANGING_STATE_H
#define KILOTUNE_EXCHANGING_STATE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "draws.h"
#include "residues.h"

enum { AUKE = 0, SCAMP5 = 1, OFFSETS = 13, AUKE_OFFSETS = 5 };
enum { MOVE = 0, ADD = 1, SUB = 2, NEGATE = 3, ADD_NEGATED = 4, HALVE = 5, ADD3 = 7 };
enum { SLOTS = 128, LONGEST = 126, NUMBERS = 5, NOTHING = -1, PLACES = 512 };
enum { WAYS_A_LOOK = 8 }; /* ways to the same value that take as long as a look */

typedef unsigned __int128 Bits; /* a set of slots */

static const int OFFSET_X[OFFSETS] = {0, 0, 1, 0, -1, 0, 2, 0, -2, 1, -1, 1, -1};
static const int OFFSET_Y[OFFSETS] = {0, 1, 0, -1, 0, 2, 0, -2, 0, 1, -1, -1, 1};
static const int INVERSE[OFFSETS] = {0, 3, 4, 1, 2, 7, 8, 5, 6, 10, 9, 12, 11};

typedef struct {
    int32_t set, registers, kept, count;
    uint64_t results[2]; /* bits of values; the image is bit 0 */
    uint64_t random, x, y, image;
    int64_t work;
    const volatile int32_t *stop;
} Exchange;

typedef struct {
    uint8_t op, offset, a, b, c;
} Made;

/* Sums coincide by the thousand where weights are large: all ways to a value hang on one entry, in the order in which they came. */
typedef struct {
    uint64_t key;
    uint32_t first, last; /* ways; 0: free */
} Entry;

typedef struct {
    Made made;
    uint32_t next; /* of the same value; 0: none */
} Way;

typedef struct {
    Made made[SLOTS];
    Bits reads[SLOTS];
    int32_t order[SLOTS], count;
} Program;

typedef struct {
    const Exchange *p;
    uint64_t moved[SLOTS][OFFSETS], unit[OFFSETS], random;
    Program now, next;
    Bits results;
    int32_t offsets;
    Entry *entry; /* open addressing */
    Way *way; /* from 1 on */
    uint32_t mask, ways;
    int64_t looks, others; /* others: ways after the first of their values that were looked at */
    int32_t place[PLACES];
    int failed;
} Walk;

static inline Bits bit(int slot) { return (Bits)1 << slot; }

static inline int lowest(Bits set)
{
    uint64_t low = (uint64_t)set;
    return low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(set >> 64));
}

static inline Bits reads(Made m)
{
    Bits all = bit(m.a);
    if (m.op == ADD || m.op == SUB || m.op == ADD_NEGATED || m.op == ADD3) all |= bit(m.b);
    return m.op == ADD3 ? all | bit(m.c) : all;
}

static inline uint64_t computed(const Walk *w, Made m)
{
    switch (m.op) {
    case MOVE: return w->moved[m.a][m.offset];
    case ADD: return plus(w->moved[m.a][m.offset], w->moved[m.b][m.offset]);
    case SUB: return minus(w->moved[m.a][m.offset], w->moved[m.b][0]);
    case NEGATE: return minus(0, w->moved[m.a][0]);
    case ADD_NEGATED: return minus(0, plus(w->moved[m.a][0], w->moved[m.b][0]));
    case HALVE: return half(w->moved[m.a][0]);
    default: return plus(w->moved[m.a][0], plus(w->moved[m.b][0], w->moved[m.c][0]));
    }
}

static void set_value(Walk *w, int slot, uint64_t value)
{
    for (int o = 0; o < w->offsets; o++) w->moved[slot][o] = o ? times(value, w->unit[o]) : value;
}

/* ---- the values that are there */

static void note_places(Walk *w)
{
    memset(w->place, -1, sizeof w->place);
    for (int i = -1; i < w->now.count; i++) {
        int slot = i < 0 ? 0 : w->now.order[i];
        uint32_t at = (uint32_t)(w->moved[slot][0] ^ w->moved[slot][0] >> 29) % PLACES;
        while (w->place[at] >= 0) at = (at + 1) % PLACES;
        w->place[at] = slot;
    }
}

/* The slot of a value among those that are `there`; NOTHING. */
static inline int slot_of_value(const Walk *w, uint64_t value, Bits there)
{
    uint32_t at = (uint32_t)(value ^ value >> 29) % PLACES;
    for (; w->place[at] >= 0; at = (at + 1) % PLACES)
        if (w->moved[w->place[at]][0] == value) return there >> w->place[at] & 1 ? w->place[at] : NOTHING;
    return NOTHING;
}

/* ---- what is one instruction away */

static inline int64_t work_of(const Walk *w) { return w->looks + w->others / WAYS_A_LOOK; }

/* Of a value; a free one where there is no way to it. */
static inline Entry *entry_of(const Walk *w, uint64_t value)
{
    uint32_t at = (uint32_t)(value ^ value >> 29) & w->mask;
    while (w->entry[at].first && w->entry[at].key != value) at = (at + 1) & w->mask;
    return &w->entry[at];
}

static void put(Walk *w, Made made)
{
    uint64_t key = computed(w, made);
    Entry *e = entry_of(w, key);
    uint32_t way = ++w->ways;
    w->way[way] = (Way){made, 0};
    if (e->first) w->way[e->last].next = way;
    else e->key = key, e->first = way;
    e->last = way;
    w->looks++;
}

/* All instructions that read a value, and others of `others`. */
static void put_with(Walk *w, int slot, Bits others)
{
    uint8_t v = (uint8_t)slot;
    for (int o = 1; o < w->offsets; o++) put(w, (Made){MOVE, (uint8_t)o, v, 0, 0});
    put(w, (Made){NEGATE, 0, v, 0, 0}), put(w, (Made){HALVE, 0, v, 0, 0});
    int shifts = w->p->set == SCAMP5 ? w->offsets : 1;
    for (int o = 1; o < shifts; o++) put(w, (Made){SUB, (uint8_t)o, v, v, 0});
    if (w->p->set == AUKE) put(w, (Made){ADD, 0, v, v, 0}), put(w, (Made){ADD_NEGATED, 0, v, v, 0});
    for (Bits left = others; left; left &= left - 1) {
        uint8_t u = (uint8_t)lowest(left);
        for (int o = 0; o < shifts; o++) {
            put(w, (Made){ADD, (uint8_t)o, v, u, 0});
            put(w, (Made){SUB, (uint8_t)o, v, u, 0});
            put(w, (Made){SUB, (uint8_t)o, u, v, 0});
        }
        if (w->p->set == AUKE) put(w, (Made){ADD_NEGATED, 0, v, u, 0});
        for (Bits more = w->p->set == SCAMP5 ? left & (left - 1) : 0; more; more &= more - 1)
            put(w, (Made){ADD3, 0, v, u, (uint8_t)lowest(more)});
    }
}

static int64_t entries_of(int64_t n, int set)
{
    return set == SCAMP5 ? n * 26 + n * n * 20 + n * n * n / 6 : n * 8 + n * n * 2;
}

static void fill_table(Walk *w)
{
    uint64_t most = 4 * (uint64_t)entries_of(w->now.count + 2, w->p->set), size = 1024;
    while (size < most) size *= 2;
    if (size - 1 != w->mask) {
        free(w->entry), free(w->way);
        w->entry = malloc(size * sizeof *w->entry), w->way = malloc(size * sizeof *w->way);
        w->mask = (uint32_t)(size - 1);
        if (!w->entry || !w->way) {
            w->failed = 1;
            return;
        }
    }
    memset(w->entry, 0, size * sizeof *w->entry);
    w->ways = 0;
    Bits there = 0;
    for (int i = -1; i < w->now.count; i++) {
        int slot = i < 0 ? 0 : w->now.order[i];
        put_with(w, slot, there);
        there |= bit(slot);
    }
}

/* An instruction that computes a value from those `there`, the first one behind `at` (NOTHING: of all); where to go on, or NOTHING. */
static inline int64_t next_way(Walk *w, uint64_t value, Bits there, int64_t at, Made *made)
{
    uint32_t i = (uint32_t)at;
    if (at < 0) i = entry_of(w, value)->first;
    else w->others++;
    for (; i; i = w->way[i].next, w->others++) {
        Made m = w->way[i].made;
        if (reads(m) & ~there || computed(w, m) != value) continue;
        return *made = m, w->way[i].next;
    }
    return NOTHING;
}

#endif
