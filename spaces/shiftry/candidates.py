"""What a candidate of Shiftry's problem means and what it measures: a format for every variable of a program.

The 16-bit format stands at the data-driven scale of Algorithm 10, the 8-bit ones at that scale less 8, and up to two more
(Algorithm 13). The input X, whose extremes may be outliers, also has every 16-bit scale in 0..15 (Algorithm 12), and nine
8-bit ones. With `narrow`, parameters may also be stored in 1, 2, 3, 4 or 6 bits, with `codebook` in 4 that stand for integers in a table
(`formats`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.fixed.codebook import CODEBOOK_SIZE
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.codegen.fixed.parameter_rows import all_row_scales
from kilotune.codegen.fixed.sequential_rounding import sequential_roundings
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch, unencoded
from kilotune.codegen.headroom import magnitudes_beyond, meets_new_numbers, meets_surer_scores
from kilotune.codegen.placement import PlacedVariables
from kilotune.codegen.profile import Profiler
from kilotune.evaluators.fixed_point.measuring import DerivedMetric, FixedPointEvaluator, Task, precision_metric
from kilotune.evaluators.fixed_point.simulator import Backend
from kilotune.search.fingerprint import absent_as
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Metrics, Option
from kilotune.search.work_memory import NoMemory, WorkMemory
from kilotune.spaces.limits import FixedPointOptions, permitted_drop
from kilotune.spaces.objectives import LIMITED, asked_for
from kilotune.spaces.shiftry.formats import (
    DEMOTED_BITS,
    WIDE_BITS,
    Format,
    Offered,
    aligned_parameters,
    nearly_fills,
    offered_formats,
    parse_format,
    roomy_formats,
    wide_roomy_formats,
)
from kilotune.spaces.shiftry.numbered_formats import UNDECIDED, numbered_formats
from kilotune.spaces.shiftry.program_decisions import ROUNDING, ProgramDecisions
from kilotune.spaces.shiftry.ram_limit import FitLimit

MOST_BOUNDS_KEPT = 1 << 16

FoundT = TypeVar("FoundT")


@dataclass(frozen=True)
class ShiftryOptions(FixedPointOptions):
    """What a user may set: `FixedPointOptions`, and the accuracy that may be lost.

    With a limit (bytes of flash or RAM; cycles or time, which need `timing`) the aim is the best precision that fits; without one it is
    the least memory whose accuracy on the training data is at most `accuracy_drop` percentage points below the float program's (for
    numerical models: whose precision loss is at most `permitted_loss`). RAM is that of the placed program; `in_place` lets results
    overwrite operands that die (`codegen.in_place`), which the paper does not do. With another `objective` than memory: the least of
    that instead, within the limits and the permitted loss. `permitted_flips` bounds the expected flips as well.

    `narrow`: parameters may be stored in fewer than 8 bits; `truer`: weights may be rounded sequentially, with regard to their inputs on
    the training data; `finer`: rows of weights may have scales of their own; `codebook`: parameters may be stored as 4-bit numbers of 16
    integers in a table; `offsets`: variables of 16 bits may have other scales than the data-driven one; `wide`: temporaries, and parameters
    that are added, may have 32 bits. `any_rounding`: how a program
    divides is decided, too, for the whole program; `rounding` is what comes first. `any_accumulator`: so is the width of each sum of
    products, where `accumulator` is what comes first.

    `front`: names of quantities (`spaces.objectives`) against which the whole curve of precision is asked for, as far as expected flips are
    at most `permitted_flips`, else `accuracy_drop` % of the samples (for numerical models: the expected error at most `permitted_loss`).
    """

    accuracy_drop: float = 2.0
    permitted_loss: float = 0.1
    permitted_flips: float | None = field(default=None, metadata=absent_as(None))
    narrow: bool = field(default=False, metadata=absent_as(False))
    truer: bool = field(default=False, metadata=absent_as(False))
    finer: bool = field(default=False, metadata=absent_as(False))
    codebook: bool = field(default=False, metadata=absent_as(False))
    offsets: bool = field(default=False, metadata=absent_as(False))
    wide: bool = field(default=False, metadata=absent_as(False))
    any_rounding: bool = field(default=False, metadata=absent_as(False))
    any_accumulator: bool = field(default=False, metadata=absent_as(False))
    front: tuple[str, ...] = field(default=(), metadata=absent_as(()))

    def __post_init__(self) -> None:
        """As `FixedPointOptions`; ValueError, a sentence, also for a front against something that cannot be limited."""
        super().__post_init__()
        unknown = [name for name in self.front if name not in LIMITED]
        if unknown or len(set(self.front)) < len(self.front):
            raise ValueError(
                f"A front is of precision against {', '.join(LIMITED)}, each at most once; found {','.join(self.front)}."
            )
        if self.timing is None and any(LIMITED[name].timed for name in self.front):
            raise ValueError("Time and linked flash depend on the processor: a front against them needs --device.")
        if self.front and not self.asks_for_memory:
            raise ValueError("A front has no objective besides what it is against.")

    @property
    def fronted(self) -> tuple[str, ...]:
        """The metrics that the front is against."""
        return tuple(str(LIMITED[name].limited) for name in self.front)

    @property
    def derived_metrics(self) -> Mapping[str, DerivedMetric]:
        """As `FixedPointOptions`, and those of the front."""
        quantities = asked_for(self.objective, {*self.limits, *self.front})
        return {str(q.limited or q.minimized): q.measured for q in quantities if q.measured is not None}

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return bool(self.limits)

    @property
    def precision_leads(self) -> bool:
        """Whether the best precision within the limits is wanted."""
        return self.limited and self.asks_for_memory and not self.front

    @property
    def memory_leads(self) -> bool:
        """Whether the least memory is wanted."""
        return not self.limited and self.asks_for_memory and not self.front


class ShiftryCandidates:
    """Metrics are those of `FixedPointEvaluator` on the training data."""

    def __init__(self, task: Task, options: ShiftryOptions = ShiftryOptions(), backend: Backend = Backend.AUTO) -> None:
        self.task = task
        self.options = options
        refine = None if options.ram_limit_bytes is None else FitLimit(options.ram_limit_bytes)
        profiler = Profiler(task.program, task.parameters, task.features)
        self.evaluator = FixedPointEvaluator(
            task,
            backend,
            options.in_place,
            refine,
            options.timing,
            options.derived_metrics,
            margin_errors=bool(options.front) or options.precision_leads,
            profiler=profiler,
        )
        self.profile = profiler.made()
        largest = {row: float(values[-1]) for row, values in self.profile.exponents.items()}
        self.lowering = ShiftryLowering(task.program, largest, options.rounding, options.accumulator)
        self._index = {v.name: i for i, v in enumerate(task.program.variables)}
        self._aligned = aligned_parameters(task.program)
        self._roundings = sequential_roundings(task.program, task.parameters, task.features) if options.truer else {}
        self._row_scales = (
            all_row_scales(task.program, task.parameters, (*LAYOUTS, DEMOTED_BITS)) if options.finer else {}
        )
        self.format_decisions = tuple(
            _decisions(task.program, lambda variable: self._formats(variable, self._offered(variable.name)))
        )
        self._whole = ProgramDecisions(task.program, options.rounding, options.any_rounding, options.any_accumulator)
        self.decisions = (*self.format_decisions, *self._whole.decisions)
        self._columns = [self._index[d.name] for d in self.format_decisions]
        self._widths = [{option: parse_format(str(option)).bits for option in d.options} for d in self.format_decisions]
        self._wide_options = {
            (d.name, option)
            for d, widths in zip(self.format_decisions, self._widths, strict=True)
            for option, bits in widths.items()
            if bits == WIDE_BITS
        }
        self._undecided = sorted(set(self._index.values()).difference(self._columns))
        self._format_numbers, self._encoding_numbers, self._encodings = numbered_formats(
            self.format_decisions, self._aligned, self._roundings, self._row_scales
        )
        self._least_losses: dict[bytes, float] = {}  # by the widths of the first variables
        self.work_memory: WorkMemory = NoMemory()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "work_memory": NoMemory()}  # workers measure, and search for nothing

    @property
    def precision_metric(self) -> str:
        """What says how precise a candidate is, as a loss, also on inputs that were not measured."""
        return precision_metric(self.task.program)

    @property
    def procedure_metric(self) -> str:
        """What Evaluate of Algorithms 12 and 13 returns, as a loss: disagreements, or the precision loss."""
        return "disagreements" if self.classifies else "precision_loss"

    @property
    def classifies(self) -> bool:
        """Whether programs return a class."""
        return self.task.program.result_kind is ir.ResultKind.CLASS

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits, and where these are not all that is asked, the permitted loss of accuracy."""
        result = list(self.options.constraints)
        if self.options.front:
            result.append(Constraint(self.precision_metric, self.most_imprecise))
        elif not self.options.precision_leads:
            if self.classifies:
                score = self.task.score.metric
                result.append(permitted_drop(score, self.evaluator.float_metrics[score], self.options.accuracy_drop))
                if self.options.permitted_flips is not None:
                    result.append(Constraint("expected_flips", self.options.permitted_flips))
            else:
                result.append(Constraint("precision_loss", self.options.permitted_loss))
        return tuple(result)

    @property
    def most_imprecise(self) -> float:
        """Where a front ends: the largest loss of precision that is worth having."""
        options = self.options
        if not self.classifies:
            return options.permitted_loss
        if options.permitted_flips is not None:
            return options.permitted_flips
        return options.accuracy_drop / 100.0 * len(self.task.features)

    def _offered(self, variable: str) -> Offered:
        """What is offered of a variable besides what the papers have."""
        rows, storage = self._row_scales.get(variable, {}), self.evaluator.footprint.storage.get(variable)
        many = storage is not None and storage.values > 2 * CODEBOOK_SIZE  # or else a byte each takes no more
        codebook = self.options.codebook and many
        role = self.task.program.variable(variable).role
        summed = role is ir.Role.TEMPORARY or variable in self._aligned
        wide = self.options.wide and summed
        return Offered(self.options.narrow, variable in self._roundings, rows, codebook, self.options.offsets, wide)

    def _formats(self, variable: ir.Variable, offered: Offered) -> Sequence[Format]:
        return [form for form in self._all_formats_of(variable, offered) if self._is_allowed(variable.name, form)]

    def _is_allowed(self, variable: str, form: Format) -> bool:
        """Whether the arrays of a variable in a format are none that the compiler refuses."""
        most, held = self.options.most_array_bytes, self.evaluator.footprint.storage.get(variable)
        return most is None or held is None or held.largest_array_bytes(form.bits) <= most

    def _all_formats_of(self, variable: ir.Variable, offered: Offered) -> Sequence[Format]:
        magnitude = self.profile.magnitude(variable.name)
        if self.meets_new_numbers:
            return roomy_formats(variable.role, self._magnitudes_beyond[variable.name], offered)
        if self.meets_surer_scores and variable.role is ir.Role.TEMPORARY:
            return wide_roomy_formats(variable.role, magnitude, self._magnitudes_beyond[variable.name], offered)
        return offered_formats(variable.role, magnitude, offered, headroom=self.has_room(variable))

    @property
    def meets_new_numbers(self) -> bool:
        """Whether all its variables have room for values beyond those of the training samples."""
        return meets_new_numbers(self.task.program)

    @property
    def meets_surer_scores(self) -> bool:
        """Whether its temporaries of 16 and 32 bits have such room."""
        return meets_surer_scores(self.task.program, len(self.task.features))

    @cached_property
    def _magnitudes_beyond(self) -> Mapping[str, float]:
        """What variables must have room for that are to have it."""
        return magnitudes_beyond(self.task.program, self.task.parameters, self.task.features, self.profile)

    def has_room(self, variable: ir.Variable) -> bool:
        """Whether a variable is a state that nearly reaches a power of two: it has room beyond it, since rounding takes it there."""
        return variable.name in self.lowering.pinned and nearly_fills(self.profile.magnitude(variable.name))

    def papers_formats(self, variable: str) -> list[Option]:
        """The options of a variable that the paper has."""
        return [str(form) for form in self._formats(self.task.program.variable(variable), Offered())]

    def stored_bytes(self, variable: str, option: Option) -> int:
        """Flash of a parameter in a format, without the code that reads it."""
        form = parse_format(str(option))
        rows = len(self._row_scales[variable][form.bits].shifts.shifts) if form.by_rows else 0
        table = CODEBOOK_SIZE if form.codebook else 0
        return self.evaluator.footprint.storage[variable].size_bytes(form.bits) + rows + table

    def lower(self, batch: Sequence[Assignment]) -> FixedBatch:
        """The fixed-point programs of complete assignments. ValueError where they do not all round in one way: a batch has one."""
        chosen_roundings = {assignment.get(ROUNDING) for assignment in batch} or {None}
        if len(chosen_roundings) > 1:
            raise ValueError("Programs that round in several ways are lowered apart: expected one rounding.")
        return self._in_one_way(self._lowered(batch), chosen_roundings.pop())

    def _in_one_way(self, programs: FixedBatch, rounding: Option | None) -> FixedBatch:
        wanted = self._whole.rounding_of(rounding)
        return programs if programs.rounding is wanted else replace(programs, rounding=wanted)

    def _lowered(self, batch: Sequence[Assignment]) -> FixedBatch:
        """The programs, whose rows are the same however they round."""
        formats = [[numbers[assignment[name]] for name, numbers in self._format_numbers] for assignment in batch]
        for column in self._undecided:
            for one in formats:
                one.insert(column, UNDECIDED)
        encoded = self._encoded(batch) if self._encodings else None
        return self.lowering.lower_formats(formats, encoded, self._encodings, self._whole.sum_bits(batch))

    def _encoded(self, batch: Sequence[Assignment]) -> Int32Array:
        """By which of the encodings parameters are stored [N, variables], as in `FixedBatch`."""
        encoded = unencoded((len(batch), len(self._index)))
        chosen = [[numbers[assignment[name]] for name, numbers in self._encoding_numbers] for assignment in batch]
        encoded[:, self._columns] = np.array(chosen, dtype=np.int32).reshape(len(batch), len(self._columns))
        return encoded

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics on the training data."""
        measure = self.evaluator.measure
        return self._by_kind(batch, lambda programs: [Measurement(metrics) for metrics in measure(programs)])

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """What is known of candidates without running them on any sample: memory, operations, cycles."""
        return self._by_kind(batch, self.evaluator.costs)

    @property
    def races(self) -> bool:
        """Whether some candidates are worth stopping."""
        return self.evaluator.may_race

    @property
    def races_who_is_asked_again(self) -> bool:
        """Whether some are that may be asked for once more."""
        return self.evaluator.may_look

    def evaluate_against(self, batch: Sequence[Assignment], hurdle: Hurdle) -> list[Measurement]:
        """As `evaluate`; candidates of classifiers that are out by `hurdle` are censored."""
        return self._by_kind(batch, lambda programs: self.evaluator.measure_against(programs, hurdle))

    def _by_kind(self, batch: Sequence[Assignment], found_of: Callable[[FixedBatch], list[FoundT]]) -> list[FoundT]:
        """What is found of candidates, in their order: those of one rounding together, and those without 32 bits, which run faster."""
        alike: dict[tuple[Option | None, bool], list[int]] = {}
        for place, assignment in enumerate(batch):
            wide = self.options.wide and not self._wide_options.isdisjoint(assignment.items())
            alike.setdefault((assignment.get(ROUNDING), wide), []).append(place)
        programs = self._lowered(batch)  # of all together, in less time than of each kind
        if len(alike) == 1:
            return found_of(self._in_one_way(programs, next(iter(alike))[0]))
        found: dict[int, FoundT] = {}
        for (rounding, _), places in alike.items():
            found |= zip(places, found_of(self._in_one_way(programs.part(places), rounding)), strict=True)
        return [found[place] for place in range(len(batch))]

    def placed(self, assignment: Assignment) -> PlacedVariables:
        """Where the temporaries of a candidate lie: the placement whose extent is its `ram_bytes`."""
        return self.evaluator.footprint.placed(self.lower([assignment]).bits[0].astype(np.int64))

    @cached_property
    def least_table_bytes(self) -> int:
        """Flash of the exponential tables when every argument has 8 bits: no candidate has fewer."""
        bits = np.maximum(self.smallest_bits({}), DEMOTED_BITS)
        return int(self.evaluator.footprint.table_bytes(self.lowering.lower(bits, np.zeros_like(bits)))[0])

    def least_loss(self, decided: Assignment) -> float:
        """What no completion of the first answers beats in the first objective. It hangs on their widths alone, of which there are
        few, not on their scales."""
        widths = bytes([known[option] for known, option in zip(self._widths, decided.values(), strict=False)])
        if widths not in self._least_losses:
            if len(self._least_losses) >= MOST_BOUNDS_KEPT:
                self._least_losses.clear()
            self._least_losses[widths] = self._least_loss(decided)
        return self._least_losses[widths]

    def _least_loss(self, decided: Mapping[str, Option]) -> float:
        bits, options = self.smallest_bits(decided), self.options
        flash = float(self.evaluator.footprint.flash_bytes(bits)[0]) + self.least_table_bytes
        counts = not options.precision_leads or options.ram_limit_bytes is not None
        # of temporaries, never below 8
        ram = float(self.evaluator.footprint.least_ram_bytes(bits)[0]) if counts else 0.0
        for limit, least in ((options.flash_limit_bytes, flash), (options.ram_limit_bytes, ram)):
            if limit is not None and least > limit:
                return math.inf
        if options.precision_leads:
            return 0.0
        if options.front:  # what bounds its first objective bounds nothing else of it
            return -math.inf
        return {"flash_bytes": flash, "ram_bytes": ram, "memory_bytes": flash + ram}.get(options.minimized, -math.inf)

    def smallest_bits(self, decided: Mapping[str, Option]) -> npt.NDArray[np.int64]:
        """Stored widths [1, variables] with the least one for every undecided variable: memory cannot be less."""
        bits = np.full((1, len(self._index)), DEMOTED_BITS, dtype=np.int64)
        for column, widths in zip(self._columns, self._widths, strict=True):
            bits[0, column] = min(widths.values())
        for name, option in decided.items():
            if name in self._index:  # no other decision is about memory
                bits[0, self._index[name]] = parse_format(str(option)).bits
        return bits


def _decisions(program: ir.Program, offered: Callable[[ir.Variable], Sequence[Format]]) -> list[Decision]:
    """Inputs and parameters first, then temporaries in program order. Integer results are not decided."""
    decided = ir.used_variables(program) - ir.label_variables(program)
    result = []
    for variable in program.variables:
        if variable.name not in decided:
            continue
        formats = [f for f in offered(variable) if not (variable.sparse and f.bits == 1)]  # one bit has no zero
        result.append(Decision(variable.name, tuple(str(f) for f in formats)))
    return result
