"""The quality of a fixed-point program as figures show it: accuracy of a classifier, precision loss of a numerical model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kilotune.codegen import ir
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.experiments.presentation.wording import number
from kilotune.search.space import Measurement

LOG_FROM = 50.0
"""Losses whose largest is so many times the smallest stand on a logarithmic axis."""


@dataclass(frozen=True)
class QualityMetric:
    """Which metric it is, and its words."""

    metric: str
    label: str  # of a column or an axis, with the unit
    larger_is_better: bool

    def of(self, measurement: Measurement) -> float | None:
        """None for a failure, and for what is no finite number."""
        value = measurement.metrics.get(self.metric, math.nan)
        return value if measurement.failure is None and math.isfinite(value) else None

    def said(self, value: float) -> str:
        """With its unit, after `keeps` or `has`."""
        return f"{number(value)} %" if self.larger_is_better else f"a precision loss of {number(value)}"

    @property
    def verb(self) -> str:
        """A program does so with a quality."""
        return "keeps" if self.larger_is_better else "has"

    def loss(self, value: float) -> float:
        """Smaller is better."""
        return -value if self.larger_is_better else value

    def axis(self, values: Sequence[float]) -> dict[str, Any]:
        """The axis of a figure of these values: a logarithmic one for losses that differ much."""
        plain = {"title": self.label, "zeroline": False, "automargin": True}
        if not self.larger_is_better and values and 0 < LOG_FROM * min(values) < max(values):
            return {**plain, "type": "log", "dtick": 1, "exponentformat": "power"}
        return plain


def quality_of(evaluator: FixedPointEvaluator) -> QualityMetric:
    """By what the program returns."""
    if evaluator.task.program.result_kind is ir.ResultKind.CLASS:
        score = evaluator.task.score
        return QualityMetric(score.metric, f"training {score.words}, %", larger_is_better=True)
    return QualityMetric("precision_loss", "precision loss", larger_is_better=False)
