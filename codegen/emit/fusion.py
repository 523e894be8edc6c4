"""Which operations run in one nest of loops, so that all results but the last stay in registers.

Operations beside each other in the program make a chain where each computes one element of its result at a time, all of the same shape,
and where nobody else reads what the earlier ones write. A sum of products may be one of them: its sum ends where the next begins. The
last one may choose the largest of these elements, which then need not be stored at all.
Chains depend on the program alone. Whether a candidate's placement in RAM lets one run as a whole is asked of `runs_as_one`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.iteration import along
from kilotune.codegen.emit.row_layout import axis_of_rows, channels_lie_beside
from kilotune.codegen.emit.schedule import Convolution, DenseProduct, schedule_product
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.interference import Meeting

MOST_READ = 9
"""Views that one nest reads beside the operands of products: each may need a pointer."""


@dataclass(frozen=True)
class OperationChain:
    """Operations of rows `first`, `first` + 1, ...; `registers` are the variables that are never stored."""

    first: int
    operations: tuple[ir.Operation, ...]

    @property
    def rows(self) -> range:
        """Numbers of the operations."""
        return range(self.first, self.first + len(self.operations))

    @property
    def out(self) -> ir.View:
        """What is stored."""
        return self.operations[-1].out

    @property
    def choice(self) -> ir.ArgMax | None:
        """The operation that chooses the largest of the elements, where that is the last one."""
        last = self.operations[-1]
        return last if isinstance(last, ir.ArgMax) else None

    @property
    def computing(self) -> tuple[ir.Operation, ...]:
        """All others."""
        return self.operations if self.choice is None else self.operations[:-1]

    @property
    def registers(self) -> frozenset[str]:
        """Variables of which no element is stored."""
        return frozenset(operation.out.variable for operation in self.operations[:-1])

    @property
    def reads(self) -> tuple[ir.View, ...]:
        """What elementwise operations read that none of them has computed, each view once."""
        views = (
            item
            for operation in self.operations
            if isinstance(operation, ir.Elementwise)
            for item in operation.operands
            if isinstance(item, ir.View) and item.variable not in self.registers
        )
        return tuple(dict.fromkeys(views))

    @property
    def tail(self) -> OperationChain:
        """The chain without its first operation."""
        return OperationChain(self.first + 1, self.operations[1:])


def find_chains(program: ir.Program, storage: VariableStorage, shape: CodeShape) -> dict[int, OperationChain]:
    """All chains of two operations and more, by their first row; each is as long as it can be from there."""
    return dict(_Finding(program, storage, shape).chains(program.body, 0))


class _Finding:
    def __init__(self, program: ir.Program, storage: VariableStorage, shape: CodeShape) -> None:
        self._storage, self._program, self._rows = storage, program, bool(shape.rows)
        self._sizes = {v.name: v.size for v in program.variables if v.role is ir.Role.TEMPORARY}
        self._readers: dict[str, set[int]] = {program.result.variable: {-1}}
        self._writers: dict[str, set[int]] = {}
        for row, operation in enumerate(ir.operations(program.body)):
            self._writers.setdefault(operation.out.variable, set()).add(row)
            for item in operation.operands:
                if isinstance(item, ir.View):
                    self._readers.setdefault(item.variable, set()).add(row)

    def chains(self, body: Sequence[ir.Statement], row: int) -> list[tuple[int, OperationChain]]:
        """Those of a body whose first operation is `row`."""
        found, place = [], 0
        while place < len(body):
            statement = body[place]
            if isinstance(statement, ir.Loop | ir.Periodic):
                found += self.chains(statement.body, row)
                row += sum(1 for _ in ir.operations(statement.body))
                place += 1
                continue
            chain = self._longest(body, place, row)
            if self._axis(statement) is not None and len(chain.operations) > 1:
                after = self._longest(body, place + 1, row + 1)  # a loop that is needed anyway adds a bias for less
                chain = chain if after.rows.stop <= chain.rows.stop else OperationChain(row, (statement,))
            if len(chain.operations) > 1:
                found.append((row, chain))
            row += len(chain.operations)
            place += len(chain.operations)
        return found

    def _longest(self, body: Sequence[ir.Statement], place: int, row: int) -> OperationChain:
        first = body[place]
        assert not isinstance(first, ir.Loop | ir.Periodic)
        best = chain = OperationChain(row, (first,))
        if not self._begins(first):
            return best
        for statement in body[place + 1 :]:
            if isinstance(statement, ir.ArgMax) and self._chooses(chain, statement):
                chain = OperationChain(row, (*chain.operations, statement))
                return chain if all(self._stays(chain, operation) for operation in chain.computing) else best
            if isinstance(statement, ir.Loop | ir.Periodic) or not self._joins(chain, statement):
                break
            chain = OperationChain(row, (*chain.operations, statement))
            if all(self._stays(chain, operation) for operation in chain.operations[:-1]):
                best = chain
        return best

    def _begins(self, operation: ir.Operation) -> bool:
        return isinstance(operation, ir.Elementwise) or self._sums_in_order(operation)

    def _sums_in_order(self, operation: ir.Operation) -> bool:
        """Whether it is a sum of products whose terms lie beside each other in both operands, or are written out (`depthwise`)."""
        if not isinstance(operation, ir.MatMul | ir.Conv2D) or operation.completion is not None:
            return False
        if self._rows and isinstance(operation, ir.Conv2D) and channels_lie_beside(self._storage, operation):
            return True
        schedule = schedule_product(operation, self._storage)
        return isinstance(schedule, DenseProduct | Convolution) and schedule.beside

    def _axis(self, operation: ir.Operation) -> int | None:
        """The axis of a product's result along which a call for all rows of weights writes; None where no call makes it."""
        return axis_of_rows(self._storage, operation) if self._rows else None

    def _joins(self, chain: OperationChain, operation: ir.Operation) -> bool:
        """Whether an operation may follow those of a chain, were nobody else to read what they write."""
        if _extents(operation.out) != _extents(chain.out):
            return False
        written = {earlier.out.variable: earlier.out for earlier in chain.operations}
        products = [earlier for earlier in chain.operations if not isinstance(earlier, ir.Elementwise)]
        if any(operation.out.variable in _variables(product) for product in products):
            return False  # sums still to be made read what is written
        if isinstance(operation, ir.Elementwise):
            views = [item for item in operation.operands if isinstance(item, ir.View)]
            met = [view for view in views if view.variable in written]
            again = [view for view in chain.reads if view.variable == operation.out.variable]
            same = all(_same(view, written[view.variable]) for view in met)
            longer = OperationChain(chain.first, (*chain.operations, operation))
            axis = self._axis(chain.operations[0])
            if axis is not None and not self._finishes_rows(longer, axis):
                return False
            return same and all(_same(view, operation.out) for view in again) and len(longer.reads) <= MOST_READ
        matrices = isinstance(operation, ir.MatMul) and all(isinstance(p, ir.MatMul) for p in products)
        matrices = matrices and not any(self._axis(product) is not None for product in (*products, operation))
        unread = not any(name in written for name in _variables(operation))
        return matrices and bool(products) and unread and self._sums_in_order(operation)

    def _finishes_rows(self, chain: OperationChain, axis: int) -> bool:
        """Whether a call for all rows of weights, along this axis of the first result, may go on to what the chain makes of it: each
        element of that and of at most one parameter with an element a row."""
        parameters = {v.name for v in self._program.variables if v.role is ir.Role.PARAMETER}
        first, rest = chain.operations[0], chain.operations[1:]
        simple = all(isinstance(operation, ir.Add | ir.Subtract | ir.Multiply | ir.Pointwise) for operation in rest)
        reads = chain.reads
        if not simple or len(reads) > 1 or steps_of_rows(chain.out, first.out, axis)[0] != 1:
            return False
        by_rows = [steps_of_rows(view, first.out, axis) for view in reads]
        return {view.variable for view in reads} <= parameters and all(steps == (1, ()) for steps in by_rows)

    def _chooses(self, chain: OperationChain, operation: ir.ArgMax) -> bool:
        """Whether it chooses among the elements of the chain, which are computed in their order: under a window they are not, nor in calls
        for all rows."""
        windows = any(isinstance(earlier, ir.Conv2D) for earlier in chain.operations)
        windows = windows or self._axis(chain.operations[0]) is not None
        return not windows and operation.a.variable == chain.out.variable and _same(operation.a, chain.out)

    def _stays(self, chain: OperationChain, operation: ir.Operation) -> bool:
        """Whether the elements that an operation of the chain writes are read in the chain alone, after it."""
        name, row = operation.out.variable, chain.first + chain.operations.index(operation)
        later, readers = set(range(row + 1, chain.rows.stop)), self._readers.get(name, set())
        whole = self._sizes.get(name) == operation.out.size
        return whole and self._writers[name] == {row} and bool(readers) and readers <= later


def _variables(operation: ir.Operation) -> set[str]:
    return {item.variable for item in operation.operands if isinstance(item, ir.View)}


def steps_of_rows(view: ir.View, out: ir.View, axis: int) -> tuple[int, tuple[int, ...]]:
    """How far a view that goes along with a result moves in a step of that axis of the result, and in those of its other axes in which it
    moves at all."""
    kept = [number for number, extent in enumerate(out.shape) if extent != 1]
    steps = dict(zip(kept, along(view, _extents(out)), strict=True))
    return steps[axis], tuple(step for number, step in steps.items() if number != axis and step)


def _extents(view: ir.View) -> tuple[int, ...]:
    return tuple(extent for extent in view.shape if extent != 1)


def _same(view: ir.View, written: ir.View) -> bool:
    """Whether element n of the one is element n of the other."""
    kept = [tuple(s for s, e in zip(v.strides, v.shape, strict=True) if e != 1) for v in (view, written)]
    return _extents(view) == _extents(written) and kept[0] == kept[1] and view.offset == written.offset


def runs_as_one(
    chain: OperationChain, storage: VariableStorage, offsets: Mapping[str, int], meetings: Collection[Meeting] = ()
) -> bool:
    """Whether no stored element lies over one that is read for a later element. `offsets` [bytes] of temporaries in RAM; `meetings`: how
    results of products may lie over what these read for the last time."""
    if chain.choice is not None:
        return True  # nothing is stored before the last element is known
    out = chain.out
    products = [operation for operation in chain.operations if not isinstance(operation, ir.Elementwise)]
    if not all(_writes_behind(chain, product, storage, offsets, meetings) for product in products):
        return False
    over = [view for view in chain.reads if share_bytes(storage, offsets, out.variable, view.variable)]
    if any(isinstance(product, ir.Conv2D) for product in products):
        return not over  # its loops may run in another order than elements lie
    return all(_same(v, out) if v.variable == out.variable else _ahead(storage, offsets, v, out) for v in over)


def share_bytes(storage: VariableStorage, offsets: Mapping[str, int], a: str, b: str) -> bool:
    """Whether two variables share bytes of RAM."""
    if a not in offsets or b not in offsets:
        return False
    (first, size), (second, other) = ((offsets[name], _bytes(storage, name)) for name in (a, b))
    return first < second + other and second < first + size


def _bytes(storage: VariableStorage, name: str) -> int:
    return storage.program.variable(name).size * (storage.bits[name] // 8)


def _ahead(storage: VariableStorage, offsets: Mapping[str, int], read: ir.View, written: ir.View) -> bool:
    """Whether each byte is read for the last time before an element of a later place is written over it."""
    if read.offset.terms or written.offset.terms:
        return False
    extents = _extents(written)
    when: dict[int, int] = {}
    for number, places in enumerate(_places(storage, offsets, read, extents)):
        when |= dict.fromkeys(places.tolist(), number)
    written_places = enumerate(_places(storage, offsets, written, extents))
    return all(when.get(place, -1) <= number for number, places in written_places for place in places.tolist())


def _writes_behind(
    chain: OperationChain,
    product: ir.Operation,
    storage: VariableStorage,
    offsets: Mapping[str, int],
    meetings: Collection[Meeting],
) -> bool:
    """Whether what the chain stores lies over nothing that sums of the product still read: clear of its operands, or as the results of the
    product could, in whose order and places it is written."""
    out, as_product = chain.out.variable, _same(chain.out, product.out)
    for name in _variables(product):
        if not share_bytes(storage, offsets, out, name):
            continue
        met = [m.order for m in meetings if (m.result, m.operand) == (product.out.variable, name)]
        if len(met) != 1 or not as_product:
            return False
        between = met[0].forbidden(storage.bits[out] // 8, storage.bits[name] // 8)
        if between is not None and between[0] < offsets[out] - offsets[name] < between[1]:
            return False
    return True


def runs_backward(
    chain: OperationChain, storage: VariableStorage, offsets: Mapping[str, int], meetings: Collection[Meeting]
) -> bool:
    """Whether a chain that `runs_as_one` has to begin with the last place of its product's window: so lies what it stores over what the
    product reads."""
    product, out = chain.operations[0], chain.out.variable
    for name in _variables(product) if isinstance(product, ir.Conv2D) else ():
        for order in (m.order for m in meetings if (m.result, m.operand) == (product.out.variable, name)):
            between = order.forbidden_forward(storage.bits[out] // 8, storage.bits[name] // 8)
            if between is None or not share_bytes(storage, offsets, out, name):
                continue
            if between[0] < offsets[out] - offsets[name] < between[1]:
                return True
    return False


def _places(storage: VariableStorage, offsets: Mapping[str, int], view: ir.View, extents: tuple[int, ...]) -> IntArray:
    """Bytes of RAM [elements, bytes of one] that are visited, element after element."""
    size = storage.bits[view.variable] // 8
    numbers = np.full(extents, view.offset.constant, dtype=np.int64)
    for axis, stride in enumerate(along(view, extents)):
        shape = [-1 if other == axis else 1 for other in range(len(extents))]
        numbers += stride * np.arange(extents[axis]).reshape(shape)
    return offsets[view.variable] + size * numbers.reshape(-1, 1) + np.arange(size)
