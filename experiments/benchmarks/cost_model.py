"""Fit cost tables to simulator runs, and say how far predictions are from other runs.

    python -m kilotune.experiments.benchmarks.cost_model [TARGET]           # errors of the shipped table
    python -m kilotune.experiments.benchmarks.cost_model [TARGET] --fit     # fit and write the table that is shipped

TARGET: avr (an ATmega328P at -Os), cortex-m0plus, cortex-m4. Fitted by non-negative least squares of relative errors, to
random candidates of the bundled models in both fixed-point spaces, to random programs and to random convolutions. The
errors are on candidates drawn from other seeds, and once more with each model's own candidates left out of the fit.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.pairs import STEPS, interleaves, step_instructions
from kilotune.codegen.emit.shape import PLAIN, SHAPES, CodeShape
from kilotune.codegen.emit.shifts import device_instructions
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.avr.firmware import avr_gcc
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.emulated import EMULATED
from kilotune.evaluators.architectures.cortex.firmware import arm_gcc
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import BLOCK_SIZES, FEATURES
from kilotune.evaluators.cost_model import CostTable
from kilotune.evaluators.devices import shipped_cost_table, shipped_cost_tables
from kilotune.evaluators.simulated import DeviceError, of_emitted, quantised
from kilotune.experiments.artefacts.whole_file import replace
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
PRIOR_WEIGHT = 1e-4
ROUNDS = 6
UNPACKING = ("unpack", "lookup")
"""Features of packed codes."""

USUAL_ERROR = 0.03
"""Larger relative errors count by their size, not by its square."""

FIT_SEED, TEST_SEED = 1, 1_000_001


@dataclass(frozen=True)
class Observation:
    """A candidate that was run: counts of its features, and measured cycles."""

    model: str
    counts: npt.NDArray[np.float64]
    cycles: float


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
            return Observation(job.model, counts, runner(source, job.features))
        except DeviceError as error:
            if "needs more" not in str(error):  # LeNet at 32 bits is too large for an Uno
                raise
            return None

    with ThreadPoolExecutor(2) as pool:
        return [seen for seen in pool.map(one, jobs) if seen is not None]


def parameters_of(feature: str, avr: bool) -> dict[str, float]:
    """What the cycles of a feature are a sum of: itself, but shifts share the cost of their instructions and of rounding."""
    family, *labels = feature.split(".")
    if family == "fraction":
        return {feature: 1.0} if not avr else {f"fraction.{labels[0]}": 1.0, f"quotient.{labels[0]}": float(labels[1])}
    if family == "up" and labels[1] == "0":
        return {}
    if family != "down":
        return {feature: 1.0}
    rounding, bits, shift, result = Rounding(labels[0]), int(labels[1]), int(labels[2]), int(labels[3])
    if not 0 < shift < bits or result > bits:
        return {}
    wraps = "wraps" if bits - shift > result else "fits"
    shared = ".".join(("rounding", labels[0], labels[1], labels[3], wraps))
    if not avr:
        return {shared: 1.0}
    instructions = device_instructions(bits, shift, result, rounding)
    if instructions is not None:
        return {"instruction": float(instructions), shared: 1.0}
    # the compiler moves whole bytes, and shifts single ones by steps
    return {"step": float((0, 1, 2, 3, 4, 5, 4, 2)[shift % 8]), f"plain.{shared}.{shift // 8}": 1.0}


def known_steps() -> dict[str, float]:
    """Cycles of the steps of `codegen.emit.pairs` on a Cortex-M4, by feature: a load takes two, one behind another load, all else one; the
    loop's end takes four, once a round. Too few candidates have each of them for a fit."""
    found = {}
    for (rows, operands), wide, bits in itertools.product(BLOCK_SIZES, (8, 16), (8, 16)):
        loads = [
            line.startswith("ldr")
            for line in step_instructions(rows, wide, bits, operands, interleaved=interleaves(wide, bits))
        ]
        cycles = sum(2 if load and not before else 1 for load, before in zip(loads, [False, *loads[:-1]], strict=True))
        size = str(rows) if operands == 1 else f"{rows}x{operands}"
        found[f"step.{size}.{wide}.{bits}"] = cycles + 4.0 / STEPS[operands]
    return found


def prior(parameter: str) -> float:
    """Plausible cycles of an 8-bit processor, for what no run has."""
    parts = parameter.split(".")
    widths = [int(p) for p in parts if p in ("8", "16", "32", "64")]
    octets = widths[0] // 8 if widths else 1
    match parts[0]:
        case "instruction" | "step":
            return 1.0
        case "norm":
            return {"root": 1000.0, "square": 60.0, "quotient": 600.0}[parts[1]]
        case "quotient":
            return 9.0 * octets
        case "up":
            return int(parts[2]) * (octets + 2.0)
        case "load" | "store" | "rounding" | "plain":
            return 2.0 * octets
        case "mac" | "product" | "dot" | "straight":
            return 4.0 + sum(widths) / 4 + (widths[0] // 8) * (widths[1] // 8) * 3
        case "function":
            return 100.0
        case "scan" | "apply" | "tap" | "element":
            return 6.0 * octets
        case "tree":
            return 20.0 * octets
    return 10.0


def fit(seen: Sequence[Observation], avr: bool) -> npt.NDArray[np.float64]:
    """Cycles [features]: least squares of relative errors, held weakly to the prior, none negative."""
    from scipy.optimize import nnls

    shares = [parameters_of(name, avr) for name in FEATURES]
    names = sorted({parameter for share in shares for parameter in share})
    numbers = {name: number for number, name in enumerate(names)}
    map_ = np.zeros((len(FEATURES), len(names)))
    for row, share in zip(map_, shares, strict=True):
        for parameter, weight in share.items():
            row[numbers[parameter]] = weight
    measured = np.array([s.cycles for s in seen])
    design = np.stack([s.counts for s in seen]) @ map_ / measured[:, None]
    expected = np.array([prior(name) for name in names])
    fixed = {numbers[name]: cycles for name, cycles in known_steps().items()}
    expected[list(fixed)] = list(fixed.values())
    rest = 1.0 - design[:, list(fixed)] @ expected[list(fixed)]
    used = design.any(axis=0)
    used[list(fixed)] = False
    held = np.sqrt(PRIOR_WEIGHT) / np.maximum(expected[used], 1.0)
    values = expected.copy()
    # Huber: a program that the features do not describe must not bend the cycles of all the others
    weights = np.ones(len(seen))
    for _ in range(ROUNDS):
        rows = np.vstack([design[:, used] * weights[:, None], np.diag(held)])
        values[used], _ = nnls(rows, np.concatenate([weights * rest, held * expected[used]]), maxiter=50_000)
        residuals = np.abs(design @ values - 1.0)
        weights = np.sqrt(np.minimum(1.0, USUAL_ERROR / np.maximum(residuals, 1e-9)))
    return np.asarray(map_ @ values)


def errors(seen: Sequence[Observation], cycles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Relative errors of predictions."""
    return np.array([s.counts @ cycles / s.cycles - 1.0 for s in seen])


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


def _observations(target: str, seed: int, counts: _Counts, more: Sequence[_CountingJob] = ()) -> list[Observation]:
    """Every program as plain code, and every second one, but all convolutions, in one of the processor's other shapes, in turn; `more` as
    plain code."""
    jobs = [job for model in MODELS for job in candidates(model, counts.candidates, seed)]
    jobs += probes(counts.programs, seed)
    windows = _as_jobs(convolutions(counts.convolutions, seed), CONVOLUTIONS)
    others = [SHAPES[name] for name in code_shapes(target if target in EMULATED else "atmega328p") if name != PLAIN]
    shaped = [(job, others[number % len(others)]) for number, job in enumerate([*jobs[::2], *windows]) if others]
    return observe([*((job, CodeShape()) for job in (*jobs, *windows, *more)), *shaped], runner_of(target))


def runner_of(target: str) -> Runner:
    """What runs programs on a target. KeyError for one that there is not."""
    runners: dict[str, Runner] = {name: functools.partial(run_cortex, processor=name) for name in EMULATED}
    return {"avr": run_avr, **runners}[target]


def main(arguments: list[str]) -> None:
    """See the module's text."""
    fits = "--fit" in arguments
    target = next((a for a in arguments if not a.startswith("-")), "avr")
    compiler = avr_gcc() if target == "avr" else arm_gcc()
    start = time.process_time()
    test = _observations(target, TEST_SEED, _Counts(8, 40, 60))
    if not fits:
        table = shipped_cost_table(target)
        if table is None:
            sys.exit(f"no table for {target} is shipped: --fit makes one")
        report(f"{target}: predictions against simulator runs", test, table.vector())
        return
    seen = _observations(target, FIT_SEED, _Counts(32, 400, 200), _as_jobs(single_operations()))
    cycles = fit(seen, target == "avr")
    report(f"{target}: fitted to", seen, cycles)
    report(f"{target}: other candidates", test, cycles)
    unseen = [o for m in MODELS for o in _without(seen, test, m, target == "avr")]
    print("\nEach model predicted by a fit without its own candidates:")
    for model, found in unseen:
        print(f"{model:<20}{np.median(np.abs(found)):>9.1%}{np.abs(found).max():>9.1%}")
    made = {
        "how": f"python -m kilotune.experiments.benchmarks.cost_model {target} --fit",
        "date": datetime.date.today().isoformat(),
        "compiler": compiler_version(compiler),
        "level": "-Os",
        "observations": len(seen),
        "errors": {
            "bundled models": _summary(test, cycles, MODELS),
            **{called: _summary(test, cycles, [called]) for called in (PROBE, CONVOLUTIONS)},
        },
    }
    named = {name: round(float(value), 2) for name, value in zip(FEATURES, cycles, strict=True) if value > 0.005}
    before = shipped_cost_table(target)
    if before is not None:  # what `benchmarks.unpacking` has measured, which no program of the fit does
        named |= {name: value for name, value in before.cycles.items() if name.split(".")[0] in UNPACKING}
        made |= {key: value for key, value in before.made.items() if key == "unpacking"}
    place = shipped_cost_tables()[target]
    replace(place, CostTable(target, named, made).as_json().encode())
    print(f"\n{place} written; {time.process_time() - start:.0f} CPU-s besides the compilers'")


def _without(
    seen: Sequence[Observation], test: Sequence[Observation], model: str, avr: bool
) -> list[tuple[str, npt.NDArray[np.float64]]]:
    cycles = fit([s for s in seen if s.model != model], avr)
    return [(model, errors([s for s in test if s.model == model], cycles))]


def compiler_version(compiler: str | None) -> str:
    """The first line of --version."""
    done = subprocess.run([str(compiler), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


if __name__ == "__main__":
    main(sys.argv[1:])
