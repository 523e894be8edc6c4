"""The exported program of a mapping, executed by its runner from small buffers: what onnxruntime computes of the rewritten file."""

from __future__ import annotations

import ast
import copy
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies
from numpy.typing import NDArray
from onnx import helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.bundle import MappedProgram, bundle_of
from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.mapping import Mapping
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.replicas import CHANNELS, shareable_channels
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.evaluators.cm.functional import Execution, ScheduleParameters, run
from kilotune.experiments.problems.cm import runner
from kilotune.experiments.problems.cm.artefacts import lcu_source
from tests.codegen.cm.networks import expected_integers, model
from tests.codegen.cm.test_random_networks import Split
from tests.codegen.cm.wider_networks import WiderNetwork
from tests.effort import effort

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "docs" / "cm-bundle.schema.json").read_text("utf-8"))
)
"""Of program.json, as the documentation has it."""


SCALE = {"shape": [1, 2, 2], "low": -127, "high": 127, "exponent": -7}


def lowered_at_random(seed: int) -> tuple[LoweredNetwork, list[np.ndarray], np.ndarray, Execution]:
    """A network, three images, what onnxruntime makes of them, and its execution without limits."""
    proto = WiderNetwork(seed).model(9)
    graph = import_model(proto, "random")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 2, seed))
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 3, seed + 1000)]
    network, rng = partition(quantised.graph), np.random.default_rng(seed)
    replicas = {
        p.name: Split(int(rng.integers(1, shareable_channels(p) + 1)), CHANNELS)
        if shareable_channels(p) > 1
        else Split(int(rng.integers(1, min(3, p.height) + 1)), "rows")
        if rng.random() < 0.5
        else Split(int(rng.integers(1, min(3, p.width) + 1)), "columns")
        for p in network.partitions
    }
    crossbar = Crossbar(int(rng.integers(4, 40)), int(rng.integers(1, 6)), int(rng.integers(1, 3)))
    chained = {p.name for p in network.partitions if rng.random() < 0.5}
    lowered = lower(network, crossbar, replicas, seed % 3 == 0, chained=chained, most_pooled=seed % 2 * 24)
    expected = np.stack(expected_integers(proto, quantised, images))
    return lowered, images, expected, run(lowered, images)


def exported(lowered: LoweredNetwork, cells: tuple[int, ...], cores: tuple[int, ...] | None = None) -> MappedProgram:
    """The program. cores: by stage; None: its own each."""
    hardware = load_hardware(None)
    streams = streams_of(lowered.pipeline, hardware)
    outputs = (0,) * len(lowered.pipeline.outputs)
    stages = len(lowered.pipeline.stages)
    mapping = Mapping(cores or tuple(range(stages)), ((),) * len(streams), (*cells, *outputs))
    return bundle_of(lowered, streams, (1,) * stages, mapping, hardware, defaultdict(int))


def machine_of(
    lowered: LoweredNetwork, images: list[np.ndarray], cells: tuple[int, ...], cores: tuple[int, ...] | None = None
) -> runner.MappedMachine:
    """The runner's, of the exported program and the exported state machines. cores: by stage; None: its own each."""
    bundle = exported(lowered, cells, cores)
    SCHEMA.validate(bundle.program)
    control: dict[str, object] = {}
    exec(lcu_source(lowered), control)
    return runner.MappedMachine(bundle.program, bundle.arrays, SimpleNamespace(**control), np.stack(images))


def runs_as_expected(lowered: LoweredNetwork, images: list[np.ndarray], expected: np.ndarray, free: Execution) -> None:
    """By itself, each stage on a core of its own, and in the order of a schedule in which every other core has two stages."""
    machine = machine_of(lowered, images, free.fullest)
    graph = lowered.network.graph
    outputs = np.stack([graph.outputs[0].as_file(image) for image in machine.run()[0]])
    np.testing.assert_array_equal(outputs, expected)
    cores = tuple(stage - (stage % 4 == 1) for stage in range(len(lowered.pipeline.stages)))
    shared = run(lowered, images, ScheduleParameters(capacities=free.fullest, cores=cores))
    replayed = machine_of(lowered, images, free.fullest, cores).run(list(shared.starts))
    np.testing.assert_array_equal(np.stack([graph.outputs[0].as_file(image) for image in replayed[0]]), expected)


@given(seed=strategies.integers(0, 2**32 - 1))
@example(seed=770052)  # of a Split one part is not read, nor is the convolution behind it: stages that send nothing
@settings(max_examples=effort(5, 12))
def test_the_runner_computes_what_onnxruntime_computes(seed: int) -> None:
    lowered, images, expected, free = lowered_at_random(seed)
    runs_as_expected(lowered, images, expected, free)


def chains_and_shared_poolings() -> Any:
    """A convolution of 27 rows, and poolings of its 6 channels with slopes of their own; the last one is the output."""
    rng = np.random.default_rng(5)
    shapes = {"w": (6, 3, 3, 3), "b": (6,), "s": (6, 1, 1), "t": (6, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("PRelu", ["p", "s"], ["q"]),
        helper.make_node("AveragePool", ["q"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("PRelu", ["a", "t"], ["y"]),
    ]
    constants = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    return model(nodes, [1, 3, 7, 8], constants)


def test_the_runner_adds_chains_up_and_puts_shared_poolings_together() -> None:
    proto = chains_and_shared_poolings()
    graph = import_model(proto, "chains")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 2, 5))
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 2, 6)]
    network = partition(quantised.graph)
    conv, first = (p.name for p in network.partitions[:2])
    replicas = {conv: Split(2, "columns"), first: Split(2, "rows")}
    lowered = lower(network, Crossbar(7, 4), replicas, chained={conv}, most_pooled=40)
    programs = lowered.programs
    assert [len(p.partials) for p in programs if p.partition.name == conv] == [0, 1, 1, 1] * 4
    assert {p.channels for p in programs if p.partition.name == first} == {
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 5),
        (5, 6),
    }
    assert [programs[stage].channels for stage in lowered.pipeline.outputs] == [(0, 2), (2, 4), (4, 6)]
    expected = np.stack(expected_integers(proto, quantised, images))
    runs_as_expected(lowered, images, expected, run(lowered, images))


def focus() -> Any:
    """As detectors of the YOLO family begin: odd and even rows and columns of the image are channels of one of half its size. Then every
    third of the odd rows, from the second on, of what a convolution writes, added to another convolution's and read by a third one."""
    rng = np.random.default_rng(9)
    numbers: dict[str, Any] = {f"i{n}": np.int64([n]) for n in (0, 1, 2, 3)} | {"end": np.int64([99])}
    shapes = {"w": (5, 8, 3, 3), "v": (5, 5, 5, 1), "u": (3, 5, 3, 3)}
    nodes = []
    for column in (0, 1):
        nodes.append(helper.make_node("Slice", ["x", f"i{column}", "end", "i3", "i2"], [f"c{column}"]))
        for row in (0, 1):
            nodes.append(helper.make_node("Slice", [f"c{column}", f"i{row}", "end", "i2", "i2"], [f"p{row}{column}"]))
    nodes += [
        helper.make_node("Concat", ["p00", "p10", "p01", "p11"], ["all"], axis=1),
        helper.make_node("Conv", ["all", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Slice", ["a", "i1", "end", "i2", "i2"], ["odd"]),
        helper.make_node("Slice", ["odd", "i1", "end", "i2", "i3"], ["sixths"]),
        helper.make_node("Conv", ["a", "v"], ["b"], strides=[6, 1]),
        helper.make_node("Add", ["b", "sixths"], ["sum"]),
        helper.make_node("Conv", ["sixths", "u"], ["d"], pads=[1] * 4),
        helper.make_node("Concat", ["sum", "d"], ["y"], axis=1),
    ]
    weights = {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    return model(nodes, [1, 2, 26, 6], {**numbers, **weights})


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_the_runner_reads_every_other_pixel_from_the_second_one_on(axis: str) -> None:
    proto = focus()
    graph = import_model(proto, "focus")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 2, 5))
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 2, 6)]
    network = partition(quantised.graph)
    lowered = lower(network, Crossbar(30, 4), {p.name: Split(2, axis) for p in network.partitions})
    assert all(p.head is not None for p in network.partitions), "views take no core"
    expected = np.stack(expected_integers(proto, quantised, images))
    free = run(lowered, images)
    np.testing.assert_array_equal(np.stack(free.outputs), expected)
    runs_as_expected(lowered, images, expected, free)


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(inner)


def test_the_documented_schema_knows_every_key_of_a_program_and_no_other() -> None:
    lowered, _, _, free = lowered_at_random(1)
    program = exported(lowered, free.fullest).program
    kinds = {tuple(found) for found in objects_in(program)}
    for at, found in enumerate(objects_in(program)):
        if tuple(found) not in kinds:
            continue
        kinds.remove(tuple(found))
        for key in (*found, "unknown"):
            changed = copy.deepcopy(program)
            one = list(objects_in(changed))[at]
            one.pop(key) if key in one else one.update(unknown=1)
            assert not SCHEMA.is_valid(changed), (key, found)


def test_the_runner_stops_where_buffers_are_too_small() -> None:
    lowered, images, _, free = lowered_at_random(3)
    largest = int(np.argmax(free.fullest))
    assert free.fullest[largest] > 1
    with pytest.raises(RuntimeError, match=r"^deadlock: "):
        machine_of(lowered, images, (*free.fullest[:largest], 1, *free.fullest[largest + 1 :])).run()


def test_the_runner_does_not_start_what_its_control_unit_forbids() -> None:
    lowered, images, _, free = lowered_at_random(1)
    starts = [np.asarray(ticks) - 10**6 * (k == len(free.starts) - 1) for k, ticks in enumerate(free.starts)]
    with pytest.raises(RuntimeError, match=r" may not start at tick -\d+$"):
        machine_of(lowered, images, free.fullest).run(starts)


def test_the_runner_lets_one_stage_of_a_core_run_at_a_time() -> None:
    """In the schedule of a core each, some iterations of any two stages overlap."""
    lowered, images, _, free = lowered_at_random(1)
    apart = run(lowered, images, ScheduleParameters(capacities=free.fullest))
    with pytest.raises(RuntimeError, match=r" may not start at tick \d+$"):
        machine_of(lowered, images, free.fullest, (0,) * len(free.starts)).run(list(apart.starts))


def test_the_runner_imports_numpy_alone() -> None:
    source = ast.parse(Path(runner.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(source) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(source) if isinstance(node, ast.ImportFrom)}
    assert imported == {
        "__future__",
        "argparse",
        "json",
        "pathlib",
        "runpy",
        "types",
        "typing",
        "zipfile",
        "numpy",
        "onnxruntime",
    }


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (np.zeros((2, 4)), r"expected numbers \[n, 1, 2, 2\], found float64 \[2, 4\]"),
        (np.zeros((0, 1, 2, 2)), "found float64"),
        (np.full((1, 1, 2, 2), "a"), "expected numbers"),
        (np.full((1, 1, 2, 2), np.nan), "expected finite numbers"),
        (np.full((1, 1, 2, 2), 200), "expected whole numbers from -127 to 127"),
    ],
)
def test_the_runner_refuses_what_is_no_image_of_the_network(images: NDArray[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        runner.as_integers(images, SCALE)


def test_the_runner_refuses_files_without_images(tmp_path: Path) -> None:
    whole = np.random.default_rng(0).normal(size=(4, 1, 2, 2))
    np.savez(tmp_path / "good.npz", images=whole)
    assert (runner.stored_images(tmp_path / "good.npz") == whole).all()
    content = (tmp_path / "good.npz").read_bytes()
    np.save(tmp_path / "array.npy", whole)
    np.savez(tmp_path / "other.npz", others=whole)
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "text.npz").write_text("images")
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    middle = content.index(whole.tobytes()) + 40
    (tmp_path / "damaged.npz").write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    for name in ("array.npy", "other.npz", "empty.npz", "text.npz", "cut.npz", "damaged.npz"):
        with pytest.raises(ValueError, match=r"expected an \.npz file with an array 'images', found another one"):
            runner.stored_images(tmp_path / name)


def test_the_runner_scales_and_limits_real_images_alone() -> None:
    real = np.array([0.3, -0.13, 1.0, -99.0]).reshape(1, 1, 2, 2)
    assert runner.as_integers(real, SCALE).reshape(-1).tolist() == [38, -17, 127, -127]
    whole = np.array([38, -17, 127, -127], np.int8).reshape(1, 1, 2, 2)
    assert runner.as_integers(whole, SCALE).tolist() == whole.tolist()
