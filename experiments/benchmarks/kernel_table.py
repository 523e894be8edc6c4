"""Thirty sets of kernels, published ones and ones as networks have them, in both instruction sets, beside AUKE and Cain.

    python -m kilotune.experiments.benchmarks.kernel_table [FILE] [--seconds 5] [--seed 0] [--search-seed 0] [--target scamp5] [--only TEXT]

Published: the filters of AUKE's and Cain's evaluations with what these tools reach (measured on their published code, see
`reverse_split.py`), Scharr's gradient, Robinson's compass (eight kernels), pairs of gradients, the kernels of the bundled network.
Generated, from --seed: ternary sets of 3x3, 5x5 and 7x7, and 8-bit ones. Every program is proved from its text; its C++ is read back
and executed transfer by transfer by an interpreter that shares nothing with the writer; "registers" where six do not hold the macros of a
program in AUKE's set. At the end: totals, how many of the sets that are known to be short are proved, and where a tool is shorter.
FILE keeps every answer as a line of JSON; what is there is not searched again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import click

from kilotune.experiments.benchmarks.kernel_sets import random_case
from kilotune.experiments.benchmarks.program_search import NONE, KernelCase, searched
from kilotune.experiments.benchmarks.reverse_split import cases
from kilotune.experiments.problems.reverse_split.filters import FILTERS, KernelRows
from kilotune.experiments.problems.reverse_split.networks import bundled_file

PUBLISHED = (
    "Sobel", "Prewitt", "Box3", "Box5", "Box7", "Gauss3/16", "Gauss5/64", "Gauss5/256", "Laplacian", "Laplacian8", "Sharpen",
    "Binomial4/64", "AnalogNet2",
)  # fmt: skip
PAIRS = ("sobel-pair", "prewitt-pair", "roberts-pair", "roberts")

GENERATED: tuple[tuple[str, int, int, int, int], ...] = (
    ("ternary 3x3 x4", 3, 4, 1, 0),
    ("ternary 3x3 x6", 3, 6, 1, 0),
    ("ternary 3x3 x8", 3, 8, 1, 0),
    ("ternary 5x5 x4", 5, 4, 1, 0),
    ("ternary 7x7", 7, 1, 1, 0),
    ("ternary 7x7 x3", 7, 3, 1, 0),
    ("8-bit 3x3", 3, 1, 127, 7),
    ("8-bit 3x3 x4", 3, 4, 127, 7),
    ("8-bit 5x5", 5, 1, 127, 7),
    ("8-bit 7x7", 7, 1, 127, 7),
)
"""Name, side, how many kernels, largest weight, and the d of weights that are multiples of `2**-d`."""

SHORT: Mapping[str, int] = MappingProxyType({"auke": 12, "scamp5": 8})
"""Instructions up to which proofs are wanted."""


@dataclass(frozen=True)
class TableRow:
    """What a search came to; lengths are 0 where no program was found. Times are CPU seconds."""

    name: str
    target: str
    seconds: float
    seed: int
    search_seed: int
    instructions: int
    transfers: int
    registers: int
    found_at: float
    end: float
    bound: float
    proved: bool
    checked: str


def table_cases(seed: int) -> tuple[KernelCase, ...]:
    """Thirty sets; the generated ones of a seed."""
    named = {case.name: case for case in cases()}
    scharr: KernelRows = ((3, 0, -3), (10, 0, -10), (3, 0, -3))
    return (
        *(named[name] for name in PUBLISHED),
        *(KernelCase(name, 0, FILTERS[name].rows) for name in PAIRS),
        KernelCase("Scharr/16", 4, (scharr,)),
        KernelCase("Robinson's compass x8", 0, tuple(_compass())),
        KernelCase("ternary8-digits x8", 0, _network_kernels("ternary8-digits")),
        *(random_case(seed, *shape) for shape in GENERATED),
    )


def _compass() -> Iterator[KernelRows]:
    """Sobel's weights turned by eighths around the centre (Robinson 1977)."""
    around = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))
    weights = (-1, 0, 1, 2, 1, 0, -1, -2)
    for turn in range(8):
        at = {cell: weights[(number - turn) % 8] for number, cell in enumerate(around)}
        yield tuple(tuple(at.get((row, column), 0) for column in range(3)) for row in range(3))


def _network_kernels(name: str) -> tuple[KernelRows, ...]:
    kernels = bundled_file(name).kernels.kernels
    return tuple(tuple(tuple(int(weight) for weight in row) for row in kernel.picture()) for kernel in kernels)


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--seconds", default=5.0, show_default=True, help="CPU seconds a set.")
@click.option("--seed", default=0, show_default=True, help="Of the generated sets.")
@click.option("--search-seed", default=0, show_default=True)
@click.option("--target", multiple=True, type=click.Choice(["auke", "scamp5"]))
@click.option("--only", default="", help="A part of the names of the sets.")
def main(file: Path | None, seconds: float, seed: int, search_seed: int, target: tuple[str, ...], only: str) -> None:
    """Print the tables."""
    known = _known(file)
    for name in target or ("auke", "scamp5"):
        click.echo(
            f"{name:24} {'instructions':>12} {'AUKE':>5} {'Cain':>5} {'bound':>5} {'proved':>6} {'transfers':>9} {'registers':>9}"
            f" {'found s':>7} {'end s':>6} checked"
        )
        rows = []
        for case in table_cases(seed):
            if only not in case.name:
                continue
            asked = (case.name, name, seconds, seed, search_seed)
            row = known.get(asked) or _searched(case, *asked[1:])
            if file is not None and asked not in known:
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(asdict(row)) + "\n")
            rows.append((case, row))
            click.echo(_line(case, row))
        click.echo("\n".join(_summary(name, rows)) + "\n")


def _known(file: Path | None) -> dict[tuple[str, str, float, int, int], TableRow]:
    if file is None or not file.exists():
        return {}
    rows = [TableRow(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    return {(row.name, row.target, row.seconds, row.seed, row.search_seed): row for row in rows}


def _searched(case: KernelCase, target: str, seconds: float, seed: int, search_seed: int) -> TableRow:
    found = searched(case, target, seconds, search_seed)
    program = found.program
    return TableRow(
        case.name,
        target,
        seconds,
        seed,
        search_seed,
        program.instructions if program else 0,
        program.bus_transfers if program else 0,
        len(program.registers) if program else 0,
        round(found.found_at, 2),
        round(found.end, 2),
        found.bound,
        found.proved,
        NONE if program is None else "yes" if found.legal else "registers",
    )


def _tools(case: KernelCase, target: str) -> Mapping[str, int | None]:
    """What is known of a tool in this instruction set: AUKE's better length of 3 and 6 registers, and Cain's."""
    auke = [int(length) for length in case.auke.split() if length != NONE and target == "auke"]
    cain = case.cain_auke if target == "auke" else case.cain_scamp5
    return {"AUKE": min(auke, default=None), "Cain": None if cain == NONE else int(cain)}


def _line(case: KernelCase, row: TableRow) -> str:
    tools = _tools(case, row.target)
    return (
        f"{case.name:24} {row.instructions or NONE!s:>12} {tools['AUKE'] or NONE!s:>5} {tools['Cain'] or NONE!s:>5} {row.bound:5g}"
        f" {'yes' if row.proved else 'no':>6} {row.transfers or NONE!s:>9} {row.registers or NONE!s:>9} {row.found_at:7.2f}"
        f" {row.end:6.1f} {row.checked}"
    )


def _summary(target: str, rows: Sequence[tuple[KernelCase, TableRow]]) -> Iterator[str]:
    """Totals, proofs of short programs, and each tool's total on the sets that it is known for."""
    found = [row for _, row in rows if row.instructions]
    yield (
        f"{len(rows)} sets: {sum(row.instructions for row in found)} instructions, {sum(row.transfers for row in found)} transfers, "
        f"bound {sum(row.bound for _, row in rows):g}; {len(rows) - len(found)} without a program; "
        f"{sum(row.proved for row in found)} proved"
    )
    short = [row for row in found if row.instructions <= SHORT[target]]
    yield f"{sum(row.proved for row in short)} of the {len(short)} sets of at most {SHORT[target]} instructions proved"
    for tool in ("AUKE", "Cain"):
        both = [(row, theirs) for case, row in rows if (theirs := _tools(case, target)[tool]) is not None]
        longer = [row.name for row, theirs in both if not 0 < row.instructions <= theirs]
        if both:
            yield (
                f"{tool}: {sum(theirs for _, theirs in both)} on {len(both)} sets, ours {sum(row.instructions for row, _ in both)}; "
                f"longer than it: {', '.join(longer) or 'none'}"
            )


if __name__ == "__main__":
    main()
