/* Of programs that the symmetries of the target turn into one another, one is met. Part of programs.c.
 *
 * A symmetry of the square that leaves the target as it is turns a program for it into another one of the same cost. What a program
 * makes of the image by one instruction is a set of the first candidates, and a symmetry turns that set too. Of each orbit of programs the
 * one counts whose set comes first: at the first candidate in which two sets differ, it is the one that holds it.
 */
#ifndef KILOTUNE_PROGRAMS_TURNS_H
#define KILOTUNE_PROGRAMS_TURNS_H

#include "programs_state.h"

/* Where every first candidate goes. Only for one target and the image alone: the list is then closed under the symmetries.
 * Where it is not, none is used. */
static int find_turned(Search *s)
{
    const Problem *p = s->p;
    s->first_end = s->candidates;
    if (p->targets != 1 || p->given != 1 || p->forbidden || s->count != 1 || p->turns > MOST_TURNS || s->candidates > MOST_FIRST) return 0;
    for (int g = 0; g < p->turns; g++)
        for (int32_t i = 0; i < s->candidates; i++) {
            const Candidate *c = &s->candidate[i];
            int32_t other = 0;
            while (other < s->candidates &&
                   !(s->candidate[other].op == c->op && s->candidate[other].offset == p->turn[g * OFFSETS + c->offset] &&
                     s->candidate[other].cost == c->cost && s->candidate[other].b == c->b && (other == 0) == (i == 0)))
                other++;
            if (other == s->candidates) return 0;
            s->turned[g][i] = (uint8_t)other;
        }
    return p->turns;
}

/* Candidate `next` is about to be taken; those before it are decided, so every program that may still come of it agrees with what is taken
 * now up to `next`. Does a symmetry make one of each that comes first? A candidate's counterpart that is not decided yet settles nothing
 * where the candidate is taken; where it is not, the counterpart's being taken would say yes, and its not being taken leaves the rest to say it. */
static int comes_after_turned(const Search *s, int turns, int32_t next)
{
    for (int g = 0; g < turns; g++)
        for (int32_t i = 1; i <= next && i < s->first_end; i++) {
            int32_t other = s->turned[g][i];
            int mine = s->candidate[i].included || i == next, its = s->candidate[other].included || other == next;
            if (mine && !its) break;
            if (!mine && its) return 1;
        }
    return 0;
}

#endif
