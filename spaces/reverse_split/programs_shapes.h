/* How far values reach, how often they are halved, how large they are, and what that bounds. Part of programs.c. */
#ifndef KILOTUNE_PROGRAMS_SHAPES_H
#define KILOTUNE_PROGRAMS_SHAPES_H

#include "programs_state.h"

static int operands(int op, int a, int b, int c, int out[3])
{
    int n = 0;
    out[n++] = a;
    if ((op == ADD || op == SUB || op == ADD_NEGATED || op == ADD3) && b != a) out[n++] = b;
    if (op == ADD3) out[n++] = c;
    return n;
}

static void shape_of(const Search *s, const Candidate *c, Shape *out)
{
    int of[3], n = operands(c->op, c->a, c->b, c->c, of);
    const Shape *first = &s->value[c->a].shape;
    *out = *first;
    int twice = n == 1 && (c->op == ADD || c->op == ADD_NEGATED || c->op == SUB);
    int32_t move[SIDES] = {0, 0, 0, 0, 0, 0, 0, 0};
    move_sides(move, OFFSET_X[c->offset], OFFSET_Y[c->offset]);
    for (int i = 0; i < SIDES; i++) out->extent[i] += move[i];
    for (int k = twice ? 0 : 1; k < n; k++) {
        const Shape *next = &s->value[of[k]].shape;
        for (int i = 0; i < SIDES; i++) {
            int reach = next->extent[i] + (c->op == SUB ? 0 : move[i]);
            if (reach > out->extent[i]) out->extent[i] = reach;
        }
        if (next->depth > out->depth) out->depth = next->depth;
        out->support += next->support;
        out->weight += next->weight;
    }
    if (twice && c->op != SUB) out->support = first->support;
    if (c->op == HALVE) {
        out->depth++;
        out->weight /= 2;
    }
    int width = out->extent[0] + out->extent[2] + 1, height = out->extent[1] + out->extent[3] + 1;
    if (out->support > (double)width * height) out->support = (double)width * height;
}

static void enlarge(Shape *largest, const Shape *shape)
{
    for (int i = 0; i < SIDES; i++)
        if (shape->extent[i] > largest->extent[i]) largest->extent[i] = shape->extent[i];
    if (shape->depth > largest->depth) largest->depth = shape->depth;
    if (shape->support > largest->support) largest->support = shape->support;
    if (shape->weight > largest->weight) largest->weight = shape->weight;
}

static int fits(const Search *s, const Shape *shape)
{
    for (int i = 0; i < 4; i++)
        if (shape->extent[i] > s->p->reach[i]) return 0;
    return shape->weight <= s->p->most_weight;
}

/* A cost that no way from values this large to all pending targets undercuts. */
static int32_t bound(const Search *s, const Shape *largest)
{
    int32_t most = 0;
    if (s->p->targets > FEW_TARGETS) return 0;
    for (int t = 0; t < s->p->targets; t++) {
        if (!s->pending[t]) continue;
        const Shape *target = &s->target_shape[t];
        int32_t lack[SIDES], halvings = target->depth - largest->depth;
        for (int i = 0; i < SIDES; i++) lack[i] = target->extent[i] - largest->extent[i];
        int32_t shifts = fewest_moves(lack);
        double growth = target->support / largest->support, weight = target->weight / largest->weight;
        if (weight > growth) growth = weight;
        int factor = growth > NEED_GROWTH - 1 ? NEED_GROWTH - 1 : (int)growth + (growth > (int)growth + 1e-9);
        if (shifts >= NEED_SHIFTS) shifts = NEED_SHIFTS - 1;
        int32_t cost = s->p->need[shifts * NEED_GROWTH + factor] + (halvings > 0 ? halvings * s->p->halve_cost : 0);
        if (cost > most) most = cost;
    }
    return most;
}

#endif
