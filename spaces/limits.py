"""Limits on memory and time that the spaces of fixed-point programs share."""

from __future__ import annotations

from typing import Protocol

from kilotune.evaluators.cost_model import Timing
from kilotune.search.space import Constraint


class Limits(Protocol):
    """Options that hold limits; None where there is none."""

    @property
    def flash_limit_bytes(self) -> int | None:
        """The limit on parameters and tables together, in bytes."""

    @property
    def ram_limit_bytes(self) -> int | None:
        """The limit on the placed temporaries, in bytes."""

    @property
    def cycles_limit(self) -> float | None:
        """The limit on the processor cycles of one inference."""

    @property
    def latency_limit_ms(self) -> float | None:
        """The limit on the time of one inference, in milliseconds."""

    @property
    def timing(self) -> Timing | None:
        """What predicts cycles."""

    @property
    def fastest(self) -> bool:
        """Whether cycles are an objective."""


def check_timing(options: Limits) -> None:
    """ValueError, a sentence, where cycles are asked for and nothing predicts them."""
    wants = options.fastest or options.cycles_limit is not None or options.latency_limit_ms is not None
    if wants and options.timing is None:
        raise ValueError(
            "Time depends on the processor: limits on cycles or latency, and the objective, need --device."
        )


def limit_constraints(options: Limits) -> tuple[Constraint, ...]:
    """The limits that are set."""
    limits = (
        ("flash_bytes", options.flash_limit_bytes),
        ("ram_bytes", options.ram_limit_bytes),
        ("cycles", options.cycles_limit),
        ("latency_ms", options.latency_limit_ms),
    )
    return tuple(Constraint(metric, float(limit)) for metric, limit in limits if limit is not None)
