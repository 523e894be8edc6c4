"""When a run ends before its budget does: time that buys nothing is given back."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kilotune.search.budget import Budget

PATIENCE_SHARE = 0.25
"""The share of the run's budget for which a run goes on though nothing better is found."""


class When(enum.Enum):
    """What a rule waits for."""

    SETTLED = (
        "settled"  # the first objective is proved, and since then or since the last better candidate patience has ended
    )
    PROVED = "proved"  # the first objective is proved
    STALLED = "stalled"  # patience has ended, proved or not
    NEVER = "never"  # the budget


@dataclass(frozen=True)
class StoppingState:
    """Where a run stands: seconds and new trials, now, when its best candidate was found, and when that was proved best in the
    first objective (None: it is not). What earlier runs found, this one found at 0."""

    seconds: float
    trials: int
    improved: tuple[float, int]
    proved: tuple[float, int] | None


@dataclass(frozen=True)
class StopRule:
    """`patience`: how long nothing better may be found; None for PATIENCE_SHARE of the run's budget, and without a budget for
    ever. A candidate is better when it comes first in the order of the objectives."""

    when: When = When.NEVER
    patience: Budget | None = None

    @classmethod
    def parse(cls, text: str) -> StopRule:
        """Read `settled`, `proved`, `never`, `stalled`, `stalled=30s` or `stalled=500trials`. ValueError, a sentence."""
        name, _, amount = text.strip().lower().partition("=")
        kinds = {when.value: when for when in When}
        if name not in kinds or (amount and kinds[name] is not When.STALLED) or ("=" in text and not amount):
            raise ValueError(
                f"--stop {text!r}: expected settled, proved, never, stalled, or stalled with a time or a number of trials such "
                f"as stalled=30s or stalled=500trials."
            )
        try:
            return cls(kinds[name], Budget.parse(amount) if amount else None)
        except ValueError as error:
            raise ValueError(f"--stop {text!r}: {error}") from None

    def __str__(self) -> str:
        return self.when.value if self.patience is None else f"{self.when.value}={self.patience}"

    def ends(self, standing: StoppingState, budget: Budget) -> bool:
        """Whether a run of this budget ends here."""
        if self.when is When.NEVER or (self.when is not When.STALLED and standing.proved is None):
            return False
        if self.when is When.PROVED:
            return True
        since = standing.improved
        if self.when is When.SETTLED and standing.proved is not None:
            since = max(since, standing.proved)
        patience = self.patience or Budget(PATIENCE_SHARE * budget.seconds, PATIENCE_SHARE * budget.trials)
        return standing.seconds - since[0] >= patience.seconds or standing.trials - since[1] >= patience.trials


SETTLED = StopRule(When.SETTLED)
"""What `tune` does unless it is told otherwise."""

NEVER = StopRule()
