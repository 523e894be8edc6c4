"""What a fixed-point program's measurement and the limits on it say in a hover text or a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.experiments.presentation.wording import number
from kilotune.search.space import Constraint, Measurement

LIMITED = (
    ("flash_bytes", "flash", " bytes"),
    ("ram_bytes", "RAM", " bytes"),
    ("cycles", "cycles", ""),
    ("latency_ms", "latency", " ms"),
    *((score.metric, score.words, " %") for score in ClassScore),
    ("precision_loss", "precision loss", ""),
)
"""Metrics that constraints are about: name, words, unit."""


def cost_lines(measurement: Measurement) -> list[str]:
    """Bytes, and cycles where they are predicted. Empty for a failure."""
    metrics = measurement.metrics
    if "memory_bytes" not in metrics:
        return []
    flash, ram = number(metrics["flash_bytes"]), number(metrics["ram_bytes"])
    lines = [f"{number(metrics['memory_bytes'])} bytes: flash {flash}, RAM {ram}"]
    if "cycles" in metrics:
        lines.append(f"{number(metrics['cycles'])} cycles, {number(metrics['latency_ms'])} ms (predicted)")
    return lines


def limit_words(constraint: Constraint) -> str:
    """`flash at most 1024 bytes`."""
    label, unit = _words(constraint.metric)
    return f"{label} at {'least' if constraint.at_least else 'most'} {number(constraint.limit)}{unit}"


def broken_lines(constraints: Sequence[Constraint], measurement: Measurement) -> list[str]:
    """A line a limit that the program breaks: `accuracy 98 % (permitted: at least 98.75 %)`."""
    lines = []
    for constraint in constraints:
        if constraint.violation(measurement.metrics) > 0:
            label, unit = _words(constraint.metric)
            value = measurement.metrics.get(constraint.metric)
            found = "unknown" if value is None else f"{number(value)}{unit}"
            least = "least" if constraint.at_least else "most"
            lines.append(f"{label} {found} (permitted: at {least} {number(constraint.limit)}{unit})")
    return lines


def _words(metric: str) -> tuple[str, str]:
    return next(((label, unit) for name, label, unit in LIMITED if name == metric), (metric, ""))
