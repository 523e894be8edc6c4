"""What bits of weights, operands and converters cost: columns, cores, ticks, packets and energy, against figures by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.cm.blocks import converter_behind
from kilotune.codegen.cm.hardware import Hardware, crossbar_of
from kilotune.codegen.cm.mapping import Mapping
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.converter_steps import with_converters
from kilotune.codegen.onnx.graph import ConvNode
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.evaluators.cm.energy import image_counts
from kilotune.spaces.cm.space import CmSpace
from tests.codegen.cm.networks import model
from tests.spaces.cm.test_charges import described


def sliced(**crossbar: Any) -> Hardware:
    """Crossbars of 32 x 32 with two bits of a weight in a pair of cells, a bit of an operand a tick, 8 conversions of 8 bits a tick."""
    asked = {"cell_bits": 2, "converter_bits": 8, "conversions_per_tick": 8, "input_bits_per_tick": 1, **crossbar}
    return described("mesh-8x8-bits", crossbar={"rows": 32, "columns": 32, **asked})


def two_layers(hardware: Hardware, weight_bits: int = 8, converter_bits: int | None = None) -> CmSpace:
    """54 rows and 8 channels, then 8 rows and 10 scores, of 4 x 4 pixels each."""
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "d"], ["y"]),
    ]
    weights = np.random.default_rng(0).normal(size=(8, 6, 3, 3)).astype(np.float32)
    dense = np.random.default_rng(1).normal(size=(10, 8, 1, 1)).astype(np.float32)
    graph = import_model(model(nodes, [1, 6, 4, 4], {"k": weights, "d": dense}), "net")
    images = random_images((6, 4, 4), 2, 0)
    quantised = quantise(graph, images, weight_bits=weight_bits)
    if converter_bits is not None:
        bits = converter_bits

        def behind(_: str, node: ConvNode) -> Any:
            return converter_behind(node, crossbar_of(hardware), bits, hardware.input_bits_per_tick)

        quantised = with_converters(quantised, behind, np.stack([quantised.image(image) for image in images]))
    return CmSpace.of(quantised.graph, hardware)


@pytest.mark.parametrize(("bits", "slices", "cores"), [(8, 4, 2 + 2), (7, 3, 2 + 1), (3, 1, 2 + 1)])
def test_weights_of_fewer_bits_take_fewer_columns_and_cores(bits: int, slices: int, cores: int) -> None:
    stages = two_layers(sliced(), bits).lowered({}).pipeline.stages
    assert len(stages) == cores
    assert {(s.layer, s.crossbar_rows) for s in stages} == {("a", 27), ("y", 8)}
    scores = [s.crossbar_columns for s in stages if s.layer == "y"]
    assert sum(scores) == 10 * slices
    assert max(scores) <= 32


def test_a_matrix_of_several_crossbars_keeps_the_slices_of_a_weight_together() -> None:
    """Three slices: a crossbar of 32 columns holds ten weights, and 11 take two strips."""
    space = two_layers(sliced(per_core=4), 7)
    (stage,) = (s for s in space.lowered({}).pipeline.stages if s.layer == "y")
    assert (stage.crossbar_columns, stage.slices) == (30, 3)
    assert space.hardware.rows_taken(stage) == 8
    wider = type(stage)(**{**stage.__dict__, "crossbar_columns": 33})
    assert space.hardware.rows_taken(wider) == 2 * 32


@pytest.mark.parametrize(
    ("weights", "converters", "ticks"), [(8, 8, 8 * 4), (8, 6, 8 * 3), (8, 1 + 4, 8 * 3), (3, 8, 8), (8, 2, 8)]
)
def test_conversions_take_a_step_for_each_bit(weights: int, converters: int, ticks: int) -> None:
    """Eight channels in 32 or 8 columns, 8 conversions of 8 bits a tick, and 8 pieces of an operand."""
    space = two_layers(sliced(), weights, converters)
    stage = space.lowered({}).pipeline.stages[0]
    assert (stage.crossbar_columns, stage.conversion_bits) == (32 if weights == 8 else 8, converters)
    assert space.hardware.crossbar_ticks(stage) == ticks


def test_without_bits_of_its_own_a_conversion_has_those_of_the_hardware() -> None:
    stage = two_layers(sliced()).lowered({}).pipeline.stages[0]
    assert stage.conversion_bits == 0
    assert sliced().crossbar_ticks(stage) == 8 * 4


def test_partial_sums_are_sent_in_steps_of_converters() -> None:
    """A converter of 4 bits gives -7 to 7; four slices count 1 + 4 + 16 + 64 times, seven pieces of a magnitude 1 + 2 + ... + 64."""
    exact, read = (two_layers(sliced(input_bits_per_tick=1), 8, bits).lowered({}) for bits in (None, 4))
    (full,), (short,) = (
        [
            s.load // s.elements
            for s in each.streams
            if s.writer >= 0
            and s.reader >= 0
            and each.pipeline.stages[s.writer].layer == each.pipeline.stages[s.reader].layer
        ]
        for each in (exact, read)
    )
    assert full == 7 + 8 + 5
    steps = 7 * (1 + 4 + 16 + 64) * 127
    (converter,) = {
        n.converter.right for n in read_graph() if n.converter is not None and n.converter.blocks[0].row_blocks == 2
    }
    assert short == min(steps.bit_length() + 1, full - converter + 1 if converter else full) < full


def read_graph() -> list[ConvNode]:
    nodes = two_layers(sliced(), 8, 4).network.graph.graph.nodes
    return [n for n in nodes if isinstance(n, ConvNode)]


def test_energy_counts_cells_and_parts_of_conversions() -> None:
    hardware = sliced()
    for weights, slices, converters in ((8, 4, 8), (3, 1, 8), (8, 4, 4)):
        lowered = two_layers(hardware, weights, converters).lowered({})
        unmapped = Mapping((), ((),) * len(lowered.streams), ())
        counts = image_counts(lowered.pipeline, lowered.streams, unmapped, 0.0, hardware)
        assert counts["cell_pj"] == 16 * slices * 8 * (54 * 8 + 8 * 10)
        assert counts["conversion_pj"] == 16 * slices * 8 * (2 * 8 + 10) * converters / 8


def test_a_crossbar_must_hold_a_weight() -> None:
    with pytest.raises(InputError, match="columns: expected as many as a weight takes, found 4"):
        sliced(columns=4, cell_bits=1)
    with pytest.raises(InputError, match="a whole number from 1 to 16"):
        sliced(converter_bits=17)
