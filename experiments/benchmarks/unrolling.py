"""Bundled models as hardware: one step after the other, the paper's hints, and the optimum of the cost model.

    python -m kilotune.experiments.benchmarks.unrolling [--board NAME] [--work W] [--luts N] [MODEL ...]
    python -m kilotune.experiments.benchmarks.unrolling --place [--seconds S] [--designs KIND ...] [MODEL ...]    # also with the others

Widths and scales are those of SeeDot's procedure. Figures are predicted (cycles are exact); --place places and routes each of the three
and prints what is measured beside what was predicted, with cycles against those of a simulated Uno at 16 MHz and of float32 at 10 MHz
(`placed_designs.py`): each tool gets --seconds a design, and of the best ones smaller and smaller ones are tried until one is placed.
--luts: no candidate may be predicted to take more, since place and route takes hours where an FPGA is nearly full. The Uno's time is that
of the same integers on a simulated Uno. `joint_hardware.py` decides widths as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from kilotune.experiments.benchmarks.placed_designs import HEAD, compared, narrowed, placed, rows
from kilotune.experiments.models.catalogue import model_names
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.procedure import run_procedure
from kilotune.search.space import SolveLimit, Trial
from kilotune.spaces.fpga.space import FpgaSpace

WORK = 60.0
SECONDS, MOST_TRIED = 900.0, 6
DESIGNS = ("sequential", "hints", "best")


def hardware(model: str, board: str) -> HardwareProblem:
    """The problem of a model."""
    built = build_problem(request_from("fpga", input=model, options={"board": board, "place": 0}))
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


def sequential_design(space: FpgaSpace) -> Trial:
    """One step after the other."""
    plain = space.choices.answers({}, True, 1)
    return Trial(0, plain, space.evaluate([plain])[0])


def hinted_design(space: FpgaSpace) -> Trial:
    """By the paper's hints."""
    hints = run_procedure(space)
    assert hints is not None
    return hints


def table(models: list[str], board: str, work: float, luts: int) -> None:
    """A line a model, predicted."""
    print("| model | sequential: us (cycles, LUTs) | the paper's hints | best found | bound, us | Uno, us | faster |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for model in models:
        problem = hardware(model, board)
        space = problem.space
        assert isinstance(space, FpgaSpace)
        sequential, hints = sequential_design(space), hinted_design(space)
        found, bound = optimum(narrowed(space, luts), work)
        uno = uno_us(problem)
        best = found[0].measurement.metrics["latency_us"]
        speed = "- | -" if uno is None else f"{uno:.0f} | {uno / best:.0f}"
        line = f"{cells(sequential)} | {cells(hints)} | {cells(found[0])} | {proved(found, bound)} | {speed}"
        print(f"| {model} | {line} |", flush=True)


def proved(found: list[Trial], bound: float) -> str:
    """Whether the best one is an optimum of the cost model, else what none undercuts."""
    return "proved" if bound >= found[0].measurement.metrics["latency_us"] * (1 - 1e-6) else f"bound {bound:.3g} us"


def designs(space: FpgaSpace, kinds: Sequence[str], work: float, luts: int) -> Iterator[tuple[str, Trial, int]]:
    """What each of `kinds` is called, the candidate, and how many are tried in all where it cannot be used."""
    if "sequential" in kinds:
        yield "sequential", sequential_design(space), 1
    if "hints" in kinds:
        yield "the paper's hints", hinted_design(space), 1
    if "best" in kinds:
        found, bound = optimum(narrowed(space, luts), work)
        yield f"best found, {proved(found, bound)}", found[0], MOST_TRIED


def placed_table(models: list[str], given: argparse.Namespace) -> None:
    """A line a design, placed."""
    print(HEAD, flush=True)
    for model in models:
        problem = hardware(model, given.board)
        space = problem.space
        assert isinstance(space, FpgaSpace)
        beside, limited = compared(space, uno_us(problem)), narrowed(space, given.luts)
        for title, trial, most in designs(space, given.designs, given.work, given.luts):
            within = space if most == 1 else limited
            for row in rows(model, title, placed(within, [trial], given.seconds, most), beside):
                print(row, flush=True)


def main() -> None:
    """Print a table."""
    arguments = argparse.ArgumentParser(description="Bundled models as hardware.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--board", default="ecp5-25f")
    arguments.add_argument("--work", type=float, default=WORK, help="of CP-SAT, in its deterministic seconds")
    arguments.add_argument("--luts", type=int, default=1 << 30, help="a candidate may be predicted to take")
    arguments.add_argument("--place", action="store_true")
    arguments.add_argument("--seconds", type=float, default=SECONDS, help="for each tool, a design")
    arguments.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS), help="that are placed")
    given = arguments.parse_intermixed_args()
    models = given.models or list(model_names())
    if given.place:
        placed_table(models, given)
    else:
        table(models, given.board, given.work, given.luts)


if __name__ == "__main__":
    main()
