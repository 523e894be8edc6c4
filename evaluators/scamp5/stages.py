"""What the array holds on the way: the image that each instruction of a program writes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.scamp.text import format_program, parse_program
from kilotune.evaluators.scamp5.array import EXACT, Chip, run


def images_after(text: str, image: npt.ArrayLike, chip: Chip = EXACT) -> tuple[FloatArray, ...]:
    """By instruction the image [rows, columns] in the register that it writes first. Raises as `array.run`."""
    program = parse_program(text)
    given = np.asarray(image, dtype=np.float64)
    written = []
    for count, operation in enumerate(program.operations, start=1):
        begun = replace(
            program, operations=program.operations[:count], results=operation.destinations[:1], read_after=()
        )
        written.append(run(format_program(begun), given, chip).results[0])
    return tuple(written)
