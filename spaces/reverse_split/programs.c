/* Programs of a given cost that compute given sums of shifted pixels (see programs.py for the idea and the rules).
 *
 * A value is a Laurent polynomial evaluated at a random point (x, y) modulo 2^61 - 1; the image is 1. A program is the
 * set of its values. Every constructible set is met once: the candidates (values one instruction away) stand in a list, and
 * at each level those that were passed over never come back below (Redelmeier's enumeration of polyominoes).
 * Everything lives on the heap of one call: the functions are reentrant.
 */
#include "programs_endings.h"
#include "programs_last_two.h"
#include "programs_neighbours.h"
#include "programs_shapes.h"
#include "programs_turns.h"

typedef struct {
    int32_t count, candidates, backs, hits, left, unused, pending, hard;
} Mark;

static Mark mark(const Search *s)
{
    return (Mark){s->count, s->candidates, s->backs, s->hits, s->left, s->unused, s->pending_count, s->hard_count};
}

static void use(Search *s, int v)
{
    Value *value = &s->value[v];
    if (value->used++ == 0 && value->target < 0 && v >= s->p->given) s->unused--;
}

static void push_value(Search *s, int32_t index, const Shape *shape)
{
    Candidate *c = &s->candidate[index];
    Value *v = &s->value[s->count];
    c->included = 1;
    v->value = c->value;
    v->op = c->op, v->offset = c->offset, v->a = c->a, v->b = c->b, v->c = c->c, v->cost = c->cost;
    v->copy_of = c->op == COPY ? c->a : -1;
    v->used = 0;
    v->shape = *shape;
    v->largest = s->value[s->count - 1].largest;
    enlarge(&v->largest, shape);
    for (int o = 0; o < s->p->offsets; o++) v->moved[o] = o ? times(v->value, s->unit[o]) : v->value;
    int32_t target = v->copy_of >= 0 ? -1 : find_target(s, v->value);
    if (target >= 0 && !s->pending[target]) target = -1;
    v->target = (int16_t)target;
    if (target >= 0) {
        s->pending[target] = 0;
        s->pending_count--;
        s->hard_count -= s->hard[target];
        s->target_value[target] = s->count;
    } else
        s->unused++;
    int of[3], n = operands(c->op, c->a, c->b, c->c, of);
    for (int k = 0; k < n; k++) use(s, of[k]);
    s->left -= c->cost;
    s->count++;
}

static void undo(Search *s, Mark m)
{
    while (s->backs > m.backs) {
        s->backs--;
        table_take(&s->back_table, s->back[s->backs].key, s->backs);
    }
    while (s->candidates > m.candidates) {
        s->candidates--;
        table_take(&s->candidate_table, s->candidate[s->candidates].key, s->candidates);
    }
    while (s->count > m.count) {
        Value *v = &s->value[--s->count];
        int of[3], n = operands(v->op, v->a, v->b, v->c, of);
        for (int k = 0; k < n; k++) s->value[of[k]].used--;
        if (v->target >= 0) {
            s->pending[v->target] = 1;
            s->target_value[v->target] = -1;
        }
        uint64_t key = cost_key(s->p, v->copy_of >= 0 ? copy_key(v->value) : v->value, v->cost);
        int32_t index = find_candidate(s, key);
        if (index >= 0) s->candidate[index].included = 0;
    }
    s->hits = m.hits;
    s->left = m.left;
    s->unused = m.unused;
    s->pending_count = m.pending;
    s->hard_count = m.hard;
    s->readies = 0;
}

/* Takes candidate `index` and every target that becomes available at the least cost. */
static void include(Search *s, int32_t index, const Shape *shape, int with_backs)
{
    s->readies = 0;
    push_value(s, index, shape);
    for (;;) {
        int v = s->count - 1;
        s->work += s->p->set == AUKE ? 1 : SCAMP5_WORK;
        if (with_backs && s->pending_count) remember_all(s, v);
        offer_all(s, 0, v);
        int32_t next = -1;
        while (s->readies && next < 0) {
            next = s->ready[--s->readies];
            if (s->candidate[next].included) next = -1;
        }
        if (next < 0 || s->count >= MOST_VALUES - 1 || s->failed) return;
        Shape of_target;
        shape_of(s, &s->candidate[next], &of_target);
        push_value(s, next, &of_target);
    }
}

/* Nothing free is left: every pending target must follow at once, perhaps at a higher cost than the least. */
static int close_up(Search *s)
{
    if (!s->pending_count) return 1;
    for (int t = 0; t < s->p->targets; t++) {
        for (int k = 0; s->pending[t] && k < s->dearer_count; k++) {
            if (s->left - s->dearer[k] < (s->pending_count - 1) * s->p->plain_cost) continue;
            int32_t index = find_candidate(s, cost_key(s->p, s->p->target[t], s->dearer[k]));
            if (index < 0 || s->candidate[index].included) continue;
            Mark m = mark(s);
            Shape shape;
            shape_of(s, &s->candidate[index], &shape);
            include(s, index, &shape, 0);
            if (s->left >= 0 && close_up(s)) return 1;
            undo(s, m);
        }
    }
    return 0;
}

/* One free value is left: it must lead to a target. */
static int last_value(Search *s)
{
    int32_t hits = s->hits;
    for (int32_t k = 0; k < hits; k++) {
        int32_t index = s->hit[k];
        if (s->candidate[index].included) continue;
        uint64_t key = s->candidate[index].op == COPY ? copy_key(s->candidate[index].value) : s->candidate[index].value;
        if (!leads_to_all(s, key, s->candidate[index].cost)) continue;
        Mark m = mark(s);
        Shape shape;
        shape_of(s, &s->candidate[index], &shape);
        include(s, index, &shape, 0);
        if (s->left >= 0 && close_up(s)) return 1;
        undo(s, m);
    }
    return 0;
}

/* Does a value on the list lead to all hard targets? */
static int hit_leads(const Search *s)
{
    for (int32_t k = 0; k < s->hits; k++) {
        const Candidate *c = &s->candidate[s->hit[k]];
        if (!c->included && leads_to_all(s, c->op == COPY ? copy_key(c->value) : c->value, c->cost)) return 1;
    }
    return 0;
}

static int stop_at(Search *s, int level, int32_t index, int result)
{
    if (level >= s->path_length) s->path_length = level + 1;
    s->path[level] = index;
    return result;
}

/* Whether the candidates from `from` on that are worth a try are marked. */
static int look_ahead(Search *s, int level, int32_t from)
{
    const int nearby = s->p->nearby;
    if (!s->endings) return 0;
    const int32_t free = s->left / s->p->plain_cost - s->pending_count;
    const int looked_up = free == 2 && (level || nearby);
    if (looked_up) (nearby ? look_two_up(s, level, from) : look_up(s, from));
    if (free == 3) (nearby ? look_far_back(s, level) : look_far(s));
    if (free > 3) s->endings->far_level = NOWHERE;
    return looked_up;
}

static int descend(Search *s, int level, int32_t from)
{
    const Problem *p = s->p;
    const int plain = p->plain_cost, arity = p->set == AUKE ? 2 : 3;
    int32_t end = s->candidates;
    int resumed = s->resume > level, turns = from <= s->first_end ? s->turns : 0;
    const int looked_up = look_ahead(s, level, from);
    if (resumed) from = s->path[level];
    for (int32_t i = from; i < end; i++) {
        Candidate *c = &s->candidate[i];
        int inner = resumed && i == from && s->resume > level + 1;
        if (s->resume && !inner) s->resume = 0;
        if (!is_ours(p->share, p->shares, level, s->taken, i)) continue;
        if (c->included || (looked_up && !c->marked)) continue;
        if ((s->tried && s->work >= p->work_limit) || *p->stop) {
            s->path_length = 0;
            return stop_at(s, level, i, STOPPED);
        }
        if (!inner) s->tried = 1; /* looking up is work too: a call goes on by one value at least, whatever its limit */
        if (level < SHARED_LEVEL) s->taken[level] = i;
        int32_t left = s->left - c->cost;
        int is_target = 0;
        if (c->op != COPY && c->cost > plain) {
            int32_t t = find_target(s, c->value);
            is_target = t >= 0 && s->pending[t];
        }
        int32_t slack = left - (s->pending_count - is_target) * plain;
        if (slack < 0) continue;
        Shape shape;
        shape_of(s, c, &shape);
        if (!fits(s, &shape)) continue;
        Mark m = mark(s);
        Shape largest = s->value[s->count - 1].largest;
        enlarge(&largest, &shape);
        if (bound(s, &largest) > left || (turns && comes_after_turned(s, turns, i))) continue;
        push_value(s, i, &shape);
        int32_t steps = s->left / plain, missing = s->pending_count;
        if (s->unused + steps - missing > arity * steps) {
            undo(s, m);
            continue;
        }
        if (slack >= plain && slack < 2 * plain && missing) {
            s->work += p->set == AUKE ? 1 : SCAMP5_WORK;
            int yes = remember_all(s, m.count);
            yes = (missing > 1 ? hit_leads(s) : yes) || offer_all(s, 1, m.count);
            if (!yes) {
                undo(s, m);
                continue;
            }
        }
        undo(s, m);
        include(s, i, &shape, slack >= plain);
        if (s->failed) return NO_MEMORY;
        slack = s->left - s->pending_count * plain;
        int result = EXHAUSTED;
        if (!s->pending_count)
            result = FOUND;
        else if (slack < plain)
            result = close_up(s) ? FOUND : EXHAUSTED;
        else if (slack < 2 * plain)
            result = last_value(s) || close_up(s) ? FOUND : EXHAUSTED;
        else if (s->pending_count == 1 && s->hits > m.hits && last_value(s))
            result = FOUND;
        else if (s->count < MOST_VALUES - 4) {
            result = descend(s, level + 1, i + 1);
            if (result == STOPPED || (result == FOUND && s->path_length > level + 1)) return stop_at(s, level, i, result);
            if (result == NO_MEMORY) return result;
        }
        if (result == FOUND) {
            s->path_length = 0;
            return stop_at(s, level, i + 1, FOUND);
        }
        undo(s, m);
    }
    return EXHAUSTED;
}

static void shape_from(const double *given, Shape *shape)
{
    read_sides(given, shape->extent);
    shape->depth = (int32_t)given[4];
    shape->support = given[5];
    shape->weight = given[6];
}

static void start(Search *s)
{
    const Problem *p = s->p;
    uint64_t inverse_x = inverse(p->x), inverse_y = inverse(p->y);
    for (int o = 0; o < OFFSETS; o++) {
        uint64_t unit = 1;
        for (int k = 0; k < abs(OFFSET_X[o]); k++) unit = times(unit, OFFSET_X[o] > 0 ? p->x : inverse_x);
        for (int k = 0; k < abs(OFFSET_Y[o]); k++) unit = times(unit, OFFSET_Y[o] > 0 ? p->y : inverse_y);
        s->unit[o] = unit;
        s->less_one[o] = o ? inverse(minus(unit, 1)) : 0;
    }
    for (int t = 0; t < p->targets; t++) {
        shape_from(p->target_shape + SHAPE_NUMBERS * (size_t)t, &s->target_shape[t]);
        s->pending[t] = 1;
        s->target_value[t] = -1;
        for (int o = 0; o < OFFSETS; o++) {
            s->target_moved[(size_t)t * OFFSETS + (size_t)o] = times(p->target[t], s->unit[o]);
            s->back_moved[(size_t)t * OFFSETS + (size_t)o] = times(p->target[t], s->unit[INVERSE[o]]);
        }
        table_put(&s->target_table, p->target[t], t);
    }
    s->pending_count = p->targets;
    if (p->far_cost > p->plain_cost) s->dearer[s->dearer_count++] = p->far_cost;
    if (p->halve_cost > p->plain_cost && p->halve_cost != p->far_cost) s->dearer[s->dearer_count++] = p->halve_cost;
    s->left = p->budget;
}

/* Looks for a program of at most `budget` that computes all targets (distinct, neither zero nor the image).
 *
 * path, path_length: where the last call stopped (length 0: from the start), and where this one did. steps, [5][count]:
 * op, offset and operands of the values after the image. report: work done. */
int kilotune_programs(const Problem *p, int32_t *path, int32_t *path_length, int32_t *steps, int32_t *count,
                      int32_t *target_value, int64_t *report)
{
    Search *s = calloc(1, sizeof *s);
    if (!s) return NO_MEMORY;
    int result = EXHAUSTED;
    if (p->targets >= MOST_VALUES || p->given + p->budget / p->plain_cost >= MOST_VALUES || !prepare(s, p)) {
        release(s);
        return NO_MEMORY;
    }
    start(s);
    if (!prepare_endings(s)) {
        release_endings(s);
        release(s);
        return NO_MEMORY;
    }
    s->path = path;
    s->path_length = 0;
    s->resume = *path_length;
    for (int v = 0; v < p->given; v++) { /* on the list, and taken: never offered again */
        Value *value = &s->value[v];
        *value = (Value){.value = p->value[v], .copy_of = -1, .target = -1};
        shape_from(p->value_shape + SHAPE_NUMBERS * (size_t)v, &value->shape);
        value->largest = v ? s->value[v - 1].largest : value->shape;
        enlarge(&value->largest, &value->shape);
        for (int o = 0; o < OFFSETS; o++) value->moved[o] = times(value->value, s->unit[o]);
        s->candidate[s->candidates] = (Candidate){value->value, value->value, 0, 0, 0, 0, 0, 0, 1, 0};
        table_put(&s->candidate_table, value->value, s->candidates++);
    }
    for (int f = 0; f < p->forbidden; f++) {
        s->candidate[s->candidates] = (Candidate){p->forbid[f], p->forbid[f], 0, 0, 0, 0, 0, 0, 1, 0};
        table_put(&s->candidate_table, p->forbid[f], s->candidates++);
    }
    for (s->count = 0; s->count < p->given;) {
        s->count++;
        offer_all(s, 0, s->count - 1);
    }
    while (s->readies && !s->failed) {
        int32_t next = s->ready[--s->readies];
        if (s->candidate[next].included) continue;
        int32_t rest[MOST_VALUES], rests = s->readies;
        memcpy(rest, s->ready, sizeof *rest * (size_t)rests);
        Shape shape;
        shape_of(s, &s->candidate[next], &shape);
        include(s, next, &shape, 0);
        memcpy(s->ready, rest, sizeof *rest * (size_t)rests);
        s->readies = rests;
    }
    find_hard(s);
    for (int t = 0; t < p->targets; t++)
        if (s->searched[t]) remember_unary(s, t);
    for (int v = 0; v < s->count; v++) remember_all(s, v);
    int32_t slack = s->left - s->pending_count * p->plain_cost;
    if (s->failed)
        result = NO_MEMORY;
    else if (!s->pending_count)
        result = s->left >= 0 ? FOUND : EXHAUSTED;
    else if (slack < 0 || bound(s, &s->value[s->count - 1].largest) > s->left)
        result = EXHAUSTED;
    else if (slack < p->plain_cost)
        result = close_up(s) ? FOUND : EXHAUSTED;
    else if (slack < 2 * p->plain_cost)
        result = last_value(s) || close_up(s) ? FOUND : EXHAUSTED;
    else {
        s->turns = find_turned(s);
        result = descend(s, 0, 0);
    }
    if (result == FOUND) {
        *count = s->count - p->given;
        for (int v = p->given; v < s->count; v++) {
            int32_t *row = steps + 5 * (v - p->given);
            const Value *value = &s->value[v];
            row[0] = value->op, row[1] = value->offset, row[2] = value->a, row[3] = value->b, row[4] = value->c;
        }
        for (int t = 0; t < p->targets; t++) target_value[t] = s->target_value[t];
    }
    *path_length = s->path_length;
    *report = s->work + s->aside;
    release_endings(s);
    release(s);
    return result;
}
