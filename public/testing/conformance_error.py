"""What a failed check raises."""

from __future__ import annotations

from kilotune.search.space import Assignment

LONGEST_CANDIDATE = 400
"""Letters of a candidate in a message."""


class ConformanceError(AssertionError):
    """A space or a strategy breaks its contract. `check` is the name of the check, `candidate` the assignment at which it was
    seen, or None. The message is one sentence."""

    def __init__(
        self, check: str, subject: str, *, expected: str, found: str, candidate: Assignment | None = None
    ) -> None:
        self.check, self.candidate = check, candidate
        at = "" if candidate is None else f" at the candidate {_short(str(dict(candidate)))}"
        super().__init__(f"{subject} fails the check {check!r}{at}: expected {expected}, found {found}.")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_CANDIDATE else f"{text[: LONGEST_CANDIDATE - 20]} ... {text[-15:]}"
