"""The AVR processors of avr-gcc, simulated by simavr."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType

from kilotune.codegen.emit.constant_arrays import NEAR_FLASH_BYTES
from kilotune.codegen.emit.shape import PLAIN
from kilotune.evaluators.architectures.architecture import Architecture, Tool
from kilotune.evaluators.architectures.avr.firmware import MOST_ARRAY_BYTES, avr_gcc
from kilotune.evaluators.architectures.avr.machine import load_shim
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.device import Device

COSTS = "avr"

ARCHITECTURE = Architecture(
    name="avr",
    processors="an AVR such as atmega328p",
    has=lambda processor: re.fullmatch(r"at[a-z]*\d+[a-z0-9]*", processor) is not None,
    boards=(  # data sheets of the makers
        Device("uno", "Arduino Uno, ATmega328P, 8 bit", 32256, 2048, 16_000_000, "atmega328p"),
        Device("mega", "Arduino Mega 2560, ATmega2560, 8 bit", 253952, 8192, 16_000_000, "atmega2560"),
    ),
    target=AvrTarget,
    tools=(
        Tool("avr-gcc", "gcc-avr avr-libc", "programs for AVR boards (uno, mega) are built", avr_gcc),
        Tool(
            "simavr",
            "simavr libsimavr-dev gcc",
            "AVR programs run cycle by cycle",
            lambda: None if load_shim() is None else "libsimavr",
        ),
    ),
    cost_table=lambda processor: COSTS,
    shapes=lambda processor: ("unrolled16", "unrolled8", PLAIN, "compact"),
    most_array_bytes=MOST_ARRAY_BYTES,
    most_constant_bytes=NEAR_FLASH_BYTES,
    cost_tables=MappingProxyType({COSTS: Path(__file__).with_name("avr.json")}),
)
