"""A decision problem of one's own: which of eight functions to place in fast memory of 16 KiB, so that calls take least time."""

from dataclasses import dataclass

from kilotune import Constraint, Decision, FlatState, Measurement, Objective, fingerprint, tune
from kilotune.testing import check_space

KIB, CALLS = (6, 3, 5, 2, 4, 7, 1, 3), (90, 10, 70, 40, 25, 95, 5, 60)
SLOW, FAST = 3, 1


@dataclass(frozen=True)
class FastMemory:
    """One yes-or-no decision a function."""

    room_kib: int = 16
    name = "fast-memory"
    objectives = (Objective("cycles"),)
    fingerprint = property(lambda self: fingerprint("fast-memory", 1, self, KIB, CALLS, SLOW, FAST))

    @property
    def constraints(self):
        return (Constraint("kib", self.room_kib),)

    @property
    def decisions(self):
        return tuple(Decision(f"f{number}", (True, False)) for number in range(len(KIB)))

    def start(self):
        return FlatState(self.decisions, self.least_cycles)

    def least_cycles(self, answers):
        """A bound: functions that are not decided yet are fast."""
        slow = sum(calls for fast, calls in zip(answers.values(), CALLS, strict=False) if not fast)
        return FAST * sum(CALLS) + (SLOW - FAST) * slow

    def evaluate(self, batch):
        return [Measurement({"cycles": self.least_cycles(c), "kib": self.kib(c)}) for c in batch]

    def kib(self, answers):
        return sum(kib for fast, kib in zip(answers.values(), KIB, strict=True) if fast)


if __name__ == "__main__":
    check_space(FastMemory())
    study = tune(FastMemory(), strategy="exhaustive", budget="10s", progress=False)
    print("fast:", [name for name, fast in study.best.assignment.items() if fast])
    print(
        study.best.metrics["cycles"],
        "cycles, proved" if study.proved else "cycles",
        "after",
        len(study.trials),
        "of 256",
    )
