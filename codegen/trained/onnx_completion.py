"""What a QuantizeLinear makes of the operator before it: one node on integers (`trained.quantised`), by the operator's kind.

ValueError "expected X, found Y" for operands and attributes that have no such node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen import ir
from kilotune.codegen.arrays import Array, IntArray
from kilotune.codegen.ir.requantisation import even_multiplier
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid
from kilotune.codegen.trained.constant_nodes import constant_results
from kilotune.codegen.trained.even_arithmetic import even_product, even_sum
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.onnx_grids import ConstantIntegers
from kilotune.codegen.trained.quantised import AVERAGE, CONVOLUTION, LOOKUP, MATRIX, MEAN, PRODUCT, SUM_OF_EVEN
from kilotune.codegen.trained.quantised_ends import Ends

ROOM = 1 << 29
"""No sum of products, and no multiple of one, may be larger."""

NEAR_SCALE = 1e-5
"""The scale of a bias may differ by so much, as a part of it, from that of the sums."""


@dataclass(frozen=True)
class Held:
    """A real value whose integers the file has: the name of these, and their grid."""

    name: str
    grid: QuantisationGrid


RealOperand = Held | ConstantIntegers | Array | None


@dataclass(frozen=True, eq=False)
class Pending:
    """An operator whose result is rounded next, its operands, and between which real numbers a Relu or Clip behind it holds the result.
    `moves` stand between it and the rounding, which may as well come first."""

    node: TrainedNode
    operands: tuple[RealOperand, ...]
    ends: Ends = (-math.inf, math.inf)
    moves: tuple[TrainedNode, ...] = ()

    def held(self, place: int) -> Held:
        """A computed operand."""
        operand = self.operands[place]
        if not isinstance(operand, Held):
            raise ValueError(f"expected {self.node.kind} of what is computed, found constants")
        return operand

    def constant(self, place: int, what: str) -> ConstantIntegers:
        """A constant operand that is quantised."""
        operand = self.operands[place]
        if not isinstance(operand, ConstantIntegers):
            found = "computed ones" if isinstance(operand, Held) else "real ones"
            raise ValueError(f"expected constant {what} behind a DequantizeLinear, found {found}")
        return operand


@dataclass
class Completed:
    """Nodes that make the integers `output`, and constants of theirs."""

    output: str
    grid: QuantisationGrid
    ends: Ends
    nodes: list[TrainedNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    @property
    def limits(self) -> tuple[int, int]:
        """The integers of the ends."""
        least, most = (
            bound if math.isinf(end) else int(self.grid.apply(np.asarray(end)))
            for end, bound in zip(self.ends, (LEAST, MOST), strict=True)
        )
        return least, most

    def constant(self, label: str, values: Array) -> str:
        """A new constant; its name."""
        name = f"{self.output}/{label}"
        self.constants[name] = values
        return name

    def add(self, node: TrainedNode, kind: str, *reads: str, write: str | None = None, **attributes: Any) -> str:
        """One node in the place of another; what it writes."""
        written = self.output if write is None else write
        self.nodes.append(node.in_its_place(kind, *reads, write=written, **attributes))
        return written


def completed(pending: Pending, grid: QuantisationGrid, output: str) -> Completed:
    """The nodes of an operator whose kind is one of `COMPLETED`."""
    made = Completed(f"{output}/before it is moved" if pending.moves else output, grid, pending.ends)
    COMPLETED[pending.node.kind](made, pending)
    name = made.output
    for number, move in enumerate(pending.moves, start=1):
        written = output if number == len(pending.moves) else f"{output}/moved {number}"
        made.nodes.append(replace(move, inputs=(name, *move.inputs[1:]), outputs=(written,)))
        name = written
    return made


def rescaling_entries(given: QuantisationGrid, made: QuantisationGrid) -> tuple[int, ...]:
    """A table of the 256 integers of one grid on another."""
    return _entries(made.apply(given.reals(_integers())))


def _integers() -> IntArray:
    return np.arange(LEAST, MOST + 1, dtype=np.int64)


def _entries(values: Array) -> tuple[int, ...]:
    return tuple(int(value) for value in values.reshape(-1))


def _requantisation(
    made: Completed, given: QuantisationGrid, weights: IntArray, scales: NDArray[np.float32], biases: IntArray
) -> ir.Requantisation:
    """What becomes of sums of products with `weights` [channels, taps], whose scales are one, or one each; `biases`: one each."""
    ratios = np.float32(given.step) * scales / np.float32(made.grid.step)
    channels = len(weights)
    if ratios.size not in (1, channels) or biases.shape != (channels,):
        expected = f"a bias and a scale for each of {channels} channels"
        raise ValueError(f"expected {expected}, found {biases.size} and {ratios.size}")
    largest = np.abs(weights).sum(axis=1) * (MOST - LEAST) + np.abs(biases)
    if (largest * np.maximum(ratios, 1) >= ROOM).any():
        raise ValueError(f"expected sums of products below 2**29, found up to {float(largest.max()):.3g}")
    factors = tuple(even_multiplier(ratio) for ratio in np.broadcast_to(ratios, (channels,)))
    offsets = biases - given.zero * weights.sum(axis=1)
    return ir.Requantisation(tuple(offsets.tolist()), factors, made.grid.zero, *made.limits)


def _biases(pending: Pending, channels: int, scales: NDArray[np.float32]) -> IntArray:
    """Integers of the third operand; `scales`: of the sums of products."""
    if len(pending.operands) < 3 or pending.operands[2] is None:
        return np.zeros(channels, dtype=np.int64)
    bias = pending.constant(2, "biases")
    if bias.zeros.any() or (np.abs(bias.scales / scales - 1) > NEAR_SCALE).any():
        raise ValueError("expected biases whose scale is that of the features times that of the weights, found others")
    return bias.integers.reshape(-1)


def _convolution(made: Completed, pending: Pending) -> None:
    node, image, filters = pending.node, pending.held(0), pending.constant(1, "weights")
    weights = filters.centred
    if weights.ndim not in (3, 4) or (filters.scales.size > 1 and filters.axis != 0):
        found = f"shape {list(weights.shape)}, scales along axis {filters.axis}"
        raise ValueError(f"expected filters of one or two dimensions with a scale for each output, found {found}")
    _check_declared(node, weights)
    outputs, scales = weights.shape[0], np.float32(image.grid.step) * filters.scales
    biases = _biases(pending, outputs, scales)
    completion = _requantisation(made, image.grid, weights.reshape(outputs, -1), filters.scales, biases)
    flat = weights.reshape(*weights.shape[:2], *([1] if weights.ndim == 3 else []), *weights.shape[2:])
    stored = made.constant("weights", np.moveaxis(flat, 1, 3))
    window = {k: v for k, v in node.attributes.items() if k in ("auto_pad", "strides", "pads", "dilations")}
    made.add(
        node, CONVOLUTION, image.name, stored, channels_second=True, depthwise=False, outside=image.grid.zero,
        completion=completion, groups=node.integer("group", 1), **window,
    )  # fmt: skip


def _check_declared(node: TrainedNode, weights: IntArray) -> None:
    """ValueError where the attributes of a Conv are not those of its weights."""
    declared, groups = tuple(node.attributes.get("kernel_shape", weights.shape[2:])), node.integer("group", 1)
    if declared != weights.shape[2:] or groups < 1 or weights.shape[0] % groups:
        expected = f"weights of kernel {list(declared)} in {groups} groups"
        raise ValueError(f"expected {expected}, found shape {list(weights.shape)}")


def _matrix(made: Completed, pending: Pending) -> None:
    """Gemm, or MatMul with constant weights."""
    node, features, matrix = pending.node, pending.held(0), pending.constant(1, "weights")
    plain = not node.integer("transA", 0) and node.number("alpha", 1.0) == 1 and node.number("beta", 1.0) == 1
    weights, outputs_first = matrix.centred, bool(node.integer("transB", 0))
    if not plain or weights.ndim != 2:
        found = f"other factors, or weights of shape {list(weights.shape)}"
        raise ValueError(f"expected rows of features times a matrix, found {found}")
    if matrix.scales.size > 1 and matrix.axis != (0 if outputs_first else 1):
        raise ValueError(f"expected a scale for each output, found scales along axis {matrix.axis}")
    rows = weights if outputs_first else weights.T
    biases = _biases(pending, len(rows), np.float32(features.grid.step) * matrix.scales)
    completion = _requantisation(made, features.grid, rows, matrix.scales, biases)
    made.add(node, MATRIX, features.name, made.constant("weights", rows), completion=completion, keeps_axes=True)


def _pair(made: Completed, pending: Pending) -> tuple[list[str], list[QuantisationGrid]]:
    """The names of two operands, computed or constant, and their grids."""
    names, grids = [], []
    for place in range(2):
        operand = pending.operands[place]
        if isinstance(operand, ConstantIntegers):
            names.append(made.constant(f"operand {place}", operand.integers))
        else:
            names.append(pending.held(place).name)
        grids.append(operand.grid if isinstance(operand, ConstantIntegers) else pending.held(place).grid)
    return names, grids


def _sum(made: Completed, pending: Pending) -> None:
    names, grids = _pair(made, pending)
    weights, shift = even_sum(grids[0], grids[1], made.grid, minus=pending.node.kind == "Sub")
    zeros, (least, most) = (grids[0].zero, grids[1].zero), made.limits
    made.add(
        pending.node, SUM_OF_EVEN, *names, zeros=zeros, weights=weights, shift=shift, zero=made.grid.zero, least=least, most=most
    )  # fmt: skip


def _product(made: Completed, pending: Pending) -> None:
    names, grids = _pair(made, pending)
    factor, zeros = even_product(grids[0], grids[1], made.grid), (grids[0].zero, grids[1].zero)
    least, most = made.limits
    made.add(pending.node, PRODUCT, *names, zeros=zeros, factor=factor, zero=made.grid.zero, least=least, most=most)


def _mean_completion(made: Completed, given: QuantisationGrid, count: int) -> ir.Requantisation:
    ratio = np.float32(given.step) / np.float32(np.float32(made.grid.step) * np.float32(count))
    return ir.Requantisation((-given.zero * count,), (even_multiplier(ratio),), made.grid.zero, *made.limits)


def _average(made: Completed, pending: Pending) -> None:
    node, image = pending.node, pending.held(0)
    count = math.prod(node.attributes["kernel_shape"])
    made.add(
        node, AVERAGE, image.name, **node.attributes, channels_second=True, outside=image.grid.zero,
        completion=_mean_completion(made, image.grid, count),
    )  # fmt: skip


def _mean(made: Completed, pending: Pending) -> None:
    """GlobalAveragePool, or ReduceMean over all that it is over: how many elements that are, the shape says later."""
    node, image = pending.node, pending.held(0)
    axes: tuple[int, ...] | None = None
    if node.kind == "ReduceMean":
        given = pending.operands[1] if len(pending.operands) > 1 else None
        named = node.attributes.get("axes", ()) if given is None else np.asarray(given).reshape(-1)
        axes = tuple(int(axis) for axis in named)

    def completion(count: int) -> ir.Requantisation:
        return _mean_completion(made, image.grid, count)

    keep = bool(node.integer("keepdims", 1))
    made.add(node, MEAN, image.name, channels_second=True, axes=axes, keepdims=keep, completion_of=completion)


def _function(made: Completed, pending: Pending) -> None:
    """A function of one element, as a table; constants beside it are single numbers."""
    node = pending.node
    place = next((n for n, operand in enumerate(pending.operands) if isinstance(operand, Held)), 0)
    held = pending.held(place)
    reals: list[Array] = []
    axes = 0
    for operand in pending.operands:
        if operand is held:
            reals.append(held.grid.reals(_integers()))
        elif isinstance(operand, np.ndarray) and operand.size == 1:
            reals.append(operand.reshape(()))
            axes = max(axes, operand.ndim)
        elif isinstance(operand, ConstantIntegers) and operand.integers.size == 1:
            reals.append(operand.grid.reals(operand.integers).reshape(()))
            axes = max(axes, operand.integers.ndim)
        elif operand is not None:
            raise ValueError(f"expected single numbers as constants of {node.kind}, found more")
    results = constant_results(node, reals)
    if not results or results[0].shape != (MOST - LEAST + 1,):
        raise ValueError(f"expected {node.kind} of single elements, found others")
    bounded = np.clip(results[0], *made.ends)
    if np.isnan(bounded).any():
        wrong = int(np.flatnonzero(np.isnan(bounded))[0]) + LEAST
        raise ValueError(f"expected {node.kind} of every integer to be a number, found NaN for {wrong}")
    made.add(node, LOOKUP, held.name, entries=_entries(made.grid.apply(bounded)), function=node.kind, axes=axes)


def _with_number(complete: Callable[[Completed, Pending], None]) -> Callable[[Completed, Pending], None]:
    """What completes an operator of two operands; with one real number, which no tool quantises, it is a function of the other operand."""

    def completes(made: Completed, pending: Pending) -> None:
        number = any(isinstance(operand, np.ndarray) and operand.size == 1 for operand in pending.operands)
        (_function if number else complete)(made, pending)

    return completes


def _concat(made: Completed, pending: Pending) -> None:
    """Every part on the grid of the whole."""
    names = []
    for place, operand in enumerate(pending.operands):
        if isinstance(operand, Held):
            part = operand.name
            if operand.grid != made.grid or made.limits != (LEAST, MOST):
                entries = np.clip(np.array(rescaling_entries(operand.grid, made.grid)), *made.limits)
                part = made.add(
                    pending.node, LOOKUP, part, write=f"{made.output}/part {place}", entries=_entries(entries)
                )
            names.append(part)
        else:
            constant = pending.constant(place, "parts")
            names.append(made.constant(f"part {place}", made.grid.apply(constant.grid.reals(constant.integers))))
    made.add(pending.node, "Concat", *names, axis=pending.node.attributes["axis"])


def _pad(made: Completed, pending: Pending) -> None:
    """A border of the integer of its number."""
    node, held = pending.node, pending.held(0)
    level = pending.operands[2] if len(pending.operands) > 2 else None
    if isinstance(level, ConstantIntegers):
        level = level.grid.reals(level.integers)
    number = node.number("value", 0.0) if level is None else float(np.asarray(level).reshape(-1)[0])
    part = held.name
    if held.grid != made.grid or made.limits != (LEAST, MOST):
        entries = np.clip(np.array(rescaling_entries(held.grid, made.grid)), *made.limits)
        part = made.add(node, LOOKUP, part, write=f"{made.output}/part", entries=_entries(entries))
    border = float(np.clip(made.grid.apply(np.asarray(number)), *made.limits))
    if len(node.inputs) > 1:
        names = [part, node.inputs[1], made.constant("border", np.asarray(border)), *node.inputs[3:]]
        made.add(node, "Pad", *names, mode=node.text("mode", "constant"))
    else:
        made.add(node, "Pad", part, **{**node.attributes, "value": border})


FUNCTIONS = ("Abs", "Celu", "Clip", "Elu", "Exp", "HardSigmoid", "HardSwish", "LeakyRelu", "Neg", "PRelu", "Relu", "Selu",
             "Sigmoid", "Softplus", "Sqrt", "Tanh")  # fmt: skip

COMPLETED: Mapping[str, Callable[[Completed, Pending], None]] = MappingProxyType(
    {
        "Conv": _convolution,
        "Gemm": _matrix,
        "MatMul": _matrix,
        "Add": _with_number(_sum),
        "Sub": _with_number(_sum),
        "Mul": _with_number(_product),
        **dict.fromkeys(("Div", "Max", "Min", "Pow"), _function),
        "AveragePool": _average,
        "GlobalAveragePool": _mean,
        "ReduceMean": _mean,
        "Concat": _concat,
        "Pad": _pad,
        **dict.fromkeys(FUNCTIONS, _function),
    }
)
"""By ONNX's names."""
