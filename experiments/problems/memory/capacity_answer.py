"""`tune --space memory --capacity SIZE` asks a question: is there a placement within SIZE? Its answer, with what proves it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from kilotune.experiments.presentation.wording import counted
from kilotune.search.result import Result


class Answer(enum.Enum):
    """Whether everything fits."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    UNDECIDED = "not decided within the budget"


@dataclass(frozen=True)
class PlacementAnswer:
    """`least_bytes`: what no placement takes less than, as far as is known. `proof`: a sentence without its full stop."""

    answer: Answer
    capacity_bytes: int
    peak_bytes: int | None
    least_bytes: int
    proof: str

    def sentence(self) -> str:
        """For the terminal."""
        return f"Capacity of {counted(self.capacity_bytes, 'byte')}: {self.answer.value}; {self.proof}."

    def as_json(self) -> dict[str, Any]:
        """For the result file."""
        return {
            "answer": self.answer.value,
            "capacity_bytes": self.capacity_bytes,
            "peak_bytes": self.peak_bytes,
            "least_bytes": self.least_bytes,
            "proof": self.proof,
        }


def capacity_answer(capacity_bytes: int, known_bytes: int, known: str, result: Result) -> PlacementAnswer:
    """From what a study of that capacity has found (its first objective is the excess in bytes). `known_bytes`: what no placement takes
    less than, whatever is searched, and `known` why, in a sentence without its full stop."""
    peak = None if result.best is None else result.best.measurement.metrics.get("peak_bytes")
    peak_bytes = None if peak is None else int(peak)
    excess = 0 if result.bound is None else max(int(result.bound), 0)
    least_bytes = max(known_bytes, capacity_bytes + excess if excess else 0)

    def answered(answer: Answer, proof: str) -> PlacementAnswer:
        return PlacementAnswer(answer, capacity_bytes, peak_bytes, least_bytes, proof)

    if result.feasible and peak_bytes is not None:
        return answered(Answer.FITS, f"the placement found takes {counted(peak_bytes, 'byte')}, and was checked")
    if known_bytes > capacity_bytes:
        return answered(Answer.DOES_NOT_FIT, known)
    if excess:
        return answered(
            Answer.DOES_NOT_FIT, f"the search proved that every placement takes {counted(least_bytes, 'byte')} or more"
        )
    if result.proved:
        least_bytes = max(least_bytes, capacity_bytes + 1)
        return answered(Answer.DOES_NOT_FIT, "the search has refuted every placement within it")
    found = (
        "no placement was found"
        if peak_bytes is None
        else f"the best placement found takes {counted(peak_bytes, 'byte')}"
    )
    return answered(Answer.UNDECIDED, f"{found}, and none takes less than {least_bytes}")
