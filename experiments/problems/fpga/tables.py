"""A candidate's hardware in tables: how each operation is done, in how many cycles, on which gates."""

from __future__ import annotations

from dataclasses import astuple

from kilotune.evaluators.fpga.boards import GATE_KINDS, Gates
from kilotune.evaluators.fpga.cost_model import controller_gates, memory_gates, unit_gates, unit_path_ns
from kilotune.experiments.presentation.section import Section, Table
from kilotune.search.space import Trial
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.space import FpgaSpace


def hardware_section(space: FpgaSpace | JointSpace, trial: Trial) -> Section:
    """The floor plan by operation."""
    plan, choices, board = space.plan(trial.assignment), space.choices, space.board
    ways = choices.chosen(trial.assignment)
    gates = tuple(GATE_KINDS.values())
    units = [
        (
            choices.label(unit.row),
            ways[unit.row].option,
            "look-up tables" if ways[unit.row].soft else "",
            unit.duration,
            *astuple(unit_gates(unit, plan, board)),
            round(unit_path_ns(unit, plan, board), 2),
        )
        for unit in plan.units
    ]
    memories = sum((memory_gates(name, plan, board) for name in plan.memories), Gates())
    rest = [
        ("memories", "", "", None, *astuple(memories), None),
        ("controller", "", "", None, *astuple(controller_gates(plan, board)), None),
    ]
    banked = [
        (name, size, bits, plan.banks[name], plan.ports[name], *astuple(memory_gates(name, plan, board)))
        for name, (size, bits) in plan.memories.items()
    ]
    return Section(
        "The best hardware",
        (
            Table(
                ("operation", "lanes or elements", "products of", "cycles of a run", *gates, "longest path, ns"),
                [*units, *rest],
                "The floor plan by operation; gates are the cost model's, and so are paths, as on an empty board; cycles are exact.",
            ),
            Table(("variable", "elements", "bits", "banks", "read ports", *gates), banked, "The memories."),
        ),
    )
