"""Hardware of the bundled models: cycles, and every result against the batch simulator's.

    python -m kilotune.experiments.benchmarks.hardware [--trials N] [MODEL ...]    # what Verilator computes, and in how many cycles
    python -m kilotune.experiments.benchmarks.hardware --sparse        # sparse products on processing elements
    python -m kilotune.experiments.benchmarks.hardware --board ecp5-25f [MODEL ...]    # gates and clock, placed and routed

What each paper's procedure answers becomes hardware: one step after the other, and with up to WIDEST lanes an operation and as many
processing elements. All training and test samples are run; a difference ends the program. With --trials it is the best that
local search has found after so many candidates, from the procedure's answer on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.rtl.design import SEQUENTIAL, HardwareDesign
from kilotune.codegen.rtl.plan import HardwarePlan, decidable, make_plan, takes_elements
from kilotune.codegen.rtl.processing import column_nonzeros, least_cycles, longest_first_shares, papers_shares
from kilotune.codegen.rtl.units import SparseUnit
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.fpga.boards import Board, find_board
from kilotune.evaluators.fpga.cost_model import estimate
from kilotune.evaluators.fpga.synthesis import implement
from kilotune.evaluators.fpga.tools import ToolError
from kilotune.evaluators.fpga.verilated import run_hardware
from kilotune.experiments.models.catalogue import model_names
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.study import Study
from kilotune.spaces.fpga.exact_shares import exact_shares

SPACES = ("seedot", "shiftry")
WIDEST = 16
PLACED_LANES = (1, 4)


def answer(model: str, space: str) -> tuple[Bundle, FixedBatch]:
    """The program that the space's paper arrives at."""
    problem = build_problem(TuneRequest(space, str(resolve_input(model)), "procedure"))
    trial = run_procedure(problem.space)
    assert trial is not None
    return problem.bundle, problem.lower(trial.assignment)


def found(model: str, space: str, trials: int) -> tuple[Bundle, FixedBatch]:
    """The best program that a search of so many trials finds; the paper's for none."""
    if not trials:
        return answer(model, space)
    problem = build_problem(TuneRequest(space, str(resolve_input(model)), "refine"))
    best = Study(problem.space, "refine").run(InProcessExecutor(problem.space), Budget(trials=trials)).best
    assert best is not None
    return problem.bundle, problem.lower(best.assignment)


def sparse_products(bundle: Bundle) -> Iterator[tuple[int, list[int]]]:
    """The operations that processing elements can do, with the non-zero values of each column."""
    for row, operation in enumerate(ir.operations(bundle.program.body)):
        if isinstance(operation, ir.MatMul) and takes_elements(operation, bundle.program):
            yield row, column_nonzeros(bundle.parameters[operation.a.variable])


def wide(bundle: Bundle, batch: FixedBatch, most: int = WIDEST) -> HardwareDesign:
    """Up to so many lanes, and as many processing elements, given columns as in the paper."""
    factors = decidable(bundle.program, batch)
    lanes = {row: max(n for n in options if n <= most) for row, options in factors.items()}
    shares = {row: papers_shares(counts, most) for row, counts in sparse_products(bundle)}
    return HardwareDesign(lanes, shares, ports=2)


def checked(plan: HardwarePlan, bundle: Bundle) -> int:
    """How many samples agree, bit for bit and cycle for cycle: all, or SystemExit."""
    parts = [part.features for part in (bundle.train, bundle.test) if part is not None]
    features = np.concatenate(parts) if parts else np.zeros((1, 0))
    run = run_hardware(plan, features)
    expected = Simulator(bundle.program, bundle.parameters, features).run(plan.batch)[0]
    if not np.array_equal(run.outputs, expected):
        raise SystemExit(f"{bundle.name}: {(run.outputs != expected).any(axis=1).sum()} samples differ")
    if set(run.cycles.tolist()) != {plan.cycles}:
        raise SystemExit(
            f"{bundle.name}: {plan.cycles} cycles are planned, {sorted(set(run.cycles.tolist()))} are seen"
        )
    return len(features)


def compare(models: list[str], trials: int) -> None:
    """A line a model and space."""
    print("| model | space | bits | samples equal | cycles, sequential | cycles, wide |\n|---|---|---|---|---|---|")
    for model in models:
        for space in SPACES:
            bundle, batch = found(model, space, trials)
            plans = [make_plan(batch, bundle.parameters, design) for design in (SEQUENTIAL, wide(bundle, batch))]
            samples = [checked(plan, bundle) for plan in plans]
            widths = "/".join(str(bits) for bits in sorted(set(batch.bits[0].tolist())))
            print(
                f"| {model} | {space} | {widths} | {samples[0]} | {plans[0].cycles} | {plans[1].cycles} |", flush=True
            )


def sparse() -> None:
    """Cycles of every sparse product of the bundled models, by elements; in brackets of the whole unit."""
    print("| model | non-zeros | elements | bound | exact | longest first | the paper's | straight loops | faster |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model in model_names():
        bundle, batch = answer(model, SPACES[0])
        for row, counts in sparse_products(bundle):
            # over the whole matrix, and over its non-zero values one after the other
            dense = next(u for u in make_plan(batch, bundle.parameters).units if u.row == row).duration
            alone = papers_shares(counts, 1)
            listed = next(
                u
                for u in make_plan(batch, bundle.parameters, HardwareDesign(shares={row: alone})).units
                if u.row == row
            )
            for elements in (1, 2, 4, 8, 16, 32):
                exact, proved = exact_shares(counts, elements)
                cells, took = [], []
                for shares in (exact, longest_first_shares(counts, elements), papers_shares(counts, elements)):
                    plan = make_plan(batch, bundle.parameters, HardwareDesign(shares={row: shares}))
                    unit = next(u for u in plan.units if isinstance(u, SparseUnit))
                    cells.append(f"{shares.cycles(counts)} ({unit.duration})")
                    took.append(unit.duration)
                cells[0] += "" if proved else ", not proved"
                bound = least_cycles(counts, elements)
                loops = f"{dense}, {listed.duration} | {dense / took[0]:.1f}, {listed.duration / took[0]:.1f}"
                print(f"| {model} | {sum(counts)} | {elements} | {bound} | {' | '.join(cells)} | {loops} |", flush=True)


def placed(models: list[str], board: Board) -> None:
    """Gates, clock and latency of each model, one step after the other and with some lanes; what breaks the board is said."""
    print(
        "| model | lanes | LUTs | flip-flops | block RAMs | multipliers | MHz | cycles | us | predicted: LUTs, MHz, us |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    for model in models:
        bundle, batch = answer(model, SPACES[0])
        for most in PLACED_LANES:
            plan = make_plan(batch, bundle.parameters, wide(bundle, batch, most) if most > 1 else SEQUENTIAL)
            try:
                made = implement(plan, board)
            except ToolError as error:
                print(f"| {model} | {most} | {error} |", flush=True)
                continue
            expected = estimate(plan, board)
            gates = " | ".join(str(count) for count in asdict(made.gates).values())
            clock = "-" if made.clock_mhz is None else f"{made.clock_mhz:.1f}"
            latency = "-" if made.clock_mhz is None else f"{plan.cycles / made.clock_mhz:.2f}"
            predicted = f"{expected.gates.luts}, {expected.clock_mhz:.1f}, {expected.latency_us:.2f}"
            print(f"| {model} | {most} | {gates} | {clock} | {plan.cycles} | {latency} | {predicted} |", flush=True)


def main() -> None:
    """Print a table."""
    arguments = argparse.ArgumentParser(description="Hardware of the bundled models.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--sparse", action="store_true")
    arguments.add_argument("--board")
    arguments.add_argument("--trials", type=int, default=0)
    given = arguments.parse_args()
    if given.sparse:
        sparse()
    elif given.board:
        placed(given.models or list(model_names()), find_board(given.board))
    else:
        compare(given.models or list(model_names()), given.trials)


if __name__ == "__main__":
    main()
