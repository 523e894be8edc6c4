"""What a processor architecture has to say of itself: everything else that knows architectures reads it from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kilotune.codegen.emit.shape import PLAIN
from kilotune.codegen.emit.targets.target import ProjectTarget
from kilotune.evaluators.device import Device
from kilotune.evaluators.marks import MarkedRun
from kilotune.evaluators.simulated import Artefact, SimulatedRun, Sizes, Trace

NO_TABLES: Mapping[str, Path] = MappingProxyType({})


class Target(Protocol):
    """One processor and how programs are built for it. `str` of it names both, as in `atmega328p, -Os`."""

    def run(self, artefact: Artefact, inputs: npt.NDArray[np.generic]) -> tuple[Sizes, SimulatedRun]:
        """Build a program and call it with each of `inputs` [samples, features], as the program takes them: a sample, or a frame where
        several calls make an inference. DeviceError when it cannot be built, is too large, stops with a fault, or does not end."""

    def sizes(self, artefact: Artefact) -> Sizes:
        """Build a program without running it. DeviceError when it cannot be built, or is too large."""

    def trace(self, artefact: Artefact, inputs: npt.NDArray[np.generic], most_events: int) -> Trace:
        """Build it with a hook after each operation and run the only inference of `inputs` [calls, features]: what the RAM array held
        after each of the first `most_events` operations. DeviceError as `run`."""


@runtime_checkable
class CountsOperations(Protocol):
    """Ability of a target: cycles of single operations."""

    def profile(self, artefact: Artefact, inputs: npt.NDArray[np.generic], operations: int) -> MarkedRun:
        """Build a program of so many operations with a mark behind each (`evaluators.marks`), and call it with each of `inputs` [calls,
        features]. DeviceError as `Target.run`."""


@dataclass(frozen=True)
class Tool:
    """A program or library that an architecture needs. `find`: what was found of it, such as a path, or None. `packages`: those
    of Debian that bring it. `gives`: what it is there for, as half a sentence."""

    name: str
    packages: str
    gives: str
    find: Callable[[], str | None]


@dataclass(frozen=True)
class Architecture:
    """Processors that are programmed, run and priced alike.

    `processors`: what a device's description may name, in words. `has`: whether it knows a processor of that name.
    `boards`: those that are known by name. `target`: a processor (that it has), its clock in Hz and an optimisation level
    such as `-Os`. `tools`: what `target` needs. `cost_tables`: files of cycles by the table's name
    (`evaluators.cost_model`), and `cost_table`: the name of a processor's. `projects`: folders with a program that are made
    for these processors alone. `shapes`: names of the code shapes (`codegen.emit.shape`) that a processor gains by, the fastest first,
    and the plain one. `most_array_bytes`: of one array that its compiler allows, and `most_constant_bytes` of all constants
    together that its code reads; None where that is more than any program has.
    """

    name: str
    processors: str
    has: Callable[[str], bool]
    boards: tuple[Device, ...]
    target: Callable[[str, int, str], Target]
    tools: tuple[Tool, ...]
    cost_table: Callable[[str], str]
    cost_tables: Mapping[str, Path] = field(default_factory=lambda: NO_TABLES)
    projects: tuple[ProjectTarget, ...] = ()
    shapes: Callable[[str], tuple[str, ...]] = lambda processor: (PLAIN,)
    most_array_bytes: int | None = None
    most_constant_bytes: int | None = None
