"""Small random graphs of operators for the tests, and the least peaks of all their orders by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator

from kilotune.codegen.tensor_graph import GraphOperator, GraphTensor, TensorGraph


def random_graph(seed: int, operators: int, inputs: int = 2) -> TensorGraph:
    """Operators of up to two operands and up to two results among any tensors so far; inputs that nobody reads, tensors without bytes and
    results that nobody needs occur."""
    rng = random.Random(seed)
    tensors = [GraphTensor(f"x{k}", rng.randrange(0, 20), k) for k in range(inputs)]
    made = []
    for number in range(operators):
        reads = rng.sample([t.name for t in tensors], min(rng.randrange(1, 3), len(tensors)))
        writes = [f"t{number}{letter}" for letter in "ab"[: rng.choice((1, 1, 1, 2))]]
        tensors += [GraphTensor(name, rng.randrange(0, 20), len(tensors) + k) for k, name in enumerate(writes)]
        made.append(GraphOperator(f"op{number}", tuple(reads), tuple(writes)))
    outputs = rng.sample([t.name for t in tensors], 1)
    return TensorGraph(f"g{seed}", tuple(tensors), tuple(made), tuple(f"x{k}" for k in range(inputs)), tuple(outputs))


def wide_graph(seed: int, branches: int, length: int) -> TensorGraph:
    """Chains from one input to one output: as many sets of operators as there are ways to stand in all of them."""
    rng = random.Random(seed)
    tensors, made = [GraphTensor("x", 8, 0)], []
    for branch in range(branches):
        at = "x"
        for step in range(length):
            tensors.append(GraphTensor(f"b{branch}.{step}", rng.randrange(1, 100), len(tensors)))
            made.append(GraphOperator(f"op{branch}.{step}", (at,), (tensors[-1].name,)))
            at = tensors[-1].name
    tensors.append(GraphTensor("y", 8, len(tensors)))
    last = tuple(f"b{branch}.{length - 1}" for branch in range(branches))
    made.append(GraphOperator("join", last, ("y",)))
    rng.shuffle(made)
    made.sort(key=lambda operator: 1000 if operator.name == "join" else int(operator.name.partition(".")[2]))
    return TensorGraph(f"wide-{seed}", tuple(tensors), tuple(made), ("x",), ("y",))


def all_orders(graph: TensorGraph, ran: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every order in which the operators can run."""
    if len(ran) == len(graph.operators):
        yield ran
    there = {*graph.inputs, *(name for k in ran for name in graph.operators[k].writes)}
    for k, operator in enumerate(graph.operators):
        if k not in ran and there.issuperset(operator.reads):
            yield from all_orders(graph, (*ran, k))
