"""Input that arrives a frame at a time: the program asks for the next frame, and holds no more than one.

A recurrent network reads its input in an outer loop, in every round the next stretch of it. Then a frame is all that has to be in RAM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kilotune.codegen import ir


@dataclass(frozen=True)
class FrameStream:
    """`frames` frames of `features` features each, in the order of the input; `loop`: the index of the outer loop that reads one in
    every round, None where the whole input is one frame, asked for at the beginning. `pushed`: the program does not ask; it is called with
    each frame, and goes on from where it was."""

    loop: str | None
    frames: int
    features: int
    pushed: bool = False


def streamed(program: ir.Program) -> tuple[ir.Program, FrameStream]:
    """The program whose input is one frame, and how the frames come. Operations and variables keep their numbers.

    The input is divided where a single loop of the outermost level reads it, in its rounds one stretch after the other, and nothing
    else does. ValueError, a sentence, for a program without input.
    """
    given = program.input
    if given is None:
        raise ValueError("The program takes no input, so nothing can be streamed.")
    readers = [s for s in program.body if any(_reads(o, given.name) for o in ir.operations((s,)))]
    if len(readers) == 1 and isinstance(readers[0], ir.Loop):
        loop = readers[0]
        features = given.size // loop.count
        if features * loop.count == given.size and _within_frames(loop, given.name, features):
            variables = tuple(
                dataclasses.replace(v, shape=(features,)) if v.name == given.name else v for v in program.variables
            )
            body = tuple(_of_frame(s, given.name, loop.index) for s in program.body)
            return dataclasses.replace(program, variables=variables, body=body), FrameStream(
                loop.index, loop.count, features
            )
    return program, FrameStream(None, 1, given.size)


def _reads(operation: ir.Operation, name: str) -> bool:
    return any(isinstance(o, ir.View) and o.variable == name for o in operation.operands)


def _within_frames(loop: ir.Loop, name: str, features: int) -> bool:
    """Whether round t reads elements features * t up to features * (t + 1) alone."""
    return all(
        dict(view.offset.terms).get(loop.index, 0) == features and first >= 0 and last < features
        for view, inner in _views(loop.body, name, {})
        for first, last in [_reach(view, loop.index, inner)]
    )


def _views(
    body: tuple[ir.Statement, ...], name: str, inner: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[ir.View, Mapping[str, tuple[int, int]]]]:
    """Every view of a variable with the first and last values of the loops around it."""
    for statement in body:
        if isinstance(statement, ir.Loop):
            ends = (statement.start, statement.start + statement.count - 1)
            yield from _views(statement.body, name, {**inner, statement.index: ends})
        else:
            yield from ((o, inner) for o in statement.operands if isinstance(o, ir.View) and o.variable == name)


def _reach(view: ir.View, outer: str, inner: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The first and the last element that a view reads in round 0 of the outer loop."""
    first = last = view.offset.constant
    moves = [sorted(factor * value for value in inner[name]) for name, factor in view.offset.terms if name != outer]
    moves += [sorted((0, (extent - 1) * stride)) for extent, stride in zip(view.shape, view.strides, strict=True)]
    for least, greatest in moves:
        first, last = first + least, last + greatest
    return first, last


def _of_frame(statement: ir.Statement, name: str, loop: str) -> ir.Statement:
    if isinstance(statement, ir.Loop):
        return dataclasses.replace(statement, body=tuple(_of_frame(s, name, loop) for s in statement.body))
    changed: dict[str, Any] = {
        field.name: _view_of_frame(value, loop)
        for field in dataclasses.fields(statement)
        if isinstance(value := getattr(statement, field.name), ir.View) and value.variable == name
    }
    return dataclasses.replace(statement, **changed) if changed else statement


def _view_of_frame(view: ir.View, loop: str) -> ir.View:
    terms = tuple((index, factor) for index, factor in view.offset.terms if index != loop)
    return dataclasses.replace(view, offset=ir.Affine(view.offset.constant, terms))
