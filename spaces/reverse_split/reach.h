/* How many moves by one cell it takes to reach as far as a target does. */
#ifndef KILOTUNE_REACH_H
#define KILOTUNE_REACH_H

#include <stdint.h>

enum { SIDES = 8, SHAPE_NUMBERS = 11 }; /* SHAPE_NUMBERS: of a row of what `shape_of` of programs.py says of sums */

/* By so much the first four sides of a row, then its last four numbers, lie further out after a move of (dx, dy): west, south, east, north; north
 * and east together, north and west, south and east, south and west. */
static inline void move_sides(int32_t extent[SIDES], int32_t dx, int32_t dy)
{
    extent[0] -= dx, extent[1] -= dy, extent[2] += dx, extent[3] += dy;
    extent[4] += dx + dy, extent[5] += dy - dx, extent[6] += dx - dy, extent[7] -= dx + dy;
}

static inline void read_sides(const double *row, int32_t extent[SIDES])
{
    for (int i = 0; i < SIDES; i++) extent[i] = (int32_t)row[i < 4 ? i : i + 3];
}

/* The fewest moves, where `lack` says by how much each side falls short. A move east reaches one cell further east, and one further to the
 * north-east and to the south-east; so with the others. What a corner lacks beyond that takes moves besides, and opposite corners have none in
 * common. (Sides and corners are a cycle of four nodes and four edges, and the least cover of its edges is its greatest matching.) */
static inline int32_t fewest_moves(const int32_t lack[SIDES])
{
    int32_t side[4], corner[4];
    for (int i = 0; i < 4; i++) side[i] = lack[i] > 0 ? lack[i] : 0;
    for (int i = 0; i < 4; i++) {
        corner[i] = lack[4 + i] - side[i < 2 ? 3 : 1] - side[i % 2 ? 0 : 2];
        if (corner[i] < 0) corner[i] = 0;
    }
    int32_t rising = corner[0] + corner[3], falling = corner[1] + corner[2];
    return side[0] + side[1] + side[2] + side[3] + (rising > falling ? rising : falling);
}

#endif
