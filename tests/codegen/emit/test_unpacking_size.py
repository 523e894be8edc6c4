"""The code that reads packed parameters: how much of it a candidate is said to need, and how much it links."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.unpacking_size import CODE_BYTES, UnpackingSize
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.avr.firmware import build_firmware
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.evaluators.devices.toolchains import needs_avr


@pytest.fixture(scope="module")
def bonsai() -> ShiftrySpace:
    options = {"narrow": True, "finer": True, "codebook": True}
    request = TuneRequest("shiftry", str(resolve_input("bonsai-digits")), "refine", options=options)
    space = build_problem(request).space
    assert isinstance(space, ShiftrySpace)
    return space


def lowered(space: ShiftrySpace, **formats: str) -> FixedBatch:
    """Eight bits everywhere, but for parameters of which `formats` says how their format begins and ends."""
    chosen = {}
    for decision in space.decisions:
        begins, _, ends = formats.get(decision.name, "int8").partition(" ")
        chosen[decision.name] = next(
            o for o in decision.options if str(o).startswith(f"{begins}@") and str(o).endswith(ends or str(o)[-1])
        )
    return space.lower([chosen])


def counts(space: ShiftrySpace, **formats: str) -> dict[str, int]:
    found = UnpackingSize(space.task.program).counts(lowered(space, **formats))
    return {name: int(count[0]) for name, count in found.items() if count[0]}


def test_a_width_is_charged_once_and_each_further_one_besides(bonsai: ShiftrySpace) -> None:
    """Rows of 64 are groups at any width, rows of 10 only of 4 bits, in which the fifth byte is full."""
    assert counts(bonsai) == {}
    assert counts(bonsai, W="int4") == counts(bonsai, W="int4", V="int4", Z="int4") == {"groups 4": 1}
    assert counts(bonsai, W="int4", Z="int2") == {"groups 4": 1, "groups 2": 1}
    assert counts(bonsai, W="int2", Z="int2") == {"walk 2": 1, "groups 2": 1}
    assert counts(bonsai, W="int3") == {"one by one 3": 1, "reader 3": 1}
    # nothing is left that is read as bytes
    assert counts(bonsai, W="int4", V="int4", Z="int4", T="int4") == {"groups 4": 1, "plain run": -1}
    assert counts(bonsai, W="int4 rows") == {"groups 4": 1, "rows": 1}
    # by a table it is another function, and one more argument a parameter
    both = {"groups 4": 1, "groups 4 table": 1, "table of a run": 2}
    assert counts(bonsai, W="int4 codebook", V="int4 codebook", Z="int4") == both


@needs_avr
def test_filters_share_what_unpacks_them_and_leave_nothing_plain() -> None:
    """The second filter that is packed makes the function of plain ones go: less code than with the first alone."""
    request = TuneRequest("shiftry", str(resolve_input("lenet-digits")), "refine", options={"narrow": True})
    space = build_problem(request).space
    assert isinstance(space, ShiftrySpace)
    assert counts(space, F2="int4") == {"reader 4": 1, "filters": 1, "filter": 1}
    assert counts(space, F1="int2", F2="int2") == {"reader 2": 1, "filters": 1, "filter": 2, "plain filter": -1}
    code = []
    for formats in ({}, {"F2": "int4"}, {"F1": "int4", "F2": "int4"}):
        batch = lowered(space, **formats)
        source = emit_c(batch, space.task.parameters)
        counted = int(UnpackingSize(space.task.program).code_bytes(batch)[0])
        linked = build_firmware(of_emitted(source), "atmega328p").sizes.flash_bytes - source.flash_bytes + counted
        code.append((linked, counted))
    differences = [(linked - code[0][0], counted) for linked, counted in code[1:]]
    assert differences[1][0] < differences[0][0] < 160
    assert all(abs(linked - counted) < 40 for linked, counted in differences)


@needs_avr
def test_linked_programs_are_as_much_larger_as_is_counted(bonsai: ShiftrySpace) -> None:
    """Within 60 bytes; what unpacks two widths is over 200."""
    before = None
    for formats in (
        {},
        dict.fromkeys("WVZT", "int4"),
        dict.fromkeys("WVZT", "int4 rows"),
        dict.fromkeys("WVZ", "int4 codebook"),
        {"W": "int4", "Z": "int2"},
        {"W": "int3", "V": "int3"},
    ):
        batch = lowered(bonsai, **formats)
        source = emit_c(batch, bonsai.task.parameters)
        besides = build_firmware(of_emitted(source), "atmega328p").sizes.flash_bytes - source.flash_bytes
        before = besides if before is None else before
        assert abs(besides - before) < 60, formats


def test_what_a_search_measures_is_what_is_emitted(bonsai: ShiftrySpace) -> None:
    """Code, shifts of 70 rows or a table, and packed codes; 8 bits have none of the first two."""
    batch = lowered(bonsai, W="int4 rows")
    measured = bonsai.evaluator.measure(batch)[0]["flash_bytes"]
    plain = bonsai.evaluator.measure(lowered(bonsai))[0]["flash_bytes"]
    assert measured == emit_c(batch, bonsai.task.parameters).flash_bytes
    assert plain - measured == 350 - 70 - CODE_BYTES["groups 4"] - CODE_BYTES["rows"]
    batch = lowered(bonsai, W="int4 codebook")
    measured = bonsai.evaluator.measure(batch)[0]["flash_bytes"]
    assert measured == emit_c(batch, bonsai.task.parameters).flash_bytes
    assert plain - measured == 350 - 16 - CODE_BYTES["groups 4 table"] - CODE_BYTES["table of a run"]
    assert plain == sum(np.size(v) for v in bonsai.task.parameters.values()) + 68


def test_parameters_of_many_values_may_have_a_codebook(bonsai: ShiftrySpace) -> None:
    """Where 4 bits a value and a table take less than a byte each: T has 30 values. The integers of a table have 8 bits."""
    offered = {d.name: [str(o) for o in d.options if parse_format(str(o)).codebook] for d in bonsai.decisions}
    assert {name: options for name, options in offered.items() if options} == {
        name: [f"{next(str(o) for o in d.options if str(o).startswith('int8@')).replace('int8', 'int4')} codebook"]
        for name, d in ((d.name, d) for d in bonsai.decisions)
        if name in "WVZ"
    }
    batch = lowered(bonsai, W="int4 codebook")
    column = [v.name for v in bonsai.task.program.variables].index("W")
    integers = batch.integers(0, column, bonsai.task.parameters["W"])
    assert len(np.unique(integers)) == 16
    assert np.abs(integers - lowered(bonsai).integers(0, column, bonsai.task.parameters["W"])).max() < 16
    assert bonsai.stored_bytes("W", offered["W"][0]) == 350 + 16
