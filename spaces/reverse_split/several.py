"""Programs for one of several sets of kernels: a candidate says for which, and is a candidate of that set's own space.

Kernels of fewer and fewer digits (`approximations.py`), and the same kernels at other positions (`positions.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from kilotune.codegen.scamp.kernel import ApproximatedSet
from kilotune.search.flat_state import FlatView
from kilotune.search.space import (
    Assignment,
    Clock,
    Decision,
    ExactStep,
    Measurement,
    Objective,
    Option,
    Procedure,
    State,
    Trial,
    answered,
)
from kilotune.search.work_memory import WorkMemory
from kilotune.spaces.reverse_split.measuring import ProvedProgram
from kilotune.spaces.reverse_split.order_view import order_decisions
from kilotune.spaces.reverse_split.space import ReverseSplitSpace


class SeveralKernels(ABC):
    """What choices of kernels have in common. `spaces`: by option of the decision `choice`, the kernels as they were given first."""

    name = "reverse-split"
    threads = 1
    prefers_flat = ReverseSplitSpace.prefers_flat
    constraints = ()
    objectives: tuple[Objective, ...]
    why_no_model: str  # see `search.space.SaysWhyNoModel`

    def __init__(self, choice: str, spaces: Mapping[Option, ReverseSplitSpace]) -> None:
        self.choice, self.spaces = choice, dict(spaces)
        self.first = next(iter(self.spaces))
        self.problem = self.spaces[self.first].problem

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of all that candidates mean and cost."""

    @cached_property
    def least(self) -> float:
        """No program for any of the kernels has less of the first objective."""
        return min(space.least for space in self.spaces.values())

    @property
    def work_memory(self) -> WorkMemory:
        """That of all spaces."""
        return self.spaces[self.first].work_memory

    @work_memory.setter
    def work_memory(self, memory: WorkMemory) -> None:
        for space in self.spaces.values():
            space.work_memory = memory

    def searches_after(
        self, trials: Sequence[Trial], seed: int
    ) -> dict[Option, Callable[[Clock], Iterator[ExactStep]]]:
        """By option, what begins its space's search by a clock: where an earlier one has measured something, from there."""
        measured: dict[Option, list[Trial]] = {option: [] for option in self.spaces}
        for trial in trials:
            own = replace(trial, assignment=self.within(trial.assignment))
            measured[trial.assignment[self.choice]].append(own)
        return {
            option: partial(space.exact_search_after, measured[option], seed)
            if measured[option]
            else partial(space.exact_search, seed)
            for option, space in self.spaces.items()
        }

    @property
    def decision(self) -> Decision:
        """For which kernels the program is."""
        return Decision(self.choice, tuple(self.spaces))

    def kernels_of(self, assignment: Assignment) -> ApproximatedSet:
        """What the program of a candidate computes."""
        return self.space_of(assignment).problem.kernels

    def program(self, assignment: Assignment) -> ProvedProgram:
        """The proved program of a candidate. ValueError, a sentence: it has none."""
        return self.space_of(assignment).program(self.within(assignment))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """As `ReverseSplitSpace`."""
        return [self.space_of(assignment).evaluate([self.within(assignment)])[0] for assignment in batch]

    def procedure(self) -> Procedure:
        """AUKE's search for the kernels as they were given."""
        for candidate in self.spaces[self.first].paper_candidates():
            yield [self.chosen(self.first, candidate)]

    def fallback(self) -> Assignment | None:
        """That of the kernels as they were given."""
        found = self.spaces[self.first].fallback()
        return None if found is None else self.chosen(self.first, found)

    def start(self) -> ChosenState:
        """Nothing decided."""
        return ChosenState(self)

    def flat_view(self) -> FlatView:
        """The kernels, and the order in which a short search tries splits; see `order_view`."""
        return FlatView(self, (self.decision, *order_decisions(self.problem)), self.least)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The kernels first."""
        return dict(self.chosen(answers[self.choice], self.space_of(answers).in_order(self.within(answers))))

    def space_of(self, assignment: Assignment) -> ReverseSplitSpace:
        """That of the kernels that a candidate is for."""
        return self.spaces[assignment[self.choice]]

    def within(self, assignment: Assignment) -> Assignment:
        """The candidate of that space."""
        return {name: option for name, option in assignment.items() if name != self.choice}

    def chosen(self, option: Option, candidate: Assignment) -> Assignment:
        """The candidate of ours that is one of the space of an option."""
        return {self.choice: option, **candidate}


@dataclass(frozen=True)
class ChosenState:
    """For which kernels, then a walk through the programs for those."""

    space: SeveralKernels = field(repr=False)
    option: Option | None = None
    within: State | None = None

    @property
    def decision(self) -> Decision | None:
        """The kernels, then what the space of programs asks."""
        return self.space.decision if self.within is None else self.within.decision

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        if self.within is None or self.option is None:
            return {}
        return self.space.chosen(self.option, self.within.assignment)

    def take(self, option: Option) -> ChosenState:
        """Answer the current decision. ValueError when it is not one of the options."""
        if self.within is not None:
            return ChosenState(self.space, self.option, self.within.take(option))
        answered(self.space.decision, option)
        return ChosenState(self.space, option, self.space.spaces[option].start())

    def bound(self) -> float:
        """No program from here on has less of the first objective."""
        return self.space.least if self.within is None else self.within.bound()
