/* Batch simulator of fixed-point programs: candidates are data, so this file is compiled once per machine
 * and rounding (KERNEL_ROUNDING), and for each size of a block of samples (LANES; sample_blocks.py chooses).
 *
 * A block of LANES samples runs the whole program before the next block starts, so that its values stay in the first levels of
 * cache. Loops of a program are loops here: steps are stored once, and element numbers move with the loops' indices. Values are int16 (programs of 8 and 16 bits); sums are int32 modulo 2**32, which
 * equals a narrower accumulator once it is wrapped, because nothing is shifted before the end of a linear sum. wide_kernel.c is the same
 * for programs that have 32 bits somewhere.
 * The semantics are those of codegen/fixed/table.py; evaluators/fixed_point/reference.py is the definition.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#ifndef LANES
#define LANES 64
#endif

#ifdef WIDE_VALUES
typedef int32_t Value;
typedef int64_t Number;   /* what is computed with */
typedef __int128 Total;   /* of the margins of all samples */
#define VECTOR_UNIT "32 bits, as the compiler has it"
#define MOST_LANES 64
#else
typedef int16_t Value;
typedef int32_t Number;
typedef int64_t Total;
#include "vectors.h"
#define MOST_LANES (8 * VECTOR_LANES)

/* Loops over an element's samples: some Shorts at a time, since registers hold no more, of which one turn is one, or one an Ints. */
#define VECTORS (LANES < 4 * VECTOR_LANES ? LANES / VECTOR_LANES : 4)
#define CHUNK (VECTORS * VECTOR_LANES)
#define END_OF_CHUNKS (LANES > CHUNK ? (size_t)m->samples : 1)
#define EACH_CHUNK(first) for (size_t first = 0, end = END_OF_CHUNKS; first < end; first += CHUNK)
#define EACH_VECTOR(v) _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
#define EACH_HALF(v) _Pragma("GCC unroll 8") for (int v = 0; v < 2 * VECTORS; v++)
#endif

/* The columns of a row, in the order of codegen/fixed/table.py. */
enum { BITS, ACC_BITS, SHIFT_A, SHIFT_B, SHIFT_TERM, SHIFT_OUT, HALVINGS, CONSTANT_A, CONSTANT_B, FUNCTION, COLUMNS };

/* A table of a function: the results for every argument of 16 bits, in the order of its unsigned value; or where arguments are
 * short for every one of 8 bits, after which the low bytes of the 256 results follow, and the high ones. Of wide values for every
 * argument of 16 bits after SHIFT_A: all that are beyond have the results of the ends. */
typedef struct {
    const Value *entries;
    int32_t short_arguments, short_results; /* of 8 bits */
} Table;

#ifndef WIDE_VALUES
#include "lookup.h"
#endif
#include "pointwise.h"

/* What executes operations, by the names of their classes; pointwise operators come on top. */
#define STRUCTURED(CASE) \
    CASE(Fill) CASE(Add) CASE(Subtract) CASE(Multiply) CASE(Dot) CASE(MaxPool) CASE(Table) CASE(NormaliseL2) CASE(Select) \
    CASE(ArgMax) CASE(Sign) CASE(Loop)
#define OPCODE(name, ...) OP_##name,
enum { STRUCTURED(OPCODE) POINTWISE(OPCODE) OPCODES };
#define NAME_OF(name, ...) #name,
static const char *const NAMES[] = {STRUCTURED(NAME_OF) POINTWISE(NAME_OF)};

/* How all divisions round: a library for each, since a search has one of them. */
#define TOWARD_ZERO 0
#define FLOOR 1
#define NEAREST 2
#ifndef KERNEL_ROUNDING
#define KERNEL_ROUNDING TOWARD_ZERO
#endif

/* Where an operand's elements live. */
enum { LITERAL, STATIC, DYNAMIC };

typedef struct {
    int32_t place;           /* LITERAL, STATIC or DYNAMIC */
    int32_t variable;        /* number in program.variables */
    const int32_t *elements; /* element numbers in the first round of all loops; -1 is a padded place */
    int64_t moved;           /* by how much they have moved since; 0 where nothing moves */
} Operand;

typedef struct {
    int32_t opcode, row;
    int32_t n, window;       /* elements written; elements of one window (MaxPool, NormaliseL2), or strictness (Select). Loop: how often; steps in it */
    int32_t p, q, r;         /* Dot: [p, q] x [q, r] */
    int32_t pack;            /* Dot: number of its packed weights; -1 where both operands are of one kind */
    int32_t out_variable;
    const int32_t *out;
    int64_t out_moved;       /* as of an operand */
    Operand a, b, c;
    const int32_t *moves;    /* [loops around it][MOVING], by how much each moves in a round; NULL where nothing does */
    int64_t executed;        /* outside of loops: how many steps are executed before this one */
} Step;

/* What moves: element numbers of the result and of the operands, and the number of packed weights. */
enum { MOVES_OUT, MOVES_A, MOVES_B, MOVES_C, MOVES_PACK, MOVING };

/* Steps that run or are left out together: a variable that one of them writes is written by no step outside. */
typedef struct {
    int32_t first_step, end_step;
    int32_t row_count, static_count, read_count, kept_count;
    int32_t reads_input;
    int64_t work;                    /* products and other elements */
    const int32_t *rows;             /* of its operations */
    const int32_t *statics;          /* parameters that it reads */
    const int32_t *reads;            /* variables that groups before it write */
    const int32_t *kept;             /* variables that it writes and groups behind it read */
    int32_t stored_count, source_count;
    const int32_t *stored;           /* those, and the result where it writes it */
    const int32_t *sources;          /* groups before it that write what it reads */
    int32_t decides;                 /* whether margins are summed in it */
} Group;

typedef struct {
    int32_t step_count, variable_count, row_count, block_count, sample_count, result_size, result_variable, input_variable;
    const int32_t *result;           /* element numbers of the result */
    const int64_t *variable_offsets; /* into the block's storage, in elements; -1 for parameters and the input */
    const int64_t *variable_elements;
    int64_t storage_elements;
    int64_t most_kept;               /* elements that any group keeps */
    int64_t input_elements;
    int64_t scratch_terms;           /* the largest q of any Dot */
    int32_t pack_count;
    int32_t most_loops;              /* around any step */
    int64_t contest_step;            /* which of all executed steps decides the label; -1: no margins are summed */
    int32_t contest_variable;        /* holds the scores */
    const int32_t *leaders, *rivals; /* [sample_count], elements of it; -1 stands for zero */
    const int32_t *float_margins;    /* [sample_count], in the units of margins.py */
    const Step *steps;
    int32_t group_count;
    const Group *groups;             /* all steps, in their order */
    const volatile int32_t *stop;    /* set by another thread: outputs are not needed any more */
} Program;

/* Candidates that run together, each with its place in the arrays. */
typedef struct {
    int32_t count;                     /* of those in `chosen` */
    int32_t first_block, end_block;
    const int32_t *chosen;             /* which run, in any order */
    const int32_t *rows;               /* [count][row_count][COLUMNS] */
    const Value *const *statics;       /* [count][variable_count], NULL but for parameters */
    const int32_t *const *packs;       /* [count][pack_count], weights of a Dot as products_body.h wants them */
    const Table *const *tables;        /* [count][row_count], NULL where the operation is no Table */
    const Value *const *inputs;        /* [count], each [block_count][input_elements][LANES] */
    Value *outputs;                    /* [count][sample_count][result_size] */
    Total *margin_sums;                /* [count][3], to which the sums of contest.h are added */
    const int64_t *input_formats;      /* [count], the same for the same features, whenever they are asked for */
    char *memory;                      /* of known_values.h, from call to call of the same program; NULL where nothing is kept */
    int32_t known_values;              /* how many of each group and block it has room for */
    int64_t *groups_run;               /* to which is added how many groups have run on a block: fewer where candidates come to the same */
    const Value *expected;             /* [2][sample_count], labels: the float program's, and the true ones */
    int32_t *left;                     /* [count][2], how many more labels may be others before the candidate is out; NULL where none is ever */
    int32_t *met;                      /* [count], samples that the candidate has met, of those that may be out */
} Batch;

/* What a candidate runs on. */
typedef struct {
    const Program *program;
    const int32_t *rows;               /* [row_count][COLUMNS] */
    const Value *const *statics;       /* [variable_count] */
    const int32_t *const *packs;       /* [pack_count] */
    const Table *const *tables;        /* [row_count] */
    Value **bases;                     /* [variable_count], the first element's samples; NULL for parameters */
    Number *terms;                     /* [scratch_terms][LANES] */
    Value *zeros;                      /* LANES zeros */
    Total *block_sums;                 /* [3], of the margins of the candidate that has run last, in this block */
    uint8_t *changed;                  /* [variable_count], whether a variable differs from that of the candidate before, where that is asked */
    Value *storage, *spare;            /* [storage_elements][LANES] and [most_kept][LANES] */
    int32_t *indices;                  /* of the loops that run, outermost first */
    Step *steps;                       /* [step_count], as they are in the round that runs */
    int64_t executed;                  /* steps of the candidate on this block */
    int64_t groups_run;
    int32_t samples;                   /* in this block: what lies in lanes behind them, nobody reads */
} Machine;

static inline Number wrap(Number v, int bits)
{
    const int spare = 8 * (int)sizeof v - bits;
    return (v << spare) >> spare; /* with -fwrapv */
}

static inline Number clip(Number v, Number limit)
{
    const Number low = v > 0 ? v : 0;
    return low < limit ? low : limit;
}

/* Whether all values of a scaled operand fit 16 bits. */
static inline int fits_shorts(const Operand *o, int shift, int32_t constant)
{
    return o->place == LITERAL ? constant == (int16_t)constant : shift >= 0 && shift <= 15;
}

static inline Value *lanes_of(const Machine *m, int32_t variable, int64_t element)
{
    return m->bases[variable] + element * LANES;
}

/* The number of an operand's element; negative for a padded place. */
static inline int64_t element_at(const Operand *o, int64_t index)
{
    const int64_t element = o->elements[index];
    return element < 0 ? element : element + o->moved;
}

/* The samples of an element that a step writes. */
static inline Value *result_lanes(const Machine *m, const Step *s, int64_t index)
{
    return lanes_of(m, s->out_variable, s->out[index] + s->out_moved);
}

/* The step as it is in this round of the loops around it. */
static inline const Step *moved_step(Machine *m, int32_t number, int32_t loops)
{
    Step *s = &m->steps[number];
    if (!s->moves) return s;
    const Step *first = &m->program->steps[number];
    s->out_moved = s->a.moved = s->b.moved = s->c.moved = 0;
    s->pack = first->pack;
    for (int32_t d = 0; d < loops; d++) {
        const int32_t *moves = s->moves + (int64_t)d * MOVING;
        const int64_t index = m->indices[d];
        s->out_moved += index * moves[MOVES_OUT];
        s->a.moved += index * moves[MOVES_A];
        s->b.moved += index * moves[MOVES_B];
        s->c.moved += index * moves[MOVES_C];
        if (s->pack >= 0) s->pack += (int32_t)(index * moves[MOVES_PACK]);
    }
    return s;
}

#include "contest.h"

/* Division by a power of two; a negative shift multiplies modulo 2**32. */
static inline Number down(Number v, int n)
{
#if KERNEL_ROUNDING == TOWARD_ZERO
    return (v + ((v >> (8 * sizeof v - 1)) & (Number)((1u << n) - 1u))) >> n;
#elif KERNEL_ROUNDING == NEAREST
    return n ? (v >> n) + ((v >> (n - 1)) & 1) : v;
#else
    return v >> n;
#endif
}

#ifdef WIDE_VALUES
#include "wide_lanes_body.h"
#include "lane_by_lane_body.h"
#include "wide_body.h"
#else
#include "lanes_body.h"
#include "lane_by_lane_body.h"
#include "elements_body.h"
#include "products_body.h"
#endif
#include "steps.h"

static int32_t samples_in(const Program *program, int32_t block)
{
    const int32_t left = program->sample_count - block * LANES;
    return left < LANES ? left : LANES;
}

static void write_outputs(const Machine *m, int32_t block, Value *to)
{
    const Program *program = m->program;
    const int32_t count = samples_in(program, block);
    to += (int64_t)block * LANES * program->result_size;
    for (int32_t k = 0; k < program->result_size; k++) {
        const Value *from = lanes_of(m, program->result_variable, program->result[k]);
        for (int32_t l = 0; l < count; l++) to[l * program->result_size + k] = from[l];
    }
}

#include "shared_steps.h"
#include "known_values.h"
#include "label_counts.h"

/* All candidates on a block of samples, in the order of the plan, if there is one. */
static void run_block(Machine *m, const Batch *batch, const Plan *plan, Known *known, int32_t block)
{
    const Program *program = m->program;
    m->samples = samples_in(program, block);
    if (known->clock) memset(known->held, 0, (size_t)program->group_count * sizeof *known->held);
    for (int32_t k = 0; k < batch->count && !*program->stop; k++) {
        const int64_t i = (known->clock ? known->order : plan->order)[k].candidate;
        if (is_out(batch, i, block)) continue;
        m->rows = batch->rows + i * program->row_count * COLUMNS;
        m->statics = batch->statics + i * program->variable_count;
        m->packs = batch->packs + i * program->pack_count;
        m->tables = batch->tables + i * program->row_count;
        if (program->input_variable >= 0) /* nothing writes to an input */
            m->bases[program->input_variable] = (Value *)batch->inputs[i] + block * program->input_elements * LANES;
        if (known->clock) run_unknown(m, known, block, k);
        else run_groups(m, plan, block, k);
        for (int sum = 0; sum < 3; sum++) batch->margin_sums[i * 3 + sum] += m->block_sums[sum];
        write_outputs(m, block, batch->outputs + i * program->sample_count * program->result_size);
        if (batch->left) count_labels(program, batch, i, block);
    }
}

static void run_blocks(Machine *m, const Batch *batch, Plan *plan, Known *known)
{
    if (!known->clock) put_in_order(m->program, batch, plan);
    for (int32_t block = batch->first_block; block < batch->end_block && !*m->program->stop; block++) {
        plan->is_first = !known->clock && block == batch->first_block && batch->count > 1 && block + 1 < batch->end_block;
        run_block(m, batch, plan, known, block);
        if (plan->is_first) put_in_order(m->program, batch, plan);
    }
}

/* Runs the candidates of a batch. Returns 0, or -1 when memory runs out. */
int kilotune_run(const Program *program, const Batch *batch)
{
    Machine m = {.program = program};
    Plan plan = {0};
    Known known = {0};
    const size_t storage_bytes = (size_t)(program->storage_elements + program->most_kept + 1) * LANES * sizeof(Value);
    m.storage = aligned_alloc(64, storage_bytes);
    m.spare = m.storage + program->storage_elements * LANES;
    m.terms = aligned_alloc(64, (size_t)(program->scratch_terms + 2) * LANES * sizeof(Number));
    m.zeros = aligned_alloc(64, LANES * sizeof(Value));
    m.bases = calloc((size_t)program->variable_count + 1, sizeof *m.bases);
    m.changed = calloc((size_t)program->variable_count + 1, 1);
    m.block_sums = calloc(3, sizeof *m.block_sums);
    m.indices = calloc((size_t)program->most_loops + 1, sizeof *m.indices);
    m.steps = malloc(((size_t)program->step_count + 1) * sizeof *m.steps);
    const int failed = !m.storage || !m.terms || !m.zeros || !m.bases || !m.changed || !m.block_sums || !m.indices || !m.steps ||
                       !(batch->memory ? is_recalled(&known, program, batch) : has_room(&plan, program, batch));
    if (!failed) {
        memcpy(m.steps, program->steps, (size_t)program->step_count * sizeof *m.steps);
        memset(m.storage, 0, storage_bytes);
        memset(m.zeros, 0, LANES * sizeof(Value));
        for (int32_t v = 0; v < program->variable_count; v++)
            if (program->variable_offsets[v] >= 0) m.bases[v] = m.storage + program->variable_offsets[v] * LANES;
        run_blocks(&m, batch, &plan, &known);
        *batch->groups_run += m.groups_run;
    }
    free(m.storage);
    free(m.terms);
    free(m.zeros);
    free(m.bases);
    free(m.changed);
    free(m.block_sums);
    free(m.indices);
    free(m.steps);
    free_plan(&plan);
    forget(&known);
    return failed ? -1 : 0;
}

/* The number of what executes operations of that name; -1 where nothing does. */
int kilotune_opcode(const char *name)
{
    for (int i = 0; i < OPCODES; i++)
        if (!strcmp(NAMES[i], name)) return i;
    return -1;
}

/* The vector unit that this build uses, for reports. */
const char *kilotune_vector_unit(void) { return VECTOR_UNIT; }

/* The largest LANES that are fast with that unit. */
int kilotune_most_lanes(void) { return MOST_LANES; }
