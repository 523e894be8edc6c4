"""Flips on inputs like the samples that nothing was chosen by: neither a candidate among thousands nor the codes of its weights.

Among thousands of candidates the best on the samples is partly lucky there, and what was fitted to them is right on them more often than
elsewhere. So a few finalists are executed on inputs that are made up for that alone; the float program says what their classes are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.similar_inputs import inputs_for_margins

SEED = 1
"""Other inputs than those that margins are taken of and codes are fitted to."""


@dataclass(frozen=True)
class FreshInputs:
    """Such inputs for the program and the samples of an evaluator of a classifier."""

    samples: FixedPointEvaluator

    def expected_flips(self, batch: FixedBatch) -> list[float]:
        """How many, for each candidate, of as many inputs as there are samples have another class than by the float program, by the errors
        and the flips that are met on these inputs (`kilotune.evaluators.fixed_point.fidelity.expected_flips`)."""
        share = len(self.samples.task.features) / len(self._evaluator.task.features)
        return [share * metrics["expected_flips"] for metrics in self._evaluator.measure(batch)]

    @cached_property
    def _evaluator(self) -> FixedPointEvaluator:
        task = self.samples.task
        inputs = inputs_for_margins(task.features, self.samples.simulator.steps.elements_touched, SEED)
        return self.samples.on(replace(task, features=inputs, targets=np.zeros(len(inputs))))
