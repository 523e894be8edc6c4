/* A TCG plugin of QEMU: instructions, and cycles by the tables of the technical reference manuals, of each inference.
 *
 * Debian ships no header of the plugin interface, so what is used of its version 1 is declared here. Cycles are approximate:
 * flash without wait states, divisions at their mean, and of the pipelining of loads only what neighbours show. An access of the M4
 * that is not aligned takes a cycle more.
 *
 * Arm publishes no table for the Cortex-M55. Its scalar instructions are counted as the M4's, which LLVM's scheduling model of it
 * (ARMScheduleM55.td) calls much alike; that two short ones may be issued at once is left out. The end of a low-overhead loop takes nothing.
 * A vector instruction works for two cycles, on half a vector each, and the second one overlaps with the first one of the next
 * instruction where that goes to another pipeline: loads and stores, integers, or products.
 *
 * Sources: Cortex-M0+ TRM (DDI 0484) Table 3-1; Cortex-M4 TRM (DDI 0439) Tables 3-1, 3-2 and 7-1; LLVM's
 * ARMScheduleM55.td; encodings of the M55 are those that the GNU assembler writes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*TranslationCallback)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*ExecutionCallback)(unsigned int, void *);
typedef void (*ExitCallback)(qemu_plugin_id_t, void *);
typedef void (*AccessCallback)(unsigned int, uint32_t, uint64_t, void *);
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, TranslationCallback);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, ExecutionCallback, int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, ExecutionCallback, int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, AccessCallback, int, int, void *);
unsigned int qemu_plugin_mem_size_shift(uint32_t);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, ExitCallback, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

typedef struct {
    uint64_t start, end;
    uint32_t instructions, cycles;
    bool conditional; /* ends with a branch that may not be taken */
} Block;

static uint64_t start_address, end_address;
static bool is_m4, is_m55, counting; /* an M55 is an M4 as well */
static uint64_t instructions, cycles;
static const Block *previous;
static FILE *results;

/* Marks: NOPs behind the operations of a program (marks.txt: addresses and numbers, which marked.txt repeats with how often a mark was
 * met and the cycles before it, since the mark before or the start). */
typedef struct {
    uint64_t address, met, cycles;
    uint32_t operation;
} Mark;
typedef struct {
    Mark *mark;
    uint32_t to_come; /* cycles of its block from the mark on, which are counted when the block begins */
} MarkPlace;
static Mark *marks;
static size_t mark_count;
static uint64_t counted; /* cycles up to and with the last mark */

static uint32_t ones(uint32_t bits) { return (uint32_t)__builtin_popcount(bits); }

static uint32_t taken(void) { return is_m4 ? 2 : 1; } /* refilling the pipeline, beyond the branch's own cycle */

static bool is_access16(uint16_t op) { return (op >> 12) >= 5 && (op >> 12) <= 9; }

typedef enum { NO_VECTOR, TRANSFER, INTEGERS, PRODUCTS } Pipeline;

/* of vector instructions of the M55 */
static Pipeline pipeline(uint16_t first, uint16_t second)
{
    const uint16_t kind = second & 0x0f00;
    if ((first & 0xee00) == 0xec00) return kind >= 0x0e00 ? TRANSFER : NO_VECTOR;
    if ((first & 0xef00) == 0xef00) /* those that look as Neon's */
        return (kind == 0x0900 && (second & 0x10)) || kind == 0x0b00 || (kind & 0x0e00) == 0x0c00 ? PRODUCTS : INTEGERS;
    if ((first & 0xef00) != 0xee00 || kind < 0x0e00 || first == 0xfe71) return NO_VECTOR; /* VPST sets a predicate */
    if (first & 0x0080) return second & 0x00d0 ? INTEGERS : PRODUCTS; /* VMOVL; VMLADAV, VMLALDAV, VADDV */
    return kind == 0x0e00 && (first & 0x0030) != 0x0030 ? PRODUCTS : INTEGERS; /* VMUL, VMLA, VMULL, VMULH, VQDMULH */
}

/* where `before` is what the instruction before it went to */
static uint32_t cycles_of_vector(Pipeline to, Pipeline before) { return before == NO_VECTOR || before == to ? 2 : 1; }

/* LE and LETP, whose way back the processor remembers */
static bool is_loop_end(uint16_t first, uint16_t second) { return (first & 0xffcf) == 0xf00f && (second & 0xf000) == 0xc000; }

static uint32_t cycles16(uint16_t op, bool after_access)
{
    if ((op & 0xf800) == 0x4800 || is_access16(op)) return is_m4 && after_access ? 1 : 2; /* LDR, STR */
    if ((op & 0xf600) == 0xb400) {                                                      /* PUSH, POP */
        const uint32_t listed = ones(op & 0x1ff);
        return 1 + listed + ((op & 0x0900) == 0x0900 ? 1 + taken() : 0);
    }
    if ((op & 0xf000) == 0xc000) return 1 + ones(op & 0xff);                       /* LDM, STM */
    if ((op & 0xf000) == 0xd000) return 1;                                         /* B<c>, when not taken */
    if ((op & 0xf800) == 0xe000) return 1 + taken();                               /* B */
    if ((op & 0xff00) == 0x4700) return 1 + taken();                               /* BX, BLX */
    if ((op & 0xfd87) == 0x4487) return 1 + taken();                               /* ADD, MOV to PC */
    return 1;
}

static uint32_t cycles32(uint16_t first, uint16_t second, bool after_access)
{
    if ((first & 0xf800) == 0xf000 && (second & 0xd000) == 0xd000) return 3; /* BL */
    if ((first & 0xf800) == 0xf000 && (second & 0xd000) == 0x8000) return is_m4 ? 1 : 3; /* B<c>.W; MRS, MSR, barriers */
    if ((first & 0xf800) == 0xf000 && (second & 0xd000) == 0x9000) return 1 + taken();   /* B.W */
    if (!is_m4) return 3;
    if (is_m55 && (first & 0xf800) == 0xf000 && (second & 0xd000) == 0xc000) return is_loop_end(first, second) ? 0 : 1;
    if ((first & 0xfe40) == 0xe800) return 1 + ones(second);                   /* LDM.W, STM.W */
    if ((first & 0xfff0) == 0xe8d0 && (second & 0xffe0) == 0xf000) return 2 + taken(); /* TBB, TBH */
    if ((first & 0xfe40) == 0xe840) return 3;                                  /* LDRD, STRD */
    if ((first & 0xfe00) == 0xf800) return after_access ? 1 : 2;               /* LDR.W, STR.W */
    if ((first & 0xff80) == 0xfb80) return (first & 0x0050) == 0x0010 ? 7 : 1; /* SMULL, SMLAL; SDIV, UDIV: 2 to 12 */
    if ((first & 0xfff0) == 0xfb00) return (second & 0xf000) == 0xf000 ? 1 : 2; /* MUL; MLA, MLS; SMLAD and its like: 1 */
    if ((first & 0xee00) == 0xec00) {                                          /* VLDR, VSTR, VLDM, VSTM, VPUSH, VPOP */
        const bool single = (first & 0x0120) == 0x0100;
        return single ? (after_access ? 1 : 2) : 1 + (second & 0xff);
    }
    if ((first & 0xff00) == 0xee00 && (second & 0x0e10) == 0x0a00) {           /* floating-point arithmetic */
        const uint32_t kind = first & 0x00b0;
        if (kind == 0x0080) return 14;                                          /* VDIV */
        if (kind == 0x0000 || kind == 0x0010 || kind == 0x00a0 || kind == 0x0090) return 3; /* VMLA, VNMLA, VFMA */
        if (kind == 0x00b0 && (first & 0xf) == 1 && (second & 0x00c0) == 0x00c0) return 14; /* VSQRT */
        return 1;
    }
    return 1;
}

/* of halfwords and words by one register: what lists several takes place on the stack */
static bool may_be_unaligned(const uint16_t words[2], size_t size)
{
    if (size == 4) return (words[0] & 0xfe00) == 0xf800;
    return is_access16(words[0]) && (words[0] >> 12) != 9;
}

static void on_access(unsigned int processor, uint32_t access, uint64_t address, void *data)
{
    (void)processor, (void)data;
    if (counting && address & ((1u << qemu_plugin_mem_size_shift(access)) - 1)) cycles++;
}

static void on_mark(unsigned int processor, void *data)
{
    const MarkPlace *place = data;
    (void)processor;
    if (!counting) return;
    const uint64_t now = cycles - place->to_come;
    place->mark->cycles += now - counted;
    place->mark->met++;
    counted = now + 1; /* the mark's own */
}

static Mark *find_mark(uint64_t address)
{
    for (size_t i = 0; i < mark_count; i++)
        if (address && (marks[i].address & ~1ull) == address) return &marks[i];
    return NULL;
}

static void read_marks(void)
{
    FILE *file = fopen("marks.txt", "r");
    unsigned long long address;
    unsigned int operation;
    while (file && fscanf(file, "%llu %u", &address, &operation) == 2) {
        marks = realloc(marks, (mark_count + 1) * sizeof *marks);
        if (!marks) abort();
        marks[mark_count++] = (Mark){address, 0, 0, operation};
    }
    if (file) fclose(file);
}

static void on_block(unsigned int processor, void *data)
{
    const Block *block = data;
    (void)processor;
    if (block->start == end_address && counting) {
        counting = false;
        fprintf(results, "%llu %llu\n", (unsigned long long)instructions, (unsigned long long)cycles);
    }
    if (counting) {
        if (previous && previous->conditional && block->start != previous->end) cycles += taken();
        instructions += block->instructions;
        cycles += block->cycles;
        previous = block;
    }
    if (block->start == start_address) {
        counting = true;
        instructions = cycles = counted = 0;
        previous = NULL;
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    Block *block = calloc(1, sizeof *block); /* blocks live as long as the run */
    enum { MOST_MARKS = 512 }; /* QEMU's blocks have no more instructions */
    MarkPlace *places[MOST_MARKS];
    size_t place_count = 0;
    bool after_access = false;
    Pipeline before = NO_VECTOR;
    if (!block) abort();
    block->start = block->end = qemu_plugin_tb_vaddr(tb);
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        uint16_t words[2] = {0, 0};
        /* not by qemu_plugin_insn_size: what QEMU looks at beyond a page's end is counted there as a part of the instruction before it */
        memcpy(words, qemu_plugin_insn_data(instruction), 2);
        const size_t size = words[0] >= 0xe800 ? 4 : 2;
        if (size == 4) memcpy(words, qemu_plugin_insn_data(instruction), 4);
        block->instructions++;
        Mark *mark = find_mark(block->end);
        MarkPlace *place = mark ? calloc(1, sizeof *place) : NULL;
        if (place) {
            *place = (MarkPlace){mark, block->cycles}; /* so far; the rest is known at the block's end */
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_mark, NO_REGISTERS, place);
            places[place_count++ % MOST_MARKS] = place;
        }
        const Pipeline to = is_m55 && size == 4 ? pipeline(words[0], words[1]) : NO_VECTOR;
        if (to != NO_VECTOR) block->cycles += cycles_of_vector(to, before);
        else block->cycles += size < 4 ? cycles16(words[0], after_access) : cycles32(words[0], words[1], after_access);
        before = to;
        if (is_m4 && may_be_unaligned(words, size))
            qemu_plugin_register_vcpu_mem_cb(instruction, on_access, NO_REGISTERS, READS_AND_WRITES, NULL);
        after_access = size < 4 ? is_access16(words[0]) || (words[0] & 0xf800) == 0x4800
                                : (words[0] & 0xfe00) == 0xf800 || (words[0] & 0xef20) == 0xed00;
        /* B<c>, CBZ, CBNZ, B<c>.W, WLS */
        block->conditional = size < 4 ? (words[0] & 0xf000) == 0xd000 || (words[0] & 0xf500) == 0xb100
                                      : (words[0] & 0xf800) == 0xf000 && ((words[1] & 0xd000) == 0x8000
                                            || (is_m55 && (words[0] & 0xfff0) == 0xf040 && (words[1] & 0xf000) == 0xc000));
        block->end += size;
    }
    for (size_t i = 0; i < place_count && i < MOST_MARKS; i++) places[i]->to_come = block->cycles - places[i]->to_come;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, block);
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *data)
{
    (void)id, (void)data;
    fclose(results);
    FILE *file = mark_count ? fopen("marked.txt", "w") : NULL;
    for (size_t i = 0; file && i < mark_count; i++)
        fprintf(file, "%u %llu %llu\n", marks[i].operation, (unsigned long long)marks[i].met,
                (unsigned long long)marks[i].cycles);
    if (file) fclose(file);
}

/* start=ADDRESS end=ADDRESS core=m0plus|m4|m55 counts=PATH */
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments)
{
    (void)info;
    for (int i = 0; i < count; i++) {
        if (!strncmp(arguments[i], "start=", 6)) start_address = strtoull(arguments[i] + 6, NULL, 0);
        if (!strncmp(arguments[i], "end=", 4)) end_address = strtoull(arguments[i] + 4, NULL, 0);
        if (!strncmp(arguments[i], "core=", 5)) is_m55 = !strcmp(arguments[i] + 5, "m55");
        if (!strncmp(arguments[i], "core=", 5)) is_m4 = is_m55 || !strcmp(arguments[i] + 5, "m4");
        if (!strncmp(arguments[i], "counts=", 7)) results = fopen(arguments[i] + 7, "w");
    }
    if (!results) return 1;
    read_marks();
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
    return 0;
}
