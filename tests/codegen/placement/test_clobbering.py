"""No placement that the rules allow ever overwrites a value that is still wanted, and the rules are not idle."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.interference import Interference, find_interference
from kilotune.codegen.live_ranges import LiveRange, live_ranges
from kilotune.codegen.placement import Placer
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.placement.byte_machine import clobbered

pytestmark = pytest.mark.slow

quick = settings(suppress_health_check=list(HealthCheck), database=None)


def random_bits(program: ir.Program, seed: int) -> dict[str, int]:
    rng = np.random.default_rng(seed)
    return {v.name: int(rng.choice([8, 16, 32])) for v in program.variables}


def any_valid_placement(placer: Placer, bits: dict[str, int], seed: int) -> dict[str, int]:
    """Temporaries one by one in random order, each at a random aligned offset that the rules allow."""
    rng = random.Random(seed)
    names = list(placer.interference.names)
    widths = placer.interference.element_bytes(bits)
    room = sum(widths[n] * placer.interference.elements[n] for n in names)
    offsets: dict[str, int] = {}
    far = {n: 10 * room + 10 * room * i for i, n in enumerate(names)}
    for name in rng.sample(names, len(names)):
        places = list(range(0, room + 1, widths[name]))
        for offset in rng.sample(places, len(places)):
            if placer.find_clash(bits, {**far, **offsets, name: offset}) is None:
                offsets[name] = offset
                break
        else:
            offsets[name] = far[name] // widths[name] * widths[name]
    return offsets


@pytest.mark.parametrize("in_place", [False, True])
@given(model=random_models(), seed=st.integers(0, 2**32 - 1))
@settings(quick, max_examples=150)
def test_no_valid_placement_clobbers(in_place: bool, model: RandomModel, seed: int) -> None:
    program = model.program
    placer = Placer(find_interference(program, in_place))
    bits = random_bits(program, seed)
    widths = placer.interference.element_bytes(bits)
    found = placer.place(bits)
    assert placer.find_clash(bits, found.offsets) is None
    assert clobbered(program, widths, found.offsets, placer.backward(bits, found.offsets)) is None
    assert found.bound_bytes <= found.peak_bytes
    for turn in range(3):
        offsets = any_valid_placement(placer, bits, seed + turn)
        assert clobbered(program, widths, offsets, placer.backward(bits, offsets)) is None


def first_clobbered(programs: list[ir.Program], shorten: object) -> str | None:
    """What a broken analysis clobbers in some of the programs, at 8 bits."""
    for program in programs:
        interference = shorten(find_interference(program))  # type: ignore[operator]
        bits = {v.name: 8 for v in program.variables}
        placer = Placer(interference)
        offsets = placer.place(bits).offsets
        found = clobbered(program, interference.element_bytes(bits), offsets, placer.backward(bits, offsets))
        if found is not None:
            return found
    return None


def without_the_ends(interference: Interference) -> Interference:
    """Every value dies one operation early: operands are no longer held with the result, however it is written."""
    ranges = live_ranges(interference.program)
    short = {n: LiveRange(r.start, max(r.start, r.end - 1)) for n, r in ranges.items()}
    names = sorted(short)
    apart = {(a, b) for a in names for b in names if a < b and short[a].overlaps(short[b])}
    return dataclasses.replace(interference, apart=frozenset(apart), meetings=())


def without_the_order(interference: Interference) -> Interference:
    """Results may lie anywhere over their operands."""
    return dataclasses.replace(interference, meetings=())


def unchanged(interference: Interference) -> Interference:
    return interference


def products() -> ir.Program:
    """A chain of matrix products and a loop: each result is wanted while the whole operand still is."""
    here = ir.Location("chain.sd", 1, 1)
    square = ir.Variable("W", (3, 3), ir.Role.PARAMETER, here)
    a, b, c, d = (ir.Variable(n, (3, 3), ir.Role.TEMPORARY, here) for n in "abcd")
    v = {x.name: ir.whole(x) for x in (square, a, b, c, d)}
    body: tuple[ir.Statement, ...] = (
        ir.Copy(v["a"], here, v["W"]),
        ir.Loop("i", 0, 3, (ir.MatMul(v["b"], here, v["a"], v["W"]), ir.MatMul(v["a"], here, v["b"], v["W"])), here),
        ir.MatMul(v["c"], here, v["a"], v["W"]),
        ir.MatMul(v["d"], here, v["c"], v["a"]),
    )
    return ir.Program("chain", (square, a, b, c, d), body, v["d"], ir.ResultKind.REAL)


def test_broken_analyses_are_seen() -> None:
    """The clobber test is worth something: it fails for lives one point too short, and for orders that are ignored."""
    programs = [products()]
    assert first_clobbered(programs, unchanged) is None
    assert first_clobbered(programs, without_the_ends) is not None
    assert first_clobbered(programs, without_the_order) is not None


@pytest.mark.parametrize("broken", [without_the_ends, without_the_order])
def test_random_programs_see_broken_analyses_too(broken: object) -> None:
    @given(model=random_models())
    @settings(quick, max_examples=300, phases=[Phase.generate])
    def look(model: RandomModel) -> None:
        assert first_clobbered([model.program], broken) is None

    with pytest.raises(AssertionError, match=r"is gone (when|at)"):
        look()


def test_a_value_carried_through_a_part_written_tensor_lives_through_the_loop() -> None:
    """A loop that fills a tensor step by step and reads its first element again: the element lives from step to step."""
    here = ir.Location("parts.sd", 1, 1)
    x = ir.Variable("X", (3, 1), ir.Role.INPUT, here)
    parts = ir.Variable("parts", (3, 1), ir.Role.TEMPORARY, here)
    other = ir.Variable("other", (3, 1), ir.Role.TEMPORARY, here)
    y = ir.Variable("y", (1, 1), ir.Role.TEMPORARY, here)
    at = ir.Affine(0, (("t", 1),))
    body: tuple[ir.Statement, ...] = (
        ir.Copy(ir.View("parts", (1, 1), (1, 1), at), here, ir.View("X", (1, 1), (1, 1), at)),
        ir.Copy(ir.whole(y), here, ir.View("parts", (1, 1), (1, 1))),
        ir.Fill(ir.whole(other), here, 1.0),
        ir.Add(ir.whole(y), here, ir.whole(y), ir.View("other", (1, 1), (1, 1))),
    )
    program = ir.Program(
        "parts", (x, parts, other, y), (ir.Loop("t", 0, 3, body, here),), ir.whole(y), ir.ResultKind.REAL
    )
    assert live_ranges(program)["parts"] == LiveRange(1, 4)
    for in_place in (False, True):
        assert ("other", "parts") in find_interference(program, in_place).apart
