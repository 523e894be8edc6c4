/* Buffers placed one after the other. Part of placing.c.
 *
 * What is placed lies in blocks, ordered by offset, so that the next buffer meets it from below: a block is compared with the buffer's
 * life as a whole, in vectors, and a new buffer moves no more than a block. One list of all takes
 * three times as long for 100 000 buffers. */

enum { BLOCK = 256 };
enum { FIRST = 0, BEST = 1, ABOVE = 2 };

typedef struct {
    int32_t count;
    int32_t lo[BLOCK], hi[BLOCK]; /* sections */
    int64_t offset[BLOCK], end[BLOCK];
} Block;

typedef struct {
    Block **block;
    int32_t blocks;
} Placed;

typedef struct {
    int32_t lo, hi;
    int64_t size, alignment;
} Life;

/* The offset of a buffer above what is placed. FIRST: the lowest free one; BEST: in the smallest gap that holds it, else on top;
 * ABOVE: above all that it conflicts with. */
static int64_t offset_among(const Placed *placed, const Life *b, int32_t mode)
{
    int64_t at = 0, top = 0, chosen = -1, smallest = INT64_MAX;
    uint8_t meets[BLOCK];
    for (int32_t k = 0; k < placed->blocks; k++) {
        const Block *among = placed->block[k];
        memset(meets, 0, sizeof meets);
        for (int32_t i = 0; i < among->count; i++) meets[i] = (among->lo[i] < b->hi) & (among->hi[i] > b->lo);
        for (int32_t first = 0; first < among->count; first += 8) {
            uint64_t eight;
            memcpy(&eight, meets + first, sizeof eight);
            for (; eight; eight &= eight - 1) {
                int32_t i = first + (__builtin_ctzll(eight) >> 3);
                int64_t gap = among->offset[i] - at;
                if (mode != ABOVE && gap >= b->size && gap < smallest) {
                    if (mode == FIRST) return at;
                    smallest = gap;
                    chosen = at;
                }
                if (among->end[i] > top) {
                    top = among->end[i];
                    at = align_up(top, b->alignment);
                }
            }
        }
    }
    return chosen >= 0 ? chosen : at;
}

/* Another block behind number k, with the upper half of it. 0: no memory. `room` of the list is there. */
static int split(Placed *placed, int32_t k)
{
    Block *full = placed->block[k], *upper = malloc(sizeof *upper);
    if (!upper) return 0;
    int32_t half = full->count / 2;
    upper->count = full->count - half;
    memcpy(upper->lo, full->lo + half, sizeof *full->lo * (size_t)upper->count);
    memcpy(upper->hi, full->hi + half, sizeof *full->hi * (size_t)upper->count);
    memcpy(upper->offset, full->offset + half, sizeof *full->offset * (size_t)upper->count);
    memcpy(upper->end, full->end + half, sizeof *full->end * (size_t)upper->count);
    full->count = half;
    memmove(placed->block + k + 2, placed->block + k + 1, sizeof *placed->block * (size_t)(placed->blocks - k - 1));
    placed->block[k + 1] = upper;
    placed->blocks++;
    return 1;
}

/* After all that lie at this offset or below. 0: no memory. */
static int put(Placed *placed, const Life *b, int64_t offset)
{
    int32_t k = 0;
    for (int32_t after = placed->blocks; after - k > 1;) {
        int32_t middle = (k + after) / 2;
        if (placed->block[middle]->offset[0] > offset) after = middle;
        else k = middle;
    }
    if (placed->block[k]->count == BLOCK) {
        if (!split(placed, k)) return 0;
        if (placed->block[k + 1]->offset[0] <= offset) k++;
    }
    Block *into = placed->block[k];
    int32_t i = into->count++;
    for (; i > 0 && into->offset[i - 1] > offset; i--) {
        into->lo[i] = into->lo[i - 1];
        into->hi[i] = into->hi[i - 1];
        into->offset[i] = into->offset[i - 1];
        into->end[i] = into->end[i - 1];
    }
    into->lo[i] = b->lo;
    into->hi[i] = b->hi;
    into->offset[i] = offset;
    into->end[i] = offset + b->size;
    return 1;
}

/* Places all buffers in `order`, until *stop. */
int kilotune_place_in_order(int32_t n, const int32_t *lo, const int32_t *hi, const int64_t *size, const int64_t *alignment,
                            const int32_t *order, int32_t mode, int64_t *offset, const volatile int32_t *stop)
{
    Placed placed = {malloc(sizeof *placed.block * ((size_t)n / (BLOCK / 2) + 2)), 1};
    Block *first = calloc(1, sizeof *first);
    int status = placed.block && first ? FITS : NO_MEMORY;
    if (placed.block) placed.block[0] = first;
    for (int32_t count = 0; count < n && status == FITS; count++) {
        int32_t b = order[count];
        Life life = {lo[b], hi[b], size[b], alignment[b]};
        offset[b] = offset_among(&placed, &life, mode);
        if (!put(&placed, &life, offset[b])) status = NO_MEMORY;
        else if (*stop) status = STOPPED;
    }
    for (int32_t k = 0; placed.block && k < placed.blocks; k++) free(placed.block[k]);
    if (!placed.block) free(first);
    free(placed.block);
    return status;
}
