"""Placements against brute force, and the RAM that a search reports against the C that it emits."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.in_place import write_orders
from kilotune.codegen.interference import find_interference
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.placement import Placer
from kilotune.search.space import SolveLimit
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.placement_model import best_placement, fit
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches
from tests.codegen.placement.byte_machine import clobbered
from tests.spaces.small_network import small_network

pytestmark = pytest.mark.slow

quick = settings(suppress_health_check=list(HealthCheck), database=None)
HERE = ir.Location("test.sd", 1, 1)


def temporary(name: str, shape: tuple[int, ...]) -> ir.Variable:
    return ir.Variable(name, shape, ir.Role.TEMPORARY, HERE)


def chain(kind: str, n: int = 3) -> ir.Program:
    """Fill a; b = kind(a); the result is b."""
    a = temporary("a", (n, 1) if kind != "matmul" else (1, n))
    b = temporary("b", (1, 2) if kind == "matmul" else (n, 1))
    weights = ir.Variable("W", (n, 2), ir.Role.PARAMETER, HERE)
    views = {v.name: ir.whole(v) for v in (a, b, weights)}
    turned = ir.View("a", (n, 1), (-1, 1), ir.Affine(n - 1))
    operation: ir.Operation = {
        "relu": lambda: ir.Relu(views["b"], HERE, views["a"]),
        "turned": lambda: ir.Relu(views["b"], HERE, turned),
        "scalar": lambda: ir.Multiply(views["b"], HERE, ir.View("a", (), (), ir.Affine(1)), views["a"]),
        "matmul": lambda: ir.MatMul(views["b"], HERE, views["a"], views["W"]),
    }[kind]()
    body = (ir.Fill(views["a"], HERE, 1.0), operation)
    return ir.Program(kind, (weights, a, b), body, views["b"], ir.ResultKind.REAL)


@pytest.mark.parametrize(("a_bits", "b_bits"), [(8, 8), (8, 16), (16, 8), (16, 16), (8, 32), (32, 16)])
@pytest.mark.parametrize("kind", ["relu", "turned", "scalar", "matmul"])
def test_forbidden_distances_are_those_that_clobber(kind: str, a_bits: int, b_bits: int) -> None:
    """Every distance tried on tagged bytes: what the order allows is safe, and the ends of what it forbids are not."""
    program = chain(kind)
    a_bytes, b_bytes = a_bits // 8, b_bits // 8
    between = write_orders(loop_steps(program))[1, "a"].forbidden(b_bytes, a_bytes)
    assert between is not None
    safe = {d: clobbered(program, {"a": a_bytes, "b": b_bytes}, {"a": 40, "b": 40 + d}) is None for d in range(-20, 21)}
    allowed = {d: not between[0] < d < between[1] for d in safe}
    assert all(safe[d] for d in safe if allowed[d])
    ends = [between[0] + 1, between[1] - 1]
    assert not any(safe[d] for d in ends)


WINDOWS = {  # image (rows, columns, channels), kernel, filters of a group, stride, padding, groups
    "padded": ((4, 3, 2), (3, 3), 2, (1, 1), (1, 1, 1, 1), 1),
    "fewer": ((4, 3, 4), (2, 3), 1, (1, 1), (1, 0, 1, 1), 1),
    "more": ((3, 3, 1), (1, 1), 3, (1, 1), (0, 0, 0, 0), 1),
    "strided": ((5, 4, 2), (3, 3), 3, (2, 2), (1, 1, 0, 1), 1),
    "depthwise": ((4, 3, 3), (3, 3), 1, (1, 1), (1, 1, 1, 1), 3),
    "grouped": ((3, 4, 4), (3, 1), 2, (1, 1), (1, 1, 0, 0), 2),
}


def convolution(kind: str) -> ir.Program:
    """Fill a; b = a convolved; the result is b."""
    (height, width, channels), kernel, filters, stride, padding, groups = WINDOWS[kind]
    sides = [
        (n + padding[2 * k] + padding[2 * k + 1] - kernel[k]) // stride[k] + 1 for k, n in enumerate((height, width))
    ]
    a, b = temporary("a", (1, height, width, channels)), temporary("b", (1, *sides, filters * groups))
    w = ir.Variable("W", (groups, *kernel, channels // groups, filters), ir.Role.PARAMETER, HERE)
    body = (
        ir.Fill(ir.whole(a), HERE, 1.0),
        ir.Conv2D(ir.whole(b), HERE, ir.whole(a), ir.whole(w), stride, padding, groups=groups),
    )
    return ir.Program(kind, (w, a, b), body, ir.whole(b), ir.ResultKind.REAL)


@pytest.mark.parametrize(("a_bits", "b_bits"), [(8, 8), (8, 16), (16, 8)])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_convolution_lies_over_its_image_wherever_one_of_its_two_ways_allows_it(
    kind: str, a_bits: int, b_bits: int
) -> None:
    """Every distance tried on tagged bytes, forward and backward: none that clobbers both ways is allowed, and the ends of what is
    forbidden clobber both ways. Of the two, `Placer.backward` names one that is safe."""
    program = convolution(kind)
    bits, widths = {"a": a_bits, "b": b_bits}, {"a": a_bits // 8, "b": b_bits // 8}
    placer = Placer(find_interference(program))
    between = write_orders(loop_steps(program))[1, "a"].forbidden(widths["b"], widths["a"]) or (0, 0)
    middle = 200
    for distance in range(-100, 101, max(widths.values())):
        offsets = {"a": middle, "b": middle + distance}
        safe = [clobbered(program, widths, offsets, back) is None for back in (frozenset(), {1})]
        if between[0] < distance < between[1]:
            at_the_end = min(distance - between[0], between[1] - distance) <= max(widths.values())
            assert not (at_the_end and any(safe))
            continue
        assert clobbered(program, widths, offsets, placer.backward(bits, offsets)) is None
        assert safe[0] or placer.backward(bits, offsets) == {1}


def test_padded_convolutions_go_to_and_fro() -> None:
    """Eight convolutions of an image of 4 x 3 x 2: each lies a row and two places beside the one before, above and below by turns."""
    (height, width, channels), kernel, filters, stride, padding, _ = WINDOWS["padded"]
    images = [temporary(f"a{n}", (1, height, width, channels)) for n in range(9)]
    w = ir.Variable("W", (1, *kernel, channels, filters), ir.Role.PARAMETER, HERE)
    views = [ir.whole(image) for image in images]
    body = (
        ir.Fill(views[0], HERE, 1.0),
        *(ir.Conv2D(b, HERE, a, ir.whole(w), stride, padding) for a, b in itertools.pairwise(views)),
    )
    program = ir.Program("chain", (w, *images), body, views[-1], ir.ResultKind.REAL)
    bits = {v.name: 8 for v in program.variables}
    placer = Placer(find_interference(program))
    placed = placer.place(bits)
    assert placed.peak_bytes == height * width * channels + (width + 2) * channels
    assert len(placer.backward(bits, placed.offsets)) == 4
    assert fit(placer, bits, placed.peak_bytes) is not None
    assert fit(placer, bits, placed.peak_bytes - 1) is None


def test_equal_widths_share_one_place() -> None:
    program = chain("relu")
    placer = Placer(find_interference(program))
    assert placer.place({v.name: 8 for v in program.variables}).peak_bytes == 3
    assert Placer(find_interference(program, in_place=False)).place({"W": 8, "a": 8, "b": 8}).peak_bytes == 6


def least_by_brute_force(placer: Placer, bits: dict[str, int], most: int) -> int:
    names = placer.interference.names
    widths = placer.interference.element_bytes(bits)
    sizes = [widths[n] * placer.interference.elements[n] for n in names]
    least = most
    for offsets in itertools.product(*(range(0, most - s + 1, widths[n]) for n, s in zip(names, sizes, strict=True))):
        peak = max(o + s for o, s in zip(offsets, sizes, strict=True))
        if peak < least and placer.find_clash(bits, dict(zip(names, offsets, strict=True))) is None:
            least = peak
    return least


@pytest.mark.parametrize("seed", range(12))
def test_the_exact_placement_is_what_brute_force_finds(seed: int) -> None:
    """Four temporaries of random sizes and widths in a program of elementwise operations and products."""
    rng = random.Random(seed)
    a, b, c, d = (temporary(n, (1, 2)) for n in "abcd")
    w = ir.Variable("W", (2, 2), ir.Role.PARAMETER, HERE)
    v = {x.name: ir.whole(x) for x in (a, b, c, d, w)}
    body: tuple[ir.Statement, ...] = (
        ir.Fill(v["a"], HERE, 1.0),
        rng.choice([ir.MatMul(v["b"], HERE, v["a"], v["W"]), ir.Relu(v["b"], HERE, v["a"])]),
        ir.Add(v["c"], HERE, v["b"], rng.choice([v["a"], v["b"]])),
        rng.choice([ir.MatMul(v["d"], HERE, v["c"], v["W"]), ir.Tanh(v["d"], HERE, v["c"])]),
    )
    program = ir.Program("four", (w, a, b, c, d), body, v["d"], ir.ResultKind.REAL)
    bits = {x.name: rng.choice([8, 16]) for x in program.variables}
    placer = Placer(find_interference(program))
    exact, bound = best_placement(placer, bits, 10.0)
    assert placer.find_clash(bits, exact.offsets) is None
    assert exact.peak_bytes == bound == least_by_brute_force(placer, bits, placer.place(bits).peak_bytes)
    assert fit(placer, bits, bound) is not None
    assert fit(placer, bits, bound - 1) is None


@pytest.mark.parametrize("in_place", [False, True])
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=60)
def test_the_reported_ram_is_that_of_the_emitted_c(in_place: bool, data: st.DataObject, model: RandomModel) -> None:
    footprint = Footprint(model.program, model.parameters, in_place)
    for batch in (data.draw(shiftry_batches(model.program, 2)), data.draw(seedot_batches(model.program))):
        ram = footprint.ram_bytes(batch.bits.astype(np.int64))
        least = footprint.least_ram_bytes(batch.bits.astype(np.int64))
        for number in range(len(batch)):
            source = emit_c(batch.one(number), model.parameters, in_place=in_place)
            assert source.variable_bytes == ram[number] >= least[number]
            assert source.variable_bytes <= source.ram_bytes <= source.variable_bytes + source.scratch_bytes + 3


@pytest.mark.parametrize("seed", range(6))
def test_a_ram_limit_is_met_by_a_placement(seed: int) -> None:
    """A candidate whose greedy placement is over a limit that its exact placement keeps is reported within it, and emitted so."""
    task = small_network()
    space = ShiftrySpace(task, ShiftryOptions())
    rng = np.random.default_rng(seed)
    for _ in range(40):
        candidate = {d.name: d.options[rng.integers(len(d.options))] for d in space.decisions}
        placed = space.placed(candidate)
        if placed.peak_bytes > placed.bound_bytes:
            break
    bits = {v.name: int(b) for v, b in zip(task.program.variables, space.lower([candidate]).bits[0], strict=True)}
    exact, bound = best_placement(space.evaluator.footprint.placer, bits, 10.0)
    assert exact.peak_bytes == bound
    for limit in (exact.peak_bytes, exact.peak_bytes - 1):
        limited = ShiftrySpace(task, ShiftryOptions(ram_limit_bytes=limit))
        ram = limited.evaluate([candidate])[0].metrics["ram_bytes"]
        assert (ram <= limit) == (limit == exact.peak_bytes)
        source = emit_c(limited.lower([candidate]), task.parameters, limited.placed(candidate).offsets)
        assert source.variable_bytes == ram


def test_the_joint_model_never_proposes_what_cannot_be_placed() -> None:
    """At every RAM limit from the least to all of 16 bits: proposals fit, and there are some wherever the least fits."""
    task = small_network()
    free = ShiftrySpace(task, ShiftryOptions())
    least = int(free.evaluator.footprint.ram_bytes(free.smallest_bits({}))[0])
    for limit in range(least - 1, 2 * least + 1):
        space = ShiftrySpace(task, ShiftryOptions(ram_limit_bytes=limit))
        answer = space.model([]).solve(3, [], 0, SolveLimit(6.0))
        fits = [m.metrics["ram_bytes"] <= limit for m in space.evaluate(list(answer.candidates))]
        assert fits == ([False] if limit < least else [True] * 3)


def test_the_papers_ram_is_that_without_in_place() -> None:
    task = small_network()
    figures = {}
    for in_place in (False, True):
        space = ShiftrySpace(task, ShiftryOptions(in_place=in_place))
        figures[in_place] = space.evaluate([{d.name: d.options[0] for d in space.decisions}])[0].metrics["ram_bytes"]
    assert figures[True] < figures[False]
