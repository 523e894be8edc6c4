"""One question asked by several threads, each its share of the search: the answers are those of one thread, in its order.

A node of the search's first levels is everybody's, what is below one belongs to one thread (`shares.h`). Programs found are handed on in
the order in which one thread meets them: one is kept back until every other thread has passed its place, or has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kilotune.evaluators.interruptible import interruptible
from kilotune.spaces.reverse_split.prepared_question import PreparedQuestion, ProgramResult, ProgramStatus

SearchPath = tuple[int, ...]

GOES_ON: SearchPath = (1,)
"""The path of a shared search that has more to say; where its threads stand is its own."""


class PreparesQuestions(Protocol):
    """A searcher of a share: each has its own, so that threads touch nothing of one another."""

    def prepared(self, budget: int, work_limit: int, path: Sequence[int] = ()) -> PreparedQuestion:
        """As its `ask`, not asked yet."""


@dataclass
class _Share:
    """Where a thread stands: `head` is a program that it has found and nobody has seen."""

    searcher: PreparesQuestions
    path: SearchPath = ()
    head: ProgramResult | None = None
    ended: bool = False

    def is_past(self, place: SearchPath) -> bool:
        """Whether nothing that is still to be found comes before that place."""
        return self.ended or self.head is not None or self.path >= place

    def take(self, found: ProgramResult) -> None:
        self.path = found.path
        self.ended = found.status is ProgramStatus.EXHAUSTED
        self.head = found if found.status is ProgramStatus.FOUND else None


@dataclass
class SharedSearcher:
    """`ask` as any searcher's, its work done in a thread for each of the shares' searchers."""

    searchers: Sequence[PreparesQuestions]
    _shares: list[_Share] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._begin()

    def ask(self, budget: int, work_limit: int, path: Sequence[int] = ()) -> ProgramResult:
        """The next program of at most that budget; with a `path` from where the last answer left off. The work of an answer is that of the
        busiest thread. Raises as the searchers do."""
        if not path:
            self._begin()
        first = self._first_head()
        asked = [
            share
            for share in self._shares
            if not share.ended and share.head is None and (first is None or not share.is_past(first.path))
        ]
        answers = _asked_together([share.searcher.prepared(budget, work_limit, share.path) for share in asked])
        for share, answer in zip(asked, answers, strict=True):
            if answer.status is ProgramStatus.STOPPED and not answer.path:
                return answer  # longer than the search can hold
            share.take(answer)
        return self._settled(max((answer.work for answer in answers), default=0))

    def _begin(self) -> None:
        self._shares = [_Share(searcher) for searcher in self.searchers]

    def _first_head(self) -> ProgramResult | None:
        return min((share.head for share in self._shares if share.head), key=lambda head: head.path, default=None)

    def _settled(self, work: int) -> ProgramResult:
        first = self._first_head()
        if first is None:
            over = all(share.ended for share in self._shares)
            return ProgramResult(ProgramStatus(1 if over else 2), None, () if over else GOES_ON, work)
        if not all(share.is_past(first.path) for share in self._shares):
            return ProgramResult(ProgramStatus.STOPPED, None, GOES_ON, work)
        for share in self._shares:  # what is above the shares' level all of them have found
            if share.head is not None and share.head.path == first.path:
                share.head = None
        return ProgramResult(ProgramStatus.FOUND, first.plan, GOES_ON, work)


def _asked_together(questions: Sequence[PreparedQuestion]) -> list[ProgramResult]:
    """Their answers, each asked in a thread of its own; all are told to stop when an exception ends the wait."""
    statuses = [0] * len(questions)
    errors: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            statuses[number] = questions[number].call()
        except BaseException as error:
            errors.append(error)

    def call() -> None:
        threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(1, len(questions))]
        for thread in threads:
            thread.start()
        ask(0)
        for thread in threads:
            thread.join()

    def stop() -> None:
        for question in questions:
            question.stop()

    if questions:
        interruptible(call, stop)
    if errors:
        raise errors[0]
    return [question.answer(status) for question, status in zip(questions, statuses, strict=True)]
