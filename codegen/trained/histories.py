"""States that a recurrent operator keeps for every step, of which only the last is read: then the state itself is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen.ir import Affine, Loop, Operation, Periodic, Program, Statement, View, operations, with_views
from kilotune.codegen.straight_line import elements_of
from kilotune.codegen.trained.builder import History


def without_histories(program: Program, histories: Sequence[History]) -> Program:
    """The program without the copies of states that nothing but a last state is read of."""
    for history in histories:
        reads = [view for operation in operations(program.body) for view in _read(operation, history)]
        reads += [program.result] if program.result.variable == history.states else []
        size = program.variable(history.state).size
        if reads and all(_within(view, history.last, size) for view in reads):
            program = _replaced(program, history)
    return program


def _read(operation: Operation, history: History) -> list[View]:
    return [v for v in operation.operands if isinstance(v, View) and v.variable == history.states]


def _within(view: View, first: int, size: int) -> bool:
    if view.offset.terms:
        return False
    numbers = elements_of(view, {})
    return bool(np.all((numbers >= first) & (numbers < first + size)))


def _replaced(program: Program, history: History) -> Program:
    body = tuple(_in_statement(statement, history) for statement in program.body)
    variables = tuple(v for v in program.variables if v.name != history.states)
    return replace(program, variables=variables, body=body, result=_moved(program.result, history))


def _in_statement(statement: Statement, history: History) -> Statement:
    if isinstance(statement, Periodic):
        raise TypeError("histories are looked for before a program takes its input frame by frame")
    if isinstance(statement, Loop):
        kept = [
            _in_statement(inner, history)
            for inner in statement.body
            if isinstance(inner, Loop | Periodic) or inner.out.variable != history.states
        ]
        return replace(statement, body=tuple(kept))
    return with_views(statement, lambda view: _moved(view, history))


def _moved(view: View, history: History) -> View:
    if view.variable != history.states:
        return view
    return replace(view, variable=history.state, offset=view.offset + Affine(-history.last))
