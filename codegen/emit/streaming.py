"""Input that arrives a frame at a time: the program asks for the next frame, and holds no more than one.

A recurrent network reads its input in an outer loop, in every round the next stretch of it. Then a frame is all that has to be in RAM.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kilotune.codegen import ir

COUNTER_BYTES = 2
"""RAM of the number of frames that there have been, of a program that is called with each."""


@dataclass(frozen=True)
class FrameStream:
    """`frames` frames of `features` features each, in the order of the input; `loop`: the index of the outer loop that reads one in
    every round, None where the whole input is one frame, asked for at the beginning. `pushed`: the program does not ask; it is called with
    each frame, and goes on from where it was; with a `hop`, the next sample has all of this one's frames but so many."""

    loop: str | None
    frames: int
    features: int
    pushed: bool = False
    hop: int = 0

    @property
    def whole(self) -> bool:
        """Whether the whole sample is one frame, which then lies among the temporaries."""
        return self.loop is None


def streamed(program: ir.Program, *, pushed: bool = False, hop: int = 0) -> tuple[ir.Program, FrameStream]:
    """The program whose input is one frame, and how the frames come. Operations and variables keep their numbers.

    The input is divided where a single loop of the outermost level reads it, in its rounds one stretch after the other, and nothing
    else does; otherwise the whole input is one frame, which no program can be called with in steps (`pushed`). ValueError, a sentence,
    for a program without input, and for a `pushed` one whose input is not divided: it names the operation that reads the input otherwise.
    """
    given = program.input
    if given is None:
        raise ValueError("The program takes no input, so nothing can be streamed.")
    loop = frame_loop(program, given)
    if not isinstance(loop, ir.Loop):
        if pushed:
            raise ValueError(loop)
        return program, FrameStream(None, 1, given.size)
    features = _frame_size(loop, given)
    variables = tuple(
        dataclasses.replace(v, shape=(features,)) if v.name == given.name else v for v in program.variables
    )
    body = tuple(_of_frame(s, given.name, loop.index) for s in program.body)
    divided = dataclasses.replace(program, variables=variables, body=body)
    return divided, FrameStream(loop.index, given.size // features, features, pushed, hop)


def _frame_size(loop: ir.Loop, given: ir.Variable) -> int:
    """How many features are read in a round: as many as the reading moves on, where only some rounds read any."""
    some = [s for s in loop.body if isinstance(s, ir.Periodic)]
    moves = [dict(view.offset.terms).get(loop.index, 0) for _, view, _ in _views(tuple(some), given.name, {})]
    return max(moves[0], 1) if moves else given.size // loop.count


def frame_loop(program: ir.Program, given: ir.Variable) -> ir.Loop | str:
    """The loop of the outermost level that reads one frame of the input `given` in every round, or a sentence that says which operation
    reads the input otherwise."""
    readers = [s for s in program.body if any(_reads(o, given.name) for o in ir.operations((s,)))]
    reading = [o for o in ir.operations(tuple(readers)) if _reads(o, given.name)]
    if not reading:
        return f"{given.location}: no operation reads the input, so the model is no loop over its frames"
    for statement in readers:
        if not isinstance(statement, ir.Loop):
            return _not_divided(next(ir.operations((statement,))), "reads the input outside any loop")
    (loop, *others) = [s for s in readers if isinstance(s, ir.Loop)]
    for other in others:
        again = next(o for o in ir.operations((other,)) if _reads(o, given.name))
        return _not_divided(again, f"reads the input in a second loop, after that of {loop.location}")
    features = _frame_size(loop, given)
    if given.size % features or given.size // features > loop.count:
        return _not_divided(reading[0], f"reads {given.size} features in {loop.count} rounds")
    beyond = _beyond_frames(loop, given.name, features)
    if beyond is not None:
        return _not_divided(beyond, f"reads not just the next {features} of {given.size} features in each round")
    return loop


def _not_divided(operation: ir.Operation, what: str) -> str:
    name = type(operation).__name__
    return f"{operation.location}: the model is no loop over frames of its input: {name} {what}"


def _reads(operation: ir.Operation, name: str) -> bool:
    return any(isinstance(o, ir.View) and o.variable == name for o in operation.operands)


def _beyond_frames(loop: ir.Loop, name: str, features: int) -> ir.Operation | None:
    """The first operation that reads anything but elements features * t up to features * (t + 1) in round t; None: there is none."""
    for operation, view, inner in _views(loop.body, name, {}):
        first, last = _reach(view, loop.index, inner)
        if dict(view.offset.terms).get(loop.index, 0) != features or first < 0 or last >= features:
            return operation
    return None


def _views(
    body: tuple[ir.Statement, ...], name: str, inner: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[ir.Operation, ir.View, Mapping[str, tuple[int, int]]]]:
    """Every view of a variable with the operation that reads it, and the first and last values of the loops around it."""
    for statement in body:
        if isinstance(statement, ir.Periodic):
            yield from _views(statement.body, name, inner)
        elif isinstance(statement, ir.Loop):
            ends = (statement.start, statement.start + statement.count - 1)
            yield from _views(statement.body, name, {**inner, statement.index: ends})
        else:
            views = (o for o in statement.operands if isinstance(o, ir.View) and o.variable == name)
            yield from ((statement, view, inner) for view in views)


def _reach(view: ir.View, outer: str, inner: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The first and the last element that a view reads in round 0 of the outer loop."""
    first = last = view.offset.constant
    moves = [sorted(factor * value for value in inner[name]) for name, factor in view.offset.terms if name != outer]
    moves += [sorted((0, (extent - 1) * stride)) for extent, stride in zip(view.shape, view.strides, strict=True)]
    for least, greatest in moves:
        first, last = first + least, last + greatest
    return first, last


def _of_frame(statement: ir.Statement, name: str, loop: str) -> ir.Statement:
    if isinstance(statement, ir.Loop | ir.Periodic):
        body: Any = tuple(_of_frame(s, name, loop) for s in statement.body)
        return dataclasses.replace(statement, body=body)
    changed: dict[str, Any] = {
        field.name: _view_of_frame(value, loop)
        for field in dataclasses.fields(statement)
        if isinstance(value := getattr(statement, field.name), ir.View) and value.variable == name
    }
    return dataclasses.replace(statement, **changed) if changed else statement


def _view_of_frame(view: ir.View, loop: str) -> ir.View:
    terms = tuple((index, factor) for index, factor in view.offset.terms if index != loop)
    return dataclasses.replace(view, offset=ir.Affine(view.offset.constant, terms))
