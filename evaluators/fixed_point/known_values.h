/* What groups of steps have come to on each block of samples, kept from call to call, so that no candidate of a search computes what another
 * one has: neighbours of a candidate differ from it in one decision, and are asked for in many small batches.
 *
 * What a group comes to hangs on what it means (its rows, parameters and tables, the format of the features) and on the values that it reads. Meanings
 * and values have numbers, which are never used again; meanings are compared in full, and so are values: those that are the same have the same
 * number, whatever they come from ("hash consing"), by which all that reads them is known as well. Most values are asked for once, and a copy of them
 * would be lost in memory that is far away: those are stored that are asked for again. Of all, the latest ones are kept.
 */

/* How many entries one may be among, by its hash; the one that was used last goes last. */
#define WAYS 8
#define MEANING_SETS 64
#define KEY_SETS 8

/* How much work for an element makes a value worth storing before it is asked for again. */
#define STORED_AT_ONCE 8

typedef struct {
    uint64_t hash;
    int64_t number, used; /* 0 where there is none */
} Entry;

/* Of a group, for each block but for its meanings. */
typedef struct {
    int64_t elements;      /* of all variables that are stored */
    int64_t meaning_words, key_words;
    int32_t ways, sets;    /* of values */
    Entry *meanings;       /* [MEANING_SETS][WAYS] */
    int64_t *meaning_texts; /* [...][meaning_words] */
    Entry *values;         /* [block_count][sets][ways] */
    Value *lanes;          /* [...][elements][LANES] */
    Total *sums;           /* [...][3], of the margins, where the group decides the label */
    Entry *keys;           /* [block_count][KEY_SETS][WAYS], whose number is that of the value */
    int64_t *key_texts;    /* [...][key_words]: the place where the value was stored, or -1; what the group means; numbers of what it reads */
} KnownGroup;

typedef struct {
    int64_t *clock;        /* the latest number and use */
    KnownGroup *groups;
    uint64_t *meanings;    /* [count of the batch][group_count] */
    Place *order;          /* [count of the batch], candidates that mean the same at first beside one another */
    int64_t *text;         /* of a meaning or a key */
    int64_t *numbers;      /* [group_count], of the values of the candidate that runs */
    int64_t *held;         /* [group_count], of the values where the group's steps write them; 0 of none in this block */
} Known;

static inline void *take(char *memory, int64_t *taken, int64_t count, size_t size)
{
    void *place = (void *)((uintptr_t)memory + (uintptr_t)*taken);
    *taken += (count * (int64_t)size + 63) / 64 * 64;
    return place;
}

/* Where everything is in `memory`, with room for so many values of each group and block; how many bytes that takes. */
static int64_t lay_out(const Program *program, int32_t count, char *memory, KnownGroup *groups)
{
    int64_t taken = 64;
    for (int32_t g = 0; g < program->group_count; g++) {
        const Group *group = &program->groups[g];
        KnownGroup *to = &groups[g];
        to->ways = count < WAYS ? count : WAYS;
        to->sets = count / to->ways;
        to->elements = 0;
        for (int32_t k = 0; k < group->stored_count; k++) to->elements += program->variable_elements[group->stored[k]];
        to->meaning_words = 1 + group->row_count * (1 + (COLUMNS + 1) / 2) + group->static_count;
        to->key_words = 2 + group->source_count;
        const int64_t values = (int64_t)program->block_count * to->sets * to->ways, meanings = MEANING_SETS * WAYS;
        const int64_t keys = (int64_t)program->block_count * KEY_SETS * WAYS;
        to->meanings = take(memory, &taken, meanings, sizeof *to->meanings);
        to->meaning_texts = take(memory, &taken, meanings * to->meaning_words, sizeof *to->meaning_texts);
        to->values = take(memory, &taken, values, sizeof *to->values);
        to->lanes = take(memory, &taken, values * to->elements * LANES, sizeof *to->lanes);
        to->sums = take(memory, &taken, values * 3, sizeof *to->sums);
        to->keys = take(memory, &taken, keys, sizeof *to->keys);
        to->key_texts = take(memory, &taken, keys * to->key_words, sizeof *to->key_texts);
    }
    return taken;
}

/* The entry of a set that has been used last of all the longest ago. */
static int64_t oldest(const Entry *entries, int32_t ways)
{
    int64_t found = 0;
    for (int32_t way = 1; way < ways; way++)
        if (entries[way].used < entries[found].used) found = way;
    return found;
}

static uint64_t text_hash(const int64_t *text, int64_t words)
{
    uint64_t hash = 0;
    for (int64_t w = 0; w < words; w++) hash = mixed(hash, (uint64_t)text[w]);
    return mixed(hash, 0);
}

/* All that a group means for a candidate. */
static void write_meaning(const Program *program, const Batch *batch, const Group *group, int64_t i, int64_t *text)
{
    *text++ = group->reads_input ? batch->input_formats[i] : 0;
    for (int32_t r = 0; r < group->row_count; r++) {
        const int64_t row = i * program->row_count + group->rows[r];
        text[(COLUMNS + 1) / 2 - 1] = 0;
        memcpy(text, batch->rows + row * COLUMNS, COLUMNS * sizeof *batch->rows);
        text += (COLUMNS + 1) / 2;
        *text++ = (int64_t)(intptr_t)batch->tables[row];
    }
    for (int32_t s = 0; s < group->static_count; s++)
        *text++ = (int64_t)(intptr_t)batch->statics[i * program->variable_count + group->statics[s]];
}

/* The number of the meaning in `text`. */
static int64_t meaning_number(Known *known, KnownGroup *group)
{
    const int64_t words = group->meaning_words;
    const uint64_t hash = text_hash(known->text, words);
    const int64_t first = (int64_t)(hash % MEANING_SETS) * WAYS;
    Entry *set = group->meanings + first;
    for (int32_t way = 0; way < WAYS; way++) {
        if (set[way].hash != hash || !set[way].number) continue;
        if (memcmp(group->meaning_texts + (first + way) * words, known->text, (size_t)words * sizeof *known->text)) continue;
        set[way].used = ++*known->clock;
        return set[way].number;
    }
    const int64_t way = oldest(set, WAYS), number = ++*known->clock;
    set[way] = (Entry){hash, number, number};
    memcpy(group->meaning_texts + (first + way) * words, known->text, (size_t)words * sizeof *known->text);
    return number;
}

static void forget(const Known *known)
{
    free(known->groups);
    free(known->meanings);
    free(known->order);
    free(known->text);
    free(known->numbers);
    free(known->held);
}

static int has_lists(Known *known, const Program *program, const Batch *batch)
{
    const size_t groups = (size_t)program->group_count + 1, count = (size_t)batch->count + 1;
    known->groups = calloc(groups, sizeof *known->groups);
    known->meanings = malloc(groups * count * sizeof *known->meanings);
    known->order = malloc(count * sizeof *known->order);
    known->numbers = calloc(groups, sizeof *known->numbers);
    known->held = calloc(groups, sizeof *known->held);
    if (!known->groups || !known->meanings || !known->order || !known->numbers || !known->held) return 0;
    lay_out(program, batch->known_values, batch->memory, known->groups);
    int64_t most = 1;
    for (int32_t g = 0; g < program->group_count; g++) {
        const KnownGroup *group = &known->groups[g];
        if (group->meaning_words > most) most = group->meaning_words;
        if (group->key_words > most) most = group->key_words;
    }
    known->text = malloc((size_t)most * sizeof *known->text);
    return known->text != NULL;
}

/* What is known in the memory of a batch, and what its candidates mean. */
static int is_recalled(Known *known, const Program *program, const Batch *batch)
{
    if (!has_lists(known, program, batch)) return 0;
    known->clock = (int64_t *)batch->memory;
    for (int32_t k = 0; k < batch->count; k++) {
        uint64_t *meanings = known->meanings + (int64_t)k * program->group_count;
        for (int32_t g = 0; g < program->group_count; g++) {
            write_meaning(program, batch, &program->groups[g], batch->chosen[k], known->text);
            meanings[g] = (uint64_t)meaning_number(known, &known->groups[g]);
        }
        known->order[k] = (Place){meanings, program->group_count, batch->chosen[k]};
    }
    qsort(known->order, (size_t)batch->count, sizeof *known->order, compare_places);
    return 1;
}

/* Writes the key of a group in `text`, but for its first word. */
static uint64_t write_key(const Known *known, const Group *group, uint64_t meaning)
{
    int64_t *text = known->text;
    text[1] = (int64_t)meaning;
    for (int32_t s = 0; s < group->source_count; s++) text[2 + s] = known->numbers[group->sources[s]];
    return text_hash(text + 1, 1 + group->source_count);
}

/* The number of the key in `text` among those of the group; -1 where it has not been asked for. */
static int64_t find_key(const Known *known, const KnownGroup *group, int32_t block, uint64_t hash)
{
    const int64_t words = group->key_words, first = ((int64_t)block * KEY_SETS + (int64_t)(hash % KEY_SETS)) * WAYS;
    for (int64_t k = first; k < first + WAYS; k++) {
        if (group->keys[k].hash != hash || !group->keys[k].number) continue;
        if (!memcmp(group->key_texts + k * words + 1, known->text + 1, (size_t)(words - 1) * sizeof *known->text)) return k;
    }
    return -1;
}

static void add_key(const Known *known, KnownGroup *group, int32_t block, uint64_t hash, int64_t number, int64_t place)
{
    const int64_t words = group->key_words, first = ((int64_t)block * KEY_SETS + (int64_t)(hash % KEY_SETS)) * WAYS;
    const int64_t k = first + oldest(group->keys + first, WAYS);
    group->keys[k] = (Entry){hash, number, ++*known->clock};
    known->text[0] = place;
    memcpy(group->key_texts + k * words, known->text, (size_t)words * sizeof *known->text);
}

/* Whether a group has come to that value. */
static int is_value(const Machine *m, const Group *group, const KnownGroup *known, int64_t place)
{
    const Value *lanes = known->lanes + place * known->elements * LANES;
    for (int32_t k = 0; k < group->stored_count; k++) {
        const int64_t elements = m->program->variable_elements[group->stored[k]];
        if (!is_same(m->bases[group->stored[k]], lanes, elements, m->samples)) return 0;
        lanes += elements * LANES;
    }
    return !group->decides || !memcmp(known->sums + 3 * place, m->block_sums, 3 * sizeof *known->sums);
}

/* The place of the stored value that a group has come to again; -1 where there is none. `hash`: of it. */
static int64_t find_value(const Machine *m, const Group *group, const KnownGroup *of, int32_t block, uint64_t hash)
{
    const int64_t first = ((int64_t)block * of->sets + (int64_t)(hash % (uint64_t)of->sets)) * of->ways;
    for (int64_t place = first; place < first + of->ways; place++)
        if (of->values[place].number && of->values[place].hash == hash && is_value(m, group, of, place)) return place;
    return -1;
}

/* Stores what a group's variables are, and says where. */
static int64_t store_value(const Machine *m, const Group *group, const KnownGroup *of, int32_t block, uint64_t hash, int64_t number)
{
    const int64_t first = ((int64_t)block * of->sets + (int64_t)(hash % (uint64_t)of->sets)) * of->ways;
    const int64_t place = first + oldest(of->values + first, of->ways);
    of->values[place].hash = hash;
    of->values[place].number = number;
    Value *lanes = of->lanes + place * of->elements * LANES;
    for (int32_t k = 0; k < group->stored_count; k++) {
        const int64_t elements = m->program->variable_elements[group->stored[k]];
        memcpy(lanes, m->bases[group->stored[k]], (size_t)elements * LANES * sizeof *lanes);
        lanes += elements * LANES;
    }
    if (group->decides) memcpy(of->sums + 3 * place, m->block_sums, 3 * sizeof *of->sums);
    return place;
}

/* Where a group's variables are: in a value that is known, or where its steps write them. */
static void point_to(Machine *m, const Group *group, Value *lanes)
{
    for (int32_t k = 0; k < group->stored_count; k++) {
        const int32_t variable = group->stored[k];
        m->bases[variable] = lanes ? lanes : m->storage + m->program->variable_offsets[variable] * LANES;
        if (lanes) lanes += m->program->variable_elements[variable] * LANES;
    }
}

/* What a group comes to that is not stored where its key says, number `k` or -1; the number of the value. */
static int64_t run_and_store(Machine *m, Known *known, int32_t block, int32_t g, uint64_t hash, int64_t k)
{
    const Group *group = &m->program->groups[g];
    KnownGroup *of = &known->groups[g];
    point_to(m, group, NULL);
    const int is_held = k >= 0 && !group->decides && known->held[g] == of->keys[k].number;
    if (!is_held) {
        run_group(m, block, group);
        if (*m->program->stop) return 0; /* its loops may have ended early */
    }
    const uint64_t content = values_hash(m, group->stored, group->stored_count);
    int64_t place = find_value(m, group, of, block, content);
    int64_t number = place >= 0 ? of->values[place].number : k >= 0 ? of->keys[k].number : ++*known->clock;
    if (place < 0 && (k >= 0 || group->work >= STORED_AT_ONCE * of->elements)) place = store_value(m, group, of, block, content, number);
    if (place >= 0) of->values[place].used = ++*known->clock;
    if (k < 0) {
        add_key(known, of, block, hash, number, place);
    } else {
        of->keys[k].number = number;
        of->key_texts[k * of->key_words] = place;
    }
    return known->held[g] = number;
}

/* What is not known yet of the candidate at place `c`, on one block of samples. */
static void run_unknown(Machine *m, Known *known, int32_t block, int32_t c)
{
    const Program *program = m->program;
    for (int32_t g = 0; g < program->group_count && !*program->stop; g++) {
        const Group *group = &program->groups[g];
        KnownGroup *of = &known->groups[g];
        if (!group->stored_count && !group->decides) continue;
        const uint64_t hash = write_key(known, group, known->order[c].keys[g]);
        const int64_t k = find_key(known, of, block, hash), place = k < 0 ? -1 : of->key_texts[k * of->key_words];
        if (k >= 0) of->keys[k].used = ++*known->clock;
        if (place < 0 || of->values[place].number != of->keys[k].number) {
            known->numbers[g] = run_and_store(m, known, block, g, hash, k);
            continue;
        }
        point_to(m, group, of->lanes + place * of->elements * LANES);
        if (group->decides) memcpy(m->block_sums, of->sums + 3 * place, 3 * sizeof *m->block_sums);
        of->values[place].used = *known->clock;
        known->numbers[g] = of->values[place].number;
    }
}

/* How many bytes of memory, all zeros at first, there have to be for so many values of each group and block; -1 when memory runs out. */
int64_t kilotune_memory_bytes(const Program *program, int32_t known_values)
{
    KnownGroup *groups = calloc((size_t)program->group_count + 1, sizeof *groups);
    const int64_t bytes = groups ? lay_out(program, known_values, NULL, groups) : -1;
    free(groups);
    return bytes;
}
