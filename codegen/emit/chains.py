"""C of chains (`fusion`): one nest of loops in which every element goes through several operations, in registers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from kilotune.codegen import ir
from kilotune.codegen.emit.chain_values import ChainValues, row_of
from kilotune.codegen.emit.context import Context, SumOfProducts
from kilotune.codegen.emit.dot import emit_product, emit_run
from kilotune.codegen.emit.fused_placement import is_one_product, place_fused
from kilotune.codegen.emit.fusion import OperationChain, find_chains, runs_as_one, runs_backward
from kilotune.codegen.emit.iteration import iterate, moves_along
from kilotune.codegen.emit.layout import PlacedTemporaries
from kilotune.codegen.emit.operators import CExpression, cast
from kilotune.codegen.emit.row_layout import axis_of_rows
from kilotune.codegen.emit.row_pointers import count_rows, point_at_rows
from kilotune.codegen.emit.schedule import make_nest
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.emit.walk import LoopNestWriter
from kilotune.codegen.emit.windows import chosen, consider, walked, walks_over
from kilotune.codegen.placement import Placer


def emit_chain(context: Context, chain: OperationChain) -> None:
    """All operations of the chain."""
    first = chain.operations[0]
    if isinstance(first, ir.Conv2D):
        forward = chain.choice is None and chain.first not in context.backward
        over = chain.out if forward and walks_over(context, first, chain.out) else None
        with walked(context, over) as target:
            emit_product(context, first, row_of(context, chain.first), _AfterSums(context, chain, target).take)
    elif isinstance(first, ir.MatMul) and context.shape.rows and axis_of_rows(context.storage, first) is not None:
        emit_product(context, first, row_of(context, chain.first), _AfterSums(context, chain).take)
    elif isinstance(first, ir.MatMul):
        _emit_from_matrices(context, chain, first)
    else:
        _emit_elementwise(context, chain)


def choose_chains(context: Context, placed: PlacedTemporaries) -> tuple[dict[int, OperationChain], PlacedTemporaries]:
    """The chains of the program that run as one, by their first row, and where temporaries lie: as they were placed, but where code is
    written for speed as suits the chains, if that takes no more RAM. What does not run as a whole may without its first operations."""
    storage, shape = context.storage, context.shape
    found = find_chains(storage.program, storage, shape)
    fused = dict[int, OperationChain]()
    if shape.rows or shape.unroll:
        names = placed.interference.names
        fused = {row: c for row, c in found.items() if _sums_by_runs(context, c) and is_one_product(names, c)}
    while fused:
        anew = place_fused(storage, placed, fused)
        chosen = _running_as_one(context, found, anew)
        # What is not stored has no room there, so each of these has to run as one.
        refused = set() if anew is placed else {row for row, chain in fused.items() if chosen.get(row) != chain}
        if not refused:
            return chosen, _with_ways(storage, anew, chosen)
        fused = {row: chain for row, chain in fused.items() if row not in refused}
    chosen = _running_as_one(context, found, placed)
    return chosen, _with_ways(storage, placed, chosen)


def _running_as_one(
    context: Context, found: Mapping[int, OperationChain], placed: PlacedTemporaries
) -> dict[int, OperationChain]:
    """What runs as one in a placement: all of a chain, or without its first operations."""
    chosen, meetings = {}, placed.interference.meetings
    for chain in found.values():
        rest = chain
        while len(rest.operations) > 1 and not (
            _sums_by_runs(context, rest) and runs_as_one(rest, context.storage, placed.offsets, meetings)
        ):
            rest = rest.tail
        if len(rest.operations) > 1:
            chosen[rest.first] = rest
    return chosen


def _with_ways(
    storage: VariableStorage, placed: PlacedTemporaries, chains: Mapping[int, OperationChain]
) -> PlacedTemporaries:
    """With the rows that begin with their last place, of a chain its first."""
    alone = Placer(placed.interference).backward(storage.bits, placed.offsets)
    alone = alone.difference(*(chain.rows for chain in chains.values()))
    meetings = placed.interference.meetings
    ways = {row for row, chain in chains.items() if runs_backward(chain, storage, placed.offsets, meetings)}
    return dataclasses.replace(placed, backward=alone | ways)


def _sums_by_runs(context: Context, chain: OperationChain) -> bool:
    """Whether it begins with its sums, if it has any, and these are taken term by term: by a tree they are not made by a run."""
    sums = [n for n, operation in enumerate(chain.computing) if not isinstance(operation, ir.Elementwise)]
    return (not sums or sums[0] == 0) and not any(
        isinstance(operation, ir.MatMul | ir.Conv2D)
        and context.arithmetic.sum(context, operation, row_of(context, row)).numbered
        for row, operation in zip(chain.rows, chain.operations, strict=True)
    )


def _emit_elementwise(context: Context, chain: OperationChain) -> None:
    last, choice = len(chain.computing) - 1, chain.choice
    elements = chain.computing[last].out
    loops = iterate([elements, *chain.reads])
    counters = [(f"i{axis}", extent) for axis, extent in enumerate(loops.extents)]
    reads = list(zip(chain.reads, loops.strides[1:], strict=True))
    nest = make_nest(counters, reads, None if choice else (elements, loops.strides[0]))
    walk = LoopNestWriter(context, nest, [name for name, _ in counters] if choice else ())
    with chosen(context, choice) if choice else nullcontext(), walk.inside(0, len(nest.loops)):
        values = ChainValues(context, chain, dict(zip(chain.reads, walk.values, strict=True)))
        for number in range(last):
            values.keep(number)
        if choice is None:
            walk.store(values.computed(last))
        else:
            values.keep(last)
            at = [walk.counter(name) for name, _ in counters]
            consider(context, choice, values.name(last), at, ir.row_major_strides(loops.extents))


def _emit_from_matrices(context: Context, chain: OperationChain, first: ir.MatMul) -> None:
    """Sums, and what comes after them, in the loops over the elements of a matrix."""
    (height, width), writer = first.out.shape, context.writer
    rest = _AfterSums(context, chain)
    choosing = chosen(context, chain.choice) if chain.choice else nullcontext()
    rows = [(o, row_of(context, chain.first + n)) for n, o in enumerate(chain.operations) if isinstance(o, ir.MatMul)]
    context = point_at_rows(context, rows)
    with choosing, writer.loops([("i0", height), ("i1", width)], scope=True) as at:
        count_rows(context, at)
        for number, operation in enumerate(chain.operations):
            if isinstance(operation, ir.MatMul):
                name = rest.declare(number)
                with writer.block(""):
                    emit_run(context, operation, row_of(context, chain.first + number), at, name)
        rest.follow(at)


class _AfterSums:
    """What becomes of an element after its sum; `target`: where it is stored, wherever that is."""

    def __init__(self, context: Context, chain: OperationChain, target: str = "") -> None:
        self._context, self._chain, self._target = context, chain, target
        self._values = ChainValues(context, chain, {})

    def declare(self, number: int) -> str:
        """The name of a variable for the sum of operation `number`."""
        out, storage = self._chain.operations[number].out.variable, self._context.storage
        name = self._values.name(number)
        self._context.writer.line(f"{storage.type_of(out)} {name};")
        self._values.made[out] = CExpression(name, storage.bits[out])
        return name

    def take(self, total: SumOfProducts, at: Sequence[str]) -> None:
        """The sum of the first operation is done, for the element at these counters."""
        out, storage = self._chain.operations[0].out.variable, self._context.storage
        name = self._values.name(0)
        total.store(f"const {storage.type_of(out)} {name}", storage.bits[out])
        self._values.made[out] = CExpression(name, storage.bits[out])
        self.follow(at)

    def follow(self, at: Sequence[str]) -> None:
        """Everything that is no sum, and the storing or choosing. `at`: an expression of each counter, 0 where there is no loop."""
        storage, chain = self._context.storage, self._chain
        out = chain.operations[0].out

        self._values.read = {view: storage.element(view, moves_along(view, out, at)) for view in chain.reads}
        last = len(chain.computing) - 1
        for number in range(last if chain.choice is None else last + 1):
            if isinstance(chain.operations[number], ir.Elementwise):
                self._values.keep(number)
        if chain.choice is not None:
            steps = ir.row_major_strides(chain.operations[0].out.shape)
            consider(self._context, chain.choice, self._values.name(last), at, steps)
            return
        target = storage.element(chain.out, moves_along(chain.out, out, at))
        value = cast(self._values.computed(last), target.bits)
        self._context.writer.line(f"{self._target or target.text} = {value.text};")
