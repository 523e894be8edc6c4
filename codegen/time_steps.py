"""A model whose layers walk along time (1-D convolutions and pools, 2-D ones over time and frequency) as a loop over frames of its
input.

Every round takes one frame and computes the columns of each layer that it completes, and none twice: a layer keeps of the one before it
only the last columns that its window reaches (`time_columns`). What needs all of time (a dense layer, a pool over everything) comes
behind the loop. So a sample needs RAM for windows instead of whole images, and where nothing is padded along time, overlapping
samples share all but the last frames.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kilotune.codegen import ir
from kilotune.codegen.time_columns import TimeColumns, TimeWalk

ROUND = "frame"
"""The loop's index."""


@dataclass(frozen=True)
class FramedProgram:
    """`order`: which feature of the model's order is feature n of the frames, one after the other. `hop`: after so many further frames, or
    a multiple, the window that ends there has its result too; 0 where padding along time makes every window one of its own."""

    program: ir.Program
    order: tuple[int, ...]
    hop: int


@dataclass(frozen=True)
class _ColumnRounds:
    """In which rounds columns come: those that are kept move on, and operations make the new ones."""

    first: int
    every: int
    count: int
    moved: tuple[ir.Operation, ...]
    made: tuple[ir.Operation, ...]

    @property
    def statement(self) -> ir.Periodic:
        """Both, as a part of the loop."""
        return ir.Periodic(ROUND, self.first, self.every, self.count, (*self.moved, *self.made), self.made[0].location)


def over_frames(program: ir.Program, *, overlapping: bool = False) -> FramedProgram:
    """The program as a loop over the frames of its input, along the first axis along which a window moves; it computes the same.

    With `overlapping` what is kept of layers outlasts a sample, so that the next one may begin inside it (`FramedProgram.hop`). ValueError,
    a sentence, that names the first operation that does not let it.
    """
    given = program.input
    if given is None:
        raise ValueError("The program takes no input, so nothing can be streamed.")
    failures: list[str] = []
    without_windows: FramedProgram | None = None
    for axis in _candidate_axes(program, given):
        try:
            walk = TimeWalk(program, given, axis)
            made = _Stepping(walk, overlapping).made()
        except ValueError as error:
            failures.append(str(error))
            continue
        if any(isinstance(one.operations[0], ir.Windowed) for one in walk.computed):
            return made
        without_windows = without_windows or made
    if without_windows is not None:
        return without_windows
    if failures:
        raise ValueError(failures[0])
    raise ValueError(
        f"{given.location}: the model walks along no axis of its input, so it cannot take it frame by frame"
    )


def _candidate_axes(program: ir.Program, given: ir.Variable) -> Iterator[TimeColumns]:
    """How the input may lie along time: by the axes of windows that read it first, then by those of what else does."""
    seen, extents = set(), dict(zip(ir.row_major_strides(given.shape), given.shape, strict=True))
    readers = [o for o in ir.operations(program.body) if any(_reads(view, given.name) for view in o.operands)]
    for operation in sorted(readers, key=lambda o: not isinstance(o, ir.Windowed)):
        for view in (item for item in operation.operands if isinstance(item, ir.View) and item.variable == given.name):
            axes = (1, 2) if isinstance(operation, ir.Windowed) else range(len(view.shape))
            for axis in axes:
                count, stride = view.shape[axis], view.strides[axis]
                whole = given.size % (count * stride) == 0 if stride > 0 else False
                if count > 1 and whole and (count, stride) not in seen and count >= extents.get(stride, count):
                    seen.add((count, stride))
                    yield TimeColumns(stride, count, given.size // count)


def _reads(item: ir.Operand, name: str) -> bool:
    return isinstance(item, ir.View) and item.variable == name


@dataclass(frozen=True)
class _Stepping:
    """Makes the program of a walk."""

    walk: TimeWalk
    overlapping: bool

    def made(self) -> FramedProgram:
        for name, buffer in self.walk.buffers.items():
            if buffer.whole:
                buffer.length = max(buffer.length, self.walk.columns[name].count + buffer.zeros)
        kept = self._kept_input()
        statements = [*self._rounds(self.walk.given.name, ())] if kept else []
        for one in self.walk.computed:
            statements += self._rounds(one.name, one.operations)
        rounds = max(s.first + s.every * (s.count - 1) for s in statements) + 1
        hop, given = self._hop(rounds), self.walk.given
        body = tuple(one.statement for one in _joined(statements))
        late = tuple(self._late(statement) for statement in self.walk.behind)
        if self.overlapping and hop:  # inside the loop what is kept from round to round stays clear of it
            operations = tuple(o for o in late if not isinstance(o, ir.Loop | ir.Periodic))
            last = self.walk.input_columns.count - 1
            body, late = (*body, ir.Periodic(ROUND, last, 1, 1, operations, given.location)), ()
        loop = ir.Loop(ROUND, 0, max(rounds, self.walk.input_columns.count), body, given.location)
        fills = [
            ir.Fill(ir.whole(self._stored(name)), given.location, buffer.padding)
            for name, buffer in self.walk.buffers.items()
            if buffer.padding is not None
        ]
        result = self._kept_columns(self.walk.program.result)
        program = dataclasses.replace(
            self.walk.program, variables=self._variables(), body=(*fills, loop, *late), result=result
        )
        return FramedProgram(program, self._order(), hop)

    def _variables(self) -> tuple[ir.Variable, ...]:
        """Those of the program, of layers as far as they are kept, and the input as its frames lie one after the other."""
        found = []
        for variable in self.walk.program.variables:
            if variable.name == self.walk.given.name:
                found.append(dataclasses.replace(variable, shape=(variable.size,)))
            else:
                found.append(self._stored(variable.name) if variable.name in self.walk.columns else variable)
        return (*found, *([self._stored(self.walk.given.name)] if self._kept_input() else []))

    def _kept_input(self) -> bool:
        """Whether more than the frame that there is has to be kept, or zeros take its place behind the last one."""
        buffer = self.walk.buffers[self.walk.given.name]
        return buffer.length > 1 or buffer.zeros > 0

    def _stored(self, name: str) -> ir.Variable:
        """The variable with the columns that are kept; of the input, a variable beside it."""
        buffer, columns, known = self.walk.buffers[name], self.walk.columns[name], self.walk.program.variable(name)
        if name != self.walk.given.name:
            return dataclasses.replace(known, shape=(buffer.length, columns.size))
        return ir.Variable(
            f"{name}_kept", (buffer.length, columns.size), ir.Role.TEMPORARY, known.location, known.declared_range
        )

    def _rounds(self, name: str, operations: Sequence[ir.Operation]) -> Iterator[_ColumnRounds]:
        """The rounds in which a variable gets a column. `operations`: what computes it, none for the input, whose frames are copied."""
        buffer, columns, location = self.walk.buffers[name], self.walk.columns[name], self.walk.given.location
        stored, last = self._stored(name).name, (buffer.length - 1) * columns.size
        shift: tuple[ir.Operation, ...] = ()
        if buffer.length > 1:
            shape, strides = ((last,), (1,))
            kept = ir.View(stored, shape, strides, ir.Affine(columns.size))
            shift = (ir.Copy(ir.View(stored, shape, strides), location, kept),)
        column = ir.View(stored, (columns.size,), (1,), ir.Affine(last))
        made: tuple[ir.Operation, ...] = (ir.Copy(column, location, self._frame()),)
        if operations:
            made = tuple(
                dataclasses.replace(one, out=column) if isinstance(one, ir.Fill) else self._of_column(one)
                for one in operations
            )
        yield _ColumnRounds(columns.first, columns.every, columns.count, shift, made)
        if buffer.zeros:
            behind = columns.first + columns.every * columns.count
            padded = ir.Fill(column, location, buffer.padding or 0.0)
            yield _ColumnRounds(behind, columns.every, buffer.zeros, shift, (padded,))

    def _frame(self) -> ir.View:
        size = self.walk.input_columns.size
        return ir.View(self.walk.given.name, (size,), (1,), ir.Affine(0, ((ROUND, size),)))

    def _of_column(self, operation: ir.Operation) -> ir.Operation:
        """The operation for one column of its result."""
        when = self.walk.columns[operation.out.variable]
        axis = when.axis(operation.out)
        assert axis is not None
        changed: dict[str, Any] = {"out": self._part(operation, operation.out, axis, 1, 0)}
        for entry in dataclasses.fields(operation):
            value = getattr(operation, entry.name)
            if entry.name == "out" or not isinstance(value, ir.View):
                continue
            if value.variable in self.walk.columns:
                one = self.walk.columns[value.variable]
                if isinstance(operation, ir.Windowed):
                    changed[entry.name] = self._part(operation, value, axis, self.walk.window(operation, axis)[0], 0)
                else:
                    changed[entry.name] = self._part(operation, value, axis, 1, (when.first - one.first) // one.every)
            elif isinstance(operation, ir.Elementwise) and value.size > 1:
                changed[entry.name] = dataclasses.replace(
                    value, shape=_with(value.shape, axis, 1), strides=_with(value.strides, axis, 0)
                )
        if isinstance(operation, ir.Windowed):
            padding = list(operation.padding)
            padding[2 * (axis - 1) : 2 * axis] = [0, 0]
            changed |= {"padding": tuple(padding), "stride": _with(operation.stride, axis - 1, 1)}
        return dataclasses.replace(operation, **changed)

    def _part(self, operation: ir.Operation, view: ir.View, axis: int, count: int, lag: int) -> ir.View:
        """The last `count` columns but `lag` that are kept of what a view of all columns shows."""
        columns, buffer = self.walk.columns[view.variable], self.walk.buffers[view.variable]
        try:
            inside = columns.start(view.offset)
            strides = [
                columns.size if n == axis or extent == 1 else columns.inside(stride)
                for n, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True))
            ]
        except ValueError as error:
            raise ValueError(f"{operation.location}: {view.variable} {error}") from None
        shape = _with(view.shape, axis, count)
        if view.variable == self.walk.given.name and not self._kept_input():
            return ir.View(view.variable, shape, tuple(strides), ir.Affine(inside, ((ROUND, columns.size),)))
        start = (buffer.length - count - lag) * columns.size + inside
        name = self._stored(view.variable).name
        return ir.View(name, shape, tuple(strides), ir.Affine(start))

    def _late(self, statement: ir.Statement) -> ir.Statement:
        """A statement behind the loop, where it reads columns the last ones that are kept."""
        if isinstance(statement, ir.Loop):
            return dataclasses.replace(statement, body=tuple(self._late(inner) for inner in statement.body))
        assert not isinstance(statement, ir.Periodic)
        changed: dict[str, Any] = {}
        for entry in dataclasses.fields(statement):
            value = getattr(statement, entry.name)
            if isinstance(value, ir.View):
                changed[entry.name] = self._kept_columns(value)
        return dataclasses.replace(statement, **changed)

    def _kept_columns(self, view: ir.View) -> ir.View:
        """A view of a whole variable, where that has columns one of all that are kept when the loop has ended."""
        columns = self.walk.columns.get(view.variable)
        if columns is None:
            return view
        buffer = self.walk.buffers[view.variable]
        start = (buffer.length - columns.count - buffer.zeros) * columns.size
        return dataclasses.replace(
            view, variable=self._stored(view.variable).name, offset=view.offset + ir.Affine(start)
        )

    def _order(self) -> tuple[int, ...]:
        columns = self.walk.input_columns
        return tuple(
            outer * columns.stride * columns.count + frame * columns.stride + inner
            for frame in range(columns.count)
            for outer in range(columns.outer)
            for inner in range(columns.stride)
        )

    def _hop(self, rounds: int) -> int:
        """After how many further frames each layer has as many more columns; 0 where windows have ends of their own."""
        padded = any(buffer.padding is not None for buffer in self.walk.buffers.values())
        looped = any(isinstance(statement, ir.Loop) for statement in self.walk.behind)
        slides = rounds <= self.walk.input_columns.count and not padded and not looped
        return max(one.columns.every for one in self.walk.computed) if slides else 0


def _with(values: Sequence[int], place: int, value: int) -> tuple[int, ...]:
    return tuple(value if n == place else old for n, old in enumerate(values))


def _joined(rounds: Sequence[_ColumnRounds]) -> Iterator[_ColumnRounds]:
    """Neighbours of the same rounds as one: first everything moves on, so that operations stand beside each other."""
    waiting: _ColumnRounds | None = None
    for one in rounds:
        if waiting is not None and (waiting.first, waiting.every, waiting.count) == (one.first, one.every, one.count):
            moved, made = (*waiting.moved, *one.moved), (*waiting.made, *one.made)
            waiting = dataclasses.replace(waiting, moved=moved, made=made)
            continue
        if waiting is not None:
            yield waiting
        waiting = one
    if waiting is not None:
        yield waiting
