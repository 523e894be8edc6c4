"""How the values of a model lie along time, and what a layer needs of the one before it while the model walks along its input.

The columns of a layer come in rounds `first + every * j`: a window that spans n columns of the layer before, `before` of them padding,
waits for n - 1 - before of them, and a stride multiplies `every`. Padding behind the end are columns that nobody computes, in
rounds without a frame.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kilotune.codegen import ir


@dataclass(frozen=True)
class TimeColumns:
    """How a variable lies along time: element numbers of neighbouring columns are `stride` apart, and there are `count`; column j comes in
    round `first + every * j`. `size`: elements of a column, `outer` stretches of `stride` of them."""

    stride: int
    count: int
    size: int
    first: int = 0
    every: int = 1

    @property
    def outer(self) -> int:
        """Stretches that a column consists of."""
        return self.size // self.stride

    def axis(self, view: ir.View) -> int | None:
        """The axis of a view of all elements that is time; None where none is."""
        for axis, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
            if extent == self.count and stride == self.stride and extent > 1:
                return axis
        return None

    def inside(self, stride: int) -> int:
        """What a step along another axis is inside a column. ValueError for one that is none."""
        size, sign = abs(stride), -1 if stride < 0 else 1
        if size < self.stride:
            return stride
        if size % (self.stride * self.count):
            raise ValueError("lies across time")
        return sign * (size // self.count)

    def start(self, offset: ir.Affine) -> int:
        """Where in a column a view begins that begins there in the variable. ValueError for one that begins in another column than the
        first."""
        outer, rest = divmod(offset.constant, self.stride * self.count)
        if offset.terms or rest >= self.stride:
            raise ValueError("is read or written from a later time on")
        return outer * self.stride + rest


@dataclass
class KeptColumns:
    """What is kept of a variable: the last `length` columns. `zeros`: columns that are pushed behind the last one; `padding`: what
    padding is, where any is read; `whole`: whether something behind the loop reads all columns."""

    length: int = 1
    zeros: int = 0
    padding: float | None = None
    whole: bool = False


@dataclass(frozen=True)
class WalkedVariable:
    """A variable that is computed column by column: by one operation, or in parts by several, one after the other."""

    name: str
    operations: tuple[ir.Operation, ...]
    columns: TimeColumns


@dataclass
class TimeWalk:
    """Which operations compute their results column by column, and which come behind the loop. ValueError, a sentence, for a model that
    does not walk along that axis of its input."""

    program: ir.Program
    given: ir.Variable
    input_columns: TimeColumns
    columns: dict[str, TimeColumns] = field(default_factory=dict)
    buffers: dict[str, KeptColumns] = field(default_factory=dict)
    computed: list[WalkedVariable] = field(default_factory=list)
    behind: list[ir.Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns[self.given.name] = self.input_columns
        self.buffers[self.given.name] = KeptColumns()
        written = [o.out.variable for o in ir.operations(self.program.body)]
        for statements in _parts(self.program.body):
            self._take(statements, written)
        if not self.computed:
            raise ValueError(
                f"{self.given.location}: no layer of the model walks along time, so it cannot take its input frame by frame"
            )
        for operation in (o for statement in self.behind for o in ir.operations((statement,))):
            for item in operation.operands:
                if isinstance(item, ir.View):
                    self._collect(item, operation.location)
        self._collect(self.program.result, self.given.location)

    # What is computed column by column

    def _take(self, statements: Sequence[ir.Statement], written: Sequence[str]) -> None:
        """One statement, or several that write parts of one variable."""
        group = tuple(s for s in statements if not isinstance(s, ir.Loop | ir.Periodic))
        if len(group) < len(statements) or not self._walk_together(group):
            self.behind += statements
            return
        out = group[0].out
        whole = sum(o.out.size for o in group if not isinstance(o, ir.Fill)) == self.program.variable(out.variable).size
        if written.count(out.variable) > len(group) or not (whole or isinstance(group[0], ir.Fill)):
            raise ValueError(
                f"{group[0].location}: {out.variable} is written in parts, so its columns along time are not known"
            )
        self.columns[out.variable] = self._columns_of(group)
        self.buffers[out.variable] = KeptColumns()
        self.computed.append(WalkedVariable(out.variable, group, self.columns[out.variable]))

    def _walk_together(self, group: Sequence[ir.Operation]) -> bool:
        """Whether all of them compute columns; a Fill of the whole variable does where what is written into it does."""
        filled = [isinstance(o, ir.Fill) and o.out.size == self.program.variable(o.out.variable).size for o in group]
        return not all(filled) and all(fills or self._walks(o) for fills, o in zip(filled, group, strict=True))

    def _walks(self, operation: ir.Operation) -> bool:
        """Whether it computes its result column by column; all that hangs on what does not comes behind the loop."""
        views = self._walked_views(operation)
        late = {o.out.variable for s in self.behind for o in ir.operations((s,))}
        if not views or any(isinstance(v, ir.View) and v.variable in late for v in operation.operands):
            return False
        axes = [self.columns[view.variable].axis(view) for view in views]
        if isinstance(operation, ir.Windowed):
            return axes[0] in (1, 2) and len(views) == 1 and operation.out.shape[axes[0] or 0] > 1
        elementwise = isinstance(operation, ir.Elementwise) and not isinstance(operation, ir.Select | ir.Sign)
        return elementwise and None not in axes and len(set(axes)) == 1

    def _columns_of(self, group: Sequence[ir.Operation]) -> TimeColumns:
        """Those of what they write; what they need of their operands is noted."""
        if isinstance(group[0], ir.Windowed):
            return self._columns_of_windows(group[0])
        reads = [(operation, view) for operation in group for view in self._walked_views(operation)]
        every = self.columns[reads[0][1].variable].every
        first = max(self.columns[view.variable].first for _, view in reads)
        made: TimeColumns | None = None
        for operation, view in reads:
            one = self.columns[view.variable]
            axis, lag = one.axis(view), first - one.first
            assert axis is not None
            size = self.program.variable(operation.out.variable).size
            found = TimeColumns(operation.out.strides[axis], one.count, size // one.count, first, every)
            made = made or found
            whole = ir.whole(self.program.variable(operation.out.variable))
            if len(group) > 1 and (size % one.count or found.axis(whole) is None):
                raise ValueError(f"{operation.location}: {operation.out.variable} has other columns along time")
            if one.every != every or lag % every or found != made:
                raise ValueError(
                    f"{operation.location}: {view.variable} moves along time at another pace than what it meets"
                )
            buffer = self.buffers[view.variable]
            buffer.length = max(buffer.length, lag // every + 1)
            buffer.zeros = max(buffer.zeros, lag // every)  # so that the last columns come to where they are read
            self._check_alike(operation, axis)
        assert made is not None
        return made

    def _walked_views(self, operation: ir.Operation) -> list[ir.View]:
        return [v for v in operation.operands if isinstance(v, ir.View) and v.variable in self.columns]

    def _columns_of_windows(self, operation: ir.Windowed) -> TimeColumns:
        view = self._walked_views(operation)[0]
        read, out = self.columns[view.variable], operation.out
        axis = read.axis(view)
        assert axis is not None
        count, stride = out.shape[axis], out.strides[axis]
        span, before, behind = self.window(operation, axis)
        needed = (count - 1) * operation.stride[axis - 1] - before + span - read.count
        buffer = self.buffers[view.variable]
        buffer.length = max(buffer.length, span)
        buffer.zeros = max(buffer.zeros, min(needed, behind), 0)
        if before or needed > 0:
            self._pad(buffer, operation)
        first = read.first + (span - 1 - before) * read.every
        return TimeColumns(stride, count, out.size // count, first, read.every * operation.stride[axis - 1])

    def window(self, operation: ir.Windowed, axis: int) -> tuple[int, int, int]:
        """Columns under the window, and those of padding before the first column and behind the last."""
        span = (operation.kernel[axis - 1] - 1) * operation.dilation[axis - 1] + 1
        before, behind = operation.padding[2 * (axis - 1) : 2 * axis]
        if before >= span:
            raise ValueError(f"{operation.location}: a window of {span} frames lies on padding alone")
        return span, before, behind

    def _pad(self, buffer: KeptColumns, operation: ir.Windowed) -> None:
        if isinstance(operation, ir.MaxPool):
            raise ValueError(
                f"{operation.location}: a pool with padding along time cannot take its input frame by frame"
            )
        value = float(operation.outside)
        if buffer.padding not in (None, value):
            raise ValueError(f"{operation.location}: what it reads is padded with several numbers")
        buffer.padding = value

    def _check_alike(self, operation: ir.Operation, axis: int) -> None:
        for item in operation.operands:
            if isinstance(item, ir.View) and item.variable not in self.columns and item.size > 1 and item.strides[axis]:
                raise ValueError(f"{operation.location}: {item.variable} has other numbers for each frame")

    def _collect(self, view: ir.View, location: ir.Location) -> None:
        """Note that all columns of a variable are read behind the loop, if it has any."""
        columns = self.columns.get(view.variable)
        if columns is None:
            return
        if columns.outer > 1:
            raise ValueError(
                f"{location}: {view.variable} is read as a whole, and its frames do not lie one after the other"
            )
        self.buffers[view.variable].whole = True


def _parts(body: Sequence[ir.Statement]) -> Iterator[list[ir.Statement]]:
    """The statements; elementwise ones that write one variable, one after the other, together."""
    for _, group in itertools.groupby(enumerate(body), key=lambda pair: _written_in_parts(*pair)):
        yield [statement for _, statement in group]


def _written_in_parts(number: int, statement: ir.Statement) -> str | int:
    return statement.out.variable if isinstance(statement, ir.Elementwise) else number
