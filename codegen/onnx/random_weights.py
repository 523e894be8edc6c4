"""Weights for a network of which nobody has any."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from kilotune.codegen.onnx.graph import AffineNode, ConvNode, Graph, Node


def with_random_weights(graph: Graph, seed: int) -> Graph:
    """The network of `graph` with seeded normal weights of variance 1 / fan-in, and small biases; what sums squares in an LRN stays."""
    generator = np.random.default_rng(seed)
    fixed = graph.parts or {}

    def drawn(node: Node) -> Node:
        if node.output in fixed:
            return node
        if isinstance(node, ConvNode):
            spread = 1 / math.sqrt(math.prod(node.weight.shape[1:]))
            weight = generator.standard_normal(node.weight.shape, dtype=np.float32) * np.float32(spread)
            return dataclasses.replace(node, weight=weight, bias=generator.normal(0, 0.1, node.bias.shape))
        if isinstance(node, AffineNode):
            scale = generator.uniform(0.5, 1.5, node.scale.shape)
            return dataclasses.replace(node, scale=scale, offset=generator.normal(0, 0.1, node.offset.shape))
        return node

    return dataclasses.replace(graph, nodes=tuple(drawn(node) for node in graph.nodes))
