/* How a walk over a kernel's cells is varied when it is annealed. Part of cell_annealing.c and changing_constants.c. */
#ifndef KILOTUNE_WALK_MOVES_H
#define KILOTUNE_WALK_MOVES_H

#include "draws.h"

#include <stdint.h>

enum { LONGEST_MOVED = 4 };

/* Writes into `tried`, which has the same cells, the walk with a part of it backwards, or with some of its cells elsewhere on it. */
static void vary_part_of_walk(uint64_t *random, const int32_t *path, int32_t count, int32_t *tried)
{
    int32_t a = below(random, count), b = below(random, count), n = 1 + below(random, LONGEST_MOVED);
    if (below(random, 2)) {
        int32_t low = a < b ? a : b, high = a < b ? b : a;
        for (int32_t i = low; i <= high; i++) tried[i] = path[low + high - i];
        return;
    }
    if (a + n > count) n = count - a;
    int32_t rest = count - n, at = 0, to = rest ? below(random, rest + 1) : 0, turned = below(random, 2);
    for (int32_t i = 0; i <= rest; i++) { /* `i` counts the others */
        if (i == to)
            for (int32_t k = 0; k < n; k++) tried[at++] = path[turned ? a + n - 1 - k : a + k];
        if (i < rest) tried[at++] = path[i < a ? i : i + n];
    }
}

#endif
