"""The codes that a candidate's parameters are rounded to, given one by one: what fitting and training of codes begin with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.encoding import GivenCodes, ParameterEncoding, stored_integers
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.spaces.shiftry.candidates import ShiftryCandidates


def stored_parameters(formats: ShiftryCandidates) -> Iterator[tuple[int, FloatArray]]:
    """Column and values, of its own shape, of every parameter that is stored."""
    task, stored = formats.task, formats.evaluator.footprint.storage
    for column, variable in enumerate(task.program.variables):
        if variable.name in stored:
            yield column, np.reshape(task.parameters[variable.name], variable.shape)


def given_codes(formats: ShiftryCandidates, batch: FixedBatch, most_bits: int) -> dict[int, ParameterEncoding]:
    """By column the codes of a single candidate as they are rounded now, of all parameters of at most `most_bits` and of all that are
    encoded."""
    encodings = dict[int, ParameterEncoding]()
    for column, values in stored_parameters(formats):
        encoding, scale, bits = batch.encoding(0, column), int(batch.scales[0, column]), int(batch.bits[0, column])
        if encoding is not None:
            table = encoding.table(values, scale) if encoding.codebook else None
            encodings[column] = replace(encoding, given=GivenCodes(encoding.codes(values, scale), table))
        elif bits <= most_bits:
            codes = stored_integers(values, bits, scale, None)
            encodings[column] = ParameterEncoding(bits, given=GivenCodes(codes))
    return encodings
