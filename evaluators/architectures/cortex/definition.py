"""The Cortex-M processors of two boards, emulated by QEMU."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from kilotune.codegen.emit.shape import PLAIN
from kilotune.evaluators.architectures.architecture import Architecture, Tool
from kilotune.evaluators.architectures.cortex.emulated import EMULATED
from kilotune.evaluators.architectures.cortex.firmware import arm_gcc
from kilotune.evaluators.architectures.cortex.project import PROJECTS
from kilotune.evaluators.architectures.cortex.run import CortexTarget, load_plugin, qemu
from kilotune.evaluators.device import Device

PAIRED = ("cortex-m4",)
"""Processors with instructions on pairs of 16 bits."""

ARCHITECTURE = Architecture(
    name="cortex",
    processors=", ".join(EMULATED),
    has=EMULATED.__contains__,
    boards=(  # data sheets of the makers
        Device("mkr1000", "Arduino MKR1000, SAMD21 (Cortex-M0+)", 253952, 32768, 48_000_000, "cortex-m0plus"),
        Device("nano33", "Arduino Nano 33 BLE, nRF52840 (Cortex-M4F)", 983040, 262144, 64_000_000, "cortex-m4"),
    ),
    target=lambda processor, clock_hz, level: CortexTarget(processor, level),  # what is counted hangs on no clock
    tools=(
        Tool(
            "arm-none-eabi-gcc",
            "gcc-arm-none-eabi libnewlib-arm-none-eabi",
            "programs for Cortex-M boards are built",
            arm_gcc,
        ),
        Tool(
            "qemu-system-arm",
            "qemu-system-arm gcc",
            "they run on simulated boards, instructions counted",
            lambda: None if load_plugin() is None else qemu(),  # without the plugin nothing is counted
        ),
    ),
    cost_table=lambda processor: processor,
    cost_tables=MappingProxyType({name: Path(__file__).with_name(f"{name}.json") for name in EMULATED}),
    projects=PROJECTS,
    shapes=lambda processor: ("places2", "rows4", "rows2", "rows1", PLAIN) if processor in PAIRED else (PLAIN,),
)
