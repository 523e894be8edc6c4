"""The words of a search: decisions, assignments, measurements, spaces. A space asks, a strategy answers.

Nothing here knows what is being decided. Optional abilities are small protocols of their own, discovered with
`isinstance`.
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

Option = str | int | float | bool
"""One possible answer. Plain JSON scalars, so that studies can be stored, resumed and exported."""

Assignment = Mapping[str, Option]
"""Answers by decision name, in the order in which they were asked. A complete one is a candidate."""

Metrics = dict[str, float]
"""What was measured, by the metric's name."""


@dataclass(frozen=True)
class Decision:
    """One named question with a finite list of options, best guess first."""

    name: str
    options: tuple[Option, ...]


def answered(decision: Decision | None, option: Option) -> Decision:
    """The decision that an option answers. ValueError when it is none of the options, or when nothing is left to decide."""
    if decision is None or option not in decision.options:
        raise ValueError(f"{option!r} is no option of {decision.name if decision else 'a complete candidate'}.")
    return decision


class Direction(enum.Enum):
    """Which way is better."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


@dataclass(frozen=True)
class Objective:
    """What is to be small or large. The first objective leads; the following ones break its ties, in order."""

    metric: str
    direction: Direction = Direction.MINIMIZE

    def loss(self, metrics: Mapping[str, float]) -> float:
        """The metric with its sign turned so that smaller is better; +inf when the metric is absent."""
        value = metrics.get(self.metric)
        if value is None or value != value:
            return math.inf
        return value if self.direction is Direction.MINIMIZE else -value


@dataclass(frozen=True)
class Constraint:
    """`metric <= limit` (or `>=` for AT_LEAST) must hold."""

    metric: str
    limit: float
    at_least: bool = False

    def violation(self, metrics: Mapping[str, float]) -> float:
        """0 when it holds, else how far the metric is off, in the metric's unit; +inf when it is absent."""
        value = metrics.get(self.metric)
        if value is None or value != value:
            return math.inf
        over = self.limit - value if self.at_least else value - self.limit
        return over if over > 0.0 else 0.0


@dataclass(frozen=True)
class Measurement:
    """What an evaluator found: metrics by name, or why there are none (`failure`: a sentence).

    `censored`: the evaluation was stopped, since the candidate could not have mattered any more (`search.racing`). `failure` then says
    how far it came, and `metrics` are no measurements but bounds: what the candidate could have reached at best.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None
    censored: bool = False


class State(Protocol):
    """A partial assignment; immutable."""

    @property
    def decision(self) -> Decision | None:
        """The next question; None when the assignment is complete."""

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""

    def take(self, option: Option) -> State:
        """The state after answering the current decision. ValueError when it is not one of the options."""

    def bound(self) -> float:
        """A loss of the first objective that no feasible completion can beat; -inf if unknown, +inf if none exists."""


@runtime_checkable
class Space(Protocol):
    """A decision problem. Picklable: workers receive it whole."""

    @property
    def name(self) -> str:
        """Short name, as on the command line."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """At least one; see `Objective`."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What a feasible candidate must keep."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides what a candidate measures; a study resumes only on the same one."""

    def start(self) -> State:
        """The empty assignment."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Measure complete assignments, in order. Deterministic, to the last bit, whatever else is in the batch (the
        engine cuts batches up by the clock); a candidate that cannot be measured is a failure, not an exception."""


@runtime_checkable
class FlatSpace(Protocol):
    """Ability: the decisions do not depend on one another, so a candidate is one option of each."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions, in the order in which `start()` asks them."""


@runtime_checkable
class HasFlatView(Protocol):
    """Ability: some candidates of a tree can be found by independent decisions, which some strategies need."""

    @property
    def prefers_flat(self) -> bool:
        """Whether strategies that could walk the tree as well, such as local search, do better in the flat view."""

    def flat_view(self) -> Space:
        """A `FlatSpace` with the objectives and constraints of this space. Each of its candidates is, as it stands, a
        candidate of this space, and measures the same in both. It need not hold the best one."""


@runtime_checkable
class HasFlatViews(HasFlatView, Protocol):
    """Ability: a tree's first answers choose among several problems of independent decisions, of which `flat_view` is one."""

    def flat_view_of(self, candidate: Assignment) -> Space:
        """The `FlatSpace` of the candidates whose first answers are those of a candidate of this space, or of a flat view of it. Its
        candidates are candidates of this space; with the answers that the flat view asks for, the given one is among them."""


@runtime_checkable
class HasFinish(HasFlatView, Protocol):
    """Ability: what costs much to decide can be decided for a single candidate of the flat view, which it makes better. So it is done
    for those alone that a search would end with."""

    def finished(self, candidate: Assignment, measurement: Measurement) -> Assignment | None:
        """A candidate of the space: the given one of the flat view (or of one of several), finished. None where that cannot make it
        feasible. `measurement`: of the given one, with metrics as well as they are known, which may be better than what the space
        measures."""


@dataclass(frozen=True)
class Trial:
    """One row of a study: a candidate and its measurement."""

    number: int
    assignment: Assignment
    measurement: Measurement
    elapsed_s: float = field(default=0.0, compare=False)  # on the study's clock, when it finished

    @property
    def metrics(self) -> Mapping[str, float]:
        """What was measured; empty for a failure and for a censored trial, of which only bounds are known."""
        return {} if self.measurement.censored else self.measurement.metrics


Procedure = Generator[list[Assignment], list[Trial], None]
"""Straight-line search code: yields batches of candidates, is sent their trials in the same order, and returns."""


@runtime_checkable
class OrdersAnswers(Protocol):
    """Ability: some candidates take options that the states do not offer, so that no walk leads to them."""

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a complete assignment, which may be in any order, in the order in which they were asked."""


@runtime_checkable
class HasProcedure(Protocol):
    """Ability: the heuristic of the paper that the space comes from."""

    def procedure(self) -> Procedure:
        """The paper's heuristic. The last candidate that it yields, alone in its batch, is its answer."""


@runtime_checkable
class HasCore(Protocol):
    """Ability: a part of the options makes a smaller problem, whose good candidates are worth beginning with."""

    def core(self) -> Mapping[str, Sequence[Option]] | None:
        """By decision the options of that part, at least one of each. None where it is the whole."""


@runtime_checkable
class HasOpening(Protocol):
    """Ability: a search of the space's own that sees far, and whose best candidate local search is worth beginning with."""

    def opening(self, seed: int) -> Procedure | None:
        """Batches of candidates; it ends by itself. None where there is no such search for what is asked."""


@runtime_checkable
class HasFallback(Protocol):
    """Ability: a candidate that costs next to nothing to find and should be feasible, for budgets in which nothing better is."""

    def fallback(self) -> Assignment | None:
        """It; always the same. None where the procedure ends in a moment."""


@runtime_checkable
class AnswersAlways(Protocol):
    """Ability: the first candidate of the fallback, or of the procedure where that is None, is found and measured in a time that the size
    of the input bounds, about as long as reading it takes. A study without a trial waits for it however small its budget."""

    answers_always: bool


def answers_always(space: object) -> bool:
    """Whether a space promises that."""
    return isinstance(space, AnswersAlways) and space.answers_always


@runtime_checkable
class HasShortSearch(Protocol):
    """Ability: a short search of the space's own, whose candidate is worth having before a procedure that may take long. It is given up
    where it takes too much of the time that there is."""

    def short_search(self) -> Assignment | None:
        """What it finds; always the same. None: nothing."""


@runtime_checkable
class MayHaveSlowProcedure(Protocol):
    """Ability: knows that to find or to measure what its procedure proposes takes seconds of work, where a search has something better
    before. Where a budget counts seconds the search has its turn first."""

    procedure_takes_long: bool


def procedure_takes_long(space: object) -> bool:
    """Whether a space says so of its procedure."""
    return isinstance(space, MayHaveSlowProcedure) and space.procedure_takes_long


@runtime_checkable
class HasSize(Protocol):
    """Ability: the number of candidates is known."""

    def size(self) -> int:
        """How many complete assignments there are."""


@runtime_checkable
class HasModel(Protocol):
    """Ability: a constraint-programming model of the decision problem."""

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """The model with its objective fitted to what the trials so far have shown."""


@runtime_checkable
class SaysWhyNoModel(Protocol):
    """Ability: has no constraint model where other problems of the same space have one, and says what is the matter."""

    why_no_model: str
    """The rest of a sentence that says that there is none."""


@dataclass(frozen=True)
class ExactStep:
    """Where an exact search stands: a new best candidate if there is one, and a loss of the first objective that no
    feasible candidate can beat. `complete`: nothing is left to search."""

    candidate: Assignment | None
    bound: float
    complete: bool = False


@runtime_checkable
class HasExactSearch(Protocol):
    """Ability: a branch and bound of the space's own (compiled), where plain Python would visit too few states."""

    def exact_search(self, seed: int, seconds_left: Callable[[], float]) -> Iterator[ExactStep]:
        """Steps of about a second or less, and none much longer than `seconds_left()` says when it begins. The search ends
        with a complete step, or gives up without one. What it proves does not depend on the seed."""


@runtime_checkable
class SearchesInThreads(Protocol):
    """Ability: the exact search takes as many processors as it is told, and proves the same with them."""

    threads: int
    """Set before a search begins; 1 at first."""


@runtime_checkable
class HasAnnealing(Protocol):
    """Ability: simulated annealing of the space's own (compiled, on a cheap estimate of the first objective), where
    measuring every change of a candidate would be too slow."""

    def anneal(self, seed: int) -> Iterator[Assignment | None]:
        """Steps of about a second or less: a candidate that is worth measuring, or None. It may end."""


@runtime_checkable
class HasReferencePoint(Protocol):
    """Ability: it is the whole front that is asked for, not its first point."""

    @property
    def reference_point(self) -> tuple[float, ...] | None:
        """A loss of each objective, in order, above 0, at and beyond which nothing is worth having. None: no front is asked for."""


def reference_point(space: object) -> tuple[float, ...] | None:
    """The reference point of a space of which a front is asked for; None for any other one."""
    return space.reference_point if isinstance(space, HasReferencePoint) else None


def asks_for_front(space: object) -> bool:
    """Whether it is the whole front of a space that is asked for."""
    return reference_point(space) is not None


@runtime_checkable
class HasFrontSearch(Protocol):
    """Ability: a search of the space's own for the whole front."""

    def front_search(self, seed: int) -> Procedure:
        """Batches of candidates, without end unless all have been proposed. Meant to go on after the space's procedure."""


Clock = Callable[[], float]
"""Seconds from some beginning; never goes back."""


@dataclass(frozen=True)
class SolveLimit:
    """How long a solve may take. `work`: by the solver's own count (CP-SAT's deterministic time, about seconds), so that it answers
    the same on a slow machine; `seconds`: by `clock`, which only the end of a budget should cut it short by, so the budget's clock: one
    of processor time does not run while others have the processor."""

    work: float
    seconds: float = math.inf
    clock: Clock = time.monotonic


class CandidateModel(Protocol):
    """A CP-SAT model and how to read a candidate back. `solve` hides the solver's own types."""

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """Up to `count` best candidates by the model's objective, none of `excluded`."""


@dataclass(frozen=True)
class ModelAnswer:
    """`bound` is a loss of the first objective that no feasible candidate can beat (-inf: unknown); `exhausted`: no
    candidate is left."""

    candidates: tuple[Assignment, ...]
    bound: float = -math.inf
    exhausted: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
