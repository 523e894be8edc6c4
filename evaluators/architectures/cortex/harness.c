/* Main of the simulated boards: reads samples from the host's in.bin, writes results to out.bin.
 *
 * Files are the host's, by semihosting (BKPT 0xAB). Around each inference stand calls of kt_start and kt_end, which the plugin
 * looks for. After the last result come 4 bytes: the peak of the stack, seen in what is left of a painted pattern.
 */
#include "harness.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top, bss_end;

enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT = 0x18 };
enum { READ_BINARY = 1, WRITE_BINARY = 5 };
enum { STOPPED_BY_EXIT = 0x20026, STOPPED_BY_ERROR = 0x20023 };
#define PATTERN 0xA5C3A5C3u

static intptr_t host(intptr_t what, const void *parameter)
{
    register intptr_t r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = parameter;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static intptr_t open_file(const char *name, intptr_t mode)
{
    intptr_t length = 0;
    while (name[length]) length++;
    const intptr_t block[3] = {(intptr_t)name, mode, length};
    return host(SYS_OPEN, block);
}

/* 0 when all bytes were moved */
static intptr_t move(intptr_t what, intptr_t file, void *bytes, size_t count)
{
    const intptr_t block[3] = {file, (intptr_t)bytes, (intptr_t)count};
    return host(what, block);
}

__attribute__((noinline)) void kt_start(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void kt_end(void) { __asm__ volatile("" ::: "memory"); }

#ifdef KT_AFTER /* defined by trace.h */
void kt_trace(int32_t row, void *ram, size_t bytes)
{
    static intptr_t file = -1;
    if (file < 0) file = open_file("trace.bin", WRITE_BINARY);
    move(SYS_WRITE, file, &row, sizeof row);
    move(SYS_WRITE, file, ram, bytes);
}
#endif

static intptr_t in;

#if KT_ASKS /* for a sample, into memory of its own */
static void kt_give(KT_INPUT_TYPE *frame)
{
    move(SYS_READ, in, frame, KT_FEATURES * sizeof frame[0]);
    kt_start();
}
#endif

static void run(void)
{
#if !KT_ASKS
    static KT_INPUT_TYPE input[KT_FEATURES ? KT_FEATURES : 1];
#endif
    static KT_RESULT_TYPE output[KT_RESULTS];
    in = open_file("in.bin", READ_BINARY);
    const intptr_t out = open_file("out.bin", WRITE_BINARY);
    uint32_t samples;
    if (move(SYS_READ, in, &samples, sizeof samples)) return;
    for (; samples; samples--) {
#if !KT_ASKS
        if (KT_FEATURES && move(SYS_READ, in, input, KT_FEATURES * sizeof input[0])) return;
        kt_start();
#endif
        KT_INFER(input, output);
        if (move(SYS_WRITE, out, output, sizeof output)) return;
    }
    const uint32_t *painted = &bss_end;
    while (painted < &stack_top && *painted == PATTERN) painted++;
    uint32_t peak = (uint32_t)((uintptr_t)&stack_top - (uintptr_t)painted);
    move(SYS_WRITE, out, &peak, sizeof peak);
}

/* What startup.c calls: this program opens its files itself, and leaves by its own door. */
void initialise_monitor_handles(void) {}

void exit(int status)
{
    host(SYS_EXIT, (const void *)(status ? STOPPED_BY_ERROR : STOPPED_BY_EXIT));
    for (;;) {
    }
}

int main(void)
{
    uint32_t *here;
    __asm__ volatile("mov %0, sp" : "=r"(here));
    for (uint32_t *to = &bss_end; to < here - 8;) *to++ = PATTERN;
    run();
    return 0;
}
