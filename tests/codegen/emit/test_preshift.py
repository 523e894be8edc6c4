"""Which parameters are stored divided: those of whole integers, however these were chosen; codes are divided when they are read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.preshift import preshift
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.encoding import GivenCodes, ParameterEncoding, RowShifts
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch, unencoded

CODES = np.array([[3, 0, 0, 0], [8, 11, 12, -8], [-11, -12, -13, 127]])
"""Some of which lie halfway between two quarters."""


def biased(encoding: ParameterEncoding | None, rounding: Rounding) -> FixedBatch:
    """R = X + B, of 8 bits, of which B has four times the scale of the others."""
    here = ir.Location("bias.sd", 1, 1)
    roles = {"B": ir.Role.PARAMETER, "X": ir.Role.INPUT, "R": ir.Role.TEMPORARY}
    made = {name: ir.Variable(name, CODES.shape, role, here) for name, role in roles.items()}
    v = {name: ir.whole(variable) for name, variable in made.items()}
    program = ir.Program(
        "bias", tuple(made.values()), (ir.Add(v["R"], here, v["X"], v["B"]),), v["R"], ir.ResultKind.REAL
    )
    encoded = unencoded((1, 3))
    encoded[0, 0] = -1 if encoding is None else 0
    encodings = () if encoding is None else (encoding,)
    return ShiftryLowering(program, {}, rounding).lower([[8, 8, 8]], [[7, 5, 5]], encoded, encodings)


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("given", [None, GivenCodes(CODES)])
def test_whole_integers_are_stored_divided_however_they_were_chosen(
    given: GivenCodes | None, rounding: Rounding
) -> None:
    values = CODES / 128.0
    plain, chosen = biased(None, rounding), biased(ParameterEncoding(8, given=given), rounding)
    parameters = {"B": values if given is None else np.zeros(CODES.shape)}
    assert preshift(chosen)[1] == {"B": preshift(plain)[1]["B"]}
    emitted = emit_c(chosen, parameters).source.replace("stored in 8, ", "")
    assert emitted == emit_c(plain, {"B": values}).source


@pytest.mark.parametrize("encoding", [ParameterEncoding(6), ParameterEncoding(6, rows=RowShifts((0,), (0, 0, 1)))])
def test_codes_are_divided_when_they_are_read(encoding: ParameterEncoding) -> None:
    batch = biased(encoding, Rounding.NEAREST)
    assert preshift(batch)[1] == {}
    assert np.array_equal(preshift(batch)[0], batch.rows[0])


def test_each_candidate_of_a_batch_by_its_own_encoding() -> None:
    whole, packed = biased(ParameterEncoding(8), Rounding.NEAREST), biased(ParameterEncoding(6), Rounding.NEAREST)
    encodings = (*packed.encodings, *whole.encodings)
    for number, is_divided in ((-1, True), (0, False), (1, True)):
        encoded = unencoded((1, 3))
        encoded[0, 0] = number
        both = dataclasses.replace(whole, encoded=encoded, encodings=encodings)
        assert bool(preshift(both)[1]) == is_divided
