"""A resumed search for programs goes on from the best that were measured, and from where its proof stood, without being repeated."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.kept_work import KeptWork
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, ExactStep, Space, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.search.work_memory import GoesOnSearching, NoMemory, RemembersWork, WorkMemory
from kilotune.spaces.reverse_split import search
from kilotune.spaces.reverse_split.approximations import ApproximationSpace, approximations
from kilotune.spaces.reverse_split.deepening import Proof, ProofStanding, proof_of
from kilotune.spaces.reverse_split.exact import _ProgramSearch, shortest_program
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.positions import PositionSpace
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, load_kernel
from kilotune.spaces.reverse_split.search_standing import ProgramNotes, ProgramSearchNote, SearchStanding
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from tests.search.problems import KeptTexts
from tests.spaces.reverse_split.kernels import LAPLACIAN, SOBEL, Rows, kernels

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")

DENSE = ((1, -2, 1), (3, 4, -2), (1, 2, 5))
HOUR_S = 3600.0


def space(
    *rows: Rows, target: str = "auke", goal: KernelGoal = KernelGoal.INSTRUCTIONS, memory: WorkMemory | None = None
) -> ReverseSplitSpace:
    made = ReverseSplitSpace(SplitProblem(kernels(*rows), target, goal=goal))
    made.work_memory = memory or NoMemory()
    return made


def trials_of(of: Space, candidates: Sequence[Assignment]) -> list[Trial]:
    distinct = list({tuple(one.items()): one for one in candidates}.values())
    return [Trial(k, one, m, 0.0) for k, (one, m) in enumerate(zip(distinct, of.evaluate(distinct), strict=True))]


def found_by(steps: Sequence[ExactStep]) -> list[Assignment]:
    return [step.candidate for step in steps if step.candidate is not None]


def gone_on(of: Any, trials: Sequence[Trial], steps: int = 400, seed: int = 3) -> list[ExactStep]:
    return list(itertools.islice(of.exact_search_after(trials, seed, lambda: HOUR_S), steps))


class Asked:
    """What each search for a shortest program was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[dict[str, Any]] = []

        def noting(*args: Any, **named: Any) -> Any:
            self.given.append(named)
            return shortest_program(*args, **named)

        monkeypatch.setattr(search, "shortest_program", noting)


def test_spaces_of_programs_go_on() -> None:
    for one in (space(SOBEL), PositionSpace(SplitProblem(kernels(SOBEL), "auke"))):
        assert isinstance(one, GoesOnSearching)
        assert isinstance(one, RemembersWork)


def test_a_resumed_study_has_its_trials_at_once_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two kernels of 6x4 and 6x6, searched for 8 seconds, were gone through for 41 to 73 seconds before a slice of 3 began."""
    store = Store(f"sqlite:///{tmp_path}/s.db")

    def made() -> ReverseSplitSpace:
        one = space(DENSE)
        one.work_memory = KeptWork(EvaluationCache(tmp_path / "kept.db"), one)
        return one

    def run(study: Study, trials: int) -> float:
        best = study.run(InProcessExecutor(study.space), Budget(trials=trials), handle_interrupts=False).best
        assert best is not None
        return best.measurement.metrics["instructions"]

    first, asked = run(Study.create(store, "s", made(), "exhaustive", 3, procedure_first=True), 2), Asked(monkeypatch)
    before = list(store.trials("s"))
    one = made()
    ProgramNotes(one.work_memory, ("program search", one.fingerprint, 3)).note(SearchStanding(walking=True), 0)
    monkeypatch.setattr(_ProgramSearch, "_constructed_slowly", refused)
    monkeypatch.setattr(search, "_splits_first", refused)
    resumed = Study.resume(store, "s", made())
    assert resumed.make_strategy().propose(10) == [trial.assignment for trial in resumed.trials()]
    assert run(Study.resume(store, "s", made(), procedure_first=True), 2) < first
    assert [row.number for row in store.trials("s")] == [0, 1, 2, 3]
    assert list(store.trials("s"))[:2] == before
    assert min(len(plan.steps) for plan in asked.given[0]["starts"]) == first
    assert asked.given[0]["begun"].walking


def refused(*_: object) -> object:
    raise AssertionError("this was done before")


def test_every_run_has_other_random_numbers_also_where_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, memory = Asked(monkeypatch), KeptTexts()
    trials = trials_of(space(DENSE), found_by(list(itertools.islice(space(DENSE).exact_search(3), 6))))
    for _ in range(3):
        gone_on(space(DENSE, memory=memory), trials, 14)
    for count in (1, 2):
        gone_on(space(DENSE), trials[:count], 14)
    assert len({3, *(given["seed"] for given in asked.given)}) == 6


def test_a_search_goes_on_from_the_best_trials_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    one, memory, asked = space(SOBEL, LAPLACIAN), KeptTexts(), Asked(monkeypatch)
    trials = trials_of(one, found_by(list(itertools.islice(one.exact_search(3), 12))))
    lengths = sorted(trial.metrics["instructions"] for trial in trials)
    assert lengths[3] < lengths[-1]
    worst = max(trials, key=lambda trial: trial.metrics["instructions"])
    ProgramNotes(memory, ("program search", one.fingerprint, 3)).note(SearchStanding(walking=True), 0)
    many = [replace(trial, number=k) for k, trial in enumerate([worst] * 50 + trials)]
    after = gone_on(space(SOBEL, LAPLACIAN, memory=memory), many, 6)
    assert [len(plan.steps) for plan in asked.given[-1]["starts"]] == lengths[:4]
    assert after[-1].bound >= one.least


@pytest.mark.parametrize(("rows", "target"), [((SOBEL,), "auke"), ((SOBEL,), "scamp5"), ((SOBEL, LAPLACIAN), "auke")])
def test_a_proof_goes_on_from_where_it_stood(rows: tuple[Rows, ...], target: str) -> None:
    """In slices of which each is a run of its own it takes as many as in one run, and proves the same."""
    wanted = tuple(total.scaled(2) for total in kernels(*rows).sums)

    def made() -> Proof:
        return proof_of(wanted, target, 1, INSTRUCTIONS, 0)

    whole, standing, bounds = made(), made().standing, list[tuple[int, int]]()
    while len(bounds) < 40 and whole.open and not whole.found:
        whole.advance(1 << 30, 2000)
        bounds.append((whole.bound, whole.worked))
    assert len({bound for bound, _ in bounds}) > 1
    for bound in bounds:
        part = made()
        kept = ProgramSearchNote.from_json(ProgramSearchNote(0, SearchStanding(proof=standing)).as_json())
        assert kept.standing.proof == standing
        part.go_on_from(standing)
        part.advance(1 << 30, 2000)
        assert (part.bound, part.worked) == bound
        standing = part.standing
    assert standing == whole.standing


def test_a_shared_search_begins_its_last_question_anew() -> None:
    proof = proof_of((kernels(SOBEL).sums[0],), "scamp5", 0, INSTRUCTIONS, 0, 2)
    while not proof.path:
        proof.advance(1 << 30, 500)
    assert proof.standing.path == ()
    alone = proof_of((kernels(SOBEL).sums[0],), "scamp5", 0, INSTRUCTIONS, 0)
    alone.go_on_from(proof.standing)
    assert (alone.bound, alone.path) == (proof.bound, ())


@pytest.mark.parametrize(
    "before", [ProofStanding(99, (1,), True), ProofStanding(99, (), False, True), ProofStanding(99, open=False)]
)
def test_all_that_a_proof_knows_is_taken_up(before: ProofStanding) -> None:
    """That a program was found which no order fits, for one: to go through without another proves nothing then."""
    wanted = tuple(total.scaled(2) for total in kernels(SOBEL).sums)
    proof = proof_of(wanted, "auke", 1, INSTRUCTIONS, 0)
    searcher = proof.searcher
    proof.go_on_from(before)
    assert proof.standing == before
    assert (proof.searcher is not searcher) == before.thoroughly
    proof.go_on_from(ProofStanding(98))
    assert proof.standing == before


def test_what_was_proved_is_not_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, asked = KeptTexts(), Asked(monkeypatch)
    advance, worked = Proof.advance, list[int]()

    def noting(proof: Proof, below: int, work: int) -> Any:
        before = proof.worked
        plan = advance(proof, below, work)
        worked.append(proof.worked - before)
        return plan

    monkeypatch.setattr(Proof, "advance", noting)
    one = space(SOBEL, target="scamp5", memory=memory)
    steps = list(itertools.islice(one.exact_search(3), 400))
    assert steps[-1].complete
    standing = ProgramNotes(memory, ("program search", one.fingerprint, 3)).begin().standing
    assert standing.proof is not None
    assert standing.proof.bound == steps[-1].bound > one.least
    assert sum(worked) == standing.proof.worked > 0
    worked.clear()
    trials = trials_of(one, found_by(steps))
    after = gone_on(space(SOBEL, target="scamp5", memory=memory), trials)
    assert after[-1].complete
    assert after[-1].bound == steps[-1].bound
    assert asked.given[-1]["begun"].proof == standing.proof
    assert not worked


@pytest.mark.parametrize("damage", [None, [], {}, {"runs": 3}, {"bound": 99}, {"runs": 7}, {"walking": True}])
def test_a_damaged_note_is_none(damage: Any) -> None:
    note = ProgramSearchNote(2, SearchStanding(False, 5, ProofStanding(6, (3, 1), True, False, True, 77)))
    kept = note.as_json()
    assert ProgramSearchNote.from_json(kept) == note
    if isinstance(damage, dict) and damage:
        within = kept["standing"]["proof"] if "bound" in damage else kept["standing"] if "walking" in damage else kept
        within.update(damage)
    else:
        kept = damage
    assert ProgramSearchNote.from_json(kept) == ProgramSearchNote()


def test_of_runs_beside_one_another_the_furthest_proof_stays() -> None:
    memory = KeptTexts()
    one, other = ProgramNotes(memory, ("s",)), ProgramNotes(memory, ("s",))
    assert (one.begin().runs, other.begin().runs) == (1, 2)
    one.note(SearchStanding(proof=ProofStanding(9, (4,))), 1)
    other.note(SearchStanding(True, 0, ProofStanding(5)), 2)
    ProgramNotes(memory, ("s",)).note(SearchStanding(True, 0, ProofStanding(7)), 0)
    after = other.begin()
    assert after == ProgramSearchNote(3, SearchStanding(True, 0, ProofStanding(9, (4,))))


def test_a_front_goes_on_from_its_points() -> None:
    one = space(SOBEL, target="scamp5", goal=KernelGoal.FRONT)
    trials = trials_of(one, found_by(list(itertools.islice(one.exact_search(3), 60))))
    known = [(trial.metrics["bus_transfers"], trial.metrics["noise_percent"]) for trial in trials]
    least = min(transfers for transfers, _ in known)
    before = {tuple(trial.assignment.items()) for trial in trials}
    after = found_by(gone_on(space(SOBEL, target="scamp5", goal=KernelGoal.FRONT), trials, 40))
    new = [found for found in after if tuple(found.items()) not in before]
    for found in new:
        metrics = one.evaluate([found])[0].metrics
        point = (metrics["bus_transfers"], metrics["noise_percent"])
        assert point[0] == least or not any(t <= point[0] and n <= point[1] for t, n in known)


def test_what_is_on_the_front_already_is_not_proposed() -> None:
    one = space(SOBEL, target="scamp5", goal=KernelGoal.FRONT)

    def proposed(known: Sequence[Assignment]) -> list[Assignment | None]:
        return [step.candidate for step in itertools.islice(search._with_front(one, iter(()), 3, known), 48)]

    found = [candidate for candidate in proposed(()) if candidate is not None]
    assert found
    assert not [candidate for candidate in proposed(found) if candidate in found]


@pytest.mark.slow
def test_positions_and_approximations_go_on_each_from_its_own_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = PositionSpace(SplitProblem(kernels(((1, 0), (0, -1))), "scamp5"))
    rows = KernelSet((Kernel.of_rows([[1, 0, -1], [2, 0, -3], [1, 0, -1]]),))
    several = ApproximationSpace(approximations(rows, 0, 0.5), "scamp5", 6)
    assert len(several.spaces) > 1
    begin, begun = ReverseSplitSpace.exact_search_after, list[tuple[ReverseSplitSpace, list[Trial]]]()

    def noting(self: ReverseSplitSpace, trials: Sequence[Trial], seed: int, seconds_left: Any) -> Any:
        begun.append((self, list(trials)))
        return begin(self, trials, seed, seconds_left)

    monkeypatch.setattr(ReverseSplitSpace, "exact_search_after", noting)
    for made in (positions, several):
        memory = KeptTexts()
        made.work_memory = memory
        assert all(one.work_memory is memory for one in made.spaces.values())
        steps = list(itertools.islice(made.exact_search(3, lambda: HOUR_S), 600))
        assert steps[-1].complete
        assert not begun, "a search from the beginning is none that goes on"
        trials = trials_of(made, found_by(steps))
        after = gone_on(made, trials, 600)
        assert after[-1].complete
        assert after[-1].bound == steps[-1].bound
        assert len(after) < len(steps)
        assert begun
        for one, own in begun:
            assert own
            assert [trial.metrics["instructions"] for trial in own] == [
                found.metrics["instructions"] for found in one.evaluate([trial.assignment for trial in own])
            ]
        begun.clear()


def test_workers_are_sent_no_memory(tmp_path: Path) -> None:
    one = space(SOBEL)
    one.work_memory = KeptWork(EvaluationCache(tmp_path / "kept.db"), one)
    assert not pickle.loads(pickle.dumps(one)).work_memory.keeps
