/* Blocks that come apart and are put together again, and what each point of time has of them. Part of regluing.c.
 *
 * A block is a buffer, or a rectangle of two or of five others. Those that are in no other one are `there`, in the lists of the points
 * where they begin and end. What a trial does is noted, so that it can be undone. */

enum { PARTS = 5, NONE = -1 };
enum { MOST_TOUCHED = 400, MOST_REFUSED = 32 };

typedef struct {
    int64_t size, shift[PARTS], at;
    int32_t lo, hi, count, part[PARTS];
    int32_t after[2], before[2]; /* in the list of what begins, and ends, at a point */
    int32_t buffers;             /* in it */
    int32_t place;               /* among those that are there */
    int32_t whole;               /* what it was last part of */
    double price;                /* what speaks against it */
} Block;

typedef struct {
    double score;
    int32_t count, part[PARTS];
    double price;
} Candidate;

typedef struct {
    const RegluingProblem *p;
    Block *block;
    int32_t *there, left;
    int32_t *spare, spares;
    int32_t *first[2], *at[2]; /* of each point: the list of what begins and what ends, how many */
    int64_t *bytes[2], *live;
    int32_t *touched, touches;
    int32_t *touch_of; /* of each point: one more than its place in touched; 0: it is not */
    uint8_t is_known[MOST_TOUCHED];
    Candidate best[MOST_TOUCHED]; /* of each touched point */
    int32_t *noted, notes; /* blocks that were glued, ~ those that came apart, in order */
    uint64_t random, trial;
    int64_t looks;
    double price, noise, left_out, most_lack;
    uint64_t refused[MOST_REFUSED]; /* what would raise live sums too far, in this trial */
    int32_t refusals;
} State;

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static uint64_t next_random(State *s) { return mixed(s->random += 0x9E3779B97F4A7C15u); }

static double uniform(State *s) { return (double)(next_random(s) >> 11) / 9007199254740992.0; }

static int32_t below(State *s, int32_t count) { return (int32_t)(next_random(s) % (uint64_t)count); }

static void touch(State *s, int32_t point)
{
    if (!s->touch_of[point]) {
        if (s->touches == MOST_TOUCHED) return;
        s->touched[s->touches++] = point;
        s->touch_of[point] = s->touches;
    }
    s->is_known[s->touch_of[point] - 1] = 0;
}

/* What lies at a point has changed: so may have wheels whose middle one ends there. */
static void touch_with_wheels(State *s, int32_t point)
{
    touch(s, point);
    for (int32_t b = s->first[1][point]; b != NONE; b = s->block[b].after[1]) touch(s, s->block[b].lo);
}

static void enter(State *s, int32_t b)
{
    Block *block = &s->block[b];
    for (int end = 0; end < 2; end++) {
        int32_t point = end ? block->hi : block->lo, next = s->first[end][point];
        block->after[end] = next;
        block->before[end] = NONE;
        if (next != NONE) s->block[next].before[end] = b;
        s->first[end][point] = b;
        s->at[end][point]++;
        s->bytes[end][point] += block->size;
    }
    block->place = s->left;
    s->there[s->left++] = b;
}

static void leave(State *s, int32_t b)
{
    Block *block = &s->block[b];
    for (int end = 0; end < 2; end++) {
        int32_t point = end ? block->hi : block->lo;
        if (block->after[end] != NONE) s->block[block->after[end]].before[end] = block->before[end];
        if (block->before[end] != NONE) s->block[block->before[end]].after[end] = block->after[end];
        else s->first[end][point] = block->after[end];
        s->at[end][point]--;
        s->bytes[end][point] -= block->size;
    }
    int32_t last = s->there[--s->left];
    s->there[block->place] = last;
    s->block[last].place = block->place;
    block->place = NONE;
}

static void raise_live(State *s, int32_t b, int sign)
{
    const Block *block = &s->block[b];
    for (int32_t i = block->lo; i < block->hi; i++) s->live[i] += sign * block->size;
    for (int32_t k = 0; k < block->count; k++) {
        const Block *part = &s->block[block->part[k]];
        for (int32_t i = part->lo; i < part->hi; i++) s->live[i] -= sign * part->size;
    }
}

static void put_together(State *s, int32_t b)
{
    for (int32_t k = 0; k < s->block[b].count; k++) {
        leave(s, s->block[b].part[k]);
        s->block[s->block[b].part[k]].whole = b;
    }
    enter(s, b);
    raise_live(s, b, 1);
    s->price += s->block[b].price;
}

static void take_apart(State *s, int32_t b)
{
    leave(s, b);
    for (int32_t k = 0; k < s->block[b].count; k++) enter(s, s->block[b].part[k]);
    raise_live(s, b, -1);
    s->price -= s->block[b].price;
}

static void touch_block(State *s, int32_t b)
{
    touch_with_wheels(s, s->block[b].lo);
    touch_with_wheels(s, s->block[b].hi);
}

static int prepare(State *s, const RegluingProblem *p)
{
    size_t n = 2 * (size_t)p->n, points = (size_t)p->points;
    s->p = p;
    s->block = calloc(n, sizeof *s->block);
    s->there = malloc(sizeof *s->there * n);
    s->spare = malloc(sizeof *s->spare * n);
    s->noted = malloc(sizeof *s->noted * 2 * n);
    for (int end = 0; end < 2; end++) {
        s->first[end] = malloc(sizeof *s->first[end] * points);
        s->at[end] = calloc(points, sizeof *s->at[end]);
        s->bytes[end] = calloc(points, sizeof *s->bytes[end]);
    }
    s->live = calloc(points, sizeof *s->live);
    s->touched = malloc(sizeof *s->touched * MOST_TOUCHED);
    s->touch_of = calloc(points, sizeof *s->touch_of);
    if (!s->block || !s->there || !s->spare || !s->noted || !s->first[0] || !s->first[1] || !s->at[0] || !s->at[1] || !s->bytes[0] ||
        !s->bytes[1] || !s->live || !s->touched || !s->touch_of)
        return 0;
    for (int end = 0; end < 2; end++) memset(s->first[end], 0xff, sizeof *s->first[end] * points);
    for (int32_t b = 0; b < p->n; b++) {
        s->block[b].lo = p->lo[b], s->block[b].hi = p->hi[b], s->block[b].size = p->size[b], s->block[b].buffers = 1;
        enter(s, b);
        for (int32_t i = p->lo[b]; i < p->hi[b]; i++) s->live[i] += p->size[b];
    }
    for (int32_t b = 2 * p->n - 1; b >= p->n; b--) s->spare[s->spares++] = b;
    return 1;
}

static void release(State *s)
{
    free(s->block);
    free(s->there);
    free(s->spare);
    free(s->noted);
    for (int end = 0; end < 2; end++) {
        free(s->first[end]);
        free(s->at[end]);
        free(s->bytes[end]);
    }
    free(s->live);
    free(s->touched);
    free(s->touch_of);
}

/* Where each buffer is: the number of its block, and where in it. */
static void spread(State *s, int32_t *group, int64_t *shift)
{
    int32_t waiting = s->left;
    for (int32_t k = 0; k < s->left; k++) {
        Block *block = &s->block[s->noted[k] = s->there[k]];
        block->whole = k; /* from here on, the block that it is in */
        block->at = 0;
    }
    while (waiting) {
        int32_t b = s->noted[--waiting];
        const Block *block = &s->block[b];
        if (!block->count) group[b] = block->whole, shift[b] = block->at;
        for (int32_t k = 0; k < block->count; k++) {
            Block *part = &s->block[s->noted[waiting++] = block->part[k]];
            part->whole = block->whole;
            part->at = block->at + block->shift[k];
        }
    }
}

/* The rectangle around the parts: what lies on others rests on the higher one of them. */
static void shape(State *s, int32_t b, const Candidate *c)
{
    Block *block = &s->block[b];
    const Block *part[PARTS];
    memcpy(block->part, c->part, sizeof *block->part * (size_t)c->count);
    block->count = c->count;
    block->price = c->price;
    for (int32_t k = 0; k < c->count; k++) part[k] = &s->block[c->part[k]], block->shift[k] = 0;
    if (c->count == 2 && part[0]->lo < part[1]->hi && part[1]->lo < part[0]->hi) {
        block->shift[1] = part[0]->size;
        block->lo = part[0]->lo, block->hi = part[0]->hi;
    } else if (c->count == 2) {
        block->lo = part[0]->lo, block->hi = part[1]->hi;
    } else {
        block->lo = part[EARLY]->lo, block->hi = part[LATE]->hi;
        block->shift[LEFT] = block->shift[MIDDLE] = part[EARLY]->size;
        int64_t top = part[EARLY]->size + part[MIDDLE]->size;
        block->shift[OVER] = top > part[LATE]->size ? top : part[LATE]->size;
    }
    block->size = 0, block->buffers = 0;
    for (int32_t k = 0; k < c->count; k++) {
        block->buffers += part[k]->buffers;
        if (block->shift[k] + part[k]->size > block->size) block->size = block->shift[k] + part[k]->size;
    }
}

static void undo(State *s)
{
    while (s->notes) {
        int32_t b = s->noted[--s->notes];
        if (b < 0) put_together(s, ~b);
        else take_apart(s, b), s->spare[s->spares++] = b;
    }
}

static void keep(State *s)
{
    while (s->notes) {
        int32_t b = s->noted[--s->notes];
        if (b < 0) s->spare[s->spares++] = ~b;
    }
}

static void forget_touched(State *s)
{
    for (int32_t k = 0; k < s->touches; k++) s->touch_of[s->touched[k]] = 0;
    s->touches = 0;
}
