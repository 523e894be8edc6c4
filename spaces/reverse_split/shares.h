/* Of a search that several threads share: whose a node is. */
#ifndef KILOTUNE_SHARES_H
#define KILOTUNE_SHARES_H

#include <stdint.h>

enum { SHARED_LEVEL = 2 }; /* the third free value: there are thousands of such nodes, and little work above them */

/* Nodes above that level are everybody's, what is below one is its owner's. `path`: the candidates taken at the levels above. */
static inline int is_ours(int32_t share, int32_t shares, int level, const int32_t *path, int32_t index)
{
    if (shares < 2 || level != SHARED_LEVEL) return 1;
    uint32_t mixed = (uint32_t)index;
    for (int k = 0; k < SHARED_LEVEL; k++) mixed = mixed * 31 + (uint32_t)path[k];
    mixed *= 0x9e3779b1u;
    return (int32_t)((mixed >> 8) % (uint32_t)shares) == share;
}

#endif
