"""The array: a program's text executed on images, every pixel's processing element at once.

Images are arrays [..., rows, columns], row 0 in the north, column 0 in the west; 256 x 256 on the chip. A register that
reads beyond the array's edge reads 0. An intermediate value can therefore lose pixels that the convolution of a
zero-padded image would have; `known` marks where every pixel that went into a result was there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import BoolArray, FloatArray
from kilotune.codegen.scamp.instructions import Instruction
from kilotune.codegen.scamp.program import Operation, ScampProgram
from kilotune.codegen.scamp.sums import Cell
from kilotune.codegen.scamp.text import parse_program

ScalarT = TypeVar("ScalarT", bound=np.generic)

ARRAY_SIZE = 256
FULL_SCALE = 127.5
"""Registers hold -127.5 to 127.5 grey levels: an 8-bit image about its middle."""


@dataclass(frozen=True)
class NoiseModel:
    """What a bus transfer adds to the value that it writes (AUKE Section 4.3), both parts Gaussian.

    `signal_dependent` is relative: the deviation is that part of the value. `signal_independent` is absolute, in grey levels.
    Parts of independent transfers add up as their squares do. The default of the first is the one in use elsewhere, 0.005 for a
    register write by a macro of two transfers; the second is an assumption, half a grey level for the same macro.
    """

    signal_dependent: float = 0.005 / np.sqrt(2)
    signal_independent: float = 0.5 / np.sqrt(2)


@dataclass(frozen=True)
class Chip:
    """How real the array is. `EXACT` computes exactly; `REAL_CHIP` saturates and has the default noise.

    `full_scale` is where registers saturate, in both directions (None: never).
    """

    full_scale: float | None = None
    noise: NoiseModel | None = None
    seed: int = 0


EXACT = Chip()
REAL_CHIP = Chip(FULL_SCALE, NoiseModel())


@dataclass(frozen=True)
class ArrayRun:
    """Results by kernel, each [..., rows, columns]; `known` [rows, columns] of each, see the module's text.

    `largest` is the largest absolute value that any register held.
    """

    results: tuple[FloatArray, ...]
    known: tuple[BoolArray, ...]
    largest: float


def run(text: str, images: npt.ArrayLike, chip: Chip = EXACT) -> ArrayRun:
    """Execute a program's text. The same seed gives the same noise.

    Raises `InputError` for text that is no program, `KeyError` for a register that is read before it is written.
    """
    program = parse_program(text)
    image = np.asarray(images, dtype=np.float64)
    generator = np.random.default_rng(chip.seed)
    values: dict[str, FloatArray] = {"A": _saturated(image, chip)}
    known: dict[str, BoolArray] = {"A": np.ones(image.shape[-2:], dtype=bool)}
    largest = float(np.abs(values["A"]).max(initial=0.0))
    read = _read(program, values, known, 0)
    for number, operation in enumerate(program.operations, start=1):
        row = program.instruction(operation)
        result = _compute(row, operation, values, image.shape)
        there = _known(row, operation, known, image.shape[-2:])
        for name, factor in zip(operation.destinations, (1, *row.left), strict=True):
            values[name] = written(result * factor, row.bus_transfers, chip, generator)
            known[name] = there
            largest = max(largest, float(np.abs(values[name]).max(initial=0.0)))
        read |= _read(program, values, known, number)
    results = [read[kernel] for kernel in range(len(program.results))]
    return ArrayRun(tuple(value for value, _ in results), tuple(there for _, there in results), largest)


def _read(
    program: ScampProgram, values: dict[str, FloatArray], known: dict[str, BoolArray], number: int
) -> dict[int, tuple[FloatArray, BoolArray]]:
    """What is read after so many instructions, by kernel."""
    times = zip(program.results, program.reading_times, strict=True)
    return {kernel: (values[name], known[name]) for kernel, (name, when) in enumerate(times) if when == number}


def shifted(image: npt.NDArray[ScalarT], by: Cell) -> npt.NDArray[ScalarT]:
    """What every element reads from the neighbour x to the east and y to the north; zeros from beyond the edge."""
    x, y = by
    rows, columns = image.shape[-2:]
    result = np.zeros_like(image)
    if abs(x) < columns and abs(y) < rows:
        result[..., max(y, 0) : rows + min(y, 0), max(-x, 0) : columns + min(-x, 0)] = image[
            ..., max(-y, 0) : rows + min(-y, 0), max(x, 0) : columns + min(x, 0)
        ]
    return result


def _compute(
    row: Instruction, operation: Operation, values: dict[str, FloatArray], shape: tuple[int, ...]
) -> FloatArray:
    offset = row.offset(operation.directions)
    result = np.zeros(shape)
    for name, sign, moved in zip(operation.sources, row.signs, row.shifted, strict=True):
        result = result + sign * (shifted(values[name], offset) if moved else values[name])
    return np.asarray(np.ldexp(result, -row.halvings), dtype=np.float64)


def _known(row: Instruction, operation: Operation, known: dict[str, BoolArray], shape: tuple[int, ...]) -> BoolArray:
    offset = row.offset(operation.directions)
    there = np.ones(shape, dtype=bool)
    for name, moved in zip(operation.sources, row.shifted, strict=True):
        there &= shifted(known[name], offset) if moved else known[name]
    return there


def written(result: FloatArray, transfers: int, chip: Chip, generator: np.random.Generator) -> FloatArray:
    """What a register holds of a result after a macro of so many bus transfers."""
    if chip.noise is not None:
        dependent = chip.noise.signal_dependent * np.sqrt(transfers)
        independent = chip.noise.signal_independent * np.sqrt(transfers)
        deviation = np.hypot(dependent * result, independent)
        result = result + deviation * generator.standard_normal(result.shape)
    return _saturated(result, chip)


def _saturated(values: FloatArray, chip: Chip) -> FloatArray:
    return values if chip.full_scale is None else np.clip(values, -chip.full_scale, chip.full_scale)
