"""The state of a loop is written by the operation that computes it: a copy at the end of each round falls away, with the variable that it
copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kilotune.codegen.ir import (
    Copy,
    Loop,
    Operation,
    Periodic,
    Program,
    Role,
    Statement,
    View,
    operations,
    whole,
    with_views,
)
from kilotune.codegen.language.views import reshaped


def with_states_in_place(program: Program) -> Program:
    """The program without copies, in loops, of a variable into another that can take its place.

    Such a variable is written once a round, as a whole, and is read by nothing outside of the loop; from where it is written to where it
    is copied nothing reads or writes the other, which nothing else in the loop writes.
    """
    for loop in [statement for statement in program.body if isinstance(statement, Loop)]:
        changed = True
        while changed:
            changed = False
            for place in range(len(loop.body)):
                shorter = _without_copy(program, loop, place)
                if shorter is not None:
                    program, loop = shorter
                    changed = True
                    break
    return program


def _without_copy(program: Program, loop: Loop, place: int) -> tuple[Program, Loop] | None:
    """The program, and the loop, without the copy at that place of its body, where it is one that can go."""
    copy = loop.body[place]
    if not isinstance(copy, Copy) or copy.a.variable == copy.out.variable or not _is_of_all(program, copy):
        return None
    value, state = copy.a.variable, copy.out.variable
    outside = [statement for statement in program.body if statement is not loop]
    if _touches(outside, value) or program.result.variable == value or _only_writer(loop.body, state) != place:
        return None
    writer = _only_writer(loop.body[:place], value)
    if writer is None or not _writes_whole(loop.body[writer], program.variable(value).size):
        return None
    if _touches(loop.body[:writer], value) or _touches(loop.body[writer:place], state):
        return None
    body = tuple(_renamed(s, value, state) for k, s in enumerate(loop.body) if k != place)
    shorter = replace(loop, body=body)
    statements = tuple(shorter if statement is loop else statement for statement in program.body)
    variables = tuple(variable for variable in program.variables if variable.name != value)
    return replace(program, variables=variables, body=statements), shorter


def _is_of_all(program: Program, copy: Copy) -> bool:
    """Whether a copy takes all elements of one temporary, in their order, to another."""
    variables = [(view, program.variable(view.variable)) for view in (copy.a, copy.out)]
    return all(v.role is Role.TEMPORARY and _is_whole(view, whole(v)) for view, v in variables)


def _is_whole(view: View, all_of_it: View) -> bool:
    """Whether a view is all elements of its variable in their order."""
    return view.size == all_of_it.size and reshaped(view, all_of_it.shape) == all_of_it


def _writes_whole(statement: Statement, size: int) -> bool:
    return isinstance(statement, Operation) and statement.out.size == size


def _only_writer(body: Sequence[Statement], name: str) -> int | None:
    """The place of the only statement that writes a variable; None where there are none or several."""
    places = [k for k, statement in enumerate(body) if any(o.out.variable == name for o in operations((statement,)))]
    return places[0] if len(places) == 1 else None


def _touches(body: Sequence[Statement], name: str) -> bool:
    return any(
        view.variable == name
        for operation in operations(tuple(body))
        for view in (operation.out, *operation.operands)
        if isinstance(view, View)
    )


def _renamed(statement: Statement, name: str, new: str) -> Statement:
    if isinstance(statement, Loop):
        return replace(statement, body=tuple(_renamed(inner, name, new) for inner in statement.body))
    if isinstance(statement, Periodic):
        raise TypeError("states are put in place before a program takes its input frame by frame")
    return with_views(statement, lambda view: replace(view, variable=new) if view.variable == name else view)
