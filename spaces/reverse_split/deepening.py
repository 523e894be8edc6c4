"""The proof from below: the least cost that is not yet refuted is asked for, and refuted or found, in slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.prepared_question import ProgramResult, ProgramStatus
from kilotune.spaces.reverse_split.programs import Costs, ProgramQuery, Searcher
from kilotune.spaces.reverse_split.shared_asking import SharedSearcher
from kilotune.spaces.reverse_split.signless import SignlessSearcher, is_askable

MOST_PROVABLE_TARGETS = 8
"""The most targets of an exact proof."""


@dataclass(frozen=True)
class ProofStanding:
    """Where a `Proof` stands, for a later one of the same question to go on from."""

    bound: int
    path: tuple[int, ...] = ()
    found: bool = False
    thoroughly: bool = False
    open: bool = True
    worked: int = 0


class LengthSearcher(Protocol):
    """What is asked for programs."""

    def ask(self, budget: int, work_limit: int, path: Sequence[int] = ()) -> ProgramResult:
        """A program of at most `budget`, from where `path` left off."""


@dataclass
class Proof:
    """Deepening, in slices. `bound`: everything cheaper is refuted.

    The search meets every set of values once, as one program, or of sets that are as short one. Where that does not fit the registers
    another program may: `thorough`, if there is one, is asked then, which meets all sets. Otherwise the cost is never refuted.
    """

    searcher: LengthSearcher
    unit: int
    """Cost of one step of `searcher`'s budget."""

    bound: int
    thorough: Callable[[], LengthSearcher] | None = None
    path: tuple[int, ...] = ()
    open: bool = True
    found: bool = False
    worked: int = 0
    thoroughly: bool = False
    """Whether the thorough searcher is asked."""

    @property
    def standing(self) -> ProofStanding:
        """A search that threads share has its place in itself, so that a later proof asks its last question anew."""
        path = () if isinstance(self.searcher, SharedSearcher) else self.path
        return ProofStanding(self.bound, path, self.found, self.thoroughly, self.open, self.worked)

    def go_on_from(self, before: ProofStanding) -> None:
        """From where an earlier proof of the same question stood, unless more than that is known already."""
        if before.bound < self.bound:
            return
        if before.thoroughly:
            self._ask_thoroughly()
        self.path = () if isinstance(self.searcher, SharedSearcher) else before.path
        self.bound, self.found, self.worked = before.bound, before.found, before.worked
        self.open = self.open and before.open

    def advance(self, below: int, work: int) -> Plan | None:
        """One slice at the bound's cost; a plan is one of that cost. Closed when the bound has reached `below`."""
        if self.bound >= below or not self.open:
            return None
        answer = self.searcher.ask(self.bound // self.unit, work, self.path)
        self.path, self.worked = answer.path, self.worked + answer.work
        found = answer.status is ProgramStatus.FOUND
        self.found = self.found or found
        if answer.status is ProgramStatus.EXHAUSTED and not self.found:
            self.bound, self.path = self.bound + self.unit, ()
        elif answer.status is ProgramStatus.EXHAUSTED or (found and answer.plan is None):
            self._ask_thoroughly()
        elif answer.status is ProgramStatus.STOPPED and not answer.path:
            self.open = False  # longer than the search can hold
        return answer.plan

    def _ask_thoroughly(self) -> None:
        if self.thorough is None:
            self.open = False
        else:
            self.searcher, self.unit, self.thorough = self.thorough(), 1, None
            self.path, self.found, self.thoroughly = (), False, True


def proof_of(wanted: tuple[Sum, ...], target: str, depth: int, costs: Costs, bound: int, threads: int = 1) -> Proof:
    """A proof that begins at a bound, for distinct sums (none zero, none the image) in units of `2**-depth`; closed for more than
    `MOST_PROVABLE_TARGETS`. What it finds and refutes does not depend on the `threads` that it takes."""
    whole = ProgramQuery(target, depth, wanted, costs, whole=True)
    provable = len(wanted) <= MOST_PROVABLE_TARGETS
    if provable and target == "auke" and is_askable(wanted, depth):
        unit = costs.plain
        fast = _in_threads(lambda share, shares: SignlessSearcher(wanted, depth, share, shares), threads)
        return Proof(fast, unit, -(-bound // unit) * unit, lambda: _in_threads(partial(_searcher, whole), threads))
    return Proof(_in_threads(partial(_searcher, replace(whole, turned=True)), threads), 1, bound, open=provable)


def _searcher(question: ProgramQuery, share: int, shares: int) -> Searcher:
    return Searcher(question, share=share, shares=shares)


def _in_threads(made: Callable[[int, int], Searcher | SignlessSearcher], threads: int) -> LengthSearcher:
    return made(0, 0) if threads == 1 else SharedSearcher([made(share, threads) for share in range(threads)])
