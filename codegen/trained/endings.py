"""How a model ends: what of its last operators a program computes, and what it returns, a class or real numbers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import View
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.ranks import rank_of

PROBABILITIES = frozenset(("Softmax", "LogSoftmax"))
"""Functions of scores that leave the largest where it is."""

MONOTONE = PROBABILITIES | {"Sigmoid", "NormaliseL1"}
"""What may be left out before the largest of all elements is looked for."""

WHOLE_ROWS_BEFORE = 13
"""The opset from which such a function is of one axis."""

RENAMING = frozenset(("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Dropout"))
"""What may stand between and behind them."""


ROUNDING = frozenset(("QuantizeLinear", "DequantizeLinear"))
"""What quantised files have behind every operator; of equal rounded probabilities a program tells the larger one."""


class Returns(enum.Enum):
    """What a program is to return."""

    CLASS = "class"
    VALUE = "value"


@dataclass(frozen=True)
class Ending:
    """`score`: the value of the file that decides the class, `value`: the one that is returned as real numbers. `passed`: the kinds of the
    operators behind `score`, which change no class; "Concat" among them stands for the probabilities of no and yes, of which `score`
    is the one of yes before its Sigmoid. `of_last_axis`: whether the probabilities are of the scores along the last axis of `score`, and
    not of all of them wherever they stand."""

    score: str
    value: str
    passed: frozenset[str] = frozenset()
    of_last_axis: bool = False

    @property
    def classifies(self) -> bool:
        """Whether the file itself says that it tells classes apart."""
        return bool(self.passed & (PROBABILITIES | {"ArgMax", "Concat"}))


def ending_of(graph: TrainedGraph) -> Ending:
    """The model without the probabilities at its end. InputError for a file that returns more than a label and its probabilities."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    labels = [name for name in graph.outputs if _is_label(makers, name)]
    others = [name for name in graph.outputs if name not in labels]
    if not graph.outputs or len(labels) > 1 or len(others) > 1:
        names = ", ".join(map(str, graph.outputs)) or "none"  # protobuf gives bytes for a name that is no text
        raise InputError(graph.path, subject="graph outputs", expected="one, or a label and probabilities", found=names)
    value = (others or labels)[0]
    score, passed = _score(graph, makers, (labels or others)[0])
    of_rows = any(score in node.inputs[:1] and _is_of_last_axis(node) for node in graph.nodes)
    return Ending(score, value, passed, of_last_axis=bool(passed) and of_rows)


def _is_label(makers: Mapping[str, TrainedNode], name: str) -> bool:
    seen = set[str]()
    while name in makers and makers[name].kind in RENAMING and makers[name].inputs and name not in seen:
        seen.add(name)
        name = makers[name].inputs[0]
    maker = makers.get(name)
    if maker is None:
        return False
    is_refused_classifier = bool(maker.refusal) and len(maker.outputs) == 2 and maker.output == name
    return maker.kind == "ArgMax" or is_refused_classifier


def _score(graph: TrainedGraph, makers: Mapping[str, TrainedNode], name: str) -> tuple[str, frozenset[str]]:
    """The value behind which nothing changes a class, and the kinds of what is behind it."""
    kept, passed, kinds, seen = name, frozenset[str](), set[str](), set[str]()
    while name in makers and name not in seen:
        seen.add(name)
        node = makers[name]
        if node.kind in RENAMING | ROUNDING and node.inputs:
            if _cuts_off(makers, node):
                break
            name = node.inputs[0]
            continue
        if node.kind == "Sigmoid" and "Sigmoid" in kinds:
            break  # more than a half of one of a probability is another half
        if (node.kind in MONOTONE and _over_scores(graph, node)) or (node.kind == "ArgMax" and "ArgMax" not in kinds):
            name = node.inputs[0] if node.inputs else ""
        else:
            yes = _yes_of_two(graph, makers, node)
            if yes is None or "ArgMax" not in kinds:
                break
            name = yes
        kinds.add(node.kind)
        if node.kind != "ArgMax":
            kept, passed = name, frozenset(kinds)
        if _is_of_last_axis(node):
            break  # whose axis of what is before it this is, is not looked for
    if kept == name or "ArgMax" not in kinds or passed:
        return kept, passed
    return kept, frozenset({"ArgMax"})


def _over_scores(graph: TrainedGraph, node: TrainedNode) -> bool:
    """Whether a function is one of all scores together, not of each alone or of another axis, on which there is one."""
    if node.kind not in PROBABILITIES:
        return True
    axis = node.integer("axis", 1 if node.opset < WHOLE_ROWS_BEFORE else -1)
    rank = rank_of(graph, node.inputs[0]) if node.inputs else None
    if node.opset < WHOLE_ROWS_BEFORE:  # all axes from that one on are one row
        return rank is None or axis in (0, 1) or axis % rank in (0, 1)
    return axis == -1 or (axis > 0 if rank is None else axis % rank == rank - 1)


def _is_of_last_axis(node: TrainedNode) -> bool:
    return node.kind in PROBABILITIES and node.opset >= WHOLE_ROWS_BEFORE


def _cuts_off(makers: Mapping[str, TrainedNode], node: TrainedNode) -> bool:
    """Whether a node turns real numbers into whole ones, among which another one may be the largest."""
    from onnx import TensorProto

    real = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    whole = node.kind == "Cast" and node.integer("to", TensorProto.FLOAT) not in real
    return whole and not _is_label(makers, node.inputs[0])


def _yes_of_two(graph: TrainedGraph, makers: Mapping[str, TrainedNode], node: TrainedNode) -> str | None:
    """p of (1 - p, p) that are put together, where p is a Sigmoid; None for anything else."""
    if node.kind != "Concat" or len(node.inputs) != 2:
        return None
    no, yes = node.inputs
    makes_no, makes_yes = makers.get(no), makers.get(yes)
    if makes_no is None or makes_yes is None or makes_no.kind != "Sub" or makes_yes.kind != "Sigmoid":
        return None
    one = graph.constants.get(makes_no.inputs[0]) if len(makes_no.inputs) == 2 else None
    is_complement = one is not None and one.size == 1 and float(one.reshape(-1)[0]) == 1.0 and makes_no.inputs[1] == yes
    return yes if is_complement else None


def ended(graph: TrainedGraph, ending: Ending, returns: Returns) -> TrainedGraph:
    """The graph with the one output that the program is to compute."""
    return replace(graph, outputs=(ending.score if returns is Returns.CLASS else ending.value,))


def arg_max(builder: Builder, node: TrainedNode) -> None:
    """The place of the largest of all elements."""
    view = builder.view(builder.tensor(node.inputs[0]))
    axis = node.integer("axis", 0)
    if not view.shape or view.shape[axis % len(view.shape)] != view.size:
        raise ValueError(f"expected the largest of all elements, found axis {axis} of {list(view.shape)}")
    if node.integer("select_last_index", 0):
        raise ValueError("expected the first of equal elements, found select_last_index")
    builder.labels[node.output] = largest(builder, view)


def largest(builder: Builder, view: View) -> View:
    """The label of the largest element."""
    out = builder.temporary((), "label")
    builder.emit(ir.ArgMax(out, builder.location, view))
    return out


def positive(builder: Builder, view: View) -> View:
    """The label 1 where the only element is positive, else 0."""
    out = builder.temporary((), "label")
    builder.emit(ir.Sign(out, builder.location, ir.View(view.variable, (), (), view.offset)))
    return out
