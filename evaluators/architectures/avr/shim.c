/* Inferences on a simulated AVR, driven from Python.
 *
 * The firmware marks the start and the end of each inference by writing 1 and 2 to GPIOR0, in one cycle, and after each operation
 * of a traced build its number to GPIOR2 (high byte) and GPIOR1 (low byte). Instructions are stepped one at a time: the stack
 * pointer is sampled after each, and simavr 1.6 needs correcting after some. That version takes ADIW and SBIW with
 * (K & 15) >= 12 for 32-bit instructions, so that a skip over one of them skips two.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/sim_avr.h>
#include <simavr/sim_core.h>
#include <simavr/sim_io.h>

enum { GPIOR0 = 0x3E, GPIOR1 = 0x4A, GPIOR2 = 0x4B, SPL = 0x5D, SPH = 0x5E };
enum { OUT_SPL = 0xBE0D, OUT_SPH = 0xBE0E }; /* but for the register that is written */
enum { START = 1, END = 2 };
enum { FINISHED, TOO_MANY_CYCLES, CRASHED, BAD_REQUEST, NO_ROOM };

typedef struct {
    avr_t *avr;
    uint64_t started, ended;
    uint32_t least_sp, variables_end; /* below that the stack is in what variables hold */
    int half_written;       /* of the stack pointer the upper half */
    uint8_t last_spl;
    int at_start;           /* START was written by the last instruction */
    int corrects_skips;
    /* tracing: the bytes at `watched` after each operation, and the numbers of the operations */
    uint32_t watched, watched_bytes;
    uint8_t *snapshots;
    int32_t *rows;
    int64_t events, most_events;
    /* profiling: the operation after which an instruction stands as a mark (by its word's address; -1: none), the cycles of each
       operation and last those after the last mark, how many marks were met, and up to which cycle all is counted */
    int32_t *marked;
    uint64_t *cycles, marks, counted;
    int32_t operations;
    int inferring;
} Machine;

static void on_mark(struct avr_t *avr, avr_io_addr_t address, uint8_t value, void *parameter)
{
    Machine *m = parameter;
    avr->data[address] = value;
    if (value == START) {
        m->at_start = 1;
        m->started = avr->cycle;
        m->counted = avr->cycle + 1;
        m->inferring = 1;
    } else if (value == END) {
        m->ended = avr->cycle;
        if (m->marked) m->cycles[m->operations] += avr->cycle - m->counted;
        m->inferring = 0;
    }
}

static void on_operation(struct avr_t *avr, avr_io_addr_t address, uint8_t value, void *parameter)
{
    Machine *m = parameter;
    avr->data[address] = value;
    if (m->snapshots && m->events < m->most_events) {
        memcpy(m->snapshots + m->events * m->watched_bytes, avr->data + m->watched, m->watched_bytes);
        m->rows[m->events] = avr->data[GPIOR2] << 8 | value;
    }
    m->events++;
}

static void say_nothing(avr_t *avr, const int level, const char *format, va_list arguments)
{
    (void)avr, (void)level, (void)format, (void)arguments;
}

/* Variables take RAM up to `variables_end`. NULL when simavr has no such processor, or the flash is too small. */
Machine *kilotune_avr_open(const char *mcu, uint32_t clock_hz, uint8_t *flash, uint32_t flash_bytes, uint32_t variables_end,
                           int corrects_skips)
{
    avr_global_logger_set(say_nothing);
    avr_t *avr = avr_make_mcu_by_name(mcu);
    if (!avr) return NULL;
    avr_init(avr);
    Machine *m = calloc(1, sizeof *m);
    if (!m || flash_bytes > avr->flashend + 1) {
        avr_terminate(avr);
        free(m);
        return NULL;
    }
    avr->frequency = clock_hz;
    avr->log = 0;
    avr_loadcode(avr, flash, flash_bytes, 0);
    avr->codeend = avr->flashend;
    m->avr = avr;
    m->least_sp = avr->ramend;
    m->variables_end = variables_end;
    m->corrects_skips = corrects_skips;
    avr_register_io_write(avr, GPIOR0, on_mark, m);
    avr_register_io_write(avr, GPIOR1, on_operation, m);
    return m;
}

void kilotune_avr_close(Machine *m)
{
    avr_terminate(m->avr);
    free(m->avr);
    free(m->marked);
    free(m);
}

static uint16_t word_at(const avr_t *avr, uint32_t address)
{
    return address + 1 <= avr->flashend ? avr->flash[address] | avr->flash[address + 1] << 8 : 0;
}

static int is_skip(uint16_t opcode)
{
    return (opcode & 0xfc00) == 0x1000      /* CPSE */
        || (opcode & 0xfc08) == 0xfc00      /* SBRC, SBRS */
        || (opcode & 0xfd00) == 0x9900;     /* SBIC, SBIS */
}

static void meet_mark(Machine *m)
{
    const int32_t row = m->marked[m->avr->pc / 2];
    if (row < 0 || !m->inferring) return;
    m->cycles[row] += m->avr->cycle - m->counted;
    m->counted = m->avr->cycle + 1; /* the mark's own */
    m->marks++;
}

static void step(Machine *m)
{
    avr_t *avr = m->avr;
    const uint32_t before = avr->pc;
    if (m->marked) meet_mark(m);
    avr->run_cycle_count = 1; /* one instruction a call */
    avr->pc = avr_run_one(avr);
    if (avr->pc == before + 6 && m->corrects_skips && is_skip(word_at(avr, before))) {
        const uint16_t skipped = word_at(avr, before + 2);
        /* ADIW, SBIW: one word */
        if ((skipped & 0xfe00) == 0x9600 && (skipped & 15) >= 12) {
            avr->pc = before + 4;
            avr->cycle--;
        }
    }
    const uint32_t sp = avr->data[SPL] | avr->data[SPH] << 8;
    const uint16_t done = word_at(avr, before) & 0xfe0f;
    if (done == OUT_SPH) m->half_written = 1; /* by functions with arrays; the lower half is still that of another place */
    else if (done == OUT_SPL || avr->data[SPL] != m->last_spl) m->half_written = 0;
    m->last_spl = avr->data[SPL];
    if (sp < m->least_sp && sp > 0xff && !m->half_written) m->least_sp = sp;
}

static int run_to_start(Machine *m, uint64_t most_cycles)
{
    const uint64_t end = m->avr->cycle + most_cycles;
    m->at_start = 0;
    while (!m->at_start) {
        if (m->avr->cycle > end) return TOO_MANY_CYCLES;
        if (m->avr->state != cpu_Running) return CRASHED;
        if (m->least_sp + 1 < m->variables_end) return NO_ROOM;
        step(m);
    }
    return FINISHED;
}

/* Runs an inference. Its input [input_bytes] goes to RAM at `input`, the output [output_bytes] comes from `output`; `cycles` is what it takes.
 * 0, or why it stopped. */
int kilotune_avr_run(Machine *m, uint32_t input, uint32_t input_bytes, const uint8_t *given, uint32_t output, uint32_t output_bytes,
                     uint8_t *made, uint64_t *cycles, uint64_t most_cycles)
{
    avr_t *avr = m->avr;
    if (input + input_bytes > avr->ramend + 1u || output + output_bytes > avr->ramend + 1u) return BAD_REQUEST;
    if (m->watched + m->watched_bytes > avr->ramend + 1u) return BAD_REQUEST;
    if (!m->at_start) {
        const int status = run_to_start(m, most_cycles);
        if (status) return status;
    }
    memcpy(avr->data + input, given, input_bytes);
    const uint64_t started = m->started;
    const int status = run_to_start(m, most_cycles);
    if (status) return status;
    memcpy(made, avr->data + output, output_bytes);
    *cycles = m->ended - started - 1; /* less the writing of START itself */
    return FINISHED;
}

/* From now on keep, after each operation, its number in `rows` and `bytes` bytes of RAM in `snapshots`; at most `most_events`. */
void kilotune_avr_trace(Machine *m, uint32_t address, uint32_t bytes, uint8_t *snapshots, int32_t *rows, int64_t most_events)
{
    m->watched = address;
    m->watched_bytes = bytes;
    m->snapshots = snapshots;
    m->rows = rows;
    m->events = 0;
    m->most_events = most_events;
}

/* From now on count cycles by operation: marks [count][2] are addresses and numbers below `operations`, `cycles` [operations + 1] is added
 * to. 0, or why not. */
int kilotune_avr_profile(Machine *m, const uint32_t *marks, int64_t count, int32_t operations, uint64_t *cycles)
{
    const uint32_t words = m->avr->flashend / 2 + 1;
    m->marked = malloc(words * sizeof *m->marked);
    if (!m->marked) return BAD_REQUEST;
    for (uint32_t at = 0; at < words; at++) m->marked[at] = -1;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t address = marks[2 * i], row = marks[2 * i + 1];
        if (address / 2 >= words || row >= (uint32_t)operations) return BAD_REQUEST;
        if (address) m->marked[address / 2] = (int32_t)row;
    }
    m->operations = operations;
    m->cycles = cycles;
    return FINISHED;
}

uint64_t kilotune_avr_marks(const Machine *m) { return m->marks; }

int64_t kilotune_avr_events(const Machine *m) { return m->events; }

uint32_t kilotune_avr_peak_stack_bytes(const Machine *m) { return m->avr->ramend - m->least_sp; }
