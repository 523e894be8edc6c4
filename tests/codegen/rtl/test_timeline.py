"""When units start: dependences, side by side, ports, loops."""

from __future__ import annotations

import pytest

from kilotune.codegen import ir
from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.nests import Reach, StepNest
from kilotune.codegen.rtl.plan import make_plan
from kilotune.codegen.rtl.timeline import port_counts, schedule
from kilotune.codegen.rtl.units import NestUnit, Repeat, UnitKind, UnitPart
from tests.codegen.emit.small_network import classifier

HERE = ir.Location("timeline.sd", 1, 1)


def unit(out: str, *reads: str, steps: int = 4) -> NestUnit:
    """Steps that read some variables and write one; 1 + steps - 1 + 2 cycles."""
    reach = [Reach(name, ir.Affine(), (1,)) for name in (out, *reads)]
    operation = ir.Fill(ir.View(out, (steps,), (1,)), HERE, 0.0)
    nest = StepNest((steps,), 0, tuple(reach[1:]), reach[0])
    return NestUnit(out, 0, operation, UnitKind.ELEMENTS, nest, {UnitPart.READ: 1, UnitPart.SCALE: 1})


def test_operations_without_dependence_run_side_by_side() -> None:
    items = [unit("a", "x"), unit("b", "y"), unit("c", "a", "b")]
    timeline = schedule(items, {"x": 1, "y": 1, "a": 1, "b": 1})
    assert [(s.begin, s.end, s.after) for s in timeline.starts] == [(0, 6, None), (0, 6, None), (6, 12, 0)]
    assert timeline.cycles == 12


def test_readers_of_one_port_wait_for_each_other() -> None:
    items = [unit("a", "x"), unit("b", "x", steps=9)]
    one, two = schedule(items, {"x": 1}), schedule(items, {"x": 2})
    assert [s.begin for s in one.starts] == [0, 6]
    assert [s.begin for s in two.starts] == [0, 0]
    assert [s.slots["x"] for s in two.starts] == [(0,), (1,)]


def test_what_is_read_is_not_overwritten() -> None:
    items = [unit("a", "x"), unit("x", "y"), unit("a", "z")]
    assert [s.begin for s in schedule(items, {}).starts] == [0, 6, 6]


def test_a_loop_takes_a_cycle_more_each_time() -> None:
    timeline = schedule([Repeat("i", 0, 3, (unit("a", "x"), unit("b", "a")))], {"x": 1, "a": 1})
    assert timeline.inner[0].cycles == 12
    assert timeline.cycles == 3 * (1 + 12)


def test_ports_are_what_is_asked_for_where_that_is_of_use() -> None:
    items = [unit("a", "x", "y"), Repeat("i", 0, 2, (unit("b", "x"), unit("c", "x")))]
    assert port_counts(items, 2, frozenset()) == {"x": 2, "y": 1}
    assert port_counts(items, 9, frozenset({"y"})) == {"x": 3}


def test_more_lanes_take_fewer_cycles_and_must_divide() -> None:
    model, batch = classifier()
    product = next(i for i, o in enumerate(ir.operations(model.program.body)) if isinstance(o, ir.MatMul))
    plain = make_plan(batch, model.parameters)
    places = next(u for u in plain.units if u.row == product and isinstance(u, NestUnit)).nest.places
    assert make_plan(batch, model.parameters, HardwareDesign({product: places})).cycles < plain.cycles
    with pytest.raises(ValueError, match=f"{places + 1} lanes do not divide {places} places"):
        make_plan(batch, model.parameters, HardwareDesign({product: places + 1}))
