"""What a fixed-point program may be asked to have little of: each one said here, and nowhere else.

Both spaces, limits, the command line, stored requests, summaries and reports read `QUANTITIES`. What a row measures is a
metric of `FixedPointEvaluator`. This module is imported for every help text, so it imports nothing heavy.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


class Unit(enum.Enum):
    """How an amount is written in a limit: the suffixes that it may have, in capitals, and what each multiplies it by."""

    BYTES = MappingProxyType(
        {"": 1, "B": 1}
        | {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", start=1)}
        | {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)}
    )
    MILLISECONDS = MappingProxyType({"US": 1e-3, "MS": 1.0, "S": 1e3, "": 1.0})
    COUNT = MappingProxyType({"": 1.0})

    @property
    def factors(self) -> Mapping[str, float]:
        """By suffix."""
        factors: Mapping[str, float] = self.value
        return factors

    @property
    def word(self) -> str:
        """What stands for an amount in help texts."""
        return {Unit.BYTES: "SIZE", Unit.MILLISECONDS: "TIME", Unit.COUNT: "COUNT"}[self]

    def amount(self, number: float, suffix: str) -> float:
        """The amount that a number with a suffix of `factors` means; bytes are whole."""
        amount = number * self.factors[suffix]
        return int(amount) if self is Unit.BYTES else amount

    def text(self, amount: float) -> str:
        """An amount as a limit reads it."""
        return {Unit.BYTES: "{:.0f}", Unit.MILLISECONDS: "{:.15g}ms", Unit.COUNT: "{:.15g}"}[self].format(amount)


@dataclass(frozen=True)
class Quantity:
    """`name`: in --objective and --limit. `minimized`: the metric that the objective minimises; None: it is no objective.
    `limited`: the metric that a limit bounds; None: there are no limits on it. `label`: what that metric is in tables; where
    another family of spaces shows a metric of that name, it says the same. `option`: where requests and fingerprints hold the
    limit; None: among `further_limits`, by its name. `example`: of an amount. `timed`: it depends on the processor, so it
    needs a device. `measured`: computes the metric from arrays [candidates] of the others, by name, where it is asked for;
    None: the evaluator measures it in any case.
    """

    name: str
    minimized: str | None
    limited: str | None = None
    label: str = ""
    unit: Unit = Unit.BYTES
    option: str | None = None
    example: str = "2048"
    timed: bool = False
    measured: Callable[[Mapping[str, Any]], Any] | None = None


LINKED = "linked"
"""The name of the limit on the flash of a whole program, which is estimated for all candidates and linked for those that may be taken."""

TOTAL_RAM = "total-ram"
"""The name of the limit that a board sets, besides those on flash and RAM: the input takes RAM, too."""


def bit_operations(metrics: Mapping[str, Any]) -> Any:
    """BOPs (Baskin et al., "UNIQ", ACM TOCS 2021): what hardware spends on arithmetic, whatever the processor. A multiplication
    of w bits counts w * w, an addition w."""
    total: Any = 0
    for name, executed in metrics.items():
        kind, _, bits = name.rpartition("_")
        if kind in ("multiplies", "adds"):
            total = total + executed * int(bits) ** (2 if kind == "multiplies" else 1)
    return total


def total_ram_bytes(metrics: Mapping[str, Any]) -> Any:
    """RAM of a program whose input lies in RAM beside what it computes, as it does where a sensor or a radio has written it."""
    return metrics["ram_bytes"] + metrics["input_bytes"]


QUANTITIES = (
    Quantity("memory", "memory_bytes", "memory_bytes", "memory bytes"),
    Quantity("flash", None, "flash_bytes", "flash bytes", option="flash_limit_bytes", example="32KiB"),
    Quantity(LINKED, None, "linked_bytes", "flash bytes linked, estimated", example="4KiB", timed=True),
    Quantity("ram", None, "ram_bytes", "RAM bytes", option="ram_limit_bytes"),
    Quantity(TOTAL_RAM, None, "total_ram_bytes", "RAM bytes with input", measured=total_ram_bytes),
    Quantity(
        *("cycles", None, "cycles", "cycles, predicted", Unit.COUNT),
        option="cycles_limit",
        example="100000",
        timed=True,
    ),
    Quantity(
        *("latency", "cycles", "latency_ms", "ms an inference, predicted", Unit.MILLISECONDS),
        option="latency_limit_ms",
        example="20ms",
        timed=True,
    ),
    Quantity(
        *("bops", "bit_operations", "bit_operations", "bit operations", Unit.COUNT),
        example="1e6",
        measured=bit_operations,
    ),
)
"""The first one is the objective where none is asked for."""

DEFAULT = QUANTITIES[0].name
LIMITED = MappingProxyType({quantity.name: quantity for quantity in QUANTITIES if quantity.limited is not None})
"""By the name that --limit takes."""

OBJECTIVES = tuple(quantity.name for quantity in QUANTITIES if quantity.minimized is not None)
"""The names that --objective takes, the default first."""


def asked_for(objective: str, limited: Iterable[str]) -> tuple[Quantity, ...]:
    """The quantities of an objective and of limits."""
    names = {objective, *limited}
    return tuple(quantity for quantity in QUANTITIES if quantity.name in names)


def limit_examples() -> str:
    """For the help of --limit: `flash=32KiB, ram=2048; with --device also cycles=100000, latency=20ms`."""
    plain, timed = (
        ", ".join(f"{name}={quantity.example}" for name, quantity in LIMITED.items() if quantity.timed is with_device)
        for with_device in (False, True)
    )
    return f"{plain}; with --device also {timed}"


def minimized_metric(objective: str) -> str:
    """The metric that an objective minimises. ValueError, a sentence, for a name that is none."""
    for quantity in QUANTITIES:
        if quantity.name == objective and quantity.minimized is not None:
            return quantity.minimized
    raise ValueError(f"There is no objective {objective!r}; there are {', '.join(OBJECTIVES)}.")


def metric_labels(timed: bool) -> tuple[tuple[str, str], ...]:
    """(metric, label) of the quantities that depend on the processor, or of those that do not."""
    found = {q.limited or q.minimized or "": q.label for q in QUANTITIES if q.timed is timed and q.label}
    return tuple(found.items())
