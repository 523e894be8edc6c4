"""A Makefile project for Cortex-M processors; `make run` runs its check in QEMU, which prints through semihosting."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.codegen.emit.targets.recording import Export, check_program, facts

SAMPLE_BYTES = 65536
NAMES = ("model.h", "model.c", "main.c", "startup.c", "link.ld", "Makefile", "README.md")


@dataclass(frozen=True)
class _Board:
    """A machine of QEMU with such a processor, and its memory."""

    processor: str
    options: str
    machine: str
    flash: str
    ram: str


M0PLUS = _Board("Cortex-M0+", "-mcpu=cortex-m0plus", "microbit", "256K", "16K")
M4 = _Board("Cortex-M4F", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", "mps2-an386", "4M", "4M")


def files_m0plus(export: Export) -> dict[str, str]:
    """Text by path in the folder, for a Cortex-M0+."""
    return _files(export, M0PLUS)


def files_m4(export: Export) -> dict[str, str]:
    """Text by path in the folder, for a Cortex-M4F."""
    return _files(export, M4)


def _files(export: Export, board: _Board) -> dict[str, str]:
    source = export.source
    recording = export.recording.within(source.interface, SAMPLE_BYTES)
    makefile = _MAKEFILE.replace("LEVEL", export.level)
    for name in ("processor", "options", "machine"):
        makefile = makefile.replace(f"@{name}@", getattr(board, name))
    return {
        "model.h": source.header,
        "model.c": source.source,
        "main.c": check_program(export, recording),
        "startup.c": _STARTUP,
        "link.ld": _SCRIPT.replace("@flash@", board.flash).replace("@ram@", board.ram),
        "Makefile": makefile,
        "README.md": (
            f"# A fixed-point model for {board.processor}\n\nWritten by kilotune. `model.c` and `model.h` are the model: C99, no "
            f"libraries, no heap.\n\n{facts(source)}\n"
            f"Next: `make run` builds the check with arm-none-eabi-gcc and runs it in QEMU (`{board.machine}`): {len(recording)} "
            "recorded samples, every output compared with what the simulator computed. On a board of your own take `model.c` "
            "and `model.h` into its project, compiled with the options of this Makefile; `startup.c` and `link.ld` are for "
            "the emulated machine. `decisions.json` holds the bits and the scale of each variable.\n"
        ),
    }


_MAKEFILE = """\
# make: build for @processor@; make run: run the check in QEMU; make size. The model is model.c and model.h alone.
CROSS ?= arm-none-eabi-
QEMU ?= qemu-system-arm
CFLAGS ?= -LEVEL
TARGET = @options@ -mthumb
WARNINGS = -std=gnu99 -Wall -Wextra -Werror
LINKED = -nostartfiles --specs=nano.specs --specs=rdimon.specs -T link.ld -Wl,--gc-sections

.PHONY: all run size clean

all: check-model.elf

check-model.elf: startup.c main.c model.c model.h link.ld
\t$(CROSS)gcc $(TARGET) $(CFLAGS) $(WARNINGS) -fwrapv -ffunction-sections -fdata-sections -o $@ startup.c main.c model.c $(LINKED)

run: check-model.elf
\t$(QEMU) -M @machine@ -nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel check-model.elf

size: check-model.elf
\t$(CROSS)size check-model.elf

clean:
\trm -f check-model.elf
"""

_SCRIPT = """\
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = @flash@ RAM (rwx) : ORIGIN = 0x20000000, LENGTH = @ram@ }
ENTRY(reset)
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) . = ALIGN(4); } > FLASH
  .ARM.exidx : { *(.ARM.exidx*) } > FLASH
  .data : ALIGN(4) { data_start = .; *(.data*) . = ALIGN(4); data_end = .; } > RAM AT > FLASH
  data_load = LOADADDR(.data);
  .bss (NOLOAD) : ALIGN(4) { bss_start = .; *(.bss*) *(COMMON) . = ALIGN(4); bss_end = .; end = .; } > RAM
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
"""

_STARTUP = """\
/* Start-up of the emulated machine: memory, floating-point unit, main, and out. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top, data_start, data_end, data_load, bss_start, bss_end;
extern void initialise_monitor_handles(void);
int main(void);

void reset(void)
{
#ifdef __ARM_FP
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* coprocessors 10 and 11: the floating-point unit */
    __asm__ volatile("dsb\\n isb");
#endif
    const uint32_t *from = &data_load;
    for (uint32_t *to = &data_start; to < &data_end; to++) *to = *from++;
    for (uint32_t *to = &bss_start; to < &bss_end; to++) *to = 0;
    initialise_monitor_handles();
    exit(main());
}

static void fault(void) { exit(2); }

void _init(void) {}
void _fini(void) {}

__attribute__((section(".vectors"), used)) void (*const vectors[16])(void) = {
    (void (*)(void))&stack_top, reset, fault, fault, fault, fault, fault, fault,
    fault, fault, fault, fault, fault, fault, fault, fault,
};
"""
