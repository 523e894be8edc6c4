/* Depth-first search over the states of reverse splitting (AUKE Section 3.1), limited by discrepancies.

   A state is a list of sums; a sum is a list of cells with weights. A sum is known by its value at a random point modulo
   2^61 - 1, so a child's identity costs one pass over the cells of its B. What Python calls splits, transformations and
   pairs of maximum size (splits.py, pairs.py) is the same here, in the same order of sums: a plan found here is a list of
   names there, and every one is replayed and proved there. */

#include "split_children.h"
#include "split_relaxation.h"

#define WORK_A_NODE 20000 /* states of large kernels count as several */
#define MOST_WORK 100000000 /* half a second to a second */

static void keep_plan(Search *s, int depth, int cost) {
    if (s->by_cost) {
        if (cost >= s->best_cost) return;
        s->plan_count = 0;
        s->best_relaxed = 1 << 28;
    }
    int relaxed = relaxed_cost(s, depth);
    if (relaxed < s->best_relaxed) {
        s->best_relaxed = relaxed;
        s->best_at = s->nodes;
    }
    if (cost < s->best_cost) s->best_cost = cost;
    uint64_t key = 0;
    for (int d = 0; d <= depth; d++)
        for (int k = 0; k < s->levels[d].count; k++) key += mixed(state_value(s->levels[d].sums[k].value) + 1);
    int worst = -1;
    for (int k = 0; k < s->plan_count; k++) {
        if (s->plans[k].key == key) {
            if (s->plans[k].relaxed <= relaxed) return;
            worst = k;
            break;
        }
    }
    if (worst < 0) {
        if (s->plan_count < s->keep)
            worst = s->plan_count++;
        else {
            worst = 0;
            for (int k = 1; k < s->plan_count; k++)
                if (s->plans[k].relaxed > s->plans[worst].relaxed) worst = k;
            if (s->plans[worst].relaxed <= relaxed) return;
        }
    }
    Plan *plan = &s->plans[worst];
    plan->relaxed = relaxed;
    plan->cost = cost;
    plan->depth = depth;
    plan->key = key;
    memcpy(plan->splits, s->path, (size_t)depth * sizeof(Split));
}

static int is_leaf(const Level *level) {
    if (level->count == 0) return 1;
    if (level->count != 1 || level->sums[0].count != 1) return 0;
    int32_t size = abs(level->terms[level->sums[0].first].weight);
    return (size & (size - 1)) == 0;
}

static void visit(Search *s, int depth, int cost, int least, int discrepancies, uint64_t state, Term *pairs) {
    if (s->stopped) return;
    if (++s->nodes > s->node_limit || s->work > s->work_limit || *s->stop) {
        s->stopped = 1;
        return;
    }
    Level *level = &s->levels[depth];
    if (is_leaf(level)) {
        int final = cost;
        if (level->count) {
            Term only = level->terms[level->sums[0].first];
            int exponent = 31 - __builtin_clz((unsigned)abs(only.weight));
            final += abs(only.cell / s->height - s->image_x) + abs(only.cell % s->height - s->image_y) +
                     abs(exponent - s->depth_bits);
        }
        keep_plan(s, depth, final);
        return;
    }
    if (depth == MOST_DEPTH) return;
    Entry *entry = &s->table[state & s->table_mask];
    if (!s->by_cost && entry->state == state && entry->round == s->round && entry->cost <= cost &&
        entry->least <= least && entry->discrepancies >= discrepancies)
        return;
    if (entry->state != state || entry->round != s->round || entry->cost >= cost) {
        Entry here = {state, cost, least, discrepancies, s->round};
        *entry = here;
    }
    generate(s, depth, cost, least, s->registers, pairs);
    if (s->descends && !level->child_count && !s->stopped)
        generate(s, depth, cost, least, level->count + 2, pairs);
    int count = level->child_count;
    if (!count || s->stopped) return;
    qsort(level->children, (size_t)count, sizeof(Child), by_score);
    for (int k = 0, rank = 0; k < count && !s->stopped; k++) {
        Child child = level->children[k];
        if (s->by_cost ? child.cost >= s->best_cost
                       : child.least + child.bound + s->halvings >= s->best_relaxed + s->slack)
            continue;
        int spent = rank ? 32 - __builtin_clz((unsigned)rank) : 0;
        rank++;
        if (spent > discrepancies) {
            s->cut = 1;
            break;
        }
        s->path[depth] = child.split;
        enter(s, depth, &child.split, pairs);
        visit(s, depth + 1, child.cost, child.least, discrepancies - spent, child.state, pairs);
        if (s->descends) break;
    }
}

/* ---- entry ------------------------------------------------------------------------------------------------------ */

static void release(Search *s) {
    for (int d = 0; d <= MOST_DEPTH; d++) {
        free(s->levels[d].terms);
        free(s->levels[d].children);
    }
    free(s->powers);
    free(s->shift_value);
    free(s->left);
    free(s->right);
    free(s->offsets);
    free(s->table);
    free(s->slots);
    free(s->plans);
    free(s);
}

static void read_limits(Search *s, const int32_t *limits, int64_t node_limit) {
    s->registers = limits[0];
    s->table_mask = ((size_t)1 << limits[1]) - 1;
    s->slack = limits[2];
    s->keep = limits[3];
    s->factors = limits[4];
    s->halvings = limits[7];
    s->by_cost = limits[8];
    s->descends = limits[9];
    s->node_limit = node_limit;
    s->work_limit = node_limit < MOST_WORK / WORK_A_NODE ? WORK_A_NODE * node_limit : MOST_WORK;
    s->best_relaxed = s->best_cost = 1 << 28;
}

static void read_weights(Search *s, const double *weights, uint64_t seed) {
    s->card_power = weights[0];
    s->distance_power = weights[1];
    s->remainder_penalty = weights[2];
    s->aligned_bonus = weights[3];
    s->near_power = weights[4];
    s->noise = weights[5];
    s->random_state = seed;
}

/* Whether there was memory for the tables. */
static int allocate(Search *s) {
    size_t cells = (size_t)s->cells, span = (size_t)(2 * s->width + 1) * (size_t)(2 * s->height + 1);
    s->powers = malloc(cells * sizeof(uint64_t));
    s->shift_value = malloc(span * sizeof(uint64_t));
    s->left = calloc(cells, sizeof(int32_t));
    s->right = calloc(cells, sizeof(int32_t));
    s->offsets = calloc(span, 1);
    s->table = calloc(s->table_mask + 1, sizeof(Entry));
    s->plans = calloc((size_t)s->keep, sizeof(Plan));
    return s->powers && s->shift_value && s->left && s->right && s->offsets && s->table && s->plans;
}

/* Sums are hashed as polynomials in two variables at a fixed point: the values there of every cell, and of every shift. */
static void evaluate_cells(Search *s) {
    int width = s->width, height = s->height;
    uint64_t at_x = 1 + mixed(0xA5A5 + 1) % (PRIME - 1), at_y = 1 + mixed(0x5A5A + 7) % (PRIME - 1);
    uint64_t back_x = power(at_x, PRIME - 2), back_y = power(at_y, PRIME - 2);
    for (int x = 0; x < width; x++)
        for (int y = 0; y < height; y++)
            s->powers[x * height + y] = times(power(at_x, (uint64_t)x), power(at_y, (uint64_t)y));
    for (int dx = -width; dx <= width; dx++)
        for (int dy = -height; dy <= height; dy++)
            s->shift_value[(dx + width) * (2 * height + 1) + dy + height] =
                times(power(dx < 0 ? back_x : at_x, (uint64_t)abs(dx)), power(dy < 0 ? back_y : at_y, (uint64_t)abs(dy)));
}

static void search_rounds(Search *s, int first, int last, uint64_t state, Term *pairs) {
    for (int allowed = first; !s->stopped; allowed++) {
        s->round++;
        s->cut = 0;
        visit(s, 0, 0, 0, allowed, state, pairs);
        if (!s->cut || allowed >= last) break;
    }
}

static void write_plans(const Search *s, int32_t *plans) {
    for (int k = 0; k < s->plan_count; k++) {
        const Plan *plan = &s->plans[k];
        *plans++ = plan->relaxed;
        *plans++ = plan->cost;
        *plans++ = plan->depth;
        for (int d = 0; d < MOST_DEPTH; d++) {
            const Split *t = &plan->splits[d];
            const int32_t numbers[7] = {t->a_from, t->b_from, t->dx, t->dy, t->doublings, t->negated, t->how};
            memcpy(plans, numbers, sizeof numbers);
            plans += 7;
        }
    }
}

/* Rounds with 0, 1, 2, ... discrepancies until the node limit is spent or a round cut nothing (`report[1]` is 1 then).

   `sizes`: of every sum its number of terms; `terms`: cell and weight of each. `limits`: registers, table bits, slack, plans to
   keep, factors allowed, first discrepancies, last discrepancies, least halvings, and whether it is the paper's search:
   cut by the cost before relaxation alone, nothing remembered, the first plan of the least cost is the answer; and whether it
   only descends, by the first split each time, where the registers hold no split with as many sums as it takes. `weights`:
   of the order. Plans go to `plans`: relaxed cost, cost, depth, then 7 numbers a split. `stop`: set by another thread, the search
   ends soon with what it has. Returns the number of plans, -1 without memory. */
int kilotune_split(int width, int height, int image_x, int image_y, int depth_bits, int sum_count, const int32_t *sizes,
                   const int32_t *terms, const int32_t *limits, const double *weights, int64_t node_limit, uint64_t seed,
                   int32_t *plans, int64_t *report, const volatile int32_t *stop) {
    Search *s = calloc(1, sizeof(Search));
    if (!s) return -1;
    s->width = width;
    s->height = height;
    s->image_x = image_x;
    s->image_y = image_y;
    s->cells = width * height;
    s->depth_bits = depth_bits;
    s->stop = stop;
    read_limits(s, limits, node_limit);
    read_weights(s, weights, seed);
    Term *pairs = malloc((size_t)(2 * s->cells + 2) * sizeof(Term));
    int result = -1;
    if (allocate(s) && pairs) {
        evaluate_cells(s);
        Level *root = &s->levels[0];
        uint64_t state = 0;
        for (int k = 0; k < sum_count; terms += 2 * sizes[k], k++) append_sum(s, root, NULL, (const Term *)terms, sizes[k]);
        for (int k = 0; k < root->count; k++) {
            s->targets[s->target_count++] = root->sums[k].value;
            state += state_value(root->sums[k].value);
        }
        search_rounds(s, limits[5], limits[6], state, pairs);
        write_plans(s, plans);
        const int64_t said[5] = {s->nodes, !s->cut && !s->stopped, s->best_relaxed, s->best_cost, s->best_at};
        memcpy(report, said, sizeof said);
        result = s->plan_count;
    }
    free(pairs);
    release(s);
    return result;
}
