"""Emitted networks, compiled for the host and executed transfer by transfer, against the array simulator: every level and every class.

`chip/scamp5.hpp` stands for the chip's library. It knows the macros as bus transfers and nothing of how they are made or simulated.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.scamp.macros import as_macros
from kilotune.codegen.scamp.network import ChipNetwork, DenseLayer, Region
from kilotune.codegen.scamp.network_source import ARRAY_MIDDLE, format_network, network_obstacle
from kilotune.codegen.scamp.text import parse_program
from kilotune.evaluators.scamp5.array import ARRAY_SIZE, EXACT
from kilotune.evaluators.scamp5.network import margin_of, results_of, run_network

LIBRARY = Path(__file__).parent / "chip"
SIDE, IMAGES, LARGEST_SUM = 18, 4, 2000

AT_THE_END = """# scamp5; image in A; results in A, B, E
B = movx(A, east)
C = mov2x(A, north, west)
D = add(A, B)
E = add(B, C, D)
B = addx(A, C, south)
C = add2x(D, E, west, west)
D = sub(E, C)
E = subx(D, north, A)
A = sub2x(B, east, south, D)
D = neg(C)
B = divq(D)
"""

AS_THEY_FINISH = """# scamp5; image in A; results in B after 1, C after 2, C after 4, A after 8
B, C, D = div(A)
C = sub(A, B)
B = sub2x(A, west, north, C)
C, E, B = div(B)
D, E = res()
C = subx(A, south, D)
B = mov(C)
A, D, B = div(B)
"""

IN_AUKES = """# auke; image in A; results in B, C, D, E
B = east(A)
C = north(A)
D = west(A)
E = south(A)
E = add(E, E)
"""
"""Its macros have two of the results in other registers."""

FIVE_RESULTS = """# auke; image in A; results in A, B, C, D, E
B = east(A)
C = north(A)
D = west(A)
E = add(A, B)
E = add(E, C)
E = add(E, D)
E = add(E, E)
"""
"""All results are there when the last one is doubled, for which macros need a copy of it."""

MAIN = """
#include <cstdio>
template <class Classify> void run(Classify classify, FILE* images, FILE* out)
{
    unsigned char count;
    std::rewind(images);
    while (std::fread(&count, 1, 1, images) == 1) {
        std::memset(host::frame, 0, sizeof host::frame);
        for (int row = 0; row < SIDE; row++) std::fread(&host::frame[TOP + row][TOP], 1, SIDE, images);
        host::compared.clear();
        const double found = classify();
        std::fwrite(&found, sizeof found, 1, out);
        for (const host::Plane& plane : host::compared) std::fwrite(plane.data(), sizeof(double), plane.size(), out);
    }
}
"""


def network(kernels: int, seed: int) -> ChipNetwork:
    """The class is the sum of the hidden layer: of all numbers n, 2 n sum - n^2 is largest for that one."""
    generator = np.random.default_rng(seed)
    regions = (Region(0, 0, 9, SIDE), Region(9, 0, 16, 10), Region(4, 7, SIDE, SIDE))
    hidden = DenseLayer(
        tuple(map(tuple, generator.integers(-2, 3, (3 * kernels, 5)).tolist())),
        tuple(generator.integers(0, 9, 5).tolist()),
    )
    steps = range(LARGEST_SUM)
    last = DenseLayer((tuple(2 * n for n in steps),) * 5, tuple(-n * n for n in steps))
    thresholds = tuple(int(t) for t in generator.integers(1, 60, kernels))
    return ChipNetwork(SIDE, 100, 80, thresholds, regions, (hidden, last))


def executed(sources: list[str], images: np.ndarray, place: Path) -> bytes:
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("needs g++")
    top = ARRAY_MIDDLE - SIDE // 2
    parts = [f"enum {{ SIDE = {SIDE}, TOP = {top} }};", "#include <scamp5.hpp>", MAIN]
    parts += [f"namespace network{number} {{\n{source}}}" for number, source in enumerate(sources)]
    calls = " ".join(f"run(network{number}::classify, images, stdout);" for number in range(len(sources)))
    parts.append(f'int main(int, char** given) {{ FILE* images = fopen(given[1], "rb"); {calls} }}')
    (place / "main.cpp").write_text("\n".join(parts) + "\n")
    (place / "images").write_bytes(b"".join(b"\1" + image.tobytes() for image in images))
    subprocess.run([compiler, "-O1", "-std=c++17", "-I", str(LIBRARY), "-o", "main", "main.cpp"], cwd=place, check=True)
    return subprocess.run([place / "main", place / "images"], check=True, capture_output=True).stdout


def test_networks_executed_on_the_host_are_those_of_the_simulator(tmp_path: Path) -> None:
    """What each threshold is compared with, to the last bit, on the image and around it; and the classes."""
    images = np.random.default_rng(0).choice(np.array([0, 99, 100, 255], dtype=np.uint8), (IMAGES, SIDE, SIDE))
    for number, image in enumerate(images[1:], start=1):  # each has another part blank
        image[3 * number :] = 0
        image[:, : 3 * number] = 0
    texts = [AT_THE_END, AS_THEY_FINISH, IN_AUKES]
    programs = [parse_program(text) for text in texts]
    networks = [network(len(program.results), seed) for seed, program in enumerate(programs)]
    sources = [format_network(*both) for both in zip(programs, networks, strict=True)]
    found = np.frombuffer(executed(sources, images, tmp_path))
    seen = set()
    for text, net in zip(texts, networks, strict=True):
        kernels = len(net.thresholds)
        size = 1 + (1 + kernels) * ARRAY_SIZE**2
        here, found = found[: IMAGES * size].reshape(IMAGES, size), found[IMAGES * size :]
        classes = net.classes(run_network(text, net, images).counts)
        assert here[:, 0].tolist() == classes.tolist()
        seen |= set(classes.tolist())
        planes = here[:, 1:].reshape(IMAGES, 1 + kernels, ARRAY_SIZE, ARRAY_SIZE)
        margin = margin_of(text, SIDE)
        begin = ARRAY_MIDDLE - SIDE // 2 - margin
        window = slice(begin, begin + SIDE + 2 * margin)
        for kernel, wanted in enumerate(results_of(text, net, images, EXACT)):
            assert np.array_equal(planes[:, 1 + kernel, window, window], wanted), f"kernel {kernel + 1} of {text}"
    assert len(seen - {0, LARGEST_SUM - 1}) > IMAGES
    assert not len(found)


def test_macros_that_take_the_levels_register_have_no_network() -> None:
    """AUKE's instructions leave F alone, and their macros do not."""
    program = parse_program(FIVE_RESULTS)
    assert "F" not in program.registers
    assert as_macros(program).registers == ("A", "B", "C", "D", "E", "F")
    obstacle = network_obstacle(program, network(5, 0))
    assert obstacle == "the thresholds need register F, which the program's macros take."
    with pytest.raises(ValueError, match="of the whole network: the thresholds need register F"):
        format_network(program, network(5, 0))
    assert network_obstacle(parse_program(IN_AUKES), network(4, 0)) is None


def test_a_threshold_below_nothing_has_no_network() -> None:
    """All of the array beside the image is above it, and more than is read."""
    program, net = parse_program(AT_THE_END), network(3, 0)
    below = replace(net, thresholds=(3, -1, 0))
    assert network_obstacle(program, replace(net, thresholds=(3, 1, 0))) is None
    with pytest.raises(ValueError, match="with a threshold of -1 every element of the array beside the image is set"):
        format_network(program, below)


@pytest.mark.parametrize(("side", "events"), [(18, 1000), (31, 1000), (32, 1024), (256, 65535)])
def test_all_pixels_of_an_image_may_be_set(side: int, events: int) -> None:
    source = format_network(parse_program(AT_THE_END), replace(network(3, 0), side=side))
    assert f"static uint8_t events[{2 * events}];" in source
    assert source.count(f"events, {events});") == source.count(f"e < {events} &&") == 3
