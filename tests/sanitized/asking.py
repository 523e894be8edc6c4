"""The process that asks, which a sanitizer may end: see `__main__.py`."""

from __future__ import annotations

import random
import time
from pathlib import Path

import click

from tests.sanitized import kernel_cases, memory_cases, pipeline_cases, program_cases

KINDS = {
    case.__name__: case
    for module in (program_cases, memory_cases, pipeline_cases, kernel_cases)
    for case in module.CASES
}


@click.command()
@click.option("--asked", type=click.Path(path_type=Path))
@click.option("--seconds", type=float)
@click.option("--cases", type=int)
@click.option("--seed", type=int)
@click.option("--first", type=int)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)))
def main(asked: Path, seconds: float, cases: int | None, seed: int, first: int, kinds: tuple[str, ...]) -> None:
    began_s = time.process_time()
    spent = dict.fromkeys(kinds or KINDS, 0.0)
    count = dict.fromkeys(spent, 0)
    while time.process_time() - began_s < seconds and (cases is None or min(count.values()) < cases):
        name = min(spent, key=lambda kind: (cases is not None and count[kind] >= cases, spent[kind]))
        number = first + count[name]
        asked.write_text(f"{name}: python -m tests.sanitized --seed {seed} --kind {name} --first {number} --cases 1")
        before_s = time.process_time()
        KINDS[name](random.Random(f"{seed} {name} {number}"))
        spent[name] += time.process_time() - before_s
        count[name] += 1
    for name in count:
        click.echo(f"{name:>22} {count[name]:6d} cases {spent[name]:7.1f} CPU-s")


if __name__ == "__main__":
    main()
