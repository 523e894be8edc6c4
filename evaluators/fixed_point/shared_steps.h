/* Which groups of steps a candidate has in common with the one that ran before it, so that they run once.
 *
 * Where a group means the same for both (its rows, and the data that it reads), and what it reads of earlier groups is the same, its
 * values are those that the other one has left behind. What a group keeps may be the same although it means something else: the same
 * features at another scale, a sum that is rounded to fewer bits. The first block of samples shows where that is so. Then
 * candidates are put in the order of their values, and the groups that had the same ones are compared in every other block, since what reads them
 * need not run if they have them again ("early cutoff" of build systems, Mokhov et al., ICFP 2018).
 */

/* A candidate among the others: it stands beside those whose keys begin alike. */
typedef struct {
    const uint64_t *keys; /* [key_count] */
    int32_t key_count, candidate;
} Place;

/* What is known of a group of a candidate and of the one before it. */
enum { MEANS_SAME = 1, IS_COMPARED = 2 };

/* What it takes to compare an element, as a number of products or other elements. */
#define COMPARISON 4

/* Of how many elements of a variable a key is made. */
#define IN_KEY 64

typedef struct {
    Place *order;      /* [count] */
    uint64_t *keys;    /* [count][2][group_count]: of the values in the first block, and of meanings */
    uint8_t *relations; /* [count][group_count], in that order */
    int64_t *saved;    /* [variable_count], work of the groups that do not run if a variable is the same */
    int is_first;      /* this block shows which values are the same */
} Plan;

static inline uint64_t mixed(uint64_t key, uint64_t word)
{
    key = (key ^ word) * 0x9e3779b97f4a7c15u;
    return key ^ key >> 29;
}

/* A key of all that the results of a group hang on, but for what it reads of others. */
static uint64_t meaning_key(const Program *program, const Batch *batch, const Group *group, int64_t i)
{
    uint64_t key = group->reads_input ? (uint64_t)(uintptr_t)batch->inputs[i] : 0;
    for (int32_t r = 0; r < group->row_count; r++) {
        const int32_t *row = batch->rows + (i * program->row_count + group->rows[r]) * COLUMNS;
        for (int c = 0; c < COLUMNS; c++) key = mixed(key, (uint32_t)row[c]);
    }
    for (int32_t s = 0; s < group->static_count; s++)
        key = mixed(key, (uint64_t)(uintptr_t)batch->statics[i * program->variable_count + group->statics[s]]);
    return key;
}

/* Whether all that is the same. A table may lie elsewhere for the same row, where the operand has another width. */
static int means_same(const Program *program, const Batch *batch, const Group *group, int64_t i, int64_t j)
{
    if (group->reads_input && batch->inputs[i] != batch->inputs[j]) return 0;
    for (int32_t r = 0; r < group->row_count; r++) {
        const int64_t one = i * program->row_count + group->rows[r], other = j * program->row_count + group->rows[r];
        if (memcmp(batch->rows + one * COLUMNS, batch->rows + other * COLUMNS, COLUMNS * sizeof *batch->rows) ||
            batch->tables[one] != batch->tables[other])
            return 0;
    }
    for (int32_t s = 0; s < group->static_count; s++)
        if (batch->statics[i * program->variable_count + group->statics[s]] !=
            batch->statics[j * program->variable_count + group->statics[s]])
            return 0;
    return 1;
}

static int compare_places(const void *left, const void *right)
{
    const Place *x = left, *y = right;
    for (int32_t k = 0; k < x->key_count; k++)
        if (x->keys[k] != y->keys[k]) return x->keys[k] < y->keys[k] ? -1 : 1;
    return x->candidate - y->candidate;
}

static int has_room(Plan *plan, const Program *program, const Batch *batch)
{
    const size_t groups = (size_t)program->group_count, count = (size_t)batch->count + 1;
    plan->order = malloc(count * sizeof *plan->order);
    plan->keys = calloc(count * 2 * (groups + 1), sizeof *plan->keys);
    plan->relations = calloc(count * (groups + 1), 1);
    plan->saved = malloc(((size_t)program->variable_count + 1) * sizeof *plan->saved);
    if (!plan->order || !plan->keys || !plan->relations || !plan->saved) return 0;
    for (int32_t k = 0; k < batch->count; k++) {
        plan->order[k] = (Place){plan->keys + 2 * groups * (size_t)k, 2 * program->group_count, batch->chosen[k]};
        uint64_t *meanings = plan->keys + 2 * groups * (size_t)k + groups;
        for (size_t g = 0; g < groups; g++) meanings[g] = meaning_key(program, batch, &program->groups[g], batch->chosen[k]);
    }
    return 1;
}

static void free_plan(const Plan *plan)
{
    free(plan->order);
    free(plan->keys);
    free(plan->relations);
    free(plan->saved);
}

/* Notes which groups are compared: those that had the same values, where that saves enough of the groups behind. */
static void note_compared(const Program *program, const Plan *plan, const Place *now, const Place *before, uint8_t *relations)
{
    int64_t *saved = plan->saved;
    memset(saved, 0, (size_t)program->variable_count * sizeof *saved);
    for (int32_t g = program->group_count - 1; g >= 0; g--) {
        const Group *group = &program->groups[g];
        int64_t behind = 0, elements = 0;
        for (int32_t k = 0; k < group->kept_count; k++) {
            behind += saved[group->kept[k]];
            elements += program->variable_elements[group->kept[k]];
        }
        const int had_same = now->keys[g] && now->keys[g] == before->keys[g];
        if (had_same && behind > COMPARISON * elements) relations[g] |= IS_COMPARED;
        if (relations[g] & MEANS_SAME && (had_same || !group->kept_count))
            for (int32_t r = 0; r < group->read_count; r++) saved[group->reads[r]] += group->work + behind;
    }
}

/* Candidates in the order of their keys, and what is known of each and the one before it. Before a block has run, all keys of values are 0. */
static void put_in_order(const Program *program, const Batch *batch, Plan *plan)
{
    const int32_t groups = program->group_count;
    qsort(plan->order, (size_t)batch->count, sizeof *plan->order, compare_places);
    for (int32_t k = 1; k < batch->count; k++) {
        const Place *before = &plan->order[k - 1], *now = &plan->order[k];
        uint8_t *relations = plan->relations + (int64_t)k * groups;
        for (int32_t g = 0; g < groups; g++)
            relations[g] = now->keys[groups + g] == before->keys[groups + g] &&
                           means_same(program, batch, &program->groups[g], now->candidate, before->candidate);
        note_compared(program, plan, now, before, relations);
    }
}

/* A hash of the values of some variables, by some elements of the first samples. */
static uint64_t values_hash(const Machine *m, const int32_t *variables, int32_t count)
{
    typedef uint32_t __attribute__((may_alias)) Word;
    enum { WORDS = 16, WORDS_OF_ELEMENT = LANES * sizeof(Value) / sizeof(Word) };
    uint32_t sums[WORDS] = {0};
    uint64_t hash = 0;
    for (int32_t k = 0; k < count; k++) {
        const int64_t elements = m->program->variable_elements[variables[k]], step = (elements + IN_KEY - 1) / IN_KEY;
        const Word *from = (const Word *)m->bases[variables[k]];
        for (int64_t e = 0; e < elements; e += step, from += step * WORDS_OF_ELEMENT)
            for (int w = 0; w < WORDS; w++) sums[w] = sums[w] * 0x9e3779b1u + from[w];
    }
    for (int w = 0; w < WORDS; w++) hash = mixed(hash, sums[w]);
    return hash;
}

static void run_group(Machine *m, int32_t block, const Group *group)
{
    m->groups_run++;
    m->executed = m->program->steps[group->first_step].executed;
    steps(m, block, group->first_step, group->end_step, 0);
}

static int is_same(const Value *one, const Value *other, int64_t elements, int32_t samples)
{
    if (samples == LANES) return !memcmp(one, other, (size_t)elements * LANES * sizeof *one);
    for (int64_t e = 0; e < elements; e++)
        if (memcmp(one + e * LANES, other + e * LANES, (size_t)samples * sizeof *one)) return 0;
    return 1;
}

/* Run a group beside what it has kept of the candidate before, and say which variables differ. */
static void run_compared(Machine *m, int32_t block, const Group *group)
{
    Value *spare = m->spare;
    for (int32_t k = 0; k < group->kept_count; k++) {
        m->bases[group->kept[k]] = spare;
        spare += m->program->variable_elements[group->kept[k]] * LANES;
    }
    run_group(m, block, group);
    for (int32_t k = 0; k < group->kept_count; k++) {
        const int32_t variable = group->kept[k];
        const int64_t elements = m->program->variable_elements[variable];
        const Value *made = m->bases[variable];
        m->bases[variable] = m->storage + m->program->variable_offsets[variable] * LANES;
        m->changed[variable] = !is_same(made, m->bases[variable], elements, m->samples);
        if (m->changed[variable]) memcpy(m->bases[variable], made, (size_t)elements * LANES * sizeof *made);
    }
}

/* What the candidate at place `k` does not have in common with the one before it, on one block of samples. */
static void run_groups(Machine *m, const Plan *plan, int32_t block, int32_t k)
{
    const Program *program = m->program;
    const uint8_t *relations = plan->relations + (int64_t)k * program->group_count;
    uint64_t *keys = (uint64_t *)plan->order[k].keys;
    memset(m->changed, 0, (size_t)program->variable_count);
    for (int32_t g = 0; g < program->group_count; g++) {
        const Group *group = &program->groups[g];
        int is_known = relations[g] & MEANS_SAME;
        for (int32_t r = 0; r < group->read_count && is_known; r++) is_known = !m->changed[group->reads[r]];
        if (is_known) {
            if (plan->is_first) keys[g] = plan->order[k - 1].keys[g];
            continue;
        }
        if (relations[g] & IS_COMPARED) {
            run_compared(m, block, group);
            continue;
        }
        run_group(m, block, group);
        for (int32_t v = 0; v < group->kept_count; v++) m->changed[group->kept[v]] = 1;
        if (plan->is_first && group->kept_count) keys[g] = values_hash(m, group->kept, group->kept_count) | 1; /* 0 is said of those that are not known */
    }
}
