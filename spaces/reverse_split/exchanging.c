/* Other programs as cheap, value by value, and shorter ones on the way.
 *
 * A program is the set of its values, each with an instruction. One value leaves (or two that have to do with one another), and the values
 * that read it are computed from the others: at once, where one instruction does it, or with a new value in its place. Candidates for that
 * are what the first such value could be read from, by each instruction solved for one operand; a table of all that is one instruction away
 * from the values says which of them can be had. Of those any is taken, first one that leaves other values without a reader: they go too.
 * No program takes more registers than it may.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exchanging_state.h"
#include "orders.h"

enum { SETS = 60, LOOKS_OF_A_READER = 40, UNFIT = -2 };

/* A question: what leaves, what is there for each value that needs an instruction, and the best answer so far. */
typedef struct {
    Bits gone, there[SLOTS], spare; /* spare: without a reader, if no new instruction reads it */
    int32_t after[SLOTS], afters, hard[SLOTS], hards;
    Made made[SLOTS], best[SLOTS], fresh, best_fresh;
    uint64_t value, best_value;
    int32_t options, gains;
} Question;

/* ---- questions */

/* An instruction of `goal` that reads a new value, which stands in `fresh`, and some of those `there`. */
static int leads(const Walk *w, uint64_t value, int fresh, uint64_t goal, Bits there, Made *made)
{
    uint8_t f = (uint8_t)fresh;
    int shifts = w->p->set == SCAMP5 ? w->offsets : 1, s;
    for (int o = 0; o < w->offsets; o++) {
        uint64_t back = o ? times(goal, w->unit[INVERSE[o]]) : goal, ahead = o ? times(value, w->unit[o]) : value;
        if (o && back == value) return *made = (Made){MOVE, (uint8_t)o, f, 0, 0}, 1;
        if (o >= shifts) continue;
        if ((s = slot_of_value(w, minus(back, value), there)) >= 0) return *made = (Made){ADD, (uint8_t)o, f, (uint8_t)s, 0}, 1;
        if ((s = slot_of_value(w, minus(ahead, goal), there)) >= 0) return *made = (Made){SUB, (uint8_t)o, f, (uint8_t)s, 0}, 1;
        uint64_t sum = plus(goal, value);
        if (o) sum = times(sum, w->unit[INVERSE[o]]);
        if ((s = slot_of_value(w, sum, there)) >= 0) return *made = (Made){SUB, (uint8_t)o, (uint8_t)s, f, 0}, 1;
    }
    if (minus(0, goal) == value) return *made = (Made){NEGATE, 0, f, 0, 0}, 1;
    if (half(value) == goal) return *made = (Made){HALVE, 0, f, 0, 0}, 1;
    if (w->p->set == AUKE) {
        s = slot_of_value(w, minus(0, plus(goal, value)), there);
        return s >= 0 ? (*made = (Made){ADD_NEGATED, 0, f, (uint8_t)s, 0}, 1) : 0;
    }
    uint64_t rest = minus(goal, value);
    for (Bits left = there; left; left &= left - 1) {
        int u = lowest(left);
        s = slot_of_value(w, minus(rest, w->moved[u][0]), there & ~bit(u));
        if (s >= 0) return *made = (Made){ADD3, 0, f, (uint8_t)u, (uint8_t)s}, 1;
    }
    return 0;
}

/* A value from which `reader` computes the first hard value. */
static void consider(Walk *w, Question *q, uint64_t value, int fresh, Made reader)
{
    Made fresh_made;
    Bits first = q->there[q->hard[0]];
    w->looks++;
    for (int64_t at = next_way(w, value, first, NOTHING, &fresh_made); at >= 0; at = next_way(w, value, first, at, &fresh_made)) {
        if (!value || slot_of_value(w, value, ~(Bits)0) >= 0) return;
        Bits read = reads(fresh_made) | reads(reader);
        Made made[SLOTS];
        made[q->hard[0]] = reader;
        for (int i = 1; i < q->hards; i++) {
            int h = q->hard[i];
            w->looks += LOOKS_OF_A_READER;
            if (!leads(w, value, fresh, w->moved[h][0], q->there[h], &made[h])) return;
            read |= reads(made[h]);
        }
        int gain = (q->spare & ~read) != 0;
        if (gain < (q->gains > 0)) continue;
        if (gain && !q->gains) q->options = 0;
        q->gains += gain;
        if (below(&w->random, ++q->options)) continue;
        q->best_fresh = fresh_made, q->best_value = value;
        for (int i = 0; i < q->hards; i++) q->best[q->hard[i]] = made[q->hard[i]];
    }
}

/* Every value that would do in place of those that left. */
static void consider_all(Walk *w, Question *q, int fresh)
{
    int h = q->hard[0], shifts = w->p->set == SCAMP5 ? w->offsets : 1;
    uint8_t f = (uint8_t)fresh;
    Bits there = q->there[h];
    uint64_t goal = w->moved[h][0], double_goal = plus(goal, goal);
    for (int o = 1; o < w->offsets; o++)
        consider(w, q, w->moved[h][INVERSE[o]], fresh, (Made){MOVE, (uint8_t)o, f, 0, 0});
    consider(w, q, minus(0, goal), fresh, (Made){NEGATE, 0, f, 0, 0});
    consider(w, q, double_goal, fresh, (Made){HALVE, 0, f, 0, 0});
    for (Bits left = there; left; left &= left - 1) {
        uint8_t u = (uint8_t)lowest(left);
        const uint64_t *moved = w->moved[u];
        for (int o = 0; o < shifts; o++) {
            uint64_t back = w->moved[h][INVERSE[o]];
            consider(w, q, minus(back, moved[0]), fresh, (Made){ADD, (uint8_t)o, f, u, 0});
            consider(w, q, plus(back, moved[INVERSE[o]]), fresh, (Made){SUB, (uint8_t)o, f, u, 0});
            consider(w, q, minus(moved[o], goal), fresh, (Made){SUB, (uint8_t)o, u, f, 0});
        }
        if (w->p->set == AUKE) consider(w, q, minus(0, plus(goal, moved[0])), fresh, (Made){ADD_NEGATED, 0, f, u, 0});
        for (Bits more = w->p->set == SCAMP5 ? left & (left - 1) : 0; more; more &= more - 1) {
            int t = lowest(more);
            consider(w, q, minus(minus(goal, moved[0]), w->moved[t][0]), fresh, (Made){ADD3, 0, f, u, (uint8_t)t});
        }
    }
}

/* What reads the values that leave, and which of it needs a new value. */
static void ask(Walk *w, Question *q, Bits removed)
{
    const Program *now = &w->now;
    Bits all = 1, used = w->results;
    memset(q, 0, offsetof(Question, made));
    q->options = q->gains = 0;
    q->gone = removed;
    for (int i = 0; i < now->count; i++) {
        int v = now->order[i];
        all |= bit(v);
        if (removed >> v & 1 || !(now->reads[v] & q->gone)) continue;
        q->gone |= bit(v);
        q->after[q->afters++] = v;
    }
    Bits there = all & ~q->gone, again = 0;
    for (int i = 0; i < q->afters; i++) {
        int v = q->after[i];
        q->there[v] = there;
        there |= bit(v);
        if (!(now->reads[v] & removed)) continue;
        again |= bit(v);
        int ways = 0;
        Made made;
        for (int64_t at = next_way(w, w->moved[v][0], q->there[v], NOTHING, &made); at >= 0;
             at = next_way(w, w->moved[v][0], q->there[v], at, &made))
            if (!below(&w->random, ++ways)) q->made[v] = made;
        if (ways) used |= reads(q->made[v]);
        else q->hard[q->hards++] = v;
    }
    for (int i = 0; i < now->count; i++) {
        int v = now->order[i];
        if (!((removed | again) >> v & 1)) used |= now->reads[v];
    }
    q->spare = all & ~removed & ~used & ~(Bits)1;
}

/* ---- the next program */

static void emit(const Program *next, Program *ordered, int v, Bits *done)
{
    if (*done >> v & 1) return;
    for (Bits left = next->reads[v] & ~*done; left; left &= left - 1) emit(next, ordered, lowest(left), done);
    *done |= bit(v);
    ordered->order[ordered->count++] = v;
}

/* The values that the results need, in the order of the program before, new ones right before who reads them first. */
static void arrange(Walk *w)
{
    Program *next = &w->next;
    const Program *now = &w->now;
    Bits need = w->results, looked = 1, done = 1;
    while (need & ~looked) {
        int v = lowest(need & ~looked);
        looked |= bit(v);
        need |= next->reads[v];
    }
    next->count = 0;
    for (int i = 0; i < now->count; i++)
        if (need >> now->order[i] & 1) emit(next, next, now->order[i], &done);
}

static int apart_of(const Walk *w, Made m)
{
    if (w->p->set == AUKE) return 0;
    return m.op == SUB ? 2 : m.op == NEGATE || m.op == HALVE ? 1 : 0;
}

static void count_uses(const Walk *w, int32_t *uses)
{
    const Program *next = &w->next;
    memset(uses, 0, SLOTS * sizeof *uses);
    for (int i = 0; i < next->count; i++) {
        Made m = next->made[next->order[i]];
        uses[m.a]++;
        if (m.op == ADD || m.op == SUB || m.op == ADD_NEGATED || m.op == ADD3) uses[m.b]++;
        if (m.op == ADD3) uses[m.c]++;
    }
    for (Bits left = w->p->kept ? w->results : 0; left; left &= left - 1) uses[lowest(left)]++;
}

static int operands_of(Made m, int32_t *operand)
{
    operand[0] = m.a, operand[1] = operand[2] = -1;
    if (m.op == ADD || m.op == SUB || m.op == ADD_NEGATED || m.op == ADD3) operand[1] = m.b;
    if (m.op == ADD3) operand[2] = m.c;
    return 1 + (operand[1] >= 0) + (operand[2] >= 0);
}

/* Whether the next program takes no more registers than it may, in its order or, if need be, in another. */
static int fits(Walk *w)
{
    Program *next = &w->next;
    int32_t uses[SLOTS], number[SLOTS] = {0}, operand[SLOTS * 3], given[SLOTS + 1], order[SLOTS];
    uint8_t apart[SLOTS];
    count_uses(w, uses);
    given[0] = uses[0];
    for (int i = 0; i < next->count; i++) number[next->order[i]] = i + 1, given[i + 1] = uses[next->order[i]];
    for (int i = 0; i < next->count; i++) {
        Made m = next->made[next->order[i]];
        int32_t own[3];
        operands_of(m, own);
        for (int k = 0; k < 3; k++) operand[3 * i + k] = own[k] < 0 ? -1 : number[own[k]];
        apart[i] = (uint8_t)apart_of(w, m);
    }
    if (fits_as_it_is(next->count, w->p->registers, operand, apart, given)) return 1;
    w->looks += 20 * next->count;
    int answer = fitting_order(next->count, w->p->registers, operand, apart, given, SETS, order);
    if (answer == ORDER_NO_MEMORY) w->failed = 1;
    if (answer != ORDER_FOUND) return 0;
    for (int i = 0; i < next->count; i++) number[i] = next->order[order[i]];
    memcpy(next->order, number, sizeof *number * (size_t)next->count);
    return 1;
}

static void replace(Walk *w, const Question *q, Bits removed, int fresh)
{
    Program *next = &w->next;
    *next = w->now;
    for (int i = 0; i < q->afters; i++) {
        int v = q->after[i], is_hard = 0;
        for (int k = 0; k < q->hards; k++) is_hard |= q->hard[k] == v;
        if (!is_hard && next->reads[v] & removed) next->made[v] = q->made[v], next->reads[v] = reads(q->made[v]);
    }
    for (int i = 0; i < q->hards; i++) {
        int v = q->hard[i];
        next->made[v] = q->best[v], next->reads[v] = reads(q->best[v]);
    }
    if (q->hards) next->made[fresh] = q->best_fresh, next->reads[fresh] = reads(q->best_fresh);
    arrange(w);
    if (next->count > w->now.count || !fits(w) || w->failed) return;
    Bits there = 1;
    for (int i = 0; i < next->count; i++)
        if (next->order[i] != fresh) there |= bit(next->order[i]);
    w->now = *next;
    if (q->hards) set_value(w, fresh, q->best_value);
    note_places(w);
    if (q->hards && 3 * (uint64_t)w->ways > 2 * (uint64_t)w->mask) fill_table(w);
    else if (q->hards) put_with(w, fresh, there);
}

/* Values that leave: one, or two of which one reads the other or both read the same. */
static Bits removed_values(Walk *w, Bits removable)
{
    const Program *now = &w->now;
    int v;
    do v = now->order[below(&w->random, now->count)];
    while (!(removable >> v & 1));
    if (draw(&w->random) & 1) return bit(v);
    Bits near = now->reads[v];
    for (int i = 0; i < now->count; i++)
        if (now->reads[now->order[i]] & (bit(v) | (now->reads[v] & ~(Bits)1))) near |= bit(now->order[i]);
    near &= removable & ~bit(v);
    if (!near) return bit(v);
    int skipped = below(&w->random, __builtin_popcountll((uint64_t)near) + __builtin_popcountll((uint64_t)(near >> 64)));
    while (skipped--) near &= near - 1;
    return bit(v) | bit(lowest(near));
}

/* 0 where a value is zero or computed twice. */
static int begin(Walk *w, const Exchange *p, const int32_t *step)
{
    w->p = p, w->random = p->random, w->results = p->results[0] | (Bits)p->results[1] << 64;
    w->offsets = p->set == SCAMP5 ? OFFSETS : AUKE_OFFSETS;
    uint64_t back_x = inverse(p->x), back_y = inverse(p->y);
    for (int o = 0; o < OFFSETS; o++) {
        w->unit[o] = 1;
        for (int i = 0; i < abs(OFFSET_X[o]); i++) w->unit[o] = times(w->unit[o], OFFSET_X[o] > 0 ? p->x : back_x);
        for (int i = 0; i < abs(OFFSET_Y[o]); i++) w->unit[o] = times(w->unit[o], OFFSET_Y[o] > 0 ? p->y : back_y);
    }
    set_value(w, 0, p->image);
    for (int i = 0; i < p->count; i++) {
        const int32_t *s = step + NUMBERS * i;
        Made m = {(uint8_t)s[0], (uint8_t)s[1], (uint8_t)s[2], (uint8_t)s[3], (uint8_t)s[4]};
        w->now.made[i + 1] = m, w->now.reads[i + 1] = reads(m), w->now.order[i] = i + 1;
        set_value(w, i + 1, computed(w, m));
    }
    w->now.count = p->count;
    note_places(w);
    for (int i = 1; i <= p->count; i++)
        if (!w->moved[i][0] || slot_of_value(w, w->moved[i][0], bit(i)) != i) return 0;
    fill_table(w);
    return 1;
}

/* step: [LONGEST][op, offset, operands], which is read and written. number: by the old number of a result its new one. The number of
 * instructions, UNFIT for a program that is none of these, or -1 without memory. `work`: what was looked at. Told to stop, it ends with the
 * program that it has. */
int kilotune_exchange(const Exchange *p, int32_t *step, int32_t *number, int64_t *work)
{
    Walk *w = calloc(1, sizeof *w);
    if (!w) return -1;
    if (!begin(w, p, step)) {
        free(w);
        return UNFIT;
    }
    Question q;
    while (!w->failed && work_of(w) < p->work && !*p->stop) {
        Bits all = 1;
        for (int i = 0; i < w->now.count; i++) all |= bit(w->now.order[i]);
        Bits removable = all & ~w->results & ~(Bits)1;
        if (!removable) break;
        Bits removed = removed_values(w, removable);
        int fresh = lowest(~all);
        ask(w, &q, removed);
        w->looks += 8;
        if (q.hards) consider_all(w, &q, fresh);
        if (!q.hards || q.options) replace(w, &q, removed, fresh);
    }
    memset(number, 0, SLOTS * sizeof *number);
    for (int i = 0; i < w->now.count; i++) number[w->now.order[i]] = i + 1;
    for (int i = 0; i < w->now.count; i++) {
        Made m = w->now.made[w->now.order[i]];
        int32_t row[NUMBERS] = {m.op, m.offset, number[m.a], number[m.b], number[m.c]};
        memcpy(step + NUMBERS * i, row, sizeof row);
    }
    int count = w->failed ? -1 : w->now.count;
    *work = work_of(w);
    free(w->entry), free(w->way);
    free(w);
    return count;
}
