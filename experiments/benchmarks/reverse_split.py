"""Shortest SCAMP-5 programs beside those of AUKE and Cain: length, transfers, registers, time, bound and proof.

    python -m kilotune.experiments.benchmarks.reverse_split [--seconds 8] [--registers 6] [--only NAME] [--target auke]

One table for each instruction set, by the search behind `tune --space reverse-split`; every program is proved by executing
its text symbolically. Seconds are CPU seconds of one core: when the program was found, and when the search ended; no row
takes much more than `--seconds`. AUKE's and Cain's figures: measured on their published code (AUKE with 3 and 6
registers); an instruction of the `auke` set is two bus transfers, its halving the fast one.
"""

from __future__ import annotations

import click

from kilotune.experiments.benchmarks.program_search import NONE, KernelCase, searched
from kilotune.experiments.problems.reverse_split.filters import KernelRows
from kilotune.spaces.reverse_split.measuring import KernelGoal


def _product(column: tuple[int, ...], row: tuple[int, ...]) -> KernelRows:
    return tuple(tuple(a * b for b in row) for a in column)


def _box(size: int) -> tuple[KernelRows]:
    return (_product((1,) * size, (1,) * size),)


def cases() -> tuple[KernelCase, ...]:
    """The kernels of the facts page, then the other boxes."""
    gauss5 = ((0, 1, 2, 1, 0), (1, 4, 6, 4, 1), (2, 6, 10, 6, 2), (1, 4, 6, 4, 1), (0, 1, 2, 1, 0))
    analog_net = (
        ((0, 0, 0), (-3, 1, 0), (-3, 0, 2)),
        ((-4, -1, 1), (-1, 2, 0), (1, 1, 0)),
        ((-1, 2, 0), (-1, 1, -3), (0, -3, 0)),
    )
    boxes = ((2, 4), (4, 10), (6, 16), (8, 20), (9, 26), (10, 27), (12, 31))
    return (
        KernelCase("Sobel", 0, (((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)),), "7 7", "7", "5", NONE, 7, 5),
        KernelCase("Prewitt", 0, (((-1, 0, 1),) * 3,), wanted_scamp5=4),
        KernelCase("Box3", 0, _box(3), "8 8", "9", "6", NONE, 8, 6),
        KernelCase("Box5", 0, _box(5), "14 15", "21", "8", NONE, 14, 8),
        KernelCase("Box7", 0, _box(7), "20 39", "32", "12", NONE, 20, 12),
        KernelCase("Gauss3/16", 4, (_product((1, 2, 1), (1, 2, 1)),), "12 12", "12", "10", NONE, 12, 10),
        KernelCase("Gauss5/64", 6, (gauss5,), "21 50", "32", "19", "62", 21, 19),
        KernelCase("Gauss5/256", 8, (_product((1, 4, 6, 4, 1), (1, 4, 6, 4, 1)),), "36 82", "100", "22", NONE, 24, 22),
        KernelCase("Laplacian", 0, (((0, -1, 0), (-1, 4, -1), (0, -1, 0)),), "10 10", "9", "7", NONE, 9, 5),
        KernelCase("Laplacian8", 0, (((-1, -1, -1), (-1, 8, -1), (-1, -1, -1)),), "18 16", "14", "10", NONE, 13, None),
        KernelCase("Sharpen", 0, (((0, -1, 0), (-1, 5, -1), (0, -1, 0)),), "10 10", "10", "8", NONE, 10, 5),
        KernelCase("Binomial4/64", 6, (_product((1, 3, 3, 1), (1, 3, 3, 1)),), "53 46", "20", "17", NONE, 18, None),
        KernelCase("AnalogNet2", 2, analog_net, "51 -", "30", "21", NONE, 30, None),
        *(KernelCase(f"Box{size}", 0, _box(size), f"{length} -", wanted_auke=length) for size, length in boxes),
    )


@click.command()
@click.option("--seconds", default=8.0, show_default=True, help="CPU seconds a kernel.")
@click.option("--registers", default=6, show_default=True)
@click.option("--objective", default="instructions", type=click.Choice(["instructions", "transfers"]))
@click.option("--only", multiple=True, help="Names of kernels.")
@click.option("--target", multiple=True, type=click.Choice(["auke", "scamp5"]))
@click.option("--seed", default=0, show_default=True)
def main(
    seconds: float, registers: int, objective: str, only: tuple[str, ...], target: tuple[str, ...], seed: int
) -> None:
    """Print the tables."""
    for name in target or ("auke", "scamp5"):
        click.echo(
            f"{name + ', ' + str(registers) + ' registers':24} {'instructions':>12} {'wanted':>6} {'AUKE 3/6, Cain':>14}"
            f" {'transfers':>9} {'AUKE, Cain':>10} {'registers':>9} {'found s':>7} {'end s':>6} {'bound':>5} {'proved':>6}"
        )
        for case in cases():
            if not only or case.name in only:
                click.echo(_row(case, name, KernelGoal(objective), registers, seconds, seed))


def _row(case: KernelCase, target: str, goal: KernelGoal, registers: int, seconds: float, seed: int) -> str:
    try:
        found = searched(case, target, seconds, seed, goal, registers)
    except ValueError as error:
        return f"{case.name:24} {error}"
    program = found.program
    if program is None:
        return f"{case.name:24} no program within {registers} registers found; bound {found.bound:g}"
    wanted = case.wanted_auke if target == "auke" else case.wanted_scamp5
    others = f"{case.auke}, {case.cain_auke}" if target == "auke" else f"{NONE}, {case.cain_scamp5}"
    return (
        f"{case.name:24} {program.instructions:12} {wanted or NONE!s:>6} {others:>14} {program.bus_transfers:9} "
        f"{_transfers(case, target):>10} {len(program.registers):9} {found.found_at:7.2f} {found.end:6.1f} {found.bound:5g} "
        f"{'yes' if found.proved else 'no':>6}"
    )


def _transfers(case: KernelCase, target: str) -> str:
    """The bus transfers of AUKE's shortest program, and of Cain's in the same instruction set."""
    lengths = [int(length) for length in case.auke.split() if length != NONE]
    auke = str(2 * min(lengths)) if lengths else NONE
    cain = str(2 * int(case.cain_auke)) if target == "auke" and case.cain_auke != NONE else NONE
    return f"{auke}, {cain if target == 'auke' else case.cain_transfers}"


if __name__ == "__main__":
    main()
