"""The paper's own example and the two that its prototype cannot do: partitions, cores, and state machines against brute force."""

from __future__ import annotations

import itertools

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.cm.routing import route_tables
from kilotune.experiments.papers.cmnnc_figure_2 import CASES, IMAGE_SIDE, CompiledCore, compiled, graph_of

CONVOLUTION = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)]
PIXEL = [(0, 0)]
ONCE = (1, CONVOLUTION)

EXPECTED = {
    "figure-2": {"CONV1": {None: ONCE}, "CONV2": {"CONV1": ONCE}},
    "strided": {"CONV1": {None: ONCE}, "CONV2": {"CONV1": (2, CONVOLUTION)}},
    "residual": {
        "CONV0": {None: ONCE},
        "CONV1a": {"CONV0": ONCE},
        "CONV1b": {"CONV0": (1, PIXEL), "CONV1a": ONCE},
        "CONV2a": {"CONV1b": ONCE},
        "CONV2b": {"CONV1b": (1, PIXEL), "CONV2a": ONCE},
    },
}
"""By case and partition what it reads of each writer: the stride, and the pixels around. The addition of Figure 2 reads what the
second convolution reads, at the pixel in its middle: one array."""

HARDWARE = load_hardware("mesh-diagonal-8x8")


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, list[CompiledCore]]:
    return request.param, compiled(graph_of(request.param), HARDWARE)


def test_partitions_have_one_convolution_each_and_additions_go_where_no_circle_arises(
    case: tuple[str, list[CompiledCore]],
) -> None:
    name, cores = case
    assert {core.name: set(core.machines) for core in cores} == {
        layer: set(writers) for layer, writers in EXPECTED[name].items()
    }
    added = {core.name for core in cores if any(node.startswith("ADD") for node in core.nodes)}
    assert added == {"figure-2": {"CONV2"}, "strided": set(), "residual": {"CONV1b", "CONV2b"}}[name]


def test_connected_partitions_are_on_linked_cores(case: tuple[str, list[CompiledCore]]) -> None:
    _, cores = case
    place = {core.name: core.core for core in cores}
    assert len(set(place.values())) == len(cores)
    distance = route_tables(HARDWARE).distance
    for core in cores:
        for writer in set(core.machines) - {None}:
            assert distance[place[str(writer)], core.core] == 1


def test_state_machines_allow_what_brute_force_allows(case: tuple[str, list[CompiledCore]]) -> None:
    name, cores = case
    checked = 0
    for core in cores:
        for writer, machine in core.machines.items():
            stride, around = EXPECTED[name][core.name][writer]
            side = IMAGE_SIDE // stride
            iterations = list(itertools.product(range(side), repeat=2))
            written: set[tuple[int, int]] = set()
            allowed = machine.initial()
            for pixel in itertools.product(range(IMAGE_SIDE), repeat=2):
                written.add(pixel)
                allowed = machine.written(*pixel) or allowed
                assert allowed == last_allowed(iterations, written, stride, around), (name, core.name, writer, pixel)
                checked += 1
    assert checked >= 2 * IMAGE_SIDE**2


def last_allowed(
    iterations: list[tuple[int, int]], written: set[tuple[int, int]], stride: int, around: list[tuple[int, int]]
) -> tuple[int, int] | None:
    """The last iteration before the first one that reads a pixel of the image that is not written."""
    last = None
    for row, column in iterations:
        reads = {(row * stride + down, column * stride + right) for down, right in around}
        if any(min(pixel) >= 0 and max(pixel) < IMAGE_SIDE and pixel not in written for pixel in reads):
            return last
        last = row, column
    return last


def test_the_text_of_the_strided_machine() -> None:
    """Golden: every second pixel of every second row allows one more iteration."""
    (reader,) = (core for core in compiled(graph_of("strided"), HARDWARE) if core.name == "CONV2")
    assert "for oh in range(0, 4):\n        for ow in range(0, 4):\n            yield oh, ow" in reader.loops
    text = reader.machines["CONV1"].source
    assert (
        "if (h + 1) % 2 == 0 and (w + 1) % 2 == 0:\n        return (h - 1) // 2, (w - 1) // 2\n    return None" in text
    )
