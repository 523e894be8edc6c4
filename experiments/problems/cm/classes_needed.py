"""Options of the space `cm` that are about classes of images."""

from __future__ import annotations

from kilotune.codegen.counts import counted
from kilotune.codegen.onnx.graph import Graph
from kilotune.evaluators.cm.fidelity import is_classifier


def check_classifier(graph: Graph, option: str, name: str) -> None:
    """ValueError, a sentence, unless the network called `name` has one output of scores of classes, which `option` needs."""
    if is_classifier(graph):
        return
    found = counted(len(graph.outputs), "output") if len(graph.outputs) > 1 else str(graph.outputs[0].shape)
    raise ValueError(f"{option} is about classes: expected their scores as the only output, found {found} in {name}.")
