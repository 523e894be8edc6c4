"""Widths, scales and hardware decided together, against widths first and against 16 bits everywhere, at equal accuracy and gates.

    python -m kilotune.experiments.benchmarks.joint_hardware FILE [MODEL ...] [--seeds N] [--seconds S] [--strategies ...] [--narrow]
    python -m kilotune.experiments.benchmarks.joint_hardware FILE --table

"16 bits": every variable, as the paper's compiler has it, then the best hardware. "Procedure": the widths of Shiftry's procedure; "widths
first": the least memory that keeps the accuracy on the training samples, by CP-SAT from the procedure's answer; then the best hardware for
these formats. These are optima of the cost model wherever CP-SAT proves them within --work. Each strategy begins with widths first
(where these have no room, with the procedure's) and gets --seconds of processor time more. --any adds the best of all 2^n sets of widths,
each at the scale that the data say, whatever their accuracy (for models of few variables): no widths undercut what that proves. Every
answer is added to FILE as a line of JSON, and what is there already is not asked again, so that a run that was ended goes on. --table
prints what FILE has, with the accuracy on test samples: a table for each --seconds that strategies were given.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fpga.boards import GATE_KINDS, Board, Gates, find_board
from kilotune.experiments.models.catalogue import model_names
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, CandidateModel, Decision, Option, Procedure, SolveLimit, Trial
from kilotune.search.study import Study
from kilotune.spaces.fpga.candidates import HardwareGoal
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.joint_model import JointModel
from kilotune.spaces.fpga.joint_parts import RememberedParts
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

BUDGETS: Mapping[str, tuple[str, int]] = {
    "ecp5-25f": ("ecp5-25f", 1),
    "a half": ("ecp5-25f", 2),
    "a quarter": ("ecp5-25f", 4),
    "ice40-up5k": ("ice40-up5k", 1),
}
"""Boards, and by what their gates are divided."""

WIDE, PROCEDURE, WIDTHS, ANY = "16 bits", "procedure", "widths first", "any widths"
STRATEGIES = ("cp", "local", "tpe", "random")
WIDTH_TRIALS = 100
"""Candidates of the search for the least memory."""

SHOWN = ("latency_us", "hardware_cycles", "luts", "accuracy_percent", "precision_loss")


@dataclass(frozen=True)
class JointQuestion:
    """What a line of the file answers."""

    model: str
    gates: str
    method: str
    seed: int
    drop: float
    loss: float
    narrow: bool
    seconds: float


class NoFactorsFitError(ValueError):
    """No unroll factors of some formats fit the gates."""


class StartedSpace(JointSpace):
    """The joint space, where strategies begin with a candidate that is known."""

    def __init__(self, space: JointSpace, start: Trial) -> None:
        super().__init__(space.formats, space.model_name, space.board, space.goal, space.remembered)
        self._start = start
        self.decisions = tuple(_first(decision, start.assignment) for decision in self.decisions)

    def procedure(self) -> Procedure:
        """The candidate."""
        yield [self._start.assignment]

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """As in the joint space, after the candidate."""
        return JointModel(self, [self._start, *trials])


def _of_each_width(decision: Decision) -> list[tuple[str, Option]]:
    """The first option of each width, which has the scale that the data say."""
    first: dict[int, Option] = {}
    for option in decision.options:
        first.setdefault(parse_format(str(option)).bits, option)
    return [(decision.name, option) for option in first.values()]


def _first(decision: Decision, start: Assignment) -> Decision:
    """The decision with the start's option as the first."""
    chosen = start[decision.name]
    return replace(decision, options=(chosen, *(option for option in decision.options if option != chosen)))


@dataclass
class JointComparison:
    """One model, at one limit on accuracy; its parts are remembered for all budgets of a board."""

    problem: ModelProblem
    work: float
    remembered: dict[str, RememberedParts]

    @staticmethod
    def of(model: str, drop: float, loss: float, narrow: bool, work: float) -> JointComparison:
        """For a bundled model."""
        options = {"accuracy_drop": drop, "permitted_loss": loss, **({"narrow": True} if narrow else {})}
        built = build_problem(TuneRequest("shiftry", str(resolve_input(model)), "procedure", options=options))
        assert isinstance(built.space, ShiftrySpace)
        return JointComparison(built, work, {})

    @property
    def formats(self) -> ShiftrySpace:
        """The widths and scales."""
        assert isinstance(self.problem.space, ShiftrySpace)
        return self.problem.space

    def space(self, gates: str) -> JointSpace:
        """Everything, within these gates."""
        name, divisor = BUDGETS[gates]
        board = find_board(name)
        known = self.remembered.setdefault(name, RememberedParts())
        goal = HardwareGoal(budget=_divided(board, divisor))
        return JointSpace(self.formats, self.problem.bundle.name, board, goal, known)

    def first_formats(self, method: str) -> Assignment:
        """The formats of the methods that decide them first."""
        if method == WIDE:
            return {decision.name: decision.options[0] for decision in self.formats.decisions}
        answer = run_procedure(self.formats)
        assert answer is not None
        if method == PROCEDURE:
            return answer.assignment
        study = Study(self.formats, "cp", 0, procedure_first=True)
        best = study.run(InProcessExecutor(self.formats), Budget(trials=WIDTH_TRIALS), handle_interrupts=False).best
        assert best is not None
        return best.assignment

    def unrolled(self, space: JointSpace, formats: Assignment) -> tuple[Trial, float]:
        """The best hardware for these formats, and a latency that none undercuts. NoFactorsFitError where there is none."""
        answer = space.unrolling(formats).model([]).solve(1, [], 0, SolveLimit(self.work))
        if not answer.candidates:
            raise NoFactorsFitError(f"{space.model_name} has no room in these gates.")
        candidate = {**formats, **answer.candidates[0]}
        return Trial(0, candidate, space.evaluate([candidate])[0]), answer.bound

    def any_widths(self, space: JointSpace) -> tuple[Trial, float]:
        """The best hardware for whatever widths, at the scales that the data say, and what it proves."""
        best, bound = self.unrolled(space, self.first_formats(WIDE))
        each = [_of_each_width(decision) for decision in self.formats.decisions]
        for formats in map(dict, itertools.product(*each)):
            alone, least = space.unrolling(formats), best.measurement.metrics["latency_us"]
            bounded = alone.least.loss({})
            if bounded < least:
                answer = alone.model([best]).solve(1, [], 0, SolveLimit(self.work))
                bounded = answer.bound
                if answer.candidates:
                    candidate = {**formats, **answer.candidates[0]}
                    best = Trial(0, candidate, space.evaluate([candidate])[0])
            bound = min(bound, bounded)
        return best, min(bound, best.measurement.metrics["latency_us"])

    def searched(self, space: JointSpace, start: Trial, strategy: str, seed: int, seconds: float) -> Trial:
        """The best of a strategy that begins with `start`."""
        started = StartedSpace(space, start)
        study = Study(started, strategy, seed, procedure_first=True, clock=time.process_time)
        best = study.run(InProcessExecutor(started), Budget(seconds=seconds), handle_interrupts=False).best
        assert best is not None
        return best

    def test_metrics(self, assignment: Assignment) -> Mapping[str, float]:
        """On the test samples."""
        formats = {decision.name: assignment[decision.name] for decision in self.formats.decisions}
        return self.problem.test_metrics(formats) or {}


def _divided(board: Board, divisor: int) -> Gates:
    return Gates(**{kind: getattr(board.gates, kind) // divisor for kind in GATE_KINDS})


@dataclass
class JointAnswers:
    """The lines of the file."""

    path: Path

    def __post_init__(self) -> None:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        self.lines: dict[JointQuestion, dict[str, Any]] = {}
        for line in text.splitlines():
            stored = json.loads(line)
            self.lines[JointQuestion(**stored["asked"])] = stored

    def add(
        self, asked: JointQuestion, trial: Trial, bound: float | None, test: Mapping[str, float], cpu_s: float
    ) -> None:
        """One more line."""
        line = {
            "assignment": dict(trial.assignment),
            "metrics": {name: trial.measurement.metrics.get(name) for name in (*SHOWN, *GATE_KINDS)},
            "test": {name: test.get(name) for name in SHOWN if name in test},
            "bound": bound,
            "cpu_s": round(cpu_s, 2),
        }
        self._append(asked, line)

    def add_no_room(self, asked: JointQuestion) -> None:
        """One more line, which says that there is no answer."""
        self._append(asked, {"assignment": None})

    def found(self, asked: JointQuestion) -> dict[str, Any] | None:
        """The line of an answer; None where the file has none, or there is no room."""
        line = self.lines.get(asked)
        return None if line is None or line["assignment"] is None else line

    def seconds_given(self, models: Sequence[str], given: argparse.Namespace) -> list[float]:
        """What strategies were given for these models, at these limits, ascending."""
        same = (given.drop, given.loss, given.narrow)
        asked = (
            one for one in self.lines if (one.drop, one.loss, one.narrow) == same and one.method in given.strategies
        )
        return sorted({one.seconds for one in asked if one.model in models})

    def _append(self, asked: JointQuestion, line: Mapping[str, Any]) -> None:
        stored = {"asked": asdict(asked), **line}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(stored) + "\n")
        self.lines[asked] = stored


def questions(models: Sequence[str], given: argparse.Namespace) -> Iterator[JointQuestion]:
    """Model by model: what decides formats first, then every strategy, seed after seed."""

    def asked(model: str, gates: str, method: str, seed: int, seconds: float) -> JointQuestion:
        return JointQuestion(model, gates, method, seed, given.drop, given.loss, given.narrow, seconds)

    for model in models:
        for gates in given.gates:
            for method in (WIDE, PROCEDURE, WIDTHS, *((ANY,) if given.any else ())):
                yield asked(model, gates, method, 0, 0.0)
            for seed in range(given.seeds):
                for strategy in given.strategies:
                    yield asked(model, gates, strategy, seed, given.seconds)


def run(models: Sequence[str], given: argparse.Namespace, answers: JointAnswers) -> None:
    """Answer what the file does not, saying so line by line."""
    made: dict[str, JointComparison] = {}
    listed = list(questions(models, given))
    for number, asked in enumerate(listed, 1):
        if asked in answers.lines:
            continue
        if asked.model not in made:
            made = {asked.model: JointComparison.of(asked.model, asked.drop, asked.loss, asked.narrow, given.work)}
        begun = time.process_time()
        head = f"{number}/{len(listed)} {asked.model}, {asked.gates}, {asked.method} {asked.seed}"
        try:
            trial, bound = answered(made[asked.model], asked, answers)
        except NoFactorsFitError as error:
            answers.add_no_room(asked)
            print(f"{head}: {error}", file=sys.stderr, flush=True)
            continue
        test = made[asked.model].test_metrics(trial.assignment)
        answers.add(asked, trial, bound, test, time.process_time() - begun)
        latency_us = trial.measurement.metrics["latency_us"]
        print(f"{head}: {latency_us:.4g} us", file=sys.stderr, flush=True)


def answered(comparison: JointComparison, asked: JointQuestion, answers: JointAnswers) -> tuple[Trial, float | None]:
    """The best candidate of a method, and what is proved of it. NoFactorsFitError where the widths that it begins with have no room."""
    space = comparison.space(asked.gates)
    if asked.method == ANY:
        return comparison.any_widths(space)
    if asked.method not in STRATEGIES:
        return comparison.unrolled(space, comparison.first_formats(asked.method))
    first = replace(asked, seed=0, seconds=0.0)
    stored = answers.found(replace(first, method=WIDTHS)) or answers.found(replace(first, method=PROCEDURE))
    if stored is None:
        raise NoFactorsFitError("Widths first and the procedure's, which it begins with, have no room.")
    start = Trial(0, stored["assignment"], space.evaluate([stored["assignment"]])[0])
    return comparison.searched(space, start, asked.method, asked.seed, asked.seconds), None


def table(models: Sequence[str], given: argparse.Namespace, answers: JointAnswers, seconds: float) -> None:
    """A line for each model and budget of what the file has, of strategies what they found in so many seconds."""
    print(f"{seconds:g} seconds of processor time for each strategy:\n")
    print(
        "| model | gates | 16 bits | procedure's widths | widths first | any widths | "
        + " | ".join(given.strategies)
        + " | cp against the better widths first | train | test |"
    )
    print("|---|" + "---|" * (len(given.strategies) + 8))
    for model in models:
        for gates in given.gates:
            cells = row(model, gates, given, answers, seconds)
            if cells is not None:
                print("| " + " | ".join(cells) + " |")


def row(model: str, gates: str, given: argparse.Namespace, answers: JointAnswers, seconds: float) -> list[str] | None:
    """Its cells; None where the file has nothing of widths first, not even that there is no room."""
    asked = JointQuestion(model, gates, WIDTHS, 0, given.drop, given.loss, given.narrow, 0.0)
    if asked not in answers.lines:
        return None
    cells = [model, gates]
    for method in (WIDE, PROCEDURE, WIDTHS, ANY):
        cells.append(first_cell(answers.lines.get(replace(asked, method=method))))
    ways = [answers.found(replace(asked, method=method)) for method in (PROCEDURE, WIDTHS)]
    roomy = (line for line in ways if line is not None)
    first = min(roomy, key=lambda line: float(line["metrics"]["latency_us"]), default=None)
    together: list[dict[str, Any]] = []
    for strategy in given.strategies:
        found = [
            line
            for seed in range(given.seeds)
            if (line := answers.found(replace(asked, method=strategy, seed=seed, seconds=seconds))) is not None
        ]
        cells.append(" ".join(f"{line['metrics']['latency_us']:.4g}" for line in found) or "-")
        together = found if strategy == "cp" else together
    if first is None or not together:
        return [*cells, "-", "-", "-"]
    best = min(together, key=lambda line: float(line["metrics"]["latency_us"]))
    gain = 1 - best["metrics"]["latency_us"] / first["metrics"]["latency_us"]
    return [*cells, f"{100 * gain:.1f} % less", *(both(first, best, part) for part in ("metrics", "test"))]


def first_cell(line: Mapping[str, Any] | None) -> str:
    """Latency of a method that decides formats first, with a star where it is not proved."""
    if line is None:
        return "-"
    if line["assignment"] is None:
        return "no room"
    latency_us = float(line["metrics"]["latency_us"])
    return f"{latency_us:.4g}" + ("" if line["bound"] >= latency_us * (1 - 1e-6) else "*")


def both(first: Mapping[str, Any], best: Mapping[str, Any], part: str) -> str:
    """Accuracy (of numerical models the loss of precision) of widths first, and of the joint answer."""
    for metric, form in (("accuracy_percent", ".2f"), ("precision_loss", ".4f")):
        if first[part].get(metric) is not None:
            return f"{first[part][metric]:{form}}, {best[part][metric]:{form}}"
    return "-"


def main() -> None:
    """Run, or print what has been run."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--gates", nargs="+", choices=tuple(BUDGETS), default=list(BUDGETS))
    arguments.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument(
        "--seconds", type=float, default=10.0, help="of processor time for each strategy, where it is run"
    )
    arguments.add_argument("--work", type=float, default=10.0, help="of CP-SAT for what decides formats first")
    arguments.add_argument("--drop", type=float, default=0.0, help="points of training accuracy that may be lost")
    arguments.add_argument("--loss", type=float, default=0.05, help="loss of precision that numerical models may have")
    arguments.add_argument("--narrow", action="store_true", help="parameters may be stored in fewer than 8 bits")
    arguments.add_argument("--any", action="store_true", help="also the best of all widths, whatever their accuracy")
    arguments.add_argument("--table", action="store_true", help="print what FILE has, run nothing")
    given = arguments.parse_intermixed_args()
    models, answers = given.models or list(model_names()), JointAnswers(given.file)
    if not given.table:
        run(models, given, answers)
    for seconds in answers.seconds_given(models, given) if given.table else (given.seconds,):
        table(models, given, answers, seconds)


if __name__ == "__main__":
    main()
