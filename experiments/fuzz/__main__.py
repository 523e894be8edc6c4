"""Mutate inputs of every kind and watch the `tune` command read them.

    python -m kilotune.experiments.fuzz --seconds 600 --seed 1 --kind onnx
    python -m kilotune.experiments.fuzz --replay FILE

A finding is: exit status 3, a signal, a traceback, more than 10 CPU-seconds or 2 GB, a refusal that is not one sentence which names the
place, a user's file that has changed, a file that is there by half. Its input is made small and stored; exit status 1 says that
there are findings.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from kilotune.experiments.fuzz.campaign import Extent, Tally, replay, run_campaign
from kilotune.experiments.fuzz.finding_files import load_case
from kilotune.experiments.fuzz.kind import Kind
from kilotune.experiments.fuzz.kinds.registry import KINDS, find_kind
from kilotune.experiments.fuzz.sandbox import scratch_folder
from kilotune.experiments.fuzz.verdict import Finding
from kilotune.experiments.fuzz.warming import warm_up

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Read when a process starts. Threads do not survive a fork, and each would reserve address space of its own."""

NEWS_S = 10.0


@click.command(help=__doc__)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, help="How long."
)
@click.option("--cases", type=click.IntRange(1), help="Or until so many cases were run  [default: no limit].")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same cases.")
@click.option("--first", type=click.IntRange(0), default=0, help="Number of each kind's first case.")
@click.option("--kind", "names", multiple=True, type=click.Choice([kind.name for kind in KINDS]), help="Only these.")
@click.option(
    "--findings",
    type=click.Path(path_type=Path),
    default=Path("out/fuzz"),
    show_default=True,
    help="Where they are stored.",
)
@click.option(
    "--attempts", type=click.IntRange(0), default=60, show_default=True, help="Runs to make one finding small."
)
@click.option(
    "--replay",
    "replayed",
    type=click.Path(path_type=Path),
    help="Run stored findings again: a file, or all of a folder.",
)
def main(
    seconds: float,
    cases: int | None,
    seed: int,
    first: int,
    names: tuple[str, ...],
    findings: Path,
    attempts: int,
    replayed: Path | None,
) -> None:
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.environ.update(ONE_THREAD)
        os.execv(sys.executable, [sys.executable, "-m", "kilotune.experiments.fuzz", *sys.argv[1:]])
    try:
        sys.exit(
            _replay(replayed)
            if replayed
            else _fuzzed(Extent(seconds, cases or sys.maxsize, first, attempts), seed, names, findings)
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _fuzzed(extent: Extent, seed: int, names: tuple[str, ...], folder: Path) -> int:
    kinds = tuple(kind for kind in KINDS if kind.name in names or not names)
    said_s = time.monotonic()

    def tell(kind: Kind, finding: Finding, path: Path) -> None:
        click.echo(f"{kind.name}: {finding.signature}\n    {finding.detail}\n    {path}", err=True)

    def on_case(tallies: dict[str, Tally]) -> None:
        nonlocal said_s
        if time.monotonic() - said_s >= NEWS_S:
            said_s = time.monotonic()
            total, found = sum(t.cases for t in tallies.values()), sum(len(t.findings) for t in tallies.values())
            click.echo(f"{total} cases, {found} findings", err=True)

    with scratch_folder() as scratch:
        tallies = run_campaign(kinds, seed, extent, scratch, folder, tell, on_case)
    _print(tallies)
    return 1 if any(tally.findings for tally in tallies.values()) else 0


def _print(tallies: dict[str, Tally]) -> None:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(
        ("kind", "cases", "accepted", "refused", "findings", "slowest CPU-s", "largest MB")
    ):
        table.add_column(column, justify="right" if number else "left")
    for name, tally in tallies.items():
        counts = (tally.cases, tally.accepted, tally.refused, len(tally.findings))
        table.add_row(name, *map(str, counts), f"{tally.slowest_s:.2f}", f"{tally.largest_bytes / 1e6:.0f}")
    Console(width=100).print(table)


def _replay(place: Path) -> int:
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    cases, found = [load_case(file) for file in files], 0
    with scratch_folder() as scratch:
        warm_up({case.arguments: case for case in cases}.values() if len(cases) > 1 else (), scratch)
        for file, case in zip(files, cases, strict=True):
            ran, finding = replay(find_kind(case.kind), case, scratch)
            found += finding is not None
            if finding is not None or len(files) == 1:
                click.echo(ran.stdout + ran.stderr + ran.trace, nl=False)
            said = f"{finding.signature} ({finding.detail})" if finding else "no finding"
            click.echo(f"{file.name}: exit {ran.status}, {ran.cpu_s:.2f} CPU-s: {said}")
    return 1 if found else 0


if __name__ == "__main__":
    main(prog_name="python -m kilotune.experiments.fuzz")
