"""Networks at the front door: the bundled ones, their C++, digits, and weights rounded as far as a limit on the accuracy allows."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.network_source import format_network
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.problems.reverse_split.figures.stage_figures import stages_section
from kilotune.experiments.problems.reverse_split.networks import NETWORKS, bundled_file
from kilotune.experiments.problems.reverse_split.problem import (
    WITHOUT_NETWORK,
    KernelProblem,
    build_problem,
    command_options,
    read_options,
)
from kilotune.experiments.requests.request import limit_text, parse_limit
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.space import Trial
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

STUB = """
#include <cstdint>
#define NAME(n) constexpr struct { } n{};
NAME(A) NAME(B) NAME(C) NAME(D) NAME(E) NAME(F) NAME(R5) NAME(R6) NAME(R7) NAME(R8) NAME(R9) NAME(R10) NAME(R11) NAME(R12) NAME(FLAG)
NAME(north) NAME(east) NAME(south) NAME(west)
#define MACRO(n) template <class... T> void n(T...) { }
MACRO(scamp5_in) MACRO(scamp5_get_image) MACRO(scamp5_draw_begin) MACRO(scamp5_draw_rect) MACRO(scamp5_draw_end) MACRO(scamp5_scan_events)
MACRO(scamp5_kernel_begin) MACRO(scamp5_kernel_end)
namespace SCAMP5_PE {
MACRO(all) MACRO(where) MACRO(WHERE) MACRO(CLR) MACRO(MOV) MACRO(AND) MACRO(res) MACRO(mov) MACRO(movx) MACRO(mov2x) MACRO(add) MACRO(addx)
MACRO(add2x) MACRO(sub) MACRO(subx) MACRO(sub2x) MACRO(neg) MACRO(divq) MACRO(div)
}
"""
"""What the emitted code names of the chip's library; nothing is computed."""


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Blobs whose place is their class, of ten."""
    generator = np.random.default_rng(5)
    labels = np.arange(200) % 10
    images = np.zeros((200, 28, 28), dtype=np.uint8)
    for number, label in enumerate(labels):
        top, left = 3 + 12 * (label % 2), 2 + 5 * (label // 2)
        images[number, top : top + 9, left : left + 5] = generator.integers(100, 255, (9, 5))
    np.savez(tmp_path / "digits.npz", X=images.reshape(200, 784), y=labels)
    return tmp_path / "digits.npz"


def built(name: str, **options: object) -> KernelProblem:
    return build_problem(request_from("reverse-split", input=name, options=options))


def first_text(problem: KernelProblem) -> str:
    space = problem.space
    assert isinstance(space, ReverseSplitSpace)
    return space.program(space.program_candidate(space.first_plan)).text


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_emitted_as_cpp_that_a_compiler_takes(name: str, tmp_path: Path) -> None:
    problem = built(name)
    assert problem.space.problem.registers == 5  # the sixth takes the thresholds
    program = prove(first_text(problem), problem.wanted.sums, problem.wanted.depth)
    network = bundled_file(name).network
    assert network is not None
    source = format_network(program, network)
    assert "F" not in program.registers
    kept = [f"keep_above<{k}>({'result' if program.read_after else register}, {round(threshold)});"
            for k, (register, threshold) in enumerate(zip(program.results, network.thresholds, strict=True), start=1)]  # fmt: skip
    assert all(source.count(call) == 1 for call in kept)
    assert f"WEIGHTS1[{len(network.layers[0].weights)}][50]" in source
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("needs g++")
    (tmp_path / "scamp5.hpp").write_text(STUB)
    (tmp_path / "main.cpp").write_text(source + "int main() { return classify(); }\n")
    subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "-I", str(tmp_path), "main.cpp"], cwd=tmp_path, check=True)


def test_digits_measure_programs_and_limits_round_weights(digits: Path) -> None:
    exact = built("analognet2-digits", data=str(digits))
    assert exact.measured is not None
    assert exact.measured.digits is not None
    assert exact.measured.digits.measuring.sum() == 40  # every fifth of 200
    metrics = exact.test_metrics(exact.space.program_candidate(exact.space.first_plan))
    assert metrics is not None
    assert 0 <= metrics["accuracy"] <= 1
    loose = build_problem(
        request_from("reverse-split", input="analognet2-digits", options={"data": str(digits)}, limits=["accuracy=0.0"])
    )
    assert [len(total.terms) for total in loose.wanted.sums] == [1, 1, 1]
    assert loose.measured is not None
    assert loose.measured.digits is not None
    assert loose.measured.digits.measuring.sum() == 20  # the others chose
    assert loose.space.fingerprint != exact.space.fingerprint
    assert loose.wanted.largest_error > 0
    # The weights are exact at the network's own depth: no other depth would bring back what the limit has taken.
    (said,) = loose.approximation_sentences(loose.wanted)
    assert said.endswith("; a greater --limit accuracy makes it smaller.")


def test_limits_on_the_accuracy_are_read_stored_and_written(digits: Path) -> None:
    assert parse_limit("accuracy=0.95") == ("accuracy", 0.95)
    assert limit_text("accuracy", 0.95) == "accuracy=0.95"
    with pytest.raises(ValueError, match="--limit 'accuracy=95'"):
        parse_limit("accuracy=95")
    request = request_from(
        "reverse-split", input="analognet2-digits", options={"data": str(digits)}, limits=["accuracy=0.5"]
    )
    again = command_options(request.options)
    assert again.limits == {"accuracy": 0.5}
    assert read_options("reverse-split", again) == dict(request.options)


def test_what_does_not_go_together_is_refused(digits: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--data has images for a network"):
        built("sobel", data=str(digits))
    with pytest.raises(ValueError, match="--limit accuracy is measured on images"):
        request_from("reverse-split", input="analognet2-digits", limits=["accuracy=0.5"])
    with pytest.raises(ValueError, match="at most 5"):
        built("analognet2-digits", registers=6)
    with pytest.raises(ValueError, match=r"found accuracy=1"):
        build_problem(
            request_from("reverse-split", input="ternary8-digits", options={"data": str(digits)}, limits=["accuracy=1"])
        )
    with pytest.raises(ValueError, match="the space shiftry has --drop"):
        request_from("shiftry", input="worked-example", limits=["accuracy=0.9"])
    np.savez(tmp_path / "small.npz", X=np.zeros((3, 10)), y=np.zeros(3))
    with pytest.raises(InputError, match="array X: expected images of 28x28, found 3x10"):
        built("analognet2-digits", data=str(tmp_path / "small.npz"))
    np.savez(tmp_path / "bare.npz", X=np.zeros((3, 784)))
    with pytest.raises(InputError, match="expected one called labels or y, found none"):
        built("analognet2-digits", data=str(tmp_path / "bare.npz"))


def test_the_report_draws_an_image_an_instruction(digits: Path) -> None:
    problem = built("analognet2-digits", data=str(digits))
    program = prove(first_text(problem), problem.wanted.sums, problem.wanted.depth)
    section = stages_section(program, problem.measured)
    assert section is not None
    (figure,) = section.blocks
    assert len(figure.figure.data) == program.instructions + 1  # type: ignore[union-attr]
    plain = built("sobel")
    assert stages_section(prove(first_text(plain), plain.wanted.sums, plain.wanted.depth), plain.measured) is not None


@pytest.mark.parametrize("kernels", [8, 9])
def test_a_network_of_too_many_kernels_for_its_cpp_says_so(kernels: int) -> None:
    rows = [[[1, 0, -1], [0, number, 0], [-1, 0, 1]] for number in range(1, kernels + 1)]
    network = {
        "side": 28, "binarised_at": 128, "level": 80, "thresholds": [10] * kernels, "regions": [[0, 0, 28, 28]],
        "layers": [{"weights": [[1, -1]] * kernels, "biases": [0, 0]}],
    }  # fmt: skip
    problem = built(json.dumps({"kernels": rows, "network": network}))
    assert isinstance(problem.space, ReverseSplitSpace)
    candidate = problem.space.program_candidate(problem.space.first_plan)
    trial = Trial(0, candidate, problem.space.evaluate([candidate])[0])
    texts, details = problem.texts(trial), problem.details(trial)
    assert ("network" in texts) == (kernels == 8)
    assert details.get("without_network", WITHOUT_NETWORK).startswith(WITHOUT_NETWORK)
    assert ("without_network" in details) == (kernels == 9)
    for lines in (problem.lines(trial), texts["program"].splitlines()):
        assert any(WITHOUT_NETWORK in line for line in lines) == (kernels == 9)


def test_a_network_in_aukes_instructions_has_cpp_unless_a_threshold_is_below_nothing() -> None:
    network = {
        "side": 28, "binarised_at": 128, "level": 80, "thresholds": [10, -12], "regions": [[0, 0, 28, 28]],
        "layers": [{"weights": [[1, -1]] * 2, "biases": [0, 0]}],
    }  # fmt: skip
    content = {"kernels": [[[2, 0, 0]], [[0, 2, 0], [1, 0, 1], [0, 0, 0]]], "network": network, "target": "auke"}
    texts, details = _network_of(content)
    assert "network" not in texts
    assert "with a threshold of -12" in str(details["without_network"])
    network["thresholds"] = [10, 12]
    texts, details = _network_of(content)
    assert "without_network" not in details
    assert "keep_above<2>(" in texts["network"]


def _network_of(content: dict[str, object]) -> tuple[dict[str, str], dict[str, object]]:
    problem = built(json.dumps(content))
    assert isinstance(problem.space, ReverseSplitSpace)
    candidate = problem.space.program_candidate(problem.space.first_plan)
    trial = Trial(0, candidate, problem.space.evaluate([candidate])[0])
    return problem.texts(trial), problem.details(trial)
