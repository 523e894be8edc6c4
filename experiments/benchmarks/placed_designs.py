"""Bundled models placed and routed: what was measured beside what was predicted, for `unrolling.py --place`.

A design that does not fit the board, or that is not placed in the time that it is given, is said; of the best ones the next is then the
best that the model has within limits tightened by that (`problems/fpga/further_candidates.py`). What the tools find is kept by content,
so that a run that was ended goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from kilotune.codegen.rtl.design import SEQUENTIAL
from kilotune.codegen.rtl.plan import make_plan
from kilotune.evaluators.fpga.boards import find_board
from kilotune.evaluators.fpga.cost_model import energy_nj
from kilotune.evaluators.fpga.synthesis import implement
from kilotune.experiments.benchmarks.hardware_float import FloatUnits, float_cycles, path_ns
from kilotune.experiments.problems.fpga.further_candidates import FurtherCandidates
from kilotune.experiments.problems.placing import FinalistPlacing, PlacedTrial, placed_in_turn
from kilotune.search.space import Trial
from kilotune.spaces.fpga.space import FpgaSpace

HEAD = (
    "| model | design | LUTs | flip-flops | block RAMs | multipliers | MHz | cycles | us | nJ (estimate) | Uno | float |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)
KINDS = ("luts", "flip_flops", "block_rams", "multipliers")
EQUAL_CLOCK_MHZ = 10.0


@dataclass(frozen=True)
class Compared:
    """What a model's hardware is compared with: microseconds on an Uno (None: it does not run there) and cycles of the sequential machine
    in float32, both against a clock of 10 MHz."""

    uno_us: float | None
    float_cycles: int


@cache
def float_units(clock_mhz: float) -> FloatUnits:
    """Cycles of the units of float32 at that clock, which are placed for it."""
    return FloatUnits(*(math.ceil(path_ns(kind) * clock_mhz / 1000) for kind in ("add", "multiply")))


def compared(space: FpgaSpace, uno_us: float | None) -> Compared:
    """What the program of a space is compared with."""
    plan = make_plan(space.program.batch, space.program.parameters, SEQUENTIAL)
    return Compared(uno_us, float_cycles(plan, float_units(EQUAL_CLOCK_MHZ)))


def placed(space: FpgaSpace, trials: Sequence[Trial], seconds: float, most: int) -> FinalistPlacing:
    """What comes of the first trial that can be used, or of the best ones within tighter limits, of `most` in all; the space may be
    `narrowed`, the board that is placed on is the whole one."""
    candidates, board = FurtherCandidates(space, trials, most, len(trials)), find_board(space.board.name)
    *_, found = placed_in_turn(
        candidates.next,
        board.name,
        lambda trial: implement(space.plan(trial.assignment), board, seconds),
        lambda _: None,
    )
    return found


def rows(model: str, design: str, found: FinalistPlacing, beside: Compared) -> Iterator[str]:
    """A line for the design that was placed, with what was predicted in brackets, behind one for each that was not."""
    for attempt in found.tried:
        if attempt.reason is None:
            yield f"| {model} | {design} | {' | '.join(_cells(attempt, beside))} |"
        else:
            expected = attempt.trial.measurement.metrics
            predicted = f"{expected['luts']:.0f} LUTs, {expected['latency_us']:.3g} us predicted"
            yield f"| {model} | {design} ({predicted}) | {attempt.reason}" + " |" * 10


def _cells(attempt: PlacedTrial, beside: Compared) -> Iterator[str]:
    found, predicted = attempt.metrics(), attempt.trial.measurement.metrics
    assert attempt.made is not None
    for kind in KINDS:
        yield f"{found[kind]:.0f} ({predicted[kind]:.0f})"
    yield f"{found['clock_mhz']:.1f} ({predicted['clock_mhz']:.0f})"
    cycles = found["hardware_cycles"]
    yield f"{cycles:.0f}"
    yield f"{found['latency_us']:.3g} ({predicted['latency_us']:.3g})"
    energy = energy_nj(attempt.made.gates, 1000 / found["clock_mhz"], round(cycles))
    yield f"{energy:.3g} ({predicted['inference_nj']:.3g})"
    yield "-" if beside.uno_us is None else f"{beside.uno_us * EQUAL_CLOCK_MHZ / cycles:.0f}"
    yield f"{beside.float_cycles / cycles:.1f}"


def narrowed(space: FpgaSpace, luts: int) -> FpgaSpace:
    """The space of candidates with at most so many look-up tables, of the whole board."""
    gates = replace(space.board.gates, luts=min(luts, space.board.gates.luts))
    return FpgaSpace(space.program, space.board, replace(space.goal, budget=gates))
