"""The cost model: what it counts, that batches are counted as their members are, and how near it is to the simulator."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.ranges import narrow_sums
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.registry import boards
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES, FREE, NUMBERS
from kilotune.evaluators.cost_model import CostModel, CostTable, Timing, parse_cost_table
from kilotune.evaluators.cost_narrow import NarrowSums
from kilotune.evaluators.devices import cost_table, shipped_cost_table
from kilotune.evaluators.simulated import of_emitted, quantised
from kilotune.search.fingerprint import fingerprint
from tests.codegen.emit.random_programs import RandomModel, random_models, shiftry_batches
from tests.codegen.emit.small_network import classifier
from tests.evaluators.devices.candidates import bundled
from tests.evaluators.devices.toolchains import needs_avr

pytestmark = pytest.mark.slow

quick = settings(suppress_health_check=list(HealthCheck), database=None, max_examples=60)


def counted(batch: FixedBatch, parameters: dict[str, np.ndarray]) -> dict[str, float]:
    """What the only candidate does, by feature, shifts by nothing aside."""
    counts = CostFeatures(batch.program, parameters).terms(batch).matrix()[0]
    return {FEATURES[i]: counts[i] for i in np.flatnonzero(counts) if i != FREE}


@given(data=st.data(), model=random_models())
@quick
def test_a_batch_is_counted_as_its_members(data: st.DataObject, model: RandomModel) -> None:
    batch = data.draw(shiftry_batches(model.program, 4))
    features = CostFeatures(model.program, model.parameters)
    cycles = np.random.default_rng(0).random(len(FEATURES))
    cycles[FREE] = 0.0
    together = features.terms(batch).times(cycles)
    alone = [features.terms(batch.one(i)).times(cycles)[0] for i in range(len(batch))]
    np.testing.assert_allclose(together, alone)
    np.testing.assert_allclose(together, features.terms(batch).matrix() @ cycles)


def test_what_a_small_network_does() -> None:
    """8 rows of a sparse 8 x 12 product, two elementwise operations on 8 elements in one loop, a dense 5 x 8 product, ArgMax of 5."""
    model, batch = classifier(16)
    found = counted(batch, model.parameters)
    nonzero = np.count_nonzero(model.parameters["W"])
    assert found["tap.SparseMatMul.short"] == nonzero
    assert found["element.Add.short"] == 8
    assert not found.get("element.Tanh.short")  # the loop is the addition's
    assert found["dot.flash.16.ram.16.32"] == 40
    assert found["run.MatMul"] == 5
    assert found["scan.ArgMax.16"] == 5
    assert found["function.Tanh.16.two"] == found["fraction.16.14"] == 8
    assert found["program"] == 1


def test_widths_choose_features() -> None:
    model, batch = classifier(8)
    found = counted(batch, model.parameters)
    assert found["dot.flash.8.ram.8.16"] == 40
    assert found["function.Tanh.8.one"] == 8
    assert not any(name.startswith("load.flash.16") for name in found)


def test_steps_of_a_round_are_counted() -> None:
    """Four steps a round suit rows of 12 and 8 terms: six would leave two of 8 over, which take a call."""
    model, batch = classifier(8)
    counts = CostFeatures(batch.program, model.parameters, SHAPES["unrolled8"]).terms(batch).matrix()[0]
    assert "_by4(" in emit_c(batch, model.parameters, shape=SHAPES["unrolled8"]).source
    assert counts[NUMBERS["straight.flash.8.ram.8.16"]] == 40
    assert counts[NUMBERS["dot.flash.8.ram.8.16"]] == 0
    assert counts[NUMBERS["round"]] == 10
    assert counts[NUMBERS["rest"]] == 0


def test_steps_that_are_left_over_are_a_run_of_their_own() -> None:
    """Five rows of 18 terms: sixteen steps a round leave two over; nine would not, but rows of 16 terms are many more."""
    here = ir.Location("rest.sd", 1, 1)
    x = ir.Variable("X", (18, 1), ir.Role.INPUT, here)
    shapes = {"A": (5, 18), "B": (90, 16)}
    matrices = {name: ir.Variable(name, shape, ir.Role.PARAMETER, here) for name, shape in shapes.items()}
    outs = [ir.Variable(f"y{name}", (rows, 1), ir.Role.TEMPORARY, here) for name, (rows, _) in shapes.items()]
    short = ir.View("X", (16, 1), (1, 1))
    body = tuple(
        ir.MatMul(ir.whole(out), here, ir.whole(matrix), given)
        for out, matrix, given in zip(outs, matrices.values(), (ir.whole(x), short), strict=True)
    )
    program = ir.Program("rest", (x, *matrices.values(), *outs), body, ir.whole(outs[1]), ir.ResultKind.REAL)
    parameters = {name: np.ones(shape) for name, shape in shapes.items()}
    batch = ShiftryLowering(program, {}).lower([[8, 8, 8, 16, 16]], [[4, 4, 4, 4, 4]])
    counts = CostFeatures(program, parameters, SHAPES["unrolled16"]).terms(batch).matrix()[0]
    source = emit_c(batch, parameters, shape=SHAPES["unrolled16"]).source
    assert "_by16(" in source
    assert counts[NUMBERS["rest"]] == 5
    assert counts[NUMBERS["round"]] == 5 + 90
    assert counts[[number for name, number in NUMBERS.items() if name.startswith("dot.")]].sum() == 5 * 2


def test_loops_multiply() -> None:
    """Everything in a loop of 3 is counted 3 times."""
    here = ir.Location("loop.sd", 1, 1)
    x = ir.Variable("X", (6,), ir.Role.INPUT, here)
    y = ir.Variable("y", (6,), ir.Role.TEMPORARY, here)
    add = ir.Add(ir.whole(y), here, ir.whole(x), ir.whole(x))

    def count(body: tuple[ir.Statement, ...]) -> float:
        program = ir.Program("loop", (x, y), body, ir.whole(y), ir.ResultKind.REAL)
        return counted(ShiftryLowering(program, {}).lower([[16, 16]], [[8, 8]]), {})["element.Add.short"]

    assert count((add,)) == 6
    assert count((ir.Loop("i", 0, 3, (add,), here),)) == 18


def test_eight_bits_are_predicted_to_be_faster() -> None:
    table = shipped_cost_table("avr")
    assert table is not None
    cycles = []
    for bits in (8, 16):
        model, batch = classifier(bits)
        cycles.append(CostModel(model.program, model.parameters, table).cycles(batch)[0])
    assert cycles[0] < 0.8 * cycles[1]


@needs_avr
@pytest.mark.parametrize(
    "name", ["protonn-digits", "bonsai-digits", "fastgrnn16-digits", "fastgrnn32-digits", "lenet-digits"]
)
def test_predictions_are_near(name: str) -> None:
    """Candidates that the fit has not seen. The promise (median 5 %, worst 15 %) is measured by the benchmark."""
    table = shipped_cost_table("avr")
    assert table is not None
    errors = []
    for seed, shape in ((101, "plain"), (102, "plain"), (103, "unrolled8")):
        candidate = bundled(name, samples=6, seed=seed)
        program, parameters = candidate.batch.program, candidate.parameters
        predicted = CostModel(program, parameters, table, SHAPES[shape]).cycles(candidate.batch)[0]
        source = emit_c(candidate.batch, parameters, shape=SHAPES[shape])
        measured = AvrTarget().run(of_emitted(source), quantised(source, candidate.features))[1].cycles.mean()
        errors.append(abs(predicted / measured - 1.0))
    assert max(errors) < 0.15


@needs_avr
def test_compact_code_has_cycles_of_its_own() -> None:
    """On candidates that the fit has not seen they are nearer than those of plain code, by far."""
    table = shipped_cost_table("avr")
    assert table is not None
    plain = dataclasses.replace(table, compact={})
    errors = []
    for name in ("bonsai-digits", "fastgrnn16-digits", "fastgrnn32-digits", "gru16-digits"):
        candidate = bundled(name, samples=2, seed=105)
        source = emit_c(candidate.batch, candidate.parameters, shape=SHAPES["compact"])
        measured = AvrTarget().run(of_emitted(source), quantised(source, candidate.features))[1].cycles.mean()
        models = [
            CostModel(candidate.batch.program, candidate.parameters, t, SHAPES["compact"]) for t in (table, plain)
        ]
        errors.append([abs(model.cycles(candidate.batch)[0] / measured - 1.0) for model in models])
    own, others = np.mean(errors, axis=0)
    assert own < 0.6 * others, errors


@needs_avr
def test_more_shifts_take_longer_where_the_model_says_so() -> None:
    """The emitted code and the model agree that a long shift costs more than none."""
    table = shipped_cost_table("avr")
    assert table is not None
    model, batch = classifier(16)
    rows = batch.rows.copy()
    product = next(
        i for i, o in enumerate(ir.operations(model.program.body)) if isinstance(o, ir.MatMul) and not o.sparse
    )
    rows[0, product, 3] += 3  # SHIFT_B, of the input; parameters are stored shifted
    shifted = dataclasses.replace(batch, rows=rows)
    predicted, measured = [], []
    for one in (batch, shifted):
        predicted.append(CostModel(model.program, model.parameters, table).cycles(one)[0])
        source = emit_c(one, model.parameters)
        measured.append(AvrTarget().run(of_emitted(source), quantised(source, model.features))[1].cycles.mean())
    assert predicted[1] > predicted[0]
    assert measured[1] > measured[0]


def test_every_board_has_a_table() -> None:
    for device in boards():
        table = cost_table(device)
        assert table is not None, device.name
        assert table.made["compiler"]
        assert table.made["level"] == "-Os"


def test_tables_are_read_back() -> None:
    table = CostTable("mine", {"program": 12.5}, {"how": "by hand"})
    assert parse_cost_table(table.as_json(), "mine.json") == table
    assert table.vector()[NUMBERS["program"]] == table.vector(SHAPES["compact"])[NUMBERS["program"]] == 12.5
    both = dataclasses.replace(table, compact={"program": 20.0})
    assert parse_cost_table(both.as_json(), "mine.json") == both
    assert [both.vector(SHAPES[name])[NUMBERS["program"]] for name in ("plain", "unrolled8", "compact")] == [
        12.5,
        12.5,
        20,
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "mine.json:1:2: expected JSON"),
        ("[]", "expected a JSON object, found list"),
        ("null", "expected a JSON object, found null"),
        ("{}", "cycles: expected an object, found nothing"),
        ('{"cycles": {}, "made": 5}', "made: expected an object, found 5"),
        ('{"cycles": {}, "target": ["avr"]}', "target: expected a text, found ['avr']"),
        ('{"cycles": {}, "schema": 2}', "schema: expected 1, found 2"),
        ('{"cycles": {"warp": 3}}', "cycles.warp: expected a feature of a cost table, found an unknown name"),
        ('{"cycles": {"program": -1}}', "cycles.program: expected cycles, from 0, found -1"),
        ('{"cycles": {"program": "x"}}', "cycles.program: expected cycles, from 0, found 'x'"),
        ('{"cycles": {}, "compact": 1}', "compact: expected an object, found 1"),
        ('{"cycles": {}, "compact": {"program": -2}}', "compact.program: expected cycles, from 0, found -2"),
    ],
)
def test_wrong_tables_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_cost_table(text, "mine.json")
    assert said in str(error.value)


def test_timing_tells_tables_apart() -> None:
    one, two = (Timing(CostTable("t", {"program": cycles}, {}), 16_000_000) for cycles in (1.0, 2.0))
    renamed = Timing(CostTable("u", {"program": 1.0}, {"made": "elsewhere"}), 16_000_000)
    assert fingerprint("timing", 1, one) == fingerprint("timing", 1, renamed) != fingerprint("timing", 1, two)
    assert one.milliseconds(16_000) == 1.0
    assert json.loads(one.table.as_json())["schema"] == 1


@pytest.mark.parametrize(("factor", "narrow"), [(1.0, False), (2.0**-18, True)])
def test_sums_that_fit_16_bits_are_counted_as_such(factor: float, narrow: bool) -> None:
    """The estimate for batches agrees with what `emit.ranges` proves, for large weights and for small ones."""
    model, batch = classifier(16)
    parameters = {name: values * factor for name, values in model.parameters.items()}
    proved = narrow_sums(batch, parameters)
    rows = batch.rows.copy()
    NarrowSums(model.program, parameters).apply(batch, rows)
    assert set(np.flatnonzero(rows[0, :, Column.ACC_BITS] != batch.rows[0, :, Column.ACC_BITS])) == set(proved)
    assert bool(proved) == narrow
