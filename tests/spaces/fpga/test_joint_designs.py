"""Formats that are decided for a design, and designs that are made for formats narrower than the accuracy allows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from kilotune.codegen import ir
from kilotune.evaluators.constraint_solver import SolverClock
from kilotune.evaluators.fpga.boards import GATE_KINDS, find_board
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Option, SolveLimit, Trial
from kilotune.spaces.fpga.candidates import HardwareGoal
from kilotune.spaces.fpga.choices import PORTS
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.joint_designs import FasterDesigns
from kilotune.spaces.fpga.joint_formats import DesignFormats
from kilotune.spaces.fpga.joint_parts import operation_signature, reached_variables
from kilotune.spaces.fpga.model import KnapsackModel
from kilotune.spaces.fpga.parts import PartTable
from kilotune.spaces.shiftry.space import ShiftrySpace

LIMIT = SolveLimit(5.0)


@cache
def joint(model: str, permitted_loss: float = 0.1, narrow: bool = False) -> JointSpace:
    """Half of an ECP5-25F, so that gates bind."""
    space = build_problem(request_from("fpga", input=model, options={"joint": True})).space
    assert isinstance(space, JointSpace)
    formats = ShiftrySpace(
        space.formats.task, replace(space.formats.options, permitted_loss=permitted_loss, narrow=narrow)
    )
    board = find_board("ecp5-25f")
    gates = replace(board.gates, luts=3000, multipliers=14)
    return JointSpace(formats, model, board, HardwareGoal(budget=gates))


def of_width(space: JointSpace, bits: int) -> dict[str, Option]:
    return {d.name: next(o for o in d.options if str(o).startswith(f"int{bits}@")) for d in space.formats.decisions}


def fastest(space: JointSpace, formats: Assignment) -> Trial:
    found = KnapsackModel(space.unrolling(formats), []).solve(1, [], 0, LIMIT).candidates[0]
    candidate = {**formats, **found}
    return Trial(0, candidate, space.evaluate([candidate])[0])


@pytest.mark.parametrize("model", ["mlp-diabetes", "protonn-cancer"])
def test_parts_that_are_remembered_are_those_of_the_formats_at_hand(model: str) -> None:
    """Also where only the integers of a parameter differ, or only how far results are shifted."""
    space, rng = joint(model, narrow=True), random.Random(1)
    formats = of_width(space, 8)
    for step in range(5):
        for changed in space.formats.decisions:
            same = [o for o in changed.options if str(o).startswith(("int8@", "int4@", "int2@"))]
            if step and rng.random() < 0.5:
                formats = {**formats, changed.name: rng.choice(changed.options if rng.random() < 0.2 else same)}
        table = space.unrolling(formats).tables[True, rng.choice(PORTS)]
        plain = PartTable(table.choices, table.batch, table.parameters, table.board, True, table.ports)
        assert table.parts == plain.parts
        assert table.levels == plain.levels


@pytest.mark.parametrize("changed", ["W1", "t2"])
def test_signatures_differ_where_integers_or_widths_do(changed: str) -> None:
    """Only where they are read or written: all other operations' parts are known."""
    space = joint("mlp-diabetes")
    plan = space.unrolling(of_width(space, 8)).tables[True, 1].sequential
    if changed in plan.constants:
        other = replace(plan, constants={**plan.constants, changed: plan.constants[changed] + 1})
    else:
        size, bits = plan.memories[changed]
        other = replace(plan, memories={**plan.memories, changed: (size, bits + 8)})
    operations = list(ir.operations(plan.batch.program.body))
    differing = {
        row for row in range(len(operations)) if operation_signature(plan, row) != operation_signature(other, row)
    }
    assert differing
    assert differing == {row for row, o in enumerate(operations) if changed in reached_variables(o)}


def test_formats_for_a_design_are_the_brute_force_optimum() -> None:
    space, rng = joint("mlp-diabetes"), random.Random(2)
    base = of_width(space, 8)
    start = fastest(space, base)
    hardware = {d.name: start.assignment[d.name] for d in space.choices.decisions}
    names = [d.name for d in space.formats.decisions]
    varied = names[:3] + names[-4:]
    offered = {
        d.name: (base[d.name], d.options[0]) if d.name in varied else (base[d.name],) for d in space.formats.decisions
    }
    errors = {name: {o: (0.0 if o != base[name] else rng.uniform(0.5, 2.0)) for o in offered[name]} for name in names}
    measured = {}
    for options in itertools.product(*offered.values()):
        candidate = {**dict(zip(names, options, strict=True)), **hardware}
        measured[options] = space.evaluate([candidate])[0].metrics
    there = space.goal.budget or space.board.gates
    latency_us = 1.001 * start.measurement.metrics["latency_us"]
    fast = [options for options, found in measured.items() if found["latency_us"] < latency_us]
    taken = sorted(measured[options]["luts"] for options in fast)
    tight = replace(there, luts=int(taken[len(taken) // 2]))
    small = JointSpace(space.formats, "small", space.board, HardwareGoal(budget=tight))
    known = DesignFormats(small, base, offered, hardware)

    def error(options: tuple[Option, ...]) -> float:
        return sum(errors[name][option] for name, option in zip(names, options, strict=True))

    def roomy(found: Mapping[str, float]) -> bool:
        return all(found[kind] <= getattr(tight, kind) for kind in GATE_KINDS)

    fitting = [options for options in fast if roomy(measured[options])]
    assert 0 < len(fitting) < len(fast) < len(measured)
    assert min(map(error, fast)) < min(map(error, fitting))
    chosen = known.cheapest(latency_us, errors, [], SolverClock(5.0))
    assert chosen is not None
    assert error(tuple(chosen[name] for name in names)) == pytest.approx(min(map(error, fitting)), abs=1e-5)
    roomier = DesignFormats(space, base, offered, hardware).cheapest(latency_us, errors, [], SolverClock(5.0))
    assert roomier is not None
    assert error(tuple(roomier[name] for name in names)) == pytest.approx(min(map(error, fast)), abs=1e-5)
    changed = {name: option for name, option in chosen.items() if len(offered[name]) > 1}
    other = known.cheapest(latency_us, errors, [changed], SolverClock(5.0))
    assert other is not None
    assert other != chosen
    assert known.cheapest(0.01, errors, [], SolverClock(5.0)) is None


def test_a_clock_is_kept_by_no_more_narrow_formats_than_it_takes() -> None:
    space = JointSpace(joint("mlp-diabetes").formats, "roomy", find_board("ecp5-25f"))
    wide, narrow = of_width(space, 16), of_width(space, 8)
    fast = fastest(space, narrow)
    hardware = {d.name: fast.assignment[d.name] for d in space.choices.decisions}
    known = DesignFormats(space, wide, {name: (wide[name], narrow[name]) for name in wide}, hardware)
    errors = {name: {wide[name]: 0.0, narrow[name]: 1.0} for name in wide}
    clock_mhz = fast.measurement.metrics["clock_mhz"]
    chosen = known.cheapest(1.001 * known.plan.cycles / clock_mhz, errors, [], SolverClock(5.0))
    assert chosen is not None
    assert sum(chosen[name] == narrow[name] for name in wide) == 1
    assert space.evaluate([{**chosen, **hardware}])[0].metrics["clock_mhz"] == pytest.approx(clock_mhz)


def test_formats_are_wide_where_a_fast_design_has_no_use_for_narrow_ones() -> None:
    """Shiftry's widths keep the accuracy and 16 bits in an operation that ends the clock; together, the clock is 8 bits' and most
    variables have 16."""
    space = joint("mlp-diabetes", permitted_loss=0.08)
    ranking = Ranking.of(space)
    wide, narrow = (fastest(space, of_width(space, bits)) for bits in (16, 8))
    assert ranking.rank(wide.measurement)[0] == 0.0
    assert ranking.rank(narrow.measurement)[0] > 0.0  # all 8 bits lose too much
    standing = replace(LIMIT, seconds=0.001, clock=lambda: 0.0)  # seconds are the clock's, however long it takes
    candidates = FasterDesigns(space, wide, 0, standing).run(noisy=False)
    measured = [space.evaluate([candidate])[0] for candidate in candidates]
    ranks = [ranking.rank(wide.measurement), *map(ranking.rank, measured)]
    assert all(later[:2] <= earlier[:2] for earlier, later in itertools.pairwise(ranks))
    assert measured[-1].metrics["latency_us"] == pytest.approx(narrow.measurement.metrics["latency_us"])
    assert sum(str(option).startswith("int16") for option in space.formats_in(candidates[-1]).values()) >= 8
