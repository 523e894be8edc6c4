"""Shortest SCAMP-5 programs beside those of AUKE and Cain: length, transfers, registers, time, bound and proof.

    python -m kilotune.experiments.benchmarks.reverse_split [--seconds 60] [--registers 6] [--only NAME] [--target auke]

Every program is executed symbolically from its text. Seconds are CPU seconds of one core: when the length was found, and when
the search ended. AUKE's and Cain's figures: measured on their published code (AUKE with 3 and 6 registers).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import click

from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel, KernelSet
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.registers import allocate
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.spaces.reverse_split.exact import shortest_program

Rows = tuple[tuple[int, ...], ...]

NONE = "-"


@dataclass(frozen=True)
class Case:
    """Kernels of integer weights over `2**depth`, what others reach, and what is wanted (instructions)."""

    name: str
    depth: int
    kernels: tuple[Rows, ...]
    auke: str = NONE
    cain_auke: str = NONE
    cain_scamp5: str = NONE
    wanted_auke: int | None = None
    wanted_scamp5: int | None = None

    @property
    def approximated(self) -> ApproximatedSet:
        kernels = KernelSet(tuple(Kernel.of_rows(rows) for rows in self.kernels)).approximate(0)
        return ApproximatedSet(self.depth, kernels.approximations)


def _product(column: tuple[int, ...], row: tuple[int, ...]) -> Rows:
    return tuple(tuple(a * b for b in row) for a in column)


def _box(size: int) -> tuple[Rows]:
    return (_product((1,) * size, (1,) * size),)


def cases() -> tuple[Case, ...]:
    """The kernels of the facts page, then the other boxes."""
    gauss5 = ((0, 1, 2, 1, 0), (1, 4, 6, 4, 1), (2, 6, 10, 6, 2), (1, 4, 6, 4, 1), (0, 1, 2, 1, 0))
    analog_net = (
        ((0, 0, 0), (-3, 1, 0), (-3, 0, 2)),
        ((-4, -1, 1), (-1, 2, 0), (1, 1, 0)),
        ((-1, 2, 0), (-1, 1, -3), (0, -3, 0)),
    )
    boxes = ((2, 4), (4, 10), (6, 16), (8, 20), (9, 26), (10, 27), (12, 31))
    return (
        Case("Sobel", 0, (((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)),), "7 7", "7", "5", 7, 5),
        Case("Prewitt", 0, (((-1, 0, 1),) * 3,), wanted_scamp5=4),
        Case("Box3", 0, _box(3), "8 8", "9", "6", 8, 6),
        Case("Box5", 0, _box(5), "14 15", "21", "8", 14, 8),
        Case("Box7", 0, _box(7), "20 39", "32", "12", 20, 12),
        Case("Gauss3/16", 4, (_product((1, 2, 1), (1, 2, 1)),), "12 12", "12", "10", 12, 10),
        Case("Gauss5/64", 6, (gauss5,), "21 50", "32", "19", 21, 19),
        Case("Gauss5/256", 8, (_product((1, 4, 6, 4, 1), (1, 4, 6, 4, 1)),), "36 82", "100", "22", 24, 22),
        Case("Laplacian", 0, (((0, -1, 0), (-1, 4, -1), (0, -1, 0)),), "10 10", "9", "7", 9, 5),
        Case("Laplacian8", 0, (((-1, -1, -1), (-1, 8, -1), (-1, -1, -1)),), "18 16", "14", "10", 13, None),
        Case("Sharpen", 0, (((0, -1, 0), (-1, 5, -1), (0, -1, 0)),), "10 10", "10", "8", 10, 5),
        Case("Binomial4/64", 6, (_product((1, 3, 3, 1), (1, 3, 3, 1)),), "53 46", "20", "17", 18, None),
        Case("AnalogNet2", 2, analog_net, "51", "30", "21", 30, None),
        *(Case(f"Box{size}", 0, _box(size), str(length), wanted_auke=length) for size, length in boxes),
    )


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="CPU seconds a kernel.")
@click.option("--registers", default=6, show_default=True)
@click.option("--objective", default="instructions", type=click.Choice(["instructions", "transfers"]))
@click.option("--only", multiple=True, help="Names of kernels.")
@click.option("--target", multiple=True, type=click.Choice(["auke", "scamp5"]))
@click.option("--seed", default=0, show_default=True)
def main(
    seconds: float, registers: int, objective: str, only: tuple[str, ...], target: tuple[str, ...], seed: int
) -> None:
    """Print the table."""
    click.echo(
        f"{'kernel':13} {'set':7} {'length':>6} {'wanted':>6} {'transf':>6} {'regs':>4} {'found s':>8} {'end s':>7} "
        f"{'bound':>5} {'proved':>6}  AUKE 3/6 regs, Cain"
    )
    for case in cases():
        if only and case.name not in only:
            continue
        for name in target or ("auke", "scamp5"):
            click.echo(_row(case, name, objective, registers, seconds, seed))


def _row(case: Case, target: str, objective: str, registers: int, seconds: float, seed: int) -> str:
    sums, start = case.approximated.sums, time.process_time()
    best: Plan | None = None
    found_at, bound, cost, proved = 0.0, 0, 0, False
    for found in shortest_program(sums, target, case.depth, objective, registers=registers, seed=seed):
        now = time.process_time() - start
        bound, proved = found.bound, found.proved
        if found.plan is not None and (best is None or found.cost < cost):
            best, cost, found_at = found.plan, found.cost, now
        if now > seconds:
            break
    end = time.process_time() - start
    if best is None:
        return f"{case.name:13} {target:7} no program within {registers} registers; bound {bound}"
    program = prove(format_program(allocate(best, registers)), sums, case.depth)
    names = {register for operation in program.operations for register in (*operation.destinations, *operation.sources)}
    wanted = case.wanted_auke if target == "auke" else case.wanted_scamp5
    others = f"{case.auke}, {case.cain_auke}" if target == "auke" else f"{NONE}, {case.cain_scamp5}"
    return (
        f"{case.name:13} {target:7} {len(program.operations):6} {wanted or NONE!s:>6} {best.bus_transfers:6} "
        f"{len(names):4} {found_at:8.2f} {end:7.1f} {bound:5} {'yes' if proved else 'no':>6}  {others}"
    )


if __name__ == "__main__":
    main()
