"""Support vector machines (ai.onnx.ml) in terms of the other operators: kernels as products and exponentials, decisions as products of
them, and votes of pairs of classes as onnxruntime counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

BALLOT = "Ballot"
"""A row of decisions between two classes each, (0, 1), (0, 2), .., (1, 2), .., becomes the votes of all classes: of each pair the first
one has a vote where the decision is above 0, else the second one."""

LARGEST_POWER = 16
"""The largest degree of a polynomial kernel. Fixed-point numbers have no room for more."""

OFF_CENTRE = 0.5
"""Vectors are moved to their mean where that leaves less than this part of their largest square: smaller squares are finer ones."""


@dataclass(frozen=True, eq=False)
class _VectorMachine:
    """`weights` [decisions, vectors] and `offsets` [decisions] make decisions of a kernel's values, one for each of the `vectors`
    [vectors, features]. `gamma`, `constant` and `degree` are the kernel's numbers."""

    kernel: str
    gamma: float
    constant: float
    degree: float
    vectors: RealArray
    weights: RealArray
    offsets: RealArray


class _Replacing:
    """Collects nodes and constants that stand for one node of a file, under names that start with that of its first output."""

    def __init__(self, node: TrainedNode) -> None:
        self.node = node
        self.stem = next((name for name in node.outputs if name), node.kind)
        self.nodes: list[TrainedNode] = []
        self.constants: dict[str, Array] = {}

    def constant(self, name: str, values: Any) -> str:
        """The full name of a new constant."""
        full = f"{self.stem}_{name}"
        self.constants[full] = np.asarray(values, dtype=np.float64)
        return full

    def add(self, kind: str, reads: Sequence[str], name: str, **attributes: Any) -> str:
        """A node; the name of what it writes."""
        return self.write(kind, reads, f"{self.stem}_{name}", **attributes)

    def write(self, kind: str, reads: Sequence[str], output: str, **attributes: Any) -> str:
        """A node that writes a value of the file."""
        made = replace(self.node, kind=kind, inputs=tuple(reads), outputs=(output,), attributes=attributes, opset=13)
        self.nodes.append(made)
        return output

    def refuse(self, output: str, refusal: str) -> None:
        """A value of the file that can only be refused, "expected X, found Y", where anything reads it."""
        self.nodes.append(replace(self.node, outputs=(output,), refusal=refusal))


def support_vector_regressor(node: TrainedNode) -> tuple[list[TrainedNode], dict[str, Array]]:
    """The weighted sum of a kernel's values. ValueError "expected X, found Y"."""
    _check_plain(node)
    if node.integer("one_class", 0):
        raise ValueError("expected a sum of kernels (skl2onnx writes OneClassSVM so), found one_class")
    count = node.integer("n_supports", 0)
    weights = _numbers(node, "coefficients")
    offsets = _numbers(node, "rho")[:1]
    if count:
        vectors = _numbers(node, "support_vectors").reshape(count, -1)
        machine = _machine(node, vectors, weights.reshape(1, count), offsets)
    else:  # coefficients of the features
        machine = _VectorMachine("LINEAR", 1.0, 0.0, 1.0, np.eye(weights.size), weights[None, :], offsets)
    writer = _Replacing(node)
    _decisions(writer, machine, node.output)
    return writer.nodes, writer.constants


def support_vector_classifier(node: TrainedNode) -> tuple[list[TrainedNode], dict[str, Array]]:
    """The class that most pairs vote for, the first one of equals, and the decisions between pairs. ValueError "expected X, found Y"."""
    _check_plain(node)
    per_class = [int(count) for count in node.attributes.get("vectors_per_class", ())]
    labels = node.attributes.get("classlabels_ints") or node.attributes.get("classlabels_strings") or ()
    if not per_class or len(per_class) != len(labels) or len(labels) < 2:
        found = f"{len(labels)} labels and {len(per_class)} numbers in vectors_per_class"
        raise ValueError(f"expected two or more classes with support vectors each, found {found}")
    machine = _pairwise(node, per_class)
    writer = _Replacing(node)
    decisions = _decisions(writer, machine, f"{writer.stem}_decisions")
    votes = writer.add(BALLOT, [decisions], "votes", classes=len(labels))
    writer.write("ArgMax", [votes], node.outputs[0], axis=1)
    if len(node.outputs) > 1 and node.outputs[1]:
        _write_scores(writer, machine, decisions, node.outputs[1])
    return writer.nodes, writer.constants


def _write_scores(writer: _Replacing, machine: _VectorMachine, decisions: str, output: str) -> None:
    """What onnxruntime returns beside the label: the decisions; of two classes the decision's negative and itself."""
    if "prob_a" in writer.node.attributes:
        writer.refuse(
            output, "expected decisions (SVC without probability=True), found probabilities by pairwise coupling"
        )
    elif len(machine.offsets) == 1:
        both = writer.constant("both", [[-1.0, 1.0]])
        writer.write("MatMul", [decisions, both], output)
    else:
        writer.write("Identity", [decisions], output)


def _check_plain(node: TrainedNode) -> None:
    after = node.text("post_transform", "NONE")
    if after != "NONE":
        raise ValueError(f"expected post_transform NONE, found {after}")


def _numbers(node: TrainedNode, name: str) -> RealArray:
    values = np.asarray(node.attributes.get(name, ()), dtype=np.float64).reshape(-1)
    if not values.size or not np.isfinite(values).all():
        raise ValueError(f"expected finite {name}, found {'none' if not values.size else 'NaN or infinity'}")
    return values


def _machine(node: TrainedNode, vectors: RealArray, weights: RealArray, offsets: RealArray) -> _VectorMachine:
    kernel = node.text("kernel_type", "LINEAR")
    given = np.asarray(node.attributes.get("kernel_params", ()), dtype=np.float64).reshape(-1)
    if kernel not in ("LINEAR", "RBF", "POLY", "SIGMOID"):
        raise ValueError(f"expected a kernel LINEAR, RBF, POLY or SIGMOID, found {kernel}")
    if kernel != "LINEAR" and (given.size != 3 or not np.isfinite(given).all()):
        raise ValueError(f"expected kernel_params gamma, coef0 and degree, found {given.size} numbers")
    gamma, constant, degree = given.tolist() if given.size == 3 else (1.0, 0.0, 1.0)
    return _VectorMachine(kernel, gamma, constant, degree, vectors, weights, offsets)


def _pairwise(node: TrainedNode, per_class: Sequence[int]) -> _VectorMachine:
    """One decision for each pair of classes. Row r of the file's coefficients has, for the vectors of class c, their weights against
    class r where r < c, else against class r + 1."""
    classes, count = len(per_class), sum(per_class)
    vectors = _numbers(node, "support_vectors")
    coefficients = _numbers(node, "coefficients")
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    offsets = _numbers(node, "rho")
    if vectors.size % count or coefficients.size != (classes - 1) * count or offsets.size < len(pairs):
        expected = f"{(classes - 1) * count} coefficients, {len(pairs)} rho, and {count} support vectors"
        raise ValueError(f"expected {expected}, found {coefficients.size}, {offsets.size} and {vectors.size} numbers")
    rows = coefficients.reshape(classes - 1, count)
    ends = np.cumsum([0, *per_class])
    weights = np.zeros((len(pairs), count))
    for number, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            weights[number, part] = rows[row, part]
    return _machine(node, vectors.reshape(count, -1), weights, offsets[: len(pairs)])


def _decisions(writer: _Replacing, machine: _VectorMachine, output: str) -> str:
    """weights * kernel + offsets [1, decisions]."""
    if machine.kernel == "LINEAR":
        kernel, weights = writer.node.inputs[0], machine.weights @ machine.vectors
    else:
        used = np.flatnonzero(machine.weights.any(axis=0))
        machine = replace(machine, vectors=machine.vectors[used], weights=machine.weights[:, used])
        kernel, weights = _KERNELS[machine.kernel](writer, machine), machine.weights
    reads = [kernel, writer.constant("weights", weights), writer.constant("offsets", machine.offsets)]
    return writer.write("Gemm", reads, output, transB=1)


def _products(writer: _Replacing, machine: _VectorMachine) -> str:
    """gamma * (vector, x) + constant, of every vector."""
    vectors = writer.constant("vectors", machine.gamma * machine.vectors)
    constant = writer.constant("constant", np.full(len(machine.vectors), machine.constant))
    return writer.add("Gemm", [writer.node.inputs[0], vectors, constant], "products", transB=1)


def _polynomial(writer: _Replacing, machine: _VectorMachine) -> str:
    """Whole powers of products, by squares."""
    power = int(machine.degree)
    if power != machine.degree or not 1 <= power <= LARGEST_POWER:
        raise ValueError(f"expected a whole degree from 1 to {LARGEST_POWER}, found {machine.degree:g}")
    base = result = _products(writer, machine)
    for place, digit in enumerate(bin(power)[3:]):
        result = writer.add("Mul", [result, result], f"square{place}")
        if digit == "1":
            result = writer.add("Mul", [result, base], f"power{place}")
    return result


def _sigmoid(writer: _Replacing, machine: _VectorMachine) -> str:
    return writer.add("Tanh", [_products(writer, machine)], "kernel")


def _radial(writer: _Replacing, machine: _VectorMachine) -> str:
    """exp(-gamma * |x - vector|^2), the square written out as |x|^2 - 2 (vector, x) + |vector|^2: one product of a matrix with the features
    is all that remains for each vector. Moved to the vectors' mean, where that is far from zero, all three are smaller."""
    x, vectors = writer.node.inputs[0], machine.vectors
    mean = vectors.mean(axis=0)
    if (np.square(vectors - mean).sum(axis=1).max()) < OFF_CENTRE * np.square(vectors).sum(axis=1).max():
        vectors = vectors - mean
        x = writer.add("Sub", [x, writer.constant("mean", mean)], "centred")
    gamma = machine.gamma
    doubled = writer.constant("vectors", 2 * gamma * vectors)
    squares = writer.constant("squares", -gamma * np.square(vectors).sum(axis=1))
    products = writer.add("Gemm", [x, doubled, squares], "products", transB=1)
    square = writer.add("MatMul", [x, writer.add("Transpose", [x], "column", perm=[1, 0])], "square")
    scaled = writer.add("Mul", [square, writer.constant("gamma", gamma)], "scaled")
    return writer.add("Exp", [writer.add("Sub", [products, scaled], "exponents")], "kernel")


_KERNELS = {"POLY": _polynomial, "SIGMOID": _sigmoid, "RBF": _radial}


def with_outlier_labels(graph: TrainedGraph) -> TrainedGraph:
    """The graph with the place of the larger of (-s, s) for the sign of what a SVMRegressor returns, as skl2onnx ends OneClassSVM; the
    classes are then -1 and 1. A sum of exactly 0 is -1, as in scikit-learn."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    nodes, constants, classes = list[TrainedNode](), dict(graph.constants), graph.classes
    for node in graph.nodes:
        if node.kind != "Sign" or not node.inputs or not _is_regressor(makers, node.inputs[0]):
            nodes.append(node)
            continue
        writer, classes = _Replacing(node), (-1, 1)
        sides = writer.add("MatMul", [node.inputs[0], writer.constant("both", [[-1.0, 1.0]])], "sides")
        writer.write("ArgMax", [sides], node.output, axis=1)
        nodes += writer.nodes
        constants |= writer.constants
    return replace(graph, nodes=tuple(nodes), constants=constants, classes=classes)


def _is_regressor(makers: Mapping[str, TrainedNode], name: str) -> bool:
    for _ in makers:
        maker = makers.get(name)
        if maker is None or maker.kind not in ("Identity", "Cast") or not maker.inputs:
            break
        name = maker.inputs[0]
    return name in makers and makers[name].kind == "ai.onnx.ml.SVMRegressor"
