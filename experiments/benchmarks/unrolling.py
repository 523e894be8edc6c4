"""Bundled models as hardware: one step after the other, the paper's hints, and the optimum of the cost model; and joint decisions.

    python -m kilotune.experiments.benchmarks.unrolling [--board NAME] [--work W] [--luts N] [--place] [MODEL ...]
    python -m kilotune.experiments.benchmarks.unrolling --joint [--trials N] [MODEL ...]

Widths and scales are those of SeeDot's procedure. Figures are predicted (cycles are exact); --place places and routes each of the three,
the best ones candidate by candidate until one fits. --luts: no candidate may be predicted to take more, since place and route takes hours
where an FPGA is nearly full. The Uno's time is that of the same integers on a simulated Uno. --joint
compares Shiftry's procedure followed by the best hardware for its widths with a search for both from there.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fpga.boards import find_board
from kilotune.evaluators.fpga.synthesis import implement
from kilotune.experiments.models.catalogue import model_names
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.problems.placing import placed_in_turn
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import SolveLimit, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.space import FpgaSpace

WORK = 60.0
TRIALS = 3000
MEASURED = ("latency_us", "clock_mhz", "luts", "flip_flops", "block_rams", "multipliers")


def hardware(model: str, board: str, joint: bool = False) -> HardwareProblem:
    """The problem of a model."""
    options = {"board": board, "place": 0, **({"joint": True} if joint else {})}
    built = build_problem(request_from("fpga", input=model, options=options))
    assert isinstance(built, HardwareProblem)
    return built


def uno_us(problem: HardwareProblem) -> float | None:
    """How long the same integers take on a simulated Uno, in microseconds; None where they do not fit it or its tools are missing."""
    on_uno = build_problem(request_from("seedot", input=problem.request.input, device="uno"))
    assert isinstance(on_uno, ModelProblem)
    formats = problem.formats_of({})
    check = on_uno.check_on_device(Trial(0, formats, on_uno.space.evaluate([formats])[0]))
    if check is None or check.measured is None or not check.measured.fits:
        return None
    return 1e6 * check.measured.cycles / check.device.clock_hz


def optimum(space: FpgaSpace, work: float) -> tuple[list[Trial], float]:
    """The best candidates found, the best first, and what none undercuts."""
    answer = space.model([]).solve(8, [], 0, SolveLimit(work))
    measured = space.evaluate(answer.candidates)
    return [Trial(n, a, m) for n, (a, m) in enumerate(zip(answer.candidates, measured, strict=True))], answer.bound


def cells(trial: Trial) -> str:
    """Microseconds, cycles and look-up tables."""
    found = trial.measurement.metrics
    return f"{found['latency_us']:.3g} ({found['hardware_cycles']:.0f}, {found['luts']:.0f})"


def narrowed(space: FpgaSpace, luts: int) -> FpgaSpace:
    """The space on a board with at most so many look-up tables."""
    gates = replace(space.board.gates, luts=min(luts, space.board.gates.luts))
    return FpgaSpace(space.program, replace(space.board, gates=gates), space.goal)


def table(models: list[str], board: str, work: float, luts: int, place: bool) -> None:
    """A line a model."""
    print("| model | sequential: us (cycles, LUTs) | the paper's hints | best found | bound, us | Uno, us | faster |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for model in models:
        problem = hardware(model, board)
        space = problem.space
        assert isinstance(space, FpgaSpace)
        plain = space.choices.answers({}, True, 1)
        sequential = Trial(0, plain, space.evaluate([plain])[0])
        hints = run_procedure(space)
        assert hints is not None
        found, bound = optimum(narrowed(space, luts), work)
        best = found[0].measurement.metrics["latency_us"]
        uno = uno_us(problem)
        proved = "proved" if bound >= best * (1 - 1e-6) else f"{bound:.3g}"
        speed = "- | -" if uno is None else f"{uno:.0f} | {uno / best:.0f}"
        print(
            f"| {model} | {cells(sequential)} | {cells(hints)} | {cells(found[0])} | {proved} | {speed} |", flush=True
        )
        if place:
            placed(problem, {"sequential": [sequential], "the paper's hints": [hints], "best found": found})


def placed(problem: HardwareProblem, designs: dict[str, list[Trial]]) -> None:
    """What place and route make of candidates, in turn until one can be used: a line each, with what was predicted."""
    board, space = find_board(problem.space.board.name), problem.space
    for title, trials in designs.items():
        outcome = placed_in_turn(
            trials, board.name, lambda t: implement(space.plan(t.assignment), board), lambda _: None
        )
        for attempt in outcome.tried:
            found, predicted = attempt.metrics(), attempt.trial.measurement.metrics
            if attempt.reason is not None:
                print(f"{problem.model.bundle.name}, {title}: {attempt.reason}", flush=True)
                continue
            measured = ", ".join(f"{name} {found[name]:.4g} ({predicted[name]:.4g})" for name in MEASURED)
            print(f"{problem.model.bundle.name}, {title}, placed (predicted): {measured}", flush=True)


def joint(models: list[str], board: str, work: float, trials: int) -> None:
    """Widths first and then the best hardware, against both together with as many trials."""
    print(
        "| model | widths first, then unrolled: us (cycles, LUTs) | joint: us (cycles, LUTs) |\n|---|---|---|",
        flush=True,
    )
    for model in models:
        problem = hardware(model, board, joint=True)
        space = problem.space
        assert isinstance(space, JointSpace)
        answer = run_procedure(space.formats)
        assert answer is not None
        first = optimum(space.unrolling(answer.assignment), work)[0][0]
        study = Study.create(Store("sqlite://"), "joint", space, "local", 0, procedure_first=True)
        best = study.run(InProcessExecutor(space), Budget(trials=trials)).best
        assert best is not None
        formats = space.formats_in(best.assignment)
        again = optimum(space.unrolling(formats), work)[0]
        together = min([best, *again[:1]], key=lambda trial: trial.measurement.metrics["latency_us"])
        print(f"| {model} | {cells(first)} | {cells(together)} |", flush=True)


def main() -> None:
    """Print a table."""
    arguments = argparse.ArgumentParser(description="Bundled models as hardware.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--board", default="ecp5-25f")
    arguments.add_argument("--work", type=float, default=WORK, help="of CP-SAT, in its deterministic seconds")
    arguments.add_argument("--luts", type=int, default=1 << 30, help="a candidate may be predicted to take")
    arguments.add_argument("--place", action="store_true")
    arguments.add_argument("--joint", action="store_true")
    arguments.add_argument("--trials", type=int, default=TRIALS)
    given = arguments.parse_args()
    models = given.models or list(model_names())
    if given.joint:
        joint(models, given.board, given.work, given.trials)
    else:
        table(models, given.board, given.work, given.luts, given.place)


if __name__ == "__main__":
    main()
