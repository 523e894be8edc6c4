"""Two scores of which the larger one tells the class are one score less: their difference, whose sign does."""

from __future__ import annotations

from dataclasses import replace

from kilotune.codegen.trained.folding import product_of, with_product
from kilotune.codegen.trained.model import TrainedGraph
from kilotune.codegen.trained.ranks import rank_of


def with_one_score(model: TrainedGraph) -> TrainedGraph:
    """The model, returning the second score less the first, where its output is a product of constant weights with two of them that nothing
    else reads; else as it is. The second class is then where that is above 0: of equal scores the first is the larger one."""
    makers = {name: node for node in model.nodes for name in node.outputs}
    name = model.outputs[0]
    for _ in model.nodes:
        maker = makers.get(name)
        if maker is None or maker.kind not in ("Identity", "ArgMax") or maker.integer("select_last_index", 0):
            break
        name = maker.inputs[0]
    maker = makers.get(name)
    others = [node for node in model.nodes if name in node.inputs and node.kind not in ("Identity", "ArgMax")]
    if maker is None or maker.kind not in ("Gemm", "MatMul") or others or rank_of(model, name) != 2:
        return model
    product = product_of(maker, model.constants)
    if product is None or product.outputs != 2:
        return model
    offsets = product.offsets
    made = replace(product, weights=product.weights[:, 1:] - product.weights[:, :1], bias=offsets[1:] - offsets[:1])
    return replace(with_product(model, maker, made), outputs=(name,))
