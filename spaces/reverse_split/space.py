"""The reverse-splitting problem: the shortest SCAMP-5 program for a set of convolution kernels (AUKE).

A candidate is one of two things: splits, one after the other, from the final sums back to the image, which become a plan that is
then relaxed (the paper's decision); or a program instruction by instruction, which may be anything: factorised or with
parts that cancel, where no split of the kernels leads. Both are measured by the program that comes out, and every
program is proved by symbolic execution.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.front import Front, Ranking
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    ExactStep,
    Option,
    Procedure,
    Trial,
)
from kilotune.search.work_memory import NoMemory, WorkMemory, seed_of_run
from kilotune.spaces.reverse_split.candidates import METHOD, RELAXATION, ReverseSplitCandidates
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.order_view import order_decisions
from kilotune.spaces.reverse_split.search import MOST_STARTS, ProgramSearchStep, search_programs
from kilotune.spaces.reverse_split.search_standing import EarlierPrograms, ProgramNotes
from kilotune.spaces.reverse_split.states import MethodState

DIGITS_OF_A_SLOW_PROCEDURE = 16
"""From so many signed digits on the paper's procedure takes 0.01 to 0.2 seconds of work (a generated 8-bit 3x3 kernel has 19 to 27 of
them), and next to nothing for Sobel's kernel and its like."""

REGISTERS_BESIDE_RESULTS = 3
"""With fewer the procedure's plans often do not fit: of a ternary 3x3 kernel none fits two registers, and three hold most."""

SEMANTICS = 3
"""Version of what a program of kernels means and costs; part of the fingerprint."""


class ReverseSplitSpace(ReverseSplitCandidates):
    """Fewest instructions, or fewest bus transfers, or the front of transfers against noise. See `SplitProblem`."""

    name = "reverse-split"
    threads = 1
    prefers_flat = True  # walks get lost among splits, whatever walks; the weights of their order are few and good

    def __init__(self, problem: SplitProblem) -> None:
        super().__init__(problem)
        self.work_memory: WorkMemory = NoMemory()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "work_memory": NoMemory()}  # workers measure, and search for nothing

    def procedure(self) -> Procedure:
        """AUKE's search; see `paper_candidates`."""
        for candidate in self.paper_candidates():
            yield [candidate]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the final sums, the depth, the machine and the goal."""
        p = self.problem
        return fingerprint(self.name, SEMANTICS, p.wanted, p.depth, p.target, p.registers, p.goal)

    def fallback(self) -> Assignment | None:
        """The constructed program, which is long, and there at once, for kernels that the procedure takes its time for, and in so few
        registers that it may have no program: on a busy machine that may take the whole of a short budget, and end without an answer."""
        problem = self.problem
        few = problem.registers < len(set(problem.wanted)) + REGISTERS_BESIDE_RESULTS
        return self.program_candidate(self.first_plan) if few or problem.digits >= DIGITS_OF_A_SLOW_PROCEDURE else None

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """Programs as a CP-SAT model; see `spaces.reverse_split.model`."""
        from kilotune.spaces.reverse_split.model import ProgramModel  # OR-tools takes a second to import

        return ProgramModel(self, trials)

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """The compiled search over splits, programs improved from there, and a proof where one is in reach."""
        return self._steps(search_programs(self, seed, seconds_left, self.threads), self._notes(seed), 0)

    def exact_search_after(
        self, trials: Sequence[Trial], seed: int, seconds_left: Callable[[], float]
    ) -> Iterator[ExactStep]:
        """From the best of the programs, and what earlier runs of this seed have noted of the proof. Where nothing is remembered the proof
        begins anew, which takes less than to repeat all that led there."""
        notes = self._notes(seed)
        note = notes.begin()
        earlier = EarlierPrograms(self._best_of(trials), note.standing)
        own_seed = seed_of_run(seed, note.runs + len(trials))
        return self._steps(search_programs(self, own_seed, seconds_left, self.threads, earlier), notes, note.runs)

    def _steps(self, standings: Iterator[ProgramSearchStep], notes: ProgramNotes, runs: int) -> Iterator[ExactStep]:
        for standing in standings:
            if standing.standing is not None:
                notes.note(standing.standing, runs)
            yield ExactStep(standing.candidate, standing.bound, standing.complete)

    def _notes(self, seed: int) -> ProgramNotes:
        return ProgramNotes(self.work_memory, ("program search", self.fingerprint, seed))

    def _best_of(self, trials: Sequence[Trial]) -> tuple[Assignment, ...]:
        """Those on the front, where one is asked for, else those that a search begins from."""
        if self.problem.goal is KernelGoal.FRONT:
            front = Front(Ranking.of(self))
            front.update(trials)
            return tuple(trial.assignment for trial in front.trials)
        ranks = [(Ranking.of(self).rank(trial.measurement), trial.number, trial) for trial in trials]
        best = heapq.nsmallest(MOST_STARTS, (one for one in ranks if math.isfinite(one[0][0])), key=itemgetter(0, 1))
        return tuple(trial.assignment for _, _, trial in best)

    def start(self) -> MethodState:
        """Nothing decided."""
        return MethodState(self)

    def flat_view(self) -> FlatView:
        """Weights of the order in which a short search tries splits; see `order_view`."""
        return FlatView(self, order_decisions(self.problem), self.least)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The method, the numbered answers, the relaxation: searches find candidates that no state offers. Without a method
        it is a candidate of the flat view."""
        if METHOD not in answers:
            return {decision.name: answers[decision.name] for decision in order_decisions(self.problem)}
        ranks = {METHOD: 0, RELAXATION: len(answers)}
        return {name: answers[name] for name in sorted(answers, key=lambda n: ranks[n] if n in ranks else int(n))}
