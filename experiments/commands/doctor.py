"""What `tune doctor` finds on this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path


def findings() -> Iterator[str]:
    """One line a finding, each with what to do about it where something is missing."""
    from kilotune.evaluators.fixed_point.kernel import load_kernel
    from kilotune.experiments.commands.listing import strategy_plug_in_words
    from kilotune.experiments.problems.plugins import mistake, plug_ins
    from kilotune.search.entry_points import entry_points
    from kilotune.search.strategy_plugins import GROUP

    here = Path(sys.executable).parent
    found = shutil.which("tune")
    if found is None:
        yield f"tune       not on the PATH; {here / 'tune'} is this installation's"
    elif Path(found).parent == here:
        yield f"tune       {found}, this installation"
    else:
        yield f"tune       {found} belongs to another installation; call `kilotune`, or {here / 'tune'}"
    kernel = load_kernel()
    if kernel is None:
        yield "simulator  NumPy (slower): install a C compiler, on Debian `apt install gcc libc6-dev`"
    else:
        yield f"simulator  C kernel built by {kernel.compiler}, {kernel.vector_unit}"
    yield from _device_tools()
    for plug_in in plug_ins():
        wrong = mistake(plug_in)
        yield f"plug-in    {f'{plug_in.name}: the space of {plug_in.source}' if wrong is None else wrong}"
    for entry in entry_points(GROUP):
        words = strategy_plug_in_words(entry)
        found = words.removeprefix("not usable: ")
        yield f"plug-in    {found if found != words else f'{entry.name}: the strategy of {entry.source}'}"


def _device_tools() -> Iterator[str]:
    """The tools that measure programs on devices, and what each Debian package gives."""
    from kilotune.evaluators.avr.machine import load_shim
    from kilotune.evaluators.cortex.run import load_plugin

    for tool, package, gives in (
        ("avr-gcc", "gcc-avr avr-libc", "programs for AVR boards (uno, mega) are built"),
        ("arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi", "programs for Cortex-M boards are built"),
        ("qemu-system-arm", "qemu-system-arm gcc", "they run on simulated boards, instructions counted"),
    ):
        path = shutil.which(tool)
        if tool == "qemu-system-arm" and load_plugin() is None:
            path = None  # nothing counts
        found = f"{path}: {gives}" if path else f"missing (apt install {package}), with it {gives}"
        yield f"{tool:<10} {found}"
    gives = "AVR programs run cycle by cycle"
    if load_shim() is None:
        yield f"simavr     missing (apt install simavr libsimavr-dev gcc), with it {gives}"
    else:
        yield f"simavr     libsimavr: {gives}"
    yield "           without them cycles are the cost model's, and nothing is measured on a device"
