"""The search for widths and hardware together begins with what the two papers' ways give one after the other."""

from __future__ import annotations

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.procedure import run_procedure
from kilotune.search.space import SolveLimit
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.joint_model import JointModel
from kilotune.spaces.fpga.model import KnapsackModel


def test_it_is_never_worse_than_widths_first_and_then_the_best_hardware() -> None:
    space = build_problem(request_from("fpga", input="worked-example", options={"joint": True})).space
    assert isinstance(space, JointSpace)
    formats = run_procedure(space.formats)
    assert formats is not None
    hardware = KnapsackModel(space.unrolling(formats.assignment), []).solve(1, [], 0, SolveLimit(5.0)).candidates[0]
    first = JointModel(space, []).solve(8, [], 0, SolveLimit(5.0)).candidates
    assert [dict(candidate) for candidate in first] == [{**formats.assignment, **hardware}]
    ranking = Ranking.of(space)
    study = Study.create(Store("sqlite://"), "s", space, "cp", 0)
    best = study.run(InProcessExecutor(space), Budget(trials=5)).best
    assert best is not None
    assert ranking.rank(best.measurement) <= ranking.rank(space.evaluate(first)[0])
    assert len({tuple(space.formats_in(trial.assignment).values()) for trial in study.trials()}) == 5
