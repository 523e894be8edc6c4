"""Fit cost tables to simulator runs, and say how far predictions are from other runs.

    python -m kilotune.experiments.benchmarks.cost_model [TARGET]           # errors of the shipped table
    python -m kilotune.experiments.benchmarks.cost_model [TARGET] --fit     # fit and write the table that is shipped
    python -m kilotune.experiments.benchmarks.cost_model [TARGET] --fit --share 0.4     # to so much of the usual programs

TARGET: avr (an ATmega328P at -Os), cortex-m0plus, cortex-m4, cortex-m55. Fitted by non-negative least squares of relative errors, to
random candidates of the bundled models in both fixed-point spaces, to random programs and to random convolutions; `compact`
code, where the target has it, has cycles of its own, held to those of all other code, since fewer programs were run in it. The
errors are on candidates drawn from other seeds, and once more with each model's own candidates left out of the fit.
"""

from __future__ import annotations

import datetime
import functools
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.shape import COMPACT, PLAIN, SHAPES, CodeShape
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.avr.firmware import avr_gcc
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.emulated import EMULATED
from kilotune.evaluators.architectures.cortex.firmware import arm_gcc
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES
from kilotune.evaluators.cost_model import CostTable
from kilotune.evaluators.devices import shipped_cost_table, shipped_cost_tables
from kilotune.evaluators.simulated import DeviceError, of_emitted, quantised
from kilotune.experiments.artefacts.whole_file import replace
from kilotune.experiments.benchmarks.cost_fit import FittedCycles, Observation, errors, fit
from kilotune.experiments.benchmarks.probe_programs import ProbeProgram, convolutions, probe, single_operations
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment, State
from kilotune.spaces.seedot.space import SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace

MODELS = (
    "protonn-digits",
    "protonn-cancer",
    "bonsai-digits",
    "fastgrnn16-digits",
    "fastgrnn32-digits",
    "lenet-digits",
    "mlp-diabetes",
    "mlp-digits",
    "cnn-exercises",
    "gru16-digits",
)
PROBE = "random programs"
CONVOLUTIONS = "random convolutions"
SAMPLES = 6
ELSEWHERE = ("unpack", "lookup", "rescaled", "looked")
"""Features of packed codes and of quantised programs."""

FIT_SEED, TEST_SEED = 1, 1_000_001


@dataclass(frozen=True)
class _CountingJob:
    model: str
    batch: FixedBatch
    parameters: Mapping[str, FloatArray]
    features: FloatArray


Runner = Callable[[CSource, FloatArray], float]


def run_cortex(source: CSource, features: FloatArray, processor: str) -> float:
    """Mean approximate cycles on a simulated Cortex-M."""
    target = CortexTarget(processor)
    return float(target.run(of_emitted(source), quantised(source, features))[1].cycles.mean())


def run_avr(source: CSource, features: FloatArray) -> float:
    """Mean cycles on a simulated Uno."""
    _, run = AvrTarget("atmega328p").run(of_emitted(source), quantised(source, features))
    return float(run.cycles.mean())


def candidates(model: str, count: int, seed: int) -> list[_CountingJob]:
    """Random candidates of a bundled model: three of four from the shiftry space, the rest from seedot's."""
    rng = np.random.default_rng(seed)
    problem = build_problem(TuneRequest("shiftry", str(resolve_input(model)), "random"))
    assert isinstance(problem.space, ShiftrySpace)
    task = problem.space.task
    features = task.features[:SAMPLES]
    jobs = []
    for number in range(count):
        rounding = list(Rounding)[int(rng.integers(3))]
        space: ShiftrySpace | SeeDotSpace
        if number % 4 < 3:
            accumulator = list(Accumulator)[int(rng.integers(len(Accumulator)))]
            space = _shiftry(model, rounding, accumulator)
        else:
            space = _seedot(model)
        assignment = _random_assignment(space, rng)
        batch = space.lower([assignment]) if isinstance(space, ShiftrySpace) else space.lower(assignment)
        jobs.append(_CountingJob(model, batch, task.parameters, features))
    return jobs


@functools.cache
def _shiftry(model: str, rounding: Rounding, accumulator: Accumulator) -> ShiftrySpace:
    problem = build_problem(TuneRequest("shiftry", str(resolve_input(model)), "random"))
    assert isinstance(problem.space, ShiftrySpace)
    return ShiftrySpace(problem.space.task, ShiftryOptions(rounding=rounding, accumulator=accumulator))


@functools.cache
def _seedot(model: str) -> SeeDotSpace:
    problem = build_problem(TuneRequest("seedot", str(resolve_input(model)), "random"))
    assert isinstance(problem.space, SeeDotSpace)
    return problem.space


def _random_assignment(space: ShiftrySpace | SeeDotSpace, rng: np.random.Generator) -> Assignment:
    state: State = space.start()
    narrow = rng.random()
    while (decision := state.decision) is not None:
        options = decision.options
        if isinstance(space, ShiftrySpace):  # all shares of 8-bit variables are drawn
            wanted = "int8" if rng.random() < narrow else "int16"
            options = tuple(o for o in options if str(o).startswith(wanted))
        state = state.take(options[int(rng.integers(len(options)))])
    return state.assignment


def probes(count: int, seed: int) -> list[_CountingJob]:
    """Random programs."""
    made = [probe(seed + number) for number in range(count)]
    return _as_jobs(made)


def _as_jobs(made: Sequence[ProbeProgram], called: str = PROBE) -> list[_CountingJob]:
    return [_CountingJob(called, p.batch, p.parameters, p.features) for p in made]


def observe(jobs: Sequence[tuple[_CountingJob, CodeShape]], runner: Runner) -> list[Observation]:
    """Run all jobs; those that do not fit the device are left out."""

    def one(asked: tuple[_CountingJob, CodeShape]) -> Observation | None:
        job, shape = asked
        counts = CostFeatures(job.batch.program, job.parameters, shape).terms(job.batch).matrix()[0]
        try:
            source = emit_c(job.batch, job.parameters, shape=shape)
            return Observation(job.model, counts, runner(source, job.features), shape.shared)
        except DeviceError as error:
            if "needs more" not in str(error):  # LeNet at 32 bits is too large for an Uno
                raise
            return None

    with ThreadPoolExecutor(2) as pool:
        return [seen for seen in pool.map(one, jobs) if seen is not None]


def report(title: str, seen: Sequence[Observation], cycles: npt.NDArray[np.float64]) -> None:
    """One line for each model, and one for all of them."""
    found = np.abs(errors(seen, cycles))
    print(f"\n{title}\n{'model':<20}{'candidates':>11}{'median':>9}{'worst':>9}")
    for model in dict.fromkeys(s.model for s in seen):
        some = found[[s.model == model for s in seen]]
        print(f"{model:<20}{some.size:>11}{np.median(some):>9.1%}{some.max():>9.1%}")
    bundled = found[[s.model in MODELS for s in seen]]
    print(f"{'bundled models':<20}{bundled.size:>11}{np.median(bundled):>9.1%}{bundled.max():>9.1%}")


def _summary(seen: Sequence[Observation], cycles: npt.NDArray[np.float64], models: Sequence[str]) -> dict[str, float]:
    found = np.abs(errors([s for s in seen if s.model in models], cycles))
    return {
        "candidates": found.size,
        "median": round(float(np.median(found)), 4),
        "worst": round(float(found.max()), 4),
    }


@dataclass(frozen=True)
class _Counts:
    """How many candidates of each bundled model, random programs and random convolutions are run."""

    candidates: int
    programs: int
    convolutions: int

    def part(self, share: float) -> _Counts:
        """So much of them, and no less than one of each."""
        return _Counts(*(max(1, round(share * count)) for count in (self.candidates, self.programs, self.convolutions)))


def _observations(
    target: str, seed: int, counts: _Counts, compact: _Counts, more: Sequence[_CountingJob] = ()
) -> list[Observation]:
    """Every program as plain code, and every second one, but all convolutions, in one of the processor's other shapes, in turn; `more` as
    plain code; so many programs as `compact` code, where that is one of the shapes."""
    jobs, windows = _jobs(seed, counts)
    names = [name for name in code_shapes(target if target in EMULATED else "atmega328p") if name != PLAIN]
    others = [SHAPES[name] for name in names]
    shaped = [(job, others[number % len(others)]) for number, job in enumerate([*jobs[::2], *windows]) if others]
    if COMPACT in names:
        shaped += [(job, SHAPES[COMPACT]) for some in _jobs(seed, compact) for job in some]
    return observe([*((job, CodeShape()) for job in (*jobs, *windows, *more)), *shaped], runner_of(target))


def _jobs(seed: int, counts: _Counts) -> tuple[list[_CountingJob], list[_CountingJob]]:
    """Candidates of the bundled models with random programs, and random convolutions."""
    jobs = [job for model in MODELS for job in candidates(model, counts.candidates, seed)]
    return jobs + probes(counts.programs, seed), _as_jobs(convolutions(counts.convolutions, seed), CONVOLUTIONS)


def runner_of(target: str) -> Runner:
    """What runs programs on a target. KeyError for one that there is not."""
    runners: dict[str, Runner] = {name: functools.partial(run_cortex, processor=name) for name in EMULATED}
    return {"avr": run_avr, **runners}[target]


def main(arguments: list[str]) -> None:
    """See the module's text."""
    fits = "--fit" in arguments
    share = float(arguments.pop(arguments.index("--share") + 1)) if "--share" in arguments else 1.0
    target = next((a for a in arguments if not a.startswith("-")), "avr")
    compiler = avr_gcc() if target == "avr" else arm_gcc()
    start = time.process_time()
    test = _observations(target, TEST_SEED, _Counts(8, 40, 60), _Counts(8, 40, 60))
    if not fits:
        table = shipped_cost_table(target)
        if table is None:
            sys.exit(f"no table for {target} is shipped: --fit makes one")
        for title, some, shape in _by_code(test):
            report(f"{target}, {title}: predictions against simulator runs", some, table.vector(SHAPES[shape]))
        return
    more = _as_jobs(single_operations())
    counts, compact = (counts.part(share) for counts in (_Counts(32, 400, 200), _Counts(24, 300, 150)))
    seen = _observations(target, FIT_SEED, counts, compact, more)
    found, summaries = _fitted(target, seen, test)
    made = {
        "how": f"python -m kilotune.experiments.benchmarks.cost_model {target} --fit"
        + (f" --share {share:g}" if share < 1 else ""),
        "date": datetime.date.today().isoformat(),
        "compiler": compiler_version(compiler),
        "level": "-Os",
        "observations": len(seen),
        "errors": summaries,
    }
    before = shipped_cost_table(target)
    measured = {}
    if (
        before is not None
    ):  # what `benchmarks.unpacking` and `.kept_integers` have measured, which no program of the fit does
        measured = {name: value for name, value in before.cycles.items() if name.split(".")[0] in ELSEWHERE}
        made |= {key: value for key, value in before.made.items() if key in ("unpacking", "integers")}
    tables = {shape: _named(fitted.cycles) | measured for shape, fitted in found.items()}
    place = shipped_cost_tables()[target]
    replace(place, CostTable(target, tables[PLAIN], made, tables.get(COMPACT, {})).as_json().encode())
    print(f"\n{place} written; {time.process_time() - start:.0f} CPU-s besides the compilers'")


def _by_code(seen: Sequence[Observation]) -> list[tuple[str, list[Observation], str]]:
    """What compact code has cycles of its own for, and all other; where there is any: a title, the observations, and a shape."""
    parts = [("all but compact code", [s for s in seen if not s.compact], PLAIN)]
    parts.append(("compact code", [s for s in seen if s.compact], COMPACT))
    return [part for part in parts if part[1]]


def _fitted(
    target: str, seen: Sequence[Observation], test: Sequence[Observation]
) -> tuple[dict[str, FittedCycles], dict[str, Any]]:
    """Fits by shape, plain or compact, and their errors on other candidates; both are printed."""
    avr, found, summaries = target == "avr", dict[str, FittedCycles](), dict[str, Any]()
    others = {shape: some for _, some, shape in _by_code(test)}
    for title, some, shape in _by_code(seen):
        found[shape] = fit(some, avr, found.get(PLAIN))
        report(f"{target}, {title}: fitted to", some, found[shape].cycles)
        report(f"{target}, {title}: other candidates", others[shape], found[shape].cycles)
        errors_of = {
            "bundled models": _summary(others[shape], found[shape].cycles, MODELS),
            **{called: _summary(others[shape], found[shape].cycles, [called]) for called in (PROBE, CONVOLUTIONS)},
        }
        summaries |= errors_of if shape == PLAIN else {COMPACT: errors_of}
    print("\nEach model predicted by a fit without its own candidates:")
    for model in MODELS:
        for _, errors_found in _without([s for s in seen if not s.compact], others[PLAIN], model, avr):
            print(f"{model:<20}{np.median(np.abs(errors_found)):>9.1%}{np.abs(errors_found).max():>9.1%}")
    return found, summaries


def _named(cycles: npt.NDArray[np.float64]) -> dict[str, float]:
    return {name: round(float(value), 2) for name, value in zip(FEATURES, cycles, strict=True) if value > 0.005}


def _without(
    seen: Sequence[Observation], test: Sequence[Observation], model: str, avr: bool
) -> list[tuple[str, npt.NDArray[np.float64]]]:
    cycles = fit([s for s in seen if s.model != model], avr).cycles
    return [(model, errors([s for s in test if s.model == model], cycles))]


def compiler_version(compiler: str | None) -> str:
    """The first line of --version."""
    done = subprocess.run([str(compiler), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


if __name__ == "__main__":
    main(sys.argv[1:])
