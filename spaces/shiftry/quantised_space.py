"""The problem of a quantised program, whose formats are those of the file that it comes from: one candidate, for which RAM is placed and
cycles are predicted as for others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.placement import PlacedVariables
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Task
from kilotune.evaluators.fixed_point.simulator import Backend
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Metrics, Objective
from kilotune.spaces.limits import FixedPointOptions
from kilotune.spaces.shiftry.ram_limit import FitLimit

INTEGERS, KEPT = "integers", "the file's own"
"""The decision, and its only answer."""

SEMANTICS = 1
"""Version of what quantised programs compute and how they are measured, part of the fingerprint."""


class QuantisedSpace:
    """Metrics are those of `FixedPointEvaluator` on the training data."""

    name = "shiftry"

    def __init__(self, task: Task, options: FixedPointOptions, backend: Backend = Backend.AUTO) -> None:
        self.task, self.options = task, options
        refine = None if options.ram_limit_bytes is None else FitLimit(options.ram_limit_bytes)
        self.evaluator = FixedPointEvaluator(
            task, backend, options.in_place, refine, options.timing, options.derived_metrics
        )
        self.decisions = (Decision(INTEGERS, (KEPT,)),)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is asked for; there is one candidate."""
        return (Objective("memory_bytes" if self.options.asks_for_memory else self.options.minimized),)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits."""
        return self.options.constraints

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the task and the options."""
        return fingerprint("quantised program", SEMANTICS, self.task.fingerprint, self.options)

    def size(self) -> int:
        """Number of candidates."""
        return 1

    def start(self) -> FlatState:
        """Nothing decided."""
        return FlatState(self.decisions, 0.0)

    def lower(self, batch: Sequence[Assignment]) -> FixedBatch:
        """The program, as often as there are candidates."""
        return lower_quantised(self.task.program, len(batch))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics on the training data."""
        return [Measurement(metrics) for metrics in self.evaluator.measure(self.lower(batch))]

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """What is known without running on any sample: memory, operations, cycles."""
        return self.evaluator.costs(self.lower(batch))

    def placed(self, assignment: Assignment) -> PlacedVariables:
        """Where the temporaries lie: the placement whose extent is its `ram_bytes`."""
        return self.evaluator.footprint.placed(self.lower([assignment]).bits[0].astype(np.int64))
