"""Checks of what a space measures, and of the bounds that it claims."""

from __future__ import annotations

import math

from kilotune.search.space import Measurement
from kilotune.testing.probe import Probe


def check_measurement(probe: Probe) -> None:
    """Every candidate has a Measurement: numbers by name, those of all objectives and constraints among them, or a failure."""
    if probe.evaluate([]) != []:
        raise probe.error("measurement", expected="[] for no candidates", found="something else")
    needed = [*(o.metric for o in probe.space.objectives), *(c.metric for c in probe.space.constraints)]
    for candidate, measurement in zip(probe.candidates, probe.measured, strict=True):
        if not isinstance(measurement, Measurement):
            raise probe.error(
                "measurement", expected="a Measurement", found=type(measurement).__name__, candidate=candidate
            )
        if measurement.failure is not None:
            continue
        for name in needed:
            value = measurement.metrics.get(name)
            if not isinstance(value, int | float) or math.isnan(value):
                raise probe.error(
                    "measurement", expected=f"a number as {name!r}", found=repr(value), candidate=candidate
                )


def check_batch(probe: Probe) -> None:
    """A candidate measures the same to the last bit: again, alone, and in a batch of another order."""
    backwards = list(reversed(probe.evaluate(list(reversed(probe.candidates)))))
    for candidate, first, second in zip(probe.candidates, probe.measured, backwards, strict=True):
        if first != second:
            raise probe.error(
                "batch", expected=f"{first} in a batch of another order too", found=str(second), candidate=candidate
            )
    for candidate, first in list(zip(probe.candidates, probe.measured, strict=True))[: probe.samples]:
        (alone,) = probe.evaluate([candidate])
        if first != alone:
            raise probe.error("batch", expected=f"{first} when alone too", found=str(alone), candidate=candidate)


def check_bound(probe: Probe) -> None:
    """A state's bound is never above the loss of a feasible candidate that can be completed from it."""
    for walk in probe.walks:
        candidate = walk[-1].assignment
        loss = probe.feasible_losses.get(tuple(candidate.items()))
        for state in walk:
            bound = state.bound()
            if math.isnan(bound) or (loss is not None and bound > loss):
                raise probe.error(
                    "bound",
                    expected=f"a bound of at most {loss} after {len(state.assignment)} answers",
                    found=str(bound),
                    candidate=candidate,
                )
