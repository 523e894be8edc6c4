"""Which operations run in one nest, and when their placement in RAM lets them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.fusion import OperationChain, find_chains, runs_as_one
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.emit.storage import VariableStorage, make_storage
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.experiments.problems.fixed_point.problem import resolve_input
from tests.codegen.emit.compiled import compile_sources, needs_compiler

HERE = ir.Location("chain.sd", 1, 1)
X = ir.Variable("X", (4,), ir.Role.INPUT, HERE)
OLD, MIDDLE, NEW = (ir.Variable(name, (4,), ir.Role.TEMPORARY, HERE) for name in ("old", "middle", "new"))


def storage_of(program: ir.Program, bits: dict[str, int]) -> VariableStorage:
    """Storage with those widths, 16 bits where nothing is said."""
    every = {v.name: bits.get(v.name, 16) for v in program.variables}
    return make_storage(program, every, dict.fromkeys(every, 0))


def three_sums() -> ir.Program:
    """old = X + X; middle = old + X; new = middle + X, of which the last two are one chain where old is read once more."""
    whole = {v.name: ir.whole(v) for v in (X, OLD, MIDDLE, NEW)}
    body = (
        ir.Loop("i", 0, 2, (ir.Add(whole["old"], HERE, whole["X"], whole["X"]),), HERE),
        ir.Add(whole["middle"], HERE, whole["old"], whole["X"]),
        ir.Add(whole["new"], HERE, whole["middle"], whole["X"]),
    )
    return ir.Program("sums", (X, OLD, MIDDLE, NEW), body, whole["new"], ir.ResultKind.REAL)


def test_a_recurrence_is_two_nests() -> None:
    """All sums before what is added to them; then the gate, the update and the new state, over the old one."""
    program = load_bundle(resolve_input("fastgrnn16-digits")).program
    chains = find_chains(program, storage_of(program, {}), SHAPES[PLAIN])
    kinds = [[type(o).__name__ for o in chain.operations] for chain in chains.values()]
    assert kinds[0] == ["MatMul", "MatMul", "Add"]
    assert kinds[1][0] == "Add"
    assert kinds[1][-1] == "Add"
    assert {"Sigmoid", "Tanh"} < set(kinds[1])
    assert kinds[2] == ["MatMul", "Add", "ArgMax"]
    assert [chain.out.variable for chain in chains.values()] == ["pre", "H", "t12"]


def _kinds(model: str, shape: str) -> list[list[str]]:
    program = load_bundle(resolve_input(model)).program
    chains = find_chains(program, storage_of(program, {}), SHAPES[shape])
    return [[type(o).__name__ for o in chain.operations] for chain in chains.values()]


def test_a_call_for_all_rows_goes_on_to_a_bias_and_an_activation() -> None:
    """Not where a loop follows anyway: there sums of another product are added, or the largest is chosen."""
    assert ["Conv2D", "Add", "Relu"] in _kinds("cnn-exercises", "rows4")
    recurrent = _kinds("fastgrnn16-digits", "rows4")
    assert recurrent[-1] == ["Add", "ArgMax"]
    assert not any("MatMul" in kinds for kinds in recurrent)
    assert any("MatMul" in kinds for kinds in _kinds("fastgrnn16-digits", "unrolled8"))


def test_what_others_read_is_stored() -> None:
    program = three_sums()
    (chain,) = find_chains(program, storage_of(program, {}), SHAPES[PLAIN]).values()
    assert (chain.first, chain.registers) == (1, {"middle"})
    read_again = dataclasses.replace(program, result=ir.whole(MIDDLE))
    assert not find_chains(read_again, storage_of(read_again, {}), SHAPES[PLAIN])


@pytest.mark.parametrize(
    ("widths", "offset", "runs"),
    [
        ((8, 8), 0, True),  # straight over what has been read
        ((16, 8), 0, True),  # behind it
        ((8, 16), 0, False),  # the second element is overwritten by the first
        ((8, 8), 1, False),  # one ahead
        ((8, 16), 4, True),  # clear of it
    ],
)
def test_no_element_is_overwritten_before_it_is_read(widths: tuple[int, int], offset: int, runs: bool) -> None:
    program = three_sums()
    storage = storage_of(program, {"old": widths[0], "new": widths[1]})
    chain: OperationChain = find_chains(program, storage, SHAPES[PLAIN])[1]
    assert runs_as_one(chain, storage, {"old": 0, "middle": 32, "new": offset}) is runs


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("over", [True, False])
def test_a_result_over_what_is_still_read_is_computed_afterwards(tmp_path: Path, over: bool) -> None:
    """The search places temporaries as if operations ran one after the other: `new` may lie over all of `old`, which is narrower."""
    program = three_sums()
    batch = ShiftryLowering(program, {}).lower([[8, 8, 8, 16]], [[6, 5, 4, 11]])
    features = np.array([[0.9, -0.4, 0.3, -1.0], [0.1, 0.2, -0.3, 0.4]])
    source = emit_c(batch, {}, {"old": 0, "middle": 8, "new": 0 if over else 12})
    assert source.unstored == (frozenset() if over else {1})
    found = compile_sources([source], tmp_path).run(0, features)
    np.testing.assert_array_equal(found, run_reference(batch, {}, features)[0])


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("bits", [8, 16])
def test_the_first_largest_is_chosen_of_elements_that_are_not_stored(bits: int, tmp_path: Path) -> None:
    """Also where all are equal, at the least number that there is, and where the sums are a product's with rows and columns."""
    weights = ir.Variable("W", (2, 4), ir.Role.PARAMETER, HERE)
    sums, doubled = (ir.Variable(name, (2, 3), ir.Role.TEMPORARY, HERE) for name in ("sums", "doubled"))
    given = ir.Variable("X", (12,), ir.Role.INPUT, HERE)
    label = ir.Variable("label", (), ir.Role.TEMPORARY, HERE)
    product = ir.MatMul(ir.whole(sums), HERE, ir.whole(weights), ir.View("X", (4, 3), (1, 4)))
    body = (
        product,
        ir.Add(ir.whole(doubled), HERE, ir.whole(sums), ir.whole(sums)),
        ir.ArgMax(ir.whole(label), HERE, ir.whole(doubled)),
    )
    names = (given, weights, sums, doubled, label)
    program = ir.Program("largest", names, body, ir.whole(label), ir.ResultKind.CLASS)
    widths = [bits, bits, bits, bits, 16]
    batch = ShiftryLowering(program, {}).lower([widths], [[bits - 1, bits - 1, bits - 1, bits - 2, 0]])
    parameters = {"W": np.array([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]) * (1 - 2.0 ** (1 - bits))}
    features = np.random.default_rng(1).uniform(-1, 1, (40, 12))
    features[0], features[1], features[2, 4:] = -1.0, 0.25, features[2, 0]
    source = emit_c(batch, parameters)
    assert source.unstored == {0, 1}
    expected = run_reference(batch, parameters, features)[0]
    assert len(np.unique(expected)) == 6
    np.testing.assert_array_equal(compile_sources([source], tmp_path).run(0, features), expected)
