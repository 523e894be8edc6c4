"""Placement as CP-SAT constraints: offsets of temporaries whose widths are given, or decided in the same model.

A pair that meets is one above the other, or shares bytes as its operation allows (`codegen.in_place`): one to four
Booleans a pair. NoOverlap2D cannot say the latter, nor does it know intervals of liveness with holes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from kilotune.codegen.interference import Interference, Meeting
from kilotune.codegen.placement import PlacedVariables, Placer
from kilotune.evaluators.constraint_solver import solved

Offsets = dict[str, cp_model.IntVar]
Linear = cp_model.LinearExpr | int
Condition = cp_model.BoundedLinearExpression | bool

FIT_EFFORT = 0.1
"""Deterministic seconds that the question whether one candidate fits may take; a repeated run answers alike."""


@dataclass(frozen=True)
class Width:
    """Bytes an element of a temporary: `expression` in the model, `choices` what it may be."""

    expression: Linear
    choices: tuple[int, ...]


def add_placement(
    model: cp_model.CpModel,
    interference: Interference,
    widths: Mapping[str, Width],
    peak: Linear,
    most: int,
) -> Offsets:
    """Constrain `peak`, at most `most` bytes, to be the extent of some placement; the offsets, in bytes."""
    elements = interference.elements
    offsets = {name: model.new_int_var(0, most, f"offset {name}") for name in interference.names}
    for name, offset in offsets.items():
        model.add(offset + elements[name] * widths[name].expression <= peak)
        if max(widths[name].choices) > 1:
            _align(model, offset, widths[name], most)
    for a, b in sorted(interference.apart):
        _one_of(model, [[_above(offsets, elements, widths, a, b)], [_above(offsets, elements, widths, b, a)]])
    for meeting in interference.meetings:
        pair = (min(meeting.result, meeting.operand), max(meeting.result, meeting.operand))
        if pair not in interference.apart and all(way.below for way in meeting.order.ways):
            _one_of(model, _sides(meeting, offsets, widths))
    return offsets


def fit(placer: Placer, bits: Mapping[str, int], limit_bytes: int) -> PlacedVariables | None:
    """A placement within a limit; None when there is none, or none is found with FIT_EFFORT."""
    model, offsets = _fixed_widths(placer, bits, limit_bytes, limit_bytes)
    solver = _solver()
    solver.parameters.max_deterministic_time = FIT_EFFORT
    if solved(solver, model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return _read(placer, bits, solver, offsets)


def best_placement(placer: Placer, bits: Mapping[str, int], seconds: float) -> tuple[PlacedVariables, int]:
    """The least placement found within `seconds` of CPU time, and the bound proved: equal when it is optimal."""
    found = placer.place(bits)
    if found.peak_bytes <= found.bound_bytes:
        return found, found.bound_bytes
    model = cp_model.CpModel()
    peak = model.new_int_var(found.bound_bytes, found.peak_bytes, "peak")
    offsets = _constrain(model, placer, bits, peak, found.peak_bytes)
    for name, offset in offsets.items():
        model.add_hint(offset, found.offsets[name])
    model.minimize(peak)
    solver = _solver()
    solver.parameters.max_time_in_seconds = seconds
    status = solved(solver, model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return found, found.bound_bytes
    return _read(placer, bits, solver, offsets), round(solver.best_objective_bound)


def _fixed_widths(placer: Placer, bits: Mapping[str, int], peak: Linear, most: int) -> tuple[cp_model.CpModel, Offsets]:
    """Larger temporaries first, each as low as it can go."""
    model = cp_model.CpModel()
    offsets = _constrain(model, placer, bits, peak, most)
    elements, held = placer.interference.elements, placer.interference.element_bytes(bits)
    order = sorted(offsets, key=lambda name: -elements[name] * held[name])
    model.add_decision_strategy(
        [offsets[name] for name in order], cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE
    )
    return model, offsets


def _constrain(model: cp_model.CpModel, placer: Placer, bits: Mapping[str, int], peak: Linear, most: int) -> Offsets:
    held = placer.interference.element_bytes(bits)
    widths = {name: Width(element_bytes, (element_bytes,)) for name, element_bytes in held.items()}
    return add_placement(model, placer.interference, widths, peak, most)


def _solver() -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver


def _read(placer: Placer, bits: Mapping[str, int], solver: cp_model.CpSolver, offsets: Offsets) -> PlacedVariables:
    held, elements = placer.interference.element_bytes(bits), placer.interference.elements
    found = {name: solver.value(offset) for name, offset in offsets.items()}
    peak = max((offset + held[name] * elements[name] for name, offset in found.items()), default=0)
    return PlacedVariables(found, peak, placer.bound_bytes(bits))


def _align(model: cp_model.CpModel, offset: cp_model.IntVar, width: Width, most: int) -> None:
    """An offset is a multiple of the element's bytes, 1, 2 or 4: what is left of it has binary digits where the width is still open."""
    greatest = max(width.choices)
    whole = model.new_int_var(0, most // greatest, "")
    if len(width.choices) == 1:
        model.add(offset == greatest * whole)
        return
    odd = model.new_bool_var("")
    if greatest == 2:
        model.add(offset == 2 * whole + odd)
        model.add(odd + width.expression <= 2)
        return
    pair = model.new_bool_var("")
    model.add(offset == 4 * whole + 2 * pair + odd)
    model.add(3 * odd + width.expression <= 4)
    model.add(2 * pair + width.expression <= 4)


def _above(
    offsets: Offsets, elements: Mapping[str, int], widths: Mapping[str, Width], low: str, high: str
) -> Condition:
    """`high` begins where `low` ends, or later."""
    return offsets[low] + elements[low] * widths[low].expression <= offsets[high]


def _sides(meeting: Meeting, offsets: Offsets, widths: Mapping[str, Width]) -> list[list[Condition]]:
    """For each way that the operation may go: the result below what is still to be read, or above it (`codegen.in_place.WriteOrder`)."""
    result, operand = widths[meeting.result], widths[meeting.operand]
    distance = offsets[meeting.result] - offsets[meeting.operand]
    sides: list[list[Condition]] = []
    for way in meeting.order.ways:
        below = [read * operand.expression - done * result.expression for read, done in way.below]
        above = [read * operand.expression - done * result.expression for read, done in way.above]
        sides += [[distance <= least for least in below], [distance >= most for most in above]]
    return sides


def _one_of(model: cp_model.CpModel, alternatives: Sequence[Sequence[Condition]]) -> None:
    """All conditions of one of the alternatives hold."""
    chosen = [model.new_bool_var("") for _ in alternatives[1:]]
    literals = [chosen[0].negated(), *chosen] if len(chosen) == 1 else [model.new_bool_var(""), *chosen]
    if len(chosen) > 1:
        model.add_bool_or(literals)
    for literal, conditions in zip(literals, alternatives, strict=True):
        for condition in conditions:
            model.add(condition).only_enforce_if(literal)
