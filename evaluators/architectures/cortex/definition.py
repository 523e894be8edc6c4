"""The Cortex-M processors of three boards, emulated by QEMU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kilotune.codegen.emit.shape import PLAIN
from kilotune.evaluators.architectures.architecture import Architecture, Tool
from kilotune.evaluators.architectures.cortex.emulated import EMULATED
from kilotune.evaluators.architectures.cortex.firmware import arm_gcc
from kilotune.evaluators.architectures.cortex.project import PROJECTS
from kilotune.evaluators.architectures.cortex.run import CortexTarget, load_plugin, qemu
from kilotune.evaluators.device import Device

SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cortex-m4": ("places2", "rows4", "rows2", "rows1", PLAIN),  # instructions on pairs of 16 bits
        "cortex-m55": ("vectors4", "vectors1", PLAIN),  # on vectors of 16 bytes
    }
)
"""By processor, the code shapes that it gains by, the fastest first; all others have plain code alone."""

ARCHITECTURE = Architecture(
    name="cortex",
    processors=", ".join(EMULATED),
    has=EMULATED.__contains__,
    boards=(  # data sheets of the makers
        Device("mkr1000", "Arduino MKR1000, SAMD21 (Cortex-M0+)", 253952, 32768, 48_000_000, "cortex-m0plus"),
        Device("nano33", "Arduino Nano 33 BLE, nRF52840 (Cortex-M4F)", 983040, 262144, 64_000_000, "cortex-m4"),
        Device("mps3", "Arm MPS3 with Corstone-300 (Cortex-M55)", 524288, 524288, 32_000_000, "cortex-m55"),
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
    shapes=lambda processor: SHAPES.get(processor, (PLAIN,)),
)
