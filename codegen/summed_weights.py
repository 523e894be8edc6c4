"""Products that sum over what is computed, with weights of one parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.axis_parts import AxisParts
from kilotune.codegen.shared_axes import Axis, taken
from kilotune.codegen.straight_line import elements_of


@dataclass(frozen=True)
class SummedWeights:
    """A product of a parameter that nothing else reads and something that is computed.

    `row`: its number among the operations. `taps`: products that are summed to one of the `sums`. `on_left`: whether the parameter is the
    first operand; `by_sums`: whether it is stored as [sums, taps], instead of [taps, sums]. `bias`: a parameter that nothing else reads and
    that is added to the sums.
    """

    row: int
    parameter: str
    taps: int
    sums: int
    on_left: bool
    by_sums: bool
    bias: str | None

    def taps_of(self, parts: AxisParts, axes: Sequence[Axis], place: int) -> IntArray:
        """The numbers of the taps that belong to a place of some parts of variables."""
        return np.flatnonzero(self._is_of(parts, axes, place, of_sums=False)[:, 0])

    def sums_of(self, parts: AxisParts, axes: Sequence[Axis], place: int) -> IntArray:
        """The numbers of the sums that belong to a place of some parts of variables."""
        return np.flatnonzero(self._is_of(parts, axes, place, of_sums=True)[0])

    def of_sums(
        self, parameters: Mapping[str, FloatArray], parts: AxisParts, units: Mapping[Axis, IntArray]
    ) -> FloatArray:
        """The weights [inputs, sums] of the sums that belong to `units`, with the bias as the last row where there is one."""
        of_sums = set(self._parts(parts, of_sums=True))
        kept = {
            (name, part): places for (name, part), places in units.items() if name == self.parameter and part in of_sums
        }
        values = taken(np.asarray(parameters[self.parameter], dtype=np.float64), self.parameter, parts, kept)
        weights = values.reshape(-1, self.taps).T if self.by_sums else values.reshape(self.taps, -1)
        if self.bias is None:
            return weights
        bias = taken(np.asarray(parameters[self.bias], dtype=np.float64), self.bias, parts, units)
        return np.concatenate([weights, bias.reshape(1, -1)])

    def stored(self, weights: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Weights [inputs, sums] as the parameter has them, of this shape."""
        return (weights.T if self.by_sums else weights).reshape(shape)

    def _parts(self, parts: AxisParts, *, of_sums: bool) -> list[int]:
        """The parts of the parameter that number the sums, or the taps."""
        extents = parts[self.parameter]
        strides, inner = ir.row_major_strides(extents), self.taps if self.by_sums else self.sums
        return [part for part, stride in enumerate(strides) if ((stride < inner) != self.by_sums) == of_sums]

    def _is_of(self, parts: AxisParts, axes: Sequence[Axis], place: int, *, of_sums: bool) -> FloatArray:
        """Where the weights [taps, sums] of a place are, 1, and where others, 0."""
        found = np.zeros(parts[self.parameter])
        for part in self._parts(parts, of_sums=of_sums):
            if (self.parameter, part) in axes:
                np.moveaxis(found, part, 0)[place] = 1.0
        return found.reshape(-1, self.taps).T if self.by_sums else found.reshape(self.taps, -1)


def summed_weights(program: ir.Program) -> list[SummedWeights]:
    """Such products of a program, in the order of its operations; convolutions in groups are none."""
    fixed = {v.name for v in program.variables if v.role is ir.Role.PARAMETER}
    every = list(ir.operations(program.body))
    reads = [one.variable for operation in every for one in operation.operands if isinstance(one, ir.View)]
    found = []
    for row, operation in enumerate(every):
        if not isinstance(operation, ir.MatMul | ir.Conv2D) or operation.completion is not None:
            continue
        on_left = isinstance(operation, ir.MatMul) and operation.a.variable in fixed
        view, other = (operation.a, operation.b) if on_left else (operation.b, operation.a)
        if isinstance(operation, ir.Conv2D) and operation.groups > 1:
            continue
        is_own = view.variable in fixed and reads.count(view.variable) == 1 and other.variable not in fixed
        transposed = _is_transposed(view, program.variable(view.variable)) if is_own else None
        if transposed is not None:
            axis = 0 if on_left else len(operation.out.shape) - 1
            bias = _bias(program, operation, axis, every, reads)
            sums = operation.out.shape[axis]
            found.append(SummedWeights(row, view.variable, operation.taps, sums, on_left, on_left != transposed, bias))
    return found


def _is_transposed(view: ir.View, variable: ir.Variable) -> bool | None:
    """Whether a product goes through all of a variable's elements in their order, False, or a matrix's columns first, True; or neither."""
    if view.offset != ir.Affine() or view.size != variable.size:
        return None
    orders = [ir.row_major_strides(view.shape), ir.row_major_strides(view.shape[::-1])[::-1]]
    for is_transposed, wanted in enumerate(orders if len(view.shape) == 2 else orders[:1]):
        if all(one == 1 or has == is_to for one, has, is_to in zip(view.shape, view.strides, wanted, strict=True)):
            return bool(is_transposed)
    return None


def _bias(
    program: ir.Program, product: ir.MatMul | ir.Conv2D, axis: int, every: Sequence[ir.Operation], reads: Sequence[str]
) -> str | None:
    """The parameter that is added to what a product computes, the number of each sum to it, whose numbers `axis` of the result goes
    through."""
    result = product.out
    if reads.count(result.variable) > 1:
        return None
    for operation in every:
        views = [one for one in operation.operands if isinstance(one, ir.View)]
        if not isinstance(operation, ir.Add) or len(views) != 2 or result.variable not in {v.variable for v in views}:
            continue
        read, other = sorted(views, key=lambda one: one.variable != result.variable)
        added = program.variable(other.variable)
        alone = added.role is ir.Role.PARAMETER and reads.count(added.name) == 1
        is_whole = added.size == result.shape[axis] and read.size == other.size == result.size
        if alone and is_whole and _goes_by_sums(result, axis, read, other):
            return added.name
    return None


def _goes_by_sums(result: ir.View, axis: int, read: ir.View, other: ir.View) -> bool:
    """Whether `other` has the number of the sum at each place of `read`, a view of the result that may have another order."""
    if read.offset != result.offset or other.offset != ir.Affine():
        return False
    places, seen = (elements_of(replace(one, offset=ir.Affine()), {}) for one in (result, read))
    sums = np.full(max(places.max(), seen.max()) + 1, -1)
    along = tuple(-1 if one == axis else 1 for one in range(places.ndim))
    sums[places] = np.arange(result.shape[axis]).reshape(along)
    return bool((sums[seen].reshape(-1) == elements_of(other, {}).reshape(-1)).all())
