"""Ask all compiled searches and simulators generated questions, under AddressSanitizer and UndefinedBehaviorSanitizer.

    python -m tests.sanitized --seconds 40 --seed 1

A read or write outside of an array, what is read before it was written (memory is filled with a pattern that no index survives), a shift
beyond a word and the like end the process that asks. Then the question, how to ask it again, and what the sanitizer says are printed, and
the exit status is 1. Where the compiler or its sanitizers are missing, a sentence says so.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from kilotune.evaluators.compiled_library import find_compiler

RUNTIMES = ("libasan.so", "libstdc++.so.6")
"""Loaded before everything else. The other one is for libraries in C++ that throw exceptions, which the sanitizer has to find."""

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -g -O1"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_malloc_fill_size=1073741824:malloc_fill_byte=190",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
WRONG = (
    "int kilotune_wrong(volatile int *numbers, int at) { return numbers[at]; }",
    "int kilotune_wrong(volatile int *numbers, int at) { return numbers[0] << (at + 28); }",
)
"""Of four integers the fifth one is read; and a shift by a whole word."""

MOST_LINES = 40


@click.command(help=__doc__)
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=40.0, show_default=True)
@click.option("--cases", type=click.IntRange(1), help="Or until so many were asked of each kind  [default: no limit].")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same cases.")
@click.option("--first", type=click.IntRange(0), default=0, help="Number of each kind's first case.")
@click.option("--kind", "kinds", multiple=True, help="Only these.")
def main(seconds: float, cases: int | None, seed: int, first: int, kinds: tuple[str, ...]) -> None:
    environment = sanitizing()
    if isinstance(environment, str):
        click.echo(environment)
        return
    missed = [text for text in WRONG if not _ends_with_a_report(text, environment)]
    if missed:
        raise click.ClickException(f"no sanitizer finds what is wrong with {missed[0]}")
    options = ["--seconds", str(seconds), "--seed", str(seed), "--first", str(first)]
    options += [word for kind in kinds for word in ("--kind", kind)]
    options += [] if cases is None else ["--cases", str(cases)]
    sys.exit(_ask(options, environment))


def sanitizing() -> dict[str, str] | str:
    """The environment in which libraries are compiled and loaded with sanitizers; a sentence where there are none."""
    compiler = find_compiler()
    if compiler is None:
        return "There is no C compiler, so there is nothing compiled to be asked."
    found = [_runtime(compiler, name) for name in RUNTIMES]
    if found[0] is None:
        return f"{shlex.join(compiler)} has no shared AddressSanitizer ({RUNTIMES[0]}), so nothing was asked."
    words = {"LD_PRELOAD": " ".join(filter(None, found)), "CC": f"{shlex.join(compiler)} {FLAGS}"}
    return {**os.environ, **OPTIONS, **words}


def _runtime(compiler: Sequence[str], name: str) -> str | None:
    """Where a compiler has a library of its own; GCC prints the bare name of one that it does not have."""
    said = subprocess.run([*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = said.stdout.strip()
    return path if said.returncode == 0 and Path(path).is_absolute() and Path(path).exists() else None


def _ends_with_a_report(text: str, environment: Mapping[str, str]) -> bool:
    """Whether a wrong function ends the process that calls it, and a sanitizer says why."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "wrong.c"
        source.write_text(text)
        line = [sys.executable, "-m", "tests.sanitized.wrong", str(source)]
        ended = subprocess.run(
            line, env={**environment, "KILOTUNE_CACHE": folder}, capture_output=True, text=True, check=False
        )
    return ended.returncode != 0 and ("AddressSanitizer" in ended.stderr or "runtime error" in ended.stderr)


def _ask(options: Sequence[str], environment: Mapping[str, str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked"
        asked.write_text("nothing")
        line = [sys.executable, "-m", "tests.sanitized.asking", "--asked", str(asked), *options]
        ended = subprocess.run(line, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if ended.returncode:
            lines = ended.stderr.splitlines()
            click.echo("\n".join(lines[:MOST_LINES] if "Sanitizer" in ended.stderr else lines[-MOST_LINES:]), err=True)
            click.echo(f"It was asked: {asked.read_text()}", err=True)
        return int(ended.returncode != 0)


if __name__ == "__main__":
    main(prog_name="python -m tests.sanitized")
