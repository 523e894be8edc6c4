"""Smaller float programs: a choice between two branches is left out, and with it all that only the other branch needs.

A decision tree such as Bonsai's has a choice at every inner node. Without one, its node takes one of the two ways always; the weights of
the other way, which nothing reads any more, are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kilotune.codegen import ir
from kilotune.codegen.shared_axes import SharedAxes, with_all_views
from kilotune.codegen.unit_pruning import SmallerModel


@dataclass(frozen=True)
class Branch:
    """One of two branches of a choice, number `way`: `chosen`, the values of which it gives to a variable called `name`."""

    name: str
    way: int
    chosen: ir.View


def branches(program: ir.Program) -> Iterator[Branch]:
    """What choices of a program may be replaced by. None in a program with loops, where a value may be another one later."""
    operations = list(ir.operations(program.body))
    if len(operations) != len(program.body):
        return
    read = [one for operation in operations for one in operation.operands if isinstance(one, ir.View)]
    for operation in operations:
        if not isinstance(operation, ir.Select):
            continue
        name, whole = operation.out.variable, ir.whole(program.variable(operation.out.variable))
        written = [one for one in operations if one.out.variable == name]
        plain = len(written) == 1 and all(view == whole for view in read if view.variable == name)
        if plain and operation.out == whole and program.result.variable != name:
            yield from (
                Branch(name, way, one)
                for way, one in enumerate((operation.a, operation.b))
                if isinstance(one, ir.View) and one.shape == whole.shape
            )


def without_choice(model: SmallerModel, branch: Branch) -> SmallerModel:
    """The model that always takes a branch."""
    program = model.program
    body = tuple(one for one in program.body if not _writes(one, branch.name))
    body = with_all_views(body, lambda view: branch.chosen if view.variable == branch.name else view)
    body = _needed(program, body)
    used = ir.used_variables(replace(program, body=body))
    program = replace(program, body=body, variables=tuple(v for v in program.variables if v.name in used))
    kept = {axis: places for axes, places in SharedAxes(program, model.parts).groups(sliced=True) for axis in axes}
    return replace(model.without(program, kept), choices=(*model.choices, (branch.name, branch.way)))


def _writes(statement: ir.Statement, name: str) -> bool:
    return not isinstance(statement, ir.Loop | ir.Periodic) and statement.out.variable == name


def _needed(program: ir.Program, body: Sequence[ir.Statement]) -> tuple[ir.Statement, ...]:
    """Statements, none of which is a loop, that the result hangs on."""
    needed, kept = {program.result.variable}, list[ir.Statement]()
    for statement in reversed(body):
        if not isinstance(statement, ir.Loop | ir.Periodic) and statement.out.variable in needed:
            needed |= {one.variable for one in statement.operands if isinstance(one, ir.View)}
            kept.append(statement)
    return tuple(reversed(kept))
