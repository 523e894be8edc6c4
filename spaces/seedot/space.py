"""The SeeDot decision problem: bitwidth B, maxscale P, and the exponential's T and range (m, M) (SeeDot Section 5.3.2).

A tree: the options of P depend on B, and T and the coverage of (m, M) are asked only for programs that use exp.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.fixed.footprint import parameter_storage
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.headroom import headroom, magnitudes_beyond, meets_new_numbers
from kilotune.codegen.profile import Profiler
from kilotune.evaluators.fixed_point.measuring import DerivedMetric, FixedPointEvaluator, Task, precision_metric
from kilotune.evaluators.fixed_point.simulator import Backend
from kilotune.search.fingerprint import absent_as, fingerprint
from kilotune.search.front import Rank, Ranking
from kilotune.search.space import (
    Assignment,
    Constraint,
    Decision,
    Direction,
    Measurement,
    Metrics,
    Objective,
    Option,
    Procedure,
    Trial,
    answered,
)
from kilotune.spaces.limits import FixedPointOptions, permitted_drop

BITWIDTHS = (16, 8, 32)
TABLE_INDEX_BITS = (6, 5, 7, 4)
"""T; the paper keeps 6 (tables of 64 entries)."""

COVERAGES = (0.9, 0.95, 0.99, 1.0)
"""Share of the exponential's arguments inside (m, M); the paper asks for more than 90 %."""

COARSENESS = (4, 2, 1)
"""Distances of the maxscales that are measured first, second and third."""

FASTEST_BITS = 16
"""Up to this width the compiled kernel runs programs."""

SEMANTICS, TABLES_AS_STORED = 1, 2
"""Versions of what is measured, part of the fingerprint: the second of programs with exponentials, whose tables count in flash as they are
stored, without the ends that are one number."""

ROOM_BEYOND = 2
"""Added for numerical models, since they are to have room for values beyond those of the training samples."""


ROOM = "room"
"""The metric of a numerical model that says what the ranges of all variables hold, at least, as a share of what is to be expected of new
samples (`codegen.headroom`)."""

MOST_ROOM = 1024.0
"""What it says where nothing can wrap around, or only values that are larger by as much."""

ROUNDED_FLIPS = "rounded_flips_percent"
"""The metric of `rounded_flips_percent`."""

ROUNDING_STEP_PERCENT = 0.5
"""What some hundreds of samples cannot tell from nothing."""


def rounded_flips_percent(samples: int, metrics: Mapping[str, np.ndarray]) -> np.ndarray:
    """Expected flips [candidates] in per cent of the samples, to the nearest half: programs that are equal in it count as equally precise
    where memory is to decide."""
    percent = 100.0 / samples * metrics["expected_flips"]
    return np.asarray(np.rint(percent / ROUNDING_STEP_PERCENT) * ROUNDING_STEP_PERCENT)


@dataclass(frozen=True)
class SeeDotOptions(FixedPointOptions):
    """What a user may set: `FixedPointOptions`, and which bitwidths are allowed. Of equally precise programs the one of least
    memory is wanted, or what the `objective` says.

    With a `permitted_drop` (percentage points of training accuracy below the float program's; a classifier's) or a
    `permitted_loss` (of precision; a numerical model's) it is the other way round: of the programs that lose no more, the one of least
    memory, or of what the `objective` says.
    """

    bitwidths: tuple[int, ...] = BITWIDTHS
    permitted_drop: float | None = field(default=None, metadata=absent_as(None))
    permitted_loss: float | None = field(default=None, metadata=absent_as(None))


class SeeDotSpace:
    """See the module's text. Metrics are those of `FixedPointEvaluator` on the training data."""

    name = "seedot"

    def __init__(self, task: Task, options: SeeDotOptions = SeeDotOptions(), backend: Backend = Backend.AUTO) -> None:
        self.task = task
        self.options = replace(options, bitwidths=_allowed_widths(task, options))
        derived: dict[str, DerivedMetric] = dict(options.derived_metrics)
        if self._classifies:
            derived[ROUNDED_FLIPS] = partial(rounded_flips_percent, len(task.features))
        profiler = Profiler(task.program, task.parameters, task.features)
        self.evaluator = FixedPointEvaluator(
            task, backend, options.in_place, timing=options.timing, derived=derived, profiler=profiler
        )
        self.profile = profiler.made()
        magnitudes = {name: self.profile.magnitude(name) for name in self.profile.minimum}
        if self._needs_room:
            magnitudes = magnitudes_beyond(task.program, task.parameters, task.features, self.profile)
        self.lowering = SeeDotLowering(task.program, magnitudes, options.rounding, options.accumulator)
        self.exponentials = tuple(self.profile.exponents)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """Precision, then what is minimised. Of a classifier the flips to be expected in steps of half a per cent, so that nobody pays
        32 bits for one sample in a thousand, and exactly among what is equal; but for memory within limits exactly at once, since what
        fits is paid for already.
        """
        precision, minimized = Objective(precision_metric(self.task.program)), Objective(self.options.minimized)
        if self._permitted is not None:
            return (minimized, precision)
        if not self._classifies or (self.options.limits and self.options.asks_for_memory):
            return (precision, minimized)
        return (Objective(ROUNDED_FLIPS), minimized, precision)

    @property
    def _classifies(self) -> bool:
        return self.task.program.result_kind is ir.ResultKind.CLASS

    @property
    def _needs_room(self) -> bool:
        return meets_new_numbers(self.task.program)

    @cached_property
    def _papers_ranking(self) -> Ranking:
        """What the paper's brute force takes for the best: accuracy on the training data, or the precision loss."""
        quality: tuple[Objective, ...] = (Objective("precision_loss"),)
        if self._classifies:
            quality = (Objective(self.task.score.metric, Direction.MAXIMIZE), Objective("disagreements"))
        return Ranking((*quality, Objective(self.options.minimized)), self.constraints)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits, the precision that may be lost, where that is said, and of a numerical model that nothing wraps around on inputs that
        are somewhat beyond the training samples."""
        permitted = () if self._permitted is None else (self._permitted,)
        room = (Constraint(ROOM, 1.0, at_least=True),) if self._needs_room else ()
        return (*self.options.constraints, *permitted, *room)

    @cached_property
    def _permitted(self) -> Constraint | None:
        """The least accuracy, or the greatest loss of precision; None where the most precise program is wanted."""
        options = self.options
        if not self._classifies:
            return None if options.permitted_loss is None else Constraint("precision_loss", options.permitted_loss)
        if options.permitted_drop is None:
            return None
        score = self.task.score.metric
        return permitted_drop(score, self.evaluator.float_metrics[score], options.permitted_drop)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the task and the options."""
        semantics = TABLES_AS_STORED if self.exponentials else SEMANTICS
        semantics += ROOM_BEYOND if self._needs_room else 0
        return fingerprint(self.name, semantics, self.task.fingerprint, self.options)

    def size(self) -> int:
        """Number of candidates."""
        tables = len(TABLE_INDEX_BITS) * len(COVERAGES) if self.exponentials else 1
        return sum(self.options.bitwidths) * tables

    def start(self) -> SeeDotState:
        """Nothing decided."""
        return SeeDotState(self)

    def lower(self, assignment: Assignment) -> FixedBatch:
        """The fixed-point program of a complete assignment."""
        choice = SeeDotParameters(
            int(assignment["bitwidth"]), int(assignment["maxscale"]), int(assignment.get("table_index_bits", 6))
        )
        coverage = float(assignment.get("coverage", COVERAGES[0]))
        ranges = {row: self.profile.exponent_range(row, coverage) for row in self.exponentials}
        return self.lowering.lower(choice, ranges)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics on the training data; of a numerical model also `ROOM`."""
        return [Measurement(self._measured(self.lower(assignment))) for assignment in batch]

    def _measured(self, program: FixedBatch) -> Metrics:
        metrics = self.evaluator.measure(program)[0]
        if not self._needs_room:
            return metrics
        given = (program.bits[0].tolist(), program.scales[0].tolist())
        held = headroom(self.task.program, self.profile, *given).largest
        needed = self.lowering.magnitudes
        share = min((most / needed[name] for name, most in held.items() if needed[name] > 0), default=MOST_ROOM)
        return {**metrics, ROOM: min(share, MOST_ROOM)}

    def procedure(self) -> Procedure:
        """Section 5.3.2: brute force over B and P, with T = 6 and (m, M) around 90 % of the profiled arguments.

        Its answer is the first of the best in the order of the paper's loops, whatever the order of measuring (`_coarse_to_fine`).
        """
        tables = {"table_index_bits": TABLE_INDEX_BITS[0], "coverage": COVERAGES[0]} if self.exponentials else {}
        ranking = self._papers_ranking
        trials: list[Trial] = []
        for bits, scales in _coarse_to_fine(self.options.bitwidths):
            trials += yield [{"bitwidth": bits, "maxscale": scale, **tables} for scale in scales]

        def place(trial: Trial) -> tuple[Rank, int, int]:
            chosen = trial.assignment
            return ranking.rank(trial.measurement), int(chosen["bitwidth"]), int(chosen["maxscale"])

        yield [min(trials, key=place).assignment]


def _allowed_widths(task: Task, options: SeeDotOptions) -> tuple[int, ...]:
    """The bitwidths in which no parameter takes an array that the compiler refuses."""
    most = options.most_array_bytes
    if most is None:
        return options.bitwidths
    storage = parameter_storage(task.program, task.parameters).values()
    return tuple(bits for bits in options.bitwidths if all(held.largest_array_bytes(bits) <= most for held in storage))


@dataclass(frozen=True)
class SeeDotState:
    """Some of the parameters decided."""

    space: SeeDotSpace
    chosen: Assignment = field(default_factory=dict)

    @property
    def decision(self) -> Decision | None:
        """B, then P, then T and the coverage where the program has an exponential."""
        if "bitwidth" not in self.chosen:
            return Decision("bitwidth", self.space.options.bitwidths)
        if "maxscale" not in self.chosen:
            bits = int(self.chosen["bitwidth"])
            return Decision("maxscale", tuple(_middle_first(bits)))
        if self.space.exponentials:
            if "table_index_bits" not in self.chosen:
                return Decision("table_index_bits", TABLE_INDEX_BITS)
            if "coverage" not in self.chosen:
                return Decision("coverage", COVERAGES)
        return None

    @property
    def assignment(self) -> Assignment:
        """The parameters so far."""
        return self.chosen

    def take(self, option: Option) -> SeeDotState:
        """Decide the next parameter."""
        decision = answered(self.decision, option)
        return SeeDotState(self.space, {**self.chosen, decision.name: option})

    def bound(self) -> float:
        """+inf where the parameters alone break a limit; where memory leads, the bytes that the bitwidth takes at least; else no loss is
        less than 0.
        """
        options, footprint = self.space.options, self.space.evaluator.footprint
        bits = int(self.chosen.get("bitwidth", min(options.bitwidths)))
        widths = np.full((1, len(self.space.task.program.variables)), bits, dtype=np.int64)
        flash, ram = int(footprint.flash_bytes(widths)[0]), int(footprint.least_ram_bytes(widths)[0])
        for limit, least in ((options.flash_limit_bytes, flash), (options.ram_limit_bytes, ram)):
            if limit is not None and least > limit:
                return math.inf
        return float(flash + ram) if self.space.objectives[0].metric == "memory_bytes" else 0.0


def _coarse_to_fine(bitwidths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """(B, some maxscales), all of them once: every fourth maxscale of each bitwidth, then every second one, then the others, so that a
    search that ends early knows something of every width. 16 bits come first, since programs of 8 bits are often useless;
    32 bits last, since they run many times slower.
    """
    short = [bits for bits in bitwidths if bits <= FASTEST_BITS]
    for together in (sorted(short, reverse=True), [bits for bits in bitwidths if bits > FASTEST_BITS]):
        for step in COARSENESS:
            for bits in together:
                finer = (scale for scale in _middle_first(bits) if scale % step == 0)
                yield bits, [scale for scale in finer if step == COARSENESS[0] or scale % (2 * step) != 0]


def _middle_first(bits: int) -> list[int]:
    """Maxscales 0..B-1, the middle ones first: accuracy peaks there (SeeDot Figure 13)."""

    def distance(scale: int) -> tuple[int, int]:
        return abs(scale - bits // 2), scale

    return sorted(range(bits), key=distance)
