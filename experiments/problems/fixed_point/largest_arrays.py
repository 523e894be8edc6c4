"""Parameters that are larger than any array that a device's compiler allows, or together more than its code can read."""

from __future__ import annotations

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.codebook import CODEBOOK_BITS, CODEBOOK_SIZE
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.codegen.fixed.footprint import ParameterStorage, parameter_storage
from kilotune.evaluators.architectures.registry import architecture_of
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.problems.fixed_point.model import ModelOptions
from kilotune.spaces.shiftry.formats import DEMOTED_BITS, WIDE_BITS

NARROWER = "--space shiftry with --narrow (fewer than 8 bits), or a device of 32 bits"


def limit_on_arrays(task: Task, options: ModelOptions) -> int | None:
    """Bytes of one array that the device's compiler allows; None where all parameters have no more in any format, or without a device.
    InputError for a parameter that has more in every format that is asked for."""
    board = options.board
    most = None if board is None else architecture_of(board.processor).most_array_bytes
    if board is None or most is None:
        return None
    program = task.program
    storage = parameter_storage(program, task.parameters)
    for name, held in storage.items():
        bits = _least_bits(options, held, sparse=program.variable(name).sparse)
        least = held.largest_array_bytes(bits)
        if least > most:
            raise InputError(
                f"parameter {name}",
                expected=f"at most {most} bytes, since the compiler of {board.name} ({board.processor}) allows no larger array",
                found=f"{held.values} values, which take {least} bytes in {bits} bits: try {NARROWER}",
            )
    return most if any(held.largest_array_bytes(WIDE_BITS) > most for held in storage.values()) else None


def flash_limit(task: Task, options: ModelOptions) -> int | None:
    """The limit on flash that was asked for, or one below it where the device's code could not read so many constants."""
    board, asked = options.board, options.flash_limit_bytes
    most = None if board is None else architecture_of(board.processor).most_constant_bytes
    storage = parameter_storage(task.program, task.parameters).values()
    if most is None or sum(held.size_bytes(WIDE_BITS) for held in storage) <= most:
        return asked
    return most if asked is None else min(asked, most)


def _least_bits(options: ModelOptions, held: ParameterStorage, *, sparse: bool) -> int:
    """The fewest bits that the values of a parameter may have."""
    if options.keep_quantisation:
        return DEMOTED_BITS
    if options.narrow:
        return 2 if sparse else min(LAYOUTS)
    return CODEBOOK_BITS if options.codebook and held.values > 2 * CODEBOOK_SIZE else DEMOTED_BITS
