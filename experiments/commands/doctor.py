"""What `tune doctor` finds on this machine."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from kilotune.evaluators.architectures.registry import architectures
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fpga.boards import FAMILIES
from kilotune.evaluators.fpga.tools import NO_AMARANTH, SYNTHESISER, VERILATOR, YOSYS
from kilotune.experiments.commands.listing import strategy_plug_in_words
from kilotune.experiments.problems.plugins import plug_ins
from kilotune.experiments.problems.registry import plug_in_mistake
from kilotune.search.entry_points import entry_points
from kilotune.search.strategy_plugins import GROUP


def findings() -> Iterator[str]:
    """One line a finding, each with what to do about it where something is missing."""
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
    yield from _hardware_tools()
    for plug_in in plug_ins():
        wrong = plug_in_mistake(plug_in)
        yield f"plug-in    {f'{plug_in.name}: the space of {plug_in.source}' if wrong is None else wrong}"
    for entry in entry_points(GROUP):
        words = strategy_plug_in_words(entry)
        found = words.removeprefix("not usable: ")
        yield f"plug-in    {found if found != words else f'{entry.name}: the strategy of {entry.source}'}"


def _hardware_tools() -> Iterator[str]:
    """The tools that make and check hardware, and how to get each."""
    yield f"{'amaranth':<13} {_amaranth()}"
    placers = dict.fromkeys(family.placer for family in FAMILIES.values() if family.placer is not None)
    for tool in (YOSYS, SYNTHESISER, VERILATOR, *placers):
        found = tool.find()
        yield f"{tool.name:<13} " + (
            f"missing ({tool.advice}), with it {tool.gives}" if found is None else f"{found}: {tool.gives}"
        )


def _amaranth() -> str:
    try:
        return f"{importlib.import_module('amaranth').__version__}: candidates become hardware"
    except Exception as error:  # a broken package raises what it likes
        return f"not usable ({type(error).__name__}: {error}). {NO_AMARANTH}"


def _device_tools() -> Iterator[str]:
    """The tools that measure programs on devices, and what each Debian package gives."""
    for tool in (tool for architecture in architectures() for tool in architecture.tools):
        found = tool.find()
        said = (
            f"missing (apt install {tool.packages}), with it {tool.gives}"
            if found is None
            else f"{found}: {tool.gives}"
        )
        yield f"{tool.name:<10} {said}"
    yield "           without them cycles are the cost model's, and nothing is measured on a device"
