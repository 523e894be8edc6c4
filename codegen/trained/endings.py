"""How a model ends: what of its last operators a program computes, and what it returns, a class or real numbers."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import View
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

PROBABILITIES = frozenset(("Softmax", "LogSoftmax"))
"""Functions of scores that leave the largest where it is."""

RENAMING = frozenset(("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Dropout"))
"""What may stand behind them."""


class Returns(enum.Enum):
    """What a program is to return."""

    CLASS = "class"
    VALUE = "value"


@dataclass(frozen=True)
class Ending:
    """`output`: the value of the file that the program computes last. `threshold`: from where on a single score means class 1; None
    where the file says the class itself, or has several scores. `dropped`: the nodes behind `output`, which change no class."""

    output: str
    dropped: tuple[TrainedNode, ...] = ()

    @property
    def probabilities(self) -> bool:
        """Whether the file returns probabilities of classes."""
        return any(node.kind in PROBABILITIES for node in self.dropped)

    @property
    def sigmoid(self) -> bool:
        """Whether the file returns the probability of class 1."""
        return any(node.kind == "Sigmoid" for node in self.dropped)


def ending_of(model: TrainedGraph) -> Ending:
    """The model without the probabilities at its end. InputError for a file that does not return one value."""
    if len(model.outputs) != 1:
        names = ", ".join(model.outputs) or "none"
        raise InputError(model.path, subject="graph outputs", expected="one", found=names)
    makers = {node.output: node for node in model.nodes}
    output, dropped = model.outputs[0], list[TrainedNode]()
    passed = list[TrainedNode]()
    while output in makers and makers[output].kind in PROBABILITIES | RENAMING | {"Sigmoid"}:
        node = makers[output]
        passed.append(node)
        output = node.inputs[0] if node.inputs else ""
        if node.kind in PROBABILITIES or node.kind == "Sigmoid":
            dropped, last = list(passed), output
            break
    return Ending(last, tuple(dropped)) if dropped else Ending(model.outputs[0])


def without(model: TrainedGraph, ending: Ending) -> TrainedGraph:
    """The model up to `ending.output`."""
    gone: Collection[int] = {id(node) for node in ending.dropped}
    nodes = tuple(node for node in model.nodes if id(node) not in gone)
    return TrainedGraph(model.path, nodes, model.constants, model.input_name, model.input_shape, (ending.output,))


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
