"""Marks behind the operations of a program, by which a simulated device says how many cycles each of them took.

A mark is one instruction that does nothing, and the address of it with the number of the operation in a section of the ELF file that no
device loads. So the program is nearly the unmarked one: what differs is one cycle a mark, which is known and subtracted, and that the
compiler moves no access of memory across a mark.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.evaluators.elf import MARKS
from kilotune.evaluators.simulated import Artefact, SimulatedRun, Sizes, inferences

HEADER = f"""\
#define KT_AFTER(row) __asm__ volatile ("771: nop\\n\\t.pushsection {MARKS},\\"\\",%%progbits\\n\\t.long 771b, %c0\\n\\t.popsection" \\
    : : "i" (row) : "memory")
"""
"""C that a marked build includes before everything."""


@dataclass(frozen=True)
class MarkedRun:
    """A marked program's inferences. `cycles` [operations + 1]: of each operation in one inference, on average, and last what follows the
    last mark; `marks`: what the marks themselves took. Their sum is the run's average."""

    sizes: Sizes
    run: SimulatedRun
    cycles: npt.NDArray[np.float64]
    marks: float


def read_marks(section: bytes) -> npt.NDArray[np.uint32]:
    """Addresses and numbers of operations [marks, 2], from the section; those of functions that the linker left out are at 0."""
    return np.frombuffer(section, dtype="<u4").reshape(-1, 2)


def averaged(
    sizes: Sizes, artefact: Artefact, calls: SimulatedRun, cycles: npt.NDArray[np.float64], marks: float
) -> MarkedRun:
    """A marked run from the sums over all its calls: `cycles` [operations + 1], and what marks took."""
    run = inferences(calls, artefact.calls)
    return MarkedRun(sizes, run, cycles / len(run.cycles), marks / len(run.cycles))
