"""What a trained model has become so far: a program, its parameters, and which view holds which value of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array
from kilotune.codegen.ir import Location, Role, Variable, View
from kilotune.codegen.language.emitter import Emitter
from kilotune.codegen.language.lowering import Lowering
from kilotune.codegen.language.views import permuted, reshaped
from kilotune.codegen.trained.model import TrainedNode

INPUT = "X"
"""The features of a program."""

FOLDED_NAME = "/folded/"
"""Between the name of weights, into which something was folded, and that of the value that they are for."""


@dataclass(frozen=True)
class Tensor:
    """A value of the file: the elements of `view` in row-major order, as `shape`. Both differ where an image that is stored otherwise
    than the file has it was flattened: a product takes that into its weights, everything else asks for a copy."""

    view: View
    shape: tuple[int, ...]


@dataclass(frozen=True)
class History:
    """The variable `states` keeps what `state` was after each step of a loop; `last` is the number of the first element of what it was
    in the end."""

    states: str
    state: str
    last: int


@dataclass
class Builder:
    """`constants` and `tensors` are the values of the file by name; `parameters` those of the program, `location` where the node that is
    being converted stands. `convert` adds an operator to the program, for operators that are made of others."""

    emitter: Emitter
    constants: dict[str, Array]
    location: Location
    convert: Callable[[Builder, TrainedNode], None]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    labels: dict[str, View] = field(default_factory=dict)
    parameters: dict[str, RealArray] = field(default_factory=dict)
    histories: list[History] = field(default_factory=list)

    @property
    def lowering(self) -> Lowering:
        """Makes operations of expressions."""
        return Lowering(self.emitter)

    def tensor(self, name: str) -> Tensor:
        """An operand that is computed from the features. ValueError for a constant, and for a label."""
        if name not in self.tensors:
            what = f"the constant {name!r}" if name in self.constants else f"{name!r}, which is a label or is not there"
            raise ValueError(f"expected an operand computed from the features, found {what}")
        return self.tensors[name]

    def constant(self, name: str, what: str) -> Array:
        """A constant operand. ValueError for one that is computed from the features."""
        if name not in self.constants:
            raise ValueError(f"expected constant {what}, found {name!r}, which is computed from the features")
        return self.constants[name]

    def weights(self, name: str, what: str) -> RealArray:
        """A constant operand of finite real numbers."""
        return finite(self.constant(name, what), what)

    def optional(self, node: TrainedNode, place: int) -> str | None:
        """The name of an operand that may be left out."""
        return node.inputs[place] if len(node.inputs) > place and node.inputs[place] else None

    def whole_numbers(self, name: str, what: str) -> tuple[int, ...]:
        """A constant operand as whole numbers."""
        return tuple(int(number) for number in self.constant(name, what).reshape(-1))

    def view(self, tensor: Tensor) -> View:
        """The elements as a view of the value's shape, copied where strides cannot say that."""
        if tensor.view.shape == tensor.shape:
            return tensor.view
        result = reshaped(tensor.view, tensor.shape)
        if result is not None:
            return result
        out = self.temporary(tensor.shape)
        written = View(out.variable, tensor.view.shape, ir.row_major_strides(tensor.view.shape))
        self.emitter.emit(ir.Copy(written, self.location, tensor.view))
        return out

    def bind(self, name: str, view: View, shape: Sequence[int] | None = None) -> None:
        """The value `name` of the file is what `view` has."""
        self.tensors[name] = Tensor(view, tuple(view.shape if shape is None else shape))

    def parameter(self, name: str, values: Array, what: str = "weights") -> View:
        """Trained numbers of the program. One whose elements are there under that name is used again."""
        array = finite(values, what)
        stem = identifier(name, "W")
        for known, there in self.parameters.items():
            if (
                re.fullmatch(rf"{re.escape(stem)}(_\d+)?", known)
                and there.shape == array.shape
                and (there == array).all()
            ):
                return ir.whole(self.emitter.variable(known))
        claimed = self.emitter.claim(stem)
        self.parameters[claimed] = array
        return self.emitter.declare(Variable(claimed, array.shape, Role.PARAMETER, self.location))

    def temporary(self, shape: tuple[int, ...], name: str | None = None) -> View:
        """A new variable; `name` is that of a value of the file. ValueError for one of no elements."""
        if 0 in shape:
            raise ValueError(f"expected results of at least one element, found shape {list(shape)}")
        stem = None if name is None else identifier(name, "t")
        return self.emitter.temporary(shape, self.location, stem)

    def like(self, view: View, name: str) -> View:
        """A new variable of the shape of `view`, its elements in the order in which those of `view` lie in memory."""
        order = memory_order(view)
        out = self.temporary(tuple(view.shape[axis] for axis in order), name)
        return permuted(out, inverse(order))

    def emit(self, statement: ir.Statement) -> None:
        """Append to the program."""
        self.emitter.emit(statement)


def memory_order(view: View) -> tuple[int, ...]:
    """The axes from the one with the largest steps to the one with the smallest; those of extent 1, and equal ones, as they are."""
    moving = [axis for axis, extent in enumerate(view.shape) if extent > 1]
    ordered = iter(sorted(moving, key=lambda axis: -abs(view.strides[axis])))
    return tuple(next(ordered) if extent > 1 else axis for axis, extent in enumerate(view.shape))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(int(place) for place in np.argsort(order))


def finite(values: Array, what: str) -> RealArray:
    """As float64. ValueError "expected X, found Y" for NaN, infinity, and for numbers of none of these kinds."""
    if values.dtype.kind not in "fiub":
        raise ValueError(f"expected real numbers as {what}, found {values.dtype}")
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"expected finite {what}, found NaN or infinity")
    return array


def identifier(name: str, otherwise: str) -> str:
    """A name of the file as one of a program: letters, digits and underscores, without an exporter's ending."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", name.partition(FOLDED_NAME)[0].removesuffix("_output_0")).strip("_")
    return stem if stem[:1].isalpha() else f"{otherwise}{stem}"
