"""How many axes a value has, as far as that is plain before a model is converted."""

from __future__ import annotations

from kilotune.codegen.trained.model import TrainedGraph

KEEP = frozenset(
    (
        "BatchNormalization", "Cast", "Celu", "Clip", "Dropout", "Elu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "LogSoftmax",
        "PRelu", "Relu", "Selu", "Sigmoid", "Softmax", "Tanh", "Transpose",
        "AveragePool", "Conv", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "MatMul", "MaxPool",
    )
)  # fmt: skip
"""Results of as many axes as the first operand: of MatMul where the second one is a matrix."""

MATCH = frozenset(("Add", "Sub", "Mul", "Div"))
"""Results of as many axes as the operand that has most."""


def rank_of(graph: TrainedGraph, name: str) -> int | None:
    """The number of axes of a value, the batch among them; None where operators that may change it stand before it."""
    makers = {written: node for node in graph.nodes for written in node.outputs}
    least = 0
    for _ in range(len(graph.nodes) + 1):
        if name == graph.input_name:
            rank = len(graph.input_shape)
            return rank if rank >= least else None
        node = makers.get(name)
        if node is None or not node.inputs:
            return None
        if node.kind == "Flatten":
            return 2 if least <= 2 else None
        if node.kind == "Reshape" and node.inputs[-1] in graph.constants:
            rank = graph.constants[node.inputs[-1]].size
            return rank if rank >= least else None
        if node.kind in MATCH and len(node.inputs) == 2:
            constants = [graph.constants[read] for read in node.inputs if read in graph.constants]
            if len(constants) != 1:
                return None
            least = max(least, constants[0].ndim)
            name = node.inputs[0] if node.inputs[1] in graph.constants else node.inputs[1]
        elif node.kind in KEEP and (node.kind != "MatMul" or _is_matrix(graph, node.inputs[1:2])):
            name = node.inputs[0]
        else:
            return None
    return None


def _is_matrix(graph: TrainedGraph, names: tuple[str, ...]) -> bool:
    return bool(names) and names[0] in graph.constants and graph.constants[names[0]].ndim == 2
