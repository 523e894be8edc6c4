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
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.evaluators.devices.toolchains import needs_avr


@pytest.fixture(scope="module")
def bonsai() -> ShiftrySpace:
    request = TuneRequest(
        "shiftry", str(resolve_input("bonsai-digits")), "refine", options={"narrow": True, "finer": True}
    )
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


@needs_avr
def test_linked_programs_are_as_much_larger_as_is_counted(bonsai: ShiftrySpace) -> None:
    """Within 60 bytes; what unpacks two widths is over 200."""
    before = None
    for formats in (
        {},
        dict.fromkeys("WVZT", "int4"),
        dict.fromkeys("WVZT", "int4 rows"),
        {"W": "int4", "Z": "int2"},
        {"W": "int3", "V": "int3"},
    ):
        batch = lowered(bonsai, **formats)
        source = emit_c(batch, bonsai.task.parameters)
        besides = build_firmware(of_emitted(source), "atmega328p").sizes.flash_bytes - source.flash_bytes
        before = besides if before is None else before
        assert abs(besides - before) < 60, formats


def test_what_a_search_measures_is_what_is_emitted(bonsai: ShiftrySpace) -> None:
    """Code, shifts of 70 rows and packed codes; 8 bits have none of the first two."""
    batch = lowered(bonsai, W="int4 rows")
    measured = bonsai.evaluator.measure(batch)[0]["flash_bytes"]
    plain = bonsai.evaluator.measure(lowered(bonsai))[0]["flash_bytes"]
    assert measured == emit_c(batch, bonsai.task.parameters).flash_bytes
    assert plain - measured == 350 - 70 - CODE_BYTES["groups 4"] - CODE_BYTES["rows"]
    assert plain == sum(np.size(v) for v in bonsai.task.parameters.values()) + 128
