"""Model folders around the programs of `corpus/programs`: parameters and samples are drawn to fit what a program declares."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen import ir
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import corpus_files

SAMPLES = 6

TUNE = ("--budget", "3trials,2s", "--no-cache", "--quiet", "--json", "result.json", "--output", "made")
"""A search that is short and writes everything that there is to write."""

COMMANDS = (
    ("--space", "shiftry", "--input", "model", *TUNE),
    ("--space", "seedot", "--input", "model", *TUNE),
    ("list", "buffers", "--input", "model"),
)


def model_cases(kind: str, suffix: str) -> tuple[FuzzCase, ...]:
    """A case for every program and command. Samples are in `train` with that suffix."""
    return tuple(
        FuzzCase(kind, command, {f"model/{name}": content for name, content in model_folder(program, suffix).items()})
        for program in sorted(corpus_files("programs"))
        for command in COMMANDS
    )


@cache
def model_folder(program: str, suffix: str) -> dict[str, bytes]:
    """The files of the folder of a program of the corpus, the same ones at every call."""
    source = corpus_files("programs")[program]
    elaborated = elaborate(parse(source.decode(), program), program)
    generator = np.random.default_rng(1)
    files = {"model.sd": source}
    for variable in elaborated.variables:
        if variable.role is ir.Role.PARAMETER:
            drawn = generator.uniform(-1, 1, variable.shape).round(3)
            files[f"{variable.name}.npy"] = npy(drawn * (generator.random(variable.shape) < 0.6))
    assert elaborated.input is not None
    features = generator.uniform(-1, 1, (SAMPLES, elaborated.input.size)).round(3)
    table = np.column_stack([np.arange(SAMPLES) % 2, features])
    files[f"train{suffix}"] = {".csv": csv, ".npy": npy, ".npz": npz}[suffix](table)
    return files


def npy(array: NDArray[Any]) -> bytes:
    """The array as the content of a `.npy` file."""
    written = io.BytesIO()
    np.save(written, array)
    return written.getvalue()


def npz(array: NDArray[Any]) -> bytes:
    """The array as the only one of an `.npz` file."""
    written = io.BytesIO()
    np.savez_compressed(written, data=array)
    return written.getvalue()


def csv(table: NDArray[Any]) -> bytes:
    """The table as comma-separated text."""
    return "".join(",".join(f"{value:g}" for value in row) + "\n" for row in table).encode()
