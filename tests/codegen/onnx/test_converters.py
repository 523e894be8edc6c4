"""Converters of few bits behind crossbars: by hand, against exact sums, and the same in all executions of a network."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from kilotune.codegen.arrays import Array
from kilotune.codegen.cm.blocks import Crossbar, converter_behind
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.converter_steps import with_converters
from kilotune.codegen.onnx.converters import ColumnBlock, ColumnConverter, digits, slice_count
from kilotune.codegen.onnx.graph import ConvNode, Graph
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import QuantisedGraph, quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import run
from tests.codegen.cm.networks import expected_integers
from tests.codegen.cm.test_bundle import runs_as_expected
from tests.codegen.cm.wider_networks import WiderNetwork
from tests.effort import effort


def test_digits_are_those_of_magnitudes_with_signs() -> None:
    found = list(digits(np.array([-23, 5, 0, 16]), 2))  # 23 = 1 1 3 in digits of two bits
    assert [place for place, _ in found] == [0, 2, 4]
    assert [digit.tolist() for _, digit in found] == [[-3, 1, 0, 0], [-1, 1, 0, 0], [-1, 0, 0, 1]]


@given(strategies.lists(strategies.integers(-4095, 4095), min_size=1), strategies.integers(0, 5))
def test_digits_at_their_places_add_up(integers: list[int], bits: int) -> None:
    whole = sum(digit << place for place, digit in digits(np.array(integers), bits))
    assert np.asarray(whole).tolist() == integers
    assert not bits or all((abs(digit) < 1 << bits).all() for _, digit in digits(np.array(integers), bits))


@pytest.mark.parametrize(
    ("bits", "cell", "columns"), [(8, 0, 1), (8, 2, 4), (7, 2, 3), (5, 4, 1), (2, 1, 1), (8, 7, 1)]
)
def test_a_sign_takes_no_slice(bits: int, cell: int, columns: int) -> None:
    assert slice_count(bits, cell) == columns


def test_sums_are_read_to_the_nearest_step_and_limited() -> None:
    converter = ColumnConverter(4, (), right=2)
    sums = np.array([0, 1, 2, -2, -3, 26, 27, 30, 900, -900])
    assert converter.read(sums).tolist() == [0, 0, 4, 0, -4, 28, 28, 28, 28, -28]


def by_hand(converter: ColumnConverter, weights: Array, operand: Array) -> list[int]:
    """Cell by cell and bit by bit."""
    cell, piece, most = converter.cell_bits or 31, converter.piece_bits or 31, converter.largest
    total = [0] * len(weights)
    for column, j, p in product(range(len(weights)), range(0, 31, cell), range(0, 31, piece)):
        current = 0
        for w, x in zip(weights[column].tolist(), operand.tolist(), strict=True):
            sign = (1 if w > 0 else -1) * (1 if x > 0 else -1)
            current += sign * (abs(w) >> j & ((1 << cell) - 1)) * (abs(x) >> p & ((1 << piece) - 1))
        step = 2**converter.right
        total[column] += min(max((2 * current + step) // (2 * step), -most), most) * step * 2 ** (j + p)
    return total


@given(strategies.integers(0, 2**32 - 1))
def test_products_are_those_of_cells_and_pieces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, operand = rng.integers(-127, 128, (3, 9)), rng.integers(-100, 256, 9)
    cell, piece, right = (int(rng.integers(0, most)) for most in (5, 4, 7))
    converter = ColumnConverter(int(rng.integers(3, 9)), (ColumnBlock(0, 3, 0, 9, (0, 9)),), cell, piece, right)
    found = converter.products(converter.slices(weights), operand)
    assert found.tolist() == by_hand(converter, weights, operand)
    off = np.abs(found - weights @ operand).max()
    wide = ColumnConverter(25, converter.blocks, cell, piece, right)
    assert np.abs(wide.products(wide.slices(weights), operand) - weights @ operand).max() <= wide.slack(8, 8)
    assert right or converter.bits < 8 or piece != 1 or cell > 3 or not off, "9 * 7 is below 127: nothing is lost"


def converted(seed: int) -> tuple[QuantisedGraph, Crossbar, Graph, object]:
    """A random network on small crossbars whose weights, slices, pieces and converters are drawn."""
    rng = np.random.default_rng(seed)
    proto = WiderNetwork(seed).model(9)
    for number, node in enumerate(proto.graph.node):
        node.name = (
            f"node{number}"  # as files from training have them; a convolution is executed once a slice and piece
        )
    graph = import_model(proto, "random")
    images = random_images(graph.shapes[graph.input], 2, seed)
    layers = [n.output for n in graph.nodes if isinstance(n, ConvNode) and n.output not in (graph.parts or {})]
    weights = {name: int(rng.integers(3, 9)) for name in layers}
    quantised = quantise(graph, images, weights_of=weights)
    crossbar = Crossbar(
        int(rng.integers(4, 40)), int(rng.integers(7, 12)), int(rng.integers(1, 3)), int(rng.integers(0, 4))
    )
    bits, piece = {name: int(rng.integers(4, 10)) for name in layers}, int(rng.integers(0, 4))

    def converter_of(name: str, node: ConvNode) -> ColumnConverter | None:
        return converter_behind(node, crossbar, bits[name], piece) if name in bits else None

    seen = np.stack([quantised.image(image) for image in images])
    return with_converters(quantised, converter_of, seen), crossbar, graph, proto


@given(seed=strategies.integers(0, 2**32 - 1))
@settings(max_examples=effort(4, 8))
def test_all_executions_have_the_same_converters(seed: int) -> None:
    """The definition, onnxruntime on the rewritten file, cores with their buffers, and the exported runner."""
    quantised, crossbar, graph, proto = converted(seed)
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 2, seed + 1000)]
    expected = np.stack(expected_integers(proto, quantised, images))
    output = quantised.graph.outputs[0]
    defined = [output.as_file(evaluate(quantised.graph, image, integer=True)[output.tensor]) for image in images]
    np.testing.assert_array_equal(np.stack(defined), expected)
    network = partition(quantised.graph)
    chained = {p.name for p in network.partitions if seed % 2}
    lowered = lower(network, crossbar, chained=chained)
    runs_as_expected(lowered, images, expected, run(lowered, images))
