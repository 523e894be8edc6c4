"""The table of what hardware takes: made of single units that are synthesised, placed and routed, checked on whole programs.

    python -m kilotune.experiments.benchmarks.hardware_costs fit BOARD ...      # the tables of the boards' families, made anew
    python -m kilotune.experiments.benchmarks.hardware_costs fit BOARD ... --gates    # of gates only: paths stay as they are
    python -m kilotune.experiments.benchmarks.hardware_costs check BOARD        # median and worst error on designs that it has not seen
    python -m kilotune.experiments.benchmarks.hardware_costs check BOARD --seeds 60 130    # on these random programs alone
    python -m kilotune.experiments.benchmarks.hardware_costs check BOARD --seeds 0 60 --narrow    # with weights of 1 to 6 bits
    python -m kilotune.experiments.benchmarks.hardware_costs collect BOARD --seconds 400    # synthesis runs only, kept by content

Boards of one fabric, as the two iCE40s, are fitted together: their gates have weights in common, their paths have not.

The fit: as small as possible a sum of the errors' absolute values, each in proportion to what was measured, of weights that are not
negative. Absolute values, because a few random units compute nothing that is used and vanish in synthesis. The longest path is the
largest of a unit's paths, so which one it is and what its pieces take are found in turn. `check` takes programs of several operations
and the bundled models with 1 to 4 lanes; the fit has seen neither.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import linprog

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.rtl.design import SEQUENTIAL
from kilotune.codegen.rtl.plan import HardwarePlan, make_plan
from kilotune.evaluators.fpga.boards import Board, find_board
from kilotune.evaluators.fpga.cost_model import TABLE, estimate
from kilotune.evaluators.fpga.parts import PARTS, Parts
from kilotune.evaluators.fpga.paths import PATH, unit_paths
from kilotune.evaluators.fpga.synthesis import Implementation, implement, kept_implementation
from kilotune.evaluators.fpga.tools import ToolError
from kilotune.evaluators.fpga.unit_parts import frame_parts, memory_parts, unit_parts
from kilotune.experiments.benchmarks.hardware import answer, wide
from kilotune.experiments.benchmarks.hardware_probes import (
    HardwareProbe,
    depends_on_input,
    program_probe,
    soft_probe,
    unit_probe,
)
from kilotune.experiments.models.catalogue import model_names

UNITS, SOFT_UNITS, PROGRAMS = 170, 30, 60
MODEL_LANES = (1, 2, 4)
FIRST_GUESS_NS = (1.5, 0.5, 2.0, 0.02, 6.0, 5.6, 1.5)
ROUNDS = 60
LONGEST_S = 600.0
"""For a tool and a design: those that are placed no sooner are left out."""


@dataclass(frozen=True)
class Measured:
    """A probe and what the tools made of it."""

    probe: HardwareProbe
    made: Implementation


def fitted_probes() -> Iterator[Callable[[], HardwareProbe]]:
    """Single units."""
    for seed in range(SOFT_UNITS):
        yield partial(soft_probe, seed)
    for seed in range(UNITS):
        yield partial(unit_probe, seed)


def unseen_probes(seeds: range | None = None, narrow: bool = False) -> Iterator[Callable[[], HardwareProbe]]:
    """Whole programs: the bundled models and `PROGRAMS` random ones, or the random ones of `seeds` alone; `narrow`: these with weights of
    1 to 6 bits."""
    for model in model_names() if seeds is None else ():
        for most in MODEL_LANES:
            yield partial(_model_probe, model, most)
    for seed in range(PROGRAMS) if seeds is None else seeds:
        yield partial(program_probe, seed, narrow)


def _model_probe(model: str, most: int) -> HardwareProbe:
    bundle, batch = answer(model, "seedot")
    design = wide(bundle, batch, most) if most > 1 else SEQUENTIAL
    return HardwareProbe(f"{model}, {most} lanes", make_plan(batch, bundle.parameters, design), bundle.parameters)


@dataclass(frozen=True)
class Allowed:
    """Which designs are synthesised and placed: in the first `seconds`, those that each tool ends with in `longest_s` and that are
    predicted to take more than `above` and at most `luts` look-up tables; `kept_only`: none that has not been."""

    seconds: float = math.inf
    kept_only: bool = False
    longest_s: float = LONGEST_S
    luts: float = math.inf
    above: float = 0


def measured(probes: Iterator[Callable[[], HardwareProbe]], board: Board, allowed: Allowed) -> Iterator[Measured]:
    """What the tools make of each that is allowed, one after the other."""
    end = time.monotonic() + allowed.seconds
    for make in probes:
        try:
            probe = make() if board.gates.multipliers else make().without_multipliers()
        except ValueError:  # more banks than there may be
            continue
        if not all(values.any() for values in probe.plan.constants.values()) or not depends_on_input(probe.plan.batch):
            continue  # it computes zeros, or the same for every input
        if not allowed.above < estimate(probe.plan, board).gates.luts <= allowed.luts:
            continue
        made = kept_implementation(probe.plan, board)
        if made is None and not allowed.kept_only and time.monotonic() < end:
            try:
                made = implement(probe.plan, board, allowed.longest_s)
            except ToolError as error:
                print(f"{probe.name}: {error}", flush=True)
        if made is not None:
            yield Measured(probe, made)


def plan_parts(plan: HardwarePlan, family: str) -> Parts:
    """All parts of a plan."""
    total = frame_parts(plan)
    for name in plan.memories:
        total += memory_parts(name, plan, family)
    for unit in plan.units:
        total += unit_parts(unit, plan, family)
    return total


def least_deviations(features: FloatArray, values: FloatArray) -> FloatArray:
    """Weights from 0 on with the least sum of absolute relative errors; `features` [designs, features]."""
    relative = features / values[:, None]
    designs, count = relative.shape
    errors = np.eye(designs)
    solved = linprog(
        np.concatenate([np.zeros(count), np.ones(designs)]),
        A_ub=np.block([[relative, -errors], [-relative, -errors]]),
        b_ub=np.concatenate([np.ones(designs), -np.ones(designs)]),
        method="highs",
    )
    return np.asarray(solved.x[:count])


def fit_gates(designs: Mapping[str, list[Measured]], kind: str) -> dict[str, float]:
    """What each part takes of a kind of gates, of designs by family."""
    kept = [(d, family) for family, found in designs.items() for d in found if getattr(d.made.gates, kind) > 0]
    if not kept:
        return {}
    features = np.array([plan_parts(d.probe.plan, family).numbers[: len(PARTS) - 2] for d, family in kept])
    values = np.array([getattr(d.made.gates, kind) for d, _ in kept], dtype=float)
    weights = least_deviations(features, values)
    return {name: round(float(weight), 3) for name, weight in zip(PARTS, weights, strict=False) if weight > 0.0005}


def fit_paths(designs: list[Measured], family: str) -> dict[str, float]:
    """What each piece of a path takes in nanoseconds."""
    kept = [d for d in designs if d.made.clock_mhz]
    if not kept:
        return {}
    paths = [
        np.array([path.numbers for unit in d.probe.plan.units for path in unit_paths(unit, d.probe.plan, family)])
        for d in kept
    ]
    values = np.array([1000 / d.made.clock_mhz for d in kept if d.made.clock_mhz])
    weights = np.array(FIRST_GUESS_NS)
    best = (np.inf, weights)
    for _ in range(ROUNDS):
        longest = np.array([of_design[np.argmax(of_design @ weights)] for of_design in paths])
        error = float(np.mean(np.abs(longest @ weights / values - 1)))
        best = min(best, (error, weights), key=lambda pair: pair[0])
        weights = (weights + least_deviations(longest, values)) / 2
    return {name: round(float(weight), 3) for name, weight in zip(PATH, best[1], strict=True) if weight > 0.0005}


def fit(boards: list[Board], allowed: Allowed, paths_too: bool) -> None:
    """Make the tables of the boards' families anew; paths stay where a board is for synthesis only."""
    designs = {board.family: list(measured(fitted_probes(), board, allowed)) for board in boards}
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    gates = {kind: fit_gates(designs, kind) for kind in ("luts", "flip_flops")}
    for family, found in designs.items():
        path_ns = fit_paths(found, family) if paths_too else {}
        kept = {name: table[family][name] for name in ("path_ns", "crowding") if name in table[family]}
        table[family] = {**gates, **kept, **({"path_ns": path_ns} if path_ns else {})}
        print(f"{family}: {len(found)} designs, {json.dumps(table[family])}")
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def check(board: Board, designs: Iterator[Measured]) -> None:
    """Errors of the table on what it has not seen: a line a design, then the median and the worst of each kind."""
    errors: dict[str, list[float]] = {}
    count = 0  # of designs
    print(
        "| design | LUTs | predicted | flip-flops | predicted | block RAMs | predicted | multipliers | predicted | MHz | predicted |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for design in designs:
        count += 1
        gates, clock = design.made.gates, design.made.clock_mhz
        expected = estimate(design.probe.plan, board)
        pairs = {
            "LUTs": (gates.luts, expected.gates.luts),
            "flip-flops": (gates.flip_flops, expected.gates.flip_flops),
            "block RAMs": (gates.block_rams, expected.gates.block_rams),
            "multipliers": (gates.multipliers, expected.gates.multipliers),
            "MHz": (clock or 0.0, expected.clock_mhz if clock else 0.0),
        }
        for kind, (found, predicted) in pairs.items():
            if found:
                errors.setdefault(kind, []).append(predicted / found - 1)
        print(f"| {design.probe.name} | " + " | ".join(_cell(*pair) for pair in pairs.values()) + " |", flush=True)
    print(f"\n{count} designs on {board.name}")
    for kind, found_errors in errors.items():
        sizes = np.abs(found_errors)
        print(
            f"{kind}: median error {np.median(sizes):.1%}, nine of ten below {np.quantile(sizes, 0.9):.1%}, worst {sizes.max():.1%},"
            f" mean with sign {np.mean(found_errors):+.1%}"
        )


def _cell(found: float, predicted: float) -> str:
    if isinstance(found, float):
        return f"{found:.1f} | {predicted:.1f}"
    return f"{found} | {predicted}"


def main() -> None:
    """Fit, check, or only synthesise."""
    arguments = argparse.ArgumentParser(description="The table of what hardware takes.")
    arguments.add_argument("what", choices=["fit", "check", "collect"])
    arguments.add_argument("boards", type=find_board, nargs="+")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="after so long only kept runs are used")
    arguments.add_argument("--kept-only", action="store_true", help="only runs that are kept")
    arguments.add_argument("--gates", action="store_true", help="fit look-up tables and flip-flops only")
    arguments.add_argument(
        "--seeds", type=int, nargs=2, metavar=("FIRST", "LAST"), help="random programs to check, instead of all"
    )
    arguments.add_argument("--longest", type=float, default=LONGEST_S, help="seconds for a tool and a design")
    arguments.add_argument("--luts", type=float, default=math.inf, help="that a design may be predicted to take")
    arguments.add_argument("--above", type=float, default=0, help="what it must be predicted to take more than")
    arguments.add_argument("--narrow", action="store_true", help="random programs with weights of 1 to 6 bits")
    given = arguments.parse_args()
    allowed = Allowed(given.seconds, given.kept_only, given.longest, given.luts, given.above)
    seeds = range(given.seeds[0], given.seeds[1] + 1) if given.seeds else None
    if given.what == "fit":
        fit(given.boards, allowed, not given.gates)
    for board in given.boards if given.what != "fit" else ():
        if given.what == "check":
            check(board, measured(unseen_probes(seeds, given.narrow), board, allowed))
        else:
            for probes in (fitted_probes(), unseen_probes()):
                list(measured(probes, board, replace(allowed, kept_only=False)))


if __name__ == "__main__":
    main()
