"""Layers of a program: their cycles sum to the program's, loops count with all their rounds, RAM is what liveness says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.layers import ROUNDED, find_layers, layer_name
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.cost_model import CostModel
from kilotune.evaluators.devices import shipped_cost_table
from kilotune.evaluators.layer_profile import profile_layers
from kilotune.evaluators.simulated import of_emitted, quantised
from tests.codegen.emit.random_programs import RandomModel, random_models, shiftry_batches
from tests.codegen.emit.small_network import classifier
from tests.evaluators.devices.toolchains import needs_avr, needs_cortex


def on_lines(program: ir.Program, lines: list[int]) -> ir.Program:
    """The program, without loops, with each operation on a line of its own choice."""
    at = [dataclasses.replace(o.location, line=n) for o, n in zip(ir.operations(program.body), lines, strict=True)]
    moved = tuple(dataclasses.replace(o, location=w) for o, w in zip(ir.operations(program.body), at, strict=True))
    return dataclasses.replace(program, body=moved)


@given(data=st.data(), model=random_models(), shape=st.sampled_from(["plain", "compact", "rows4"]))
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=20, deadline=None)
def test_layers_sum_to_the_prediction(data: st.DataObject, model: RandomModel, shape: str) -> None:
    batch = data.draw(shiftry_batches(model.program, 3))
    costs = CostModel(model.program, model.parameters, shipped_cost_table("cortex-m4"), SHAPES[shape])
    by_row = costs.cycles_by_row(batch)
    assert by_row.shape == (3, 1 + sum(1 for _ in ir.operations(model.program.body)))
    np.testing.assert_allclose(by_row.sum(axis=1), costs.cycles(batch))
    source = emit_c(batch.one(0), model.parameters, shape=SHAPES[shape])
    profile = profile_layers(model.program, source, by_row[0])
    assert profile.predicted_cycles == pytest.approx(costs.cycles(batch)[0])
    assert sorted(row for layer in find_layers(model.program, source.unstored) for row in layer.rows) == list(
        range(by_row.shape[1] - 1)
    )


def repeated(batch: FixedBatch, row: int, times: int) -> FixedBatch:
    """The batch with one operation in a loop of its own."""
    body = list(batch.program.body)
    body[row] = ir.Loop("again", 0, times, (body[row],), batch.program.variables[0].location)
    return dataclasses.replace(batch, program=dataclasses.replace(batch.program, body=tuple(body)))


def test_a_layer_in_a_loop_counts_with_all_its_rounds() -> None:
    model, batch = classifier(16)
    batch = dataclasses.replace(batch, program=on_lines(batch.program, [1, 2, 2, 3, 4]))
    profiles = []
    for candidate in (batch, repeated(batch, 3, 10)):
        costs = CostModel(candidate.program, model.parameters, shipped_cost_table("avr"))
        source = emit_c(candidate, model.parameters)
        profiles.append(profile_layers(candidate.program, source, costs.cycles_by_row(candidate)[0]))
    once, often = ([layer.predicted_cycles or 0.0 for layer in profile.layers] for profile in profiles)
    found = profiles[1].layers
    assert [layer.name for layer in found] == ["net.sd:1", "net.sd:2", "net.sd:3", "net.sd:4"]
    assert [layer.kinds for layer in found] == [("MatMul",), ("Add", "Tanh"), ("MatMul",), ("ArgMax",)]
    assert [layer.macs for layer in found] == [96, 0, 400, 0]
    assert profiles[0].layers[2].name == "net.sd:3 + net.sd:4"  # the class is chosen as the scores are made
    assert often[:2] == once[:2]
    assert 9 * once[2] < often[2] < 11 * once[2]
    assert found[2].constant_bytes == 2 * 40


def test_a_parameter_that_two_layers_read_counts_once_in_all() -> None:
    model, batch = classifier(16)
    program = on_lines(batch.program, [1, 2, 2, 3, 4])
    first = next(iter(ir.operations(program.body)))
    again = dataclasses.replace(first, location=dataclasses.replace(first.location, line=9))
    source = emit_c(batch, model.parameters)
    profile = profile_layers(dataclasses.replace(program, body=(*program.body, again)), source)
    assert profile.layers[-1].constant_bytes == profile.layers[0].constant_bytes > 0
    shared = profile.outside.constant_bytes
    assert (
        profile.constant_bytes
        == source.flash_bytes
        == sum(layer.constant_bytes for layer in profile.layers[:-1]) + shared
    )


@pytest.mark.parametrize("bits", [8, 16])
def test_flash_between_layers_is_that_of_tables(bits: int) -> None:
    model, batch = classifier(bits)
    profile = profile_layers(batch.program, emit_c(batch, model.parameters))
    (tables,) = Footprint(batch.program, model.parameters).table_bytes(batch)
    assert profile.outside.constant_bytes == tables > 0


def live_by_hand(source: CSource, program: ir.Program) -> list[int]:
    """Bytes of the RAM array that hold values during each operation of a program in which every variable is written once: from when it is
    written to when it is last read, byte by byte; operations that run as one hold theirs together, and none for what stays in registers."""
    operations = list(ir.operations(program.body))
    kept = {v.name for v in program.variables if v.role is ir.Role.TEMPORARY}
    kept -= {operations[row].out.variable for row in source.unstored}
    last = len(operations)
    busy: list[set[int]] = []
    assert source.candidate is not None
    bits = dict(zip([v.name for v in program.variables], source.candidate.batch.bits[0].tolist(), strict=True))
    for row in range(last):
        held = set()
        for name in kept:
            written = next(n for n, o in enumerate(operations) if o.out.variable == name)
            reads = [
                n
                for n, o in enumerate(operations)
                if name in {v.variable for v in o.operands if isinstance(v, ir.View)}
            ]
            until = last if name == program.result.variable else max(reads, default=written)
            width = 2 if name in ir.label_variables(program) else bits[name] // 8
            if written <= row <= until:
                start = source.offsets[name]
                held |= set(range(start, start + program.variable(name).size * width))
        busy.append(held)
    for row in sorted(source.unstored, reverse=True):
        busy[row] |= busy[row + 1]
    for row in sorted(source.unstored):
        busy[row + 1] |= busy[row]
    return [len(held) for held in busy]


@pytest.mark.parametrize("kind", list(ir.ResultKind))
def test_live_bytes_are_those_by_hand(kind: ir.ResultKind) -> None:
    model, batch = classifier(16, kind)
    source = emit_c(batch, model.parameters)
    assert list(source.live_bytes) == live_by_hand(source, batch.program)
    profile = profile_layers(on_lines(batch.program, list(range(1, batch.rows.shape[1] + 1))), source)
    assert profile.peak is not None
    assert profile.peak.ram_bytes == max(source.live_bytes) <= source.ram_bytes
    assert profile.predicted_cycles is None


@pytest.mark.parametrize(
    ("target", "level"),
    [
        pytest.param(AvrTarget, "-Os", marks=needs_avr),
        pytest.param(AvrTarget, "-O3", marks=needs_avr),
        pytest.param(partial(CortexTarget, "cortex-m0plus"), "-Os", marks=needs_cortex),
        pytest.param(partial(CortexTarget, "cortex-m4"), "-O3", marks=needs_cortex),
        pytest.param(partial(CortexTarget, "cortex-m55"), "-O3", marks=needs_cortex),
    ],
)
def test_operations_sum_to_the_marked_run(target: Callable[..., AvrTarget | CortexTarget], level: str) -> None:
    """To the cycle, with what the marks took; a layer in a loop takes all its rounds, and what is computed stays."""
    model, batch = classifier(16)
    found = []
    for candidate in (batch, repeated(batch, 3, 10)):
        source = emit_c(candidate, model.parameters)
        artefact, inputs = of_emitted(source), quantised(source, model.features[:4])
        _, run = target(level=level).run(artefact, inputs)
        marked = target(level=level).profile(artefact, inputs, 5)
        np.testing.assert_array_equal(marked.run.outputs, run.outputs)
        assert marked.cycles.sum() + marked.marks == pytest.approx(marked.run.cycles.mean(), abs=1e-6)
        assert marked.cycles.sum() == pytest.approx(run.cycles.mean(), rel=0.1)
        assert not marked.cycles[list(source.unstored)].any()
        rounds = 10 if candidate is not batch else 1
        assert marked.marks == 5 - len(source.unstored) + rounds - 1
        found.append(marked.cycles)
    once, often = found
    chosen = once[3] + once[4]  # scores and the class that they give are one layer where they are not in a loop
    assert 7 * chosen < often[3] < 12 * chosen
    assert often[0] == pytest.approx(once[0], rel=0.2)


def test_what_rounds_the_result_of_a_node_is_of_its_layer() -> None:
    add, other = ("operator 0 (ADD that writes 'y')", "operator 1 (ADD)")
    names = [layer_name(ir.Location("net.tflite", 0, 0, place)) for place in (add + ROUNDED, add, other)]
    assert names[0] == names[1] != names[2]
