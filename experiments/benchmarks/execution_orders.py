"""Order of execution and placement together, against the order of the file: networks, and random graphs with branches.

python -m kilotune.experiments.benchmarks.execution_orders [--seconds 10] [--graphs 20] [FILE ...]
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from kilotune.codegen.tensor_graph import GraphOperator, GraphTensor, TensorGraph
from kilotune.experiments.problems.memory.inputs import alignment_of, load_graph
from kilotune.experiments.problems.memory.options import PlacementOptions
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.ordered_placement import OrderedPlacement, place_in_orders
from kilotune.spaces.memory.ordered_space import OrderedSpace

SIZES = (12, 20, 30, 40, 60)
RECENT = 8
"""Operators read what nobody has read, or one of the last tensors."""


def branching_graph(seed: int, operators: int) -> TensorGraph:
    """One input; operators of one to three operands; whatever nobody reads is an output. Sizes up to 1 KiB in steps of 16 bytes."""
    rng = random.Random(seed)
    tensors = [GraphTensor("x", 16 * rng.randrange(1, 64), 0)]
    made: list[GraphOperator] = []
    unread = ["x"]
    for number in range(operators):
        reads: list[str] = []
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            recent = [tensor.name for tensor in tensors[-RECENT:]]
            reads.append(rng.choice(unread if unread and rng.random() < 0.6 else recent))
        tensors.append(GraphTensor(f"t{number}", 16 * rng.randrange(1, 64), number + 1))
        made.append(GraphOperator(f"op{number}", tuple(dict.fromkeys(reads)), (f"t{number}",)))
        unread = [name for name in unread if name not in reads] + [f"t{number}"]
    return TensorGraph(f"branching-{seed}", tuple(tensors), tuple(made), ("x",), tuple(unread))


def compare(name: str, space: OrderedSpace, seconds: float) -> None:
    """A line: the least peak in the file's order, that of all orders, whether each is proved, and CPU-seconds."""
    file_peak, file_bound = _in_file_order(space, seconds)
    before = time.process_time()
    best: OrderedPlacement | None = None
    bound = 0
    for found in place_in_orders(space, 0, lambda: seconds - (time.process_time() - before)):
        best = found if best is None or found.peak_bytes < best.peak_bytes else best
        bound = max(bound, found.bound_bytes)
        if best.peak_bytes <= bound or time.process_time() - before > seconds:
            break
    assert best is not None
    spent = time.process_time() - before
    print(
        f"{name:24} {space.sums.count:5} {file_peak:9} {_proved(file_peak, file_bound):>7} {best.peak_bytes:9} "
        f"{_proved(best.peak_bytes, bound):>7} {100 * (1 - best.peak_bytes / file_peak):6.1f} % {spent:7.2f}",
        flush=True,
    )


def _in_file_order(space: OrderedSpace, seconds: float) -> tuple[int, int]:
    before = time.process_time()
    peak, bound = 0, 0
    arrays = space.in_file_order.arrays
    for step in minimise_peak(arrays, space.in_file_order.least_peak_bytes):
        peak, bound = step.peak_bytes, step.bound_bytes
        if time.process_time() - before > seconds:
            break
    return peak, bound


def _proved(peak: int, bound: int) -> str:
    return "proved" if peak <= bound else f">={bound}"


def main() -> None:
    """Read the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--graphs", type=int, default=20)
    arguments = parser.parse_args()
    print(f"{'graph':24} {'ops':>5} {'file':>9} {'':>7} {'searched':>9} {'':>7} {'less':>8} {'CPU s':>7}")
    for path in arguments.files:
        alignment = alignment_of(path, PlacementOptions())
        compare(path.stem, OrderedSpace(load_graph(path), alignment), arguments.seconds)
    for seed in range(arguments.graphs):
        graph = branching_graph(seed, SIZES[seed % len(SIZES)])
        compare(graph.name, OrderedSpace(graph), arguments.seconds)


if __name__ == "__main__":
    main()
