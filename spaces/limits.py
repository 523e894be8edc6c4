"""Options that the spaces of fixed-point programs share: limits, the objective, and what the programs are like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.evaluators.cost_model import Timing
from kilotune.evaluators.fixed_point.measuring import DerivedMetric
from kilotune.search.fingerprint import absent_as, named
from kilotune.search.space import Constraint
from kilotune.spaces.objectives import DEFAULT, LIMITED, asked_for, minimized_metric

SCORE_ROUNDING = 1e-11
"""Per cents that scores of floats may be off: 57 right ones of 100 are 56.99999999999999 %, and 59 are 59 %."""


def permitted_drop(metric: str, float_score: float, drop: float) -> Constraint:
    """That a classifier's score, in per cent, is at most `drop` points below the float program's: exactly so many are permitted, too."""
    return Constraint(metric, float_score - drop - SCORE_ROUNDING, at_least=True)


@dataclass(frozen=True)
class FixedPointOptions:
    """What a user may set in either space: limits (bytes; cycles or time, which need `timing`; `further_limits` by the names of
    `spaces.objectives`), the `objective` (a name from there), the rounding, and whether results may overwrite operands
    that die (`codegen.in_place`). `most_array_bytes`: what the compiler allows one array; formats in which a parameter takes more are not
    offered.
    """

    flash_limit_bytes: int | None = None
    ram_limit_bytes: int | None = None
    rounding: Rounding = Rounding.TOWARD_ZERO
    accumulator: Accumulator = Accumulator.DOUBLE
    in_place: bool = True
    timing: Timing | None = None
    cycles_limit: float | None = None
    latency_limit_ms: float | None = None
    objective: str = field(default=DEFAULT, metadata=named("fastest", {DEFAULT: False, "latency": True}))
    further_limits: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=absent_as({}))
    most_array_bytes: int | None = field(default=None, metadata=absent_as(None))

    def __post_init__(self) -> None:
        """ValueError, a sentence, for an objective that is none, and where time is asked for and nothing predicts it."""
        minimized_metric(self.objective)
        if self.timing is None and any(quantity.timed for quantity in asked_for(self.objective, self.limits)):
            raise ValueError(
                "Time and linked flash depend on the processor: limits on cycles, latency or linked, and the objective, need --device."
            )

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits that are set, by their names in `spaces.objectives`."""
        return MappingProxyType(
            {
                name: float(amount)
                for name, quantity in LIMITED.items()
                if (amount := getattr(self, quantity.option) if quantity.option else self.further_limits.get(name))
                is not None
            }
        )

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits that are set, on the metrics that they bound."""
        return tuple(Constraint(str(LIMITED[name].limited), amount) for name, amount in self.limits.items())

    @property
    def minimized(self) -> str:
        """The metric that is to be small, accuracy aside."""
        return minimized_metric(self.objective)

    @property
    def derived_metrics(self) -> Mapping[str, DerivedMetric]:
        """Metrics that are computed because the objective or a limit is about them."""
        quantities = asked_for(self.objective, self.limits)
        return {str(q.limited or q.minimized): q.measured for q in quantities if q.measured is not None}

    @property
    def asks_for_memory(self) -> bool:
        """Whether it is flash and RAM together that are to be small, as in the papers."""
        return self.objective == DEFAULT
