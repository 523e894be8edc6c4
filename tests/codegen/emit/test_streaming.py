"""Programs that ask for their input a frame at a time: which can, what they hold of it, and that they compute the same."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.project import project_files
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.emit.streaming import FrameStream, streamed
from kilotune.codegen.emit.targets.recording import Recording
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.evaluators.architectures.registry import project_target
from tests.codegen.emit.written import write_project
from tests.evaluators.devices.candidates import bundled

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
HERE = ir.Location("stream.sd", 1, 1)
X = ir.Variable("X", (4, 3), ir.Role.INPUT, HERE)
H = ir.Variable("H", (3,), ir.Role.TEMPORARY, HERE)


def reading(view: ir.View, *, start: int = 0, count: int = 4, besides: tuple[ir.Statement, ...] = ()) -> ir.Program:
    """A loop over t that adds a view of the input to H."""
    step = ir.Add(ir.whole(H), HERE, ir.whole(H), view)
    body = (*besides, ir.Loop("t", start, count, (step,), HERE))
    return ir.Program("stream", (X, H), body, ir.whole(H), ir.ResultKind.REAL)


ROW = ir.View("X", (3,), (1,), ir.Affine(0, (("t", 3),)))


def test_a_row_a_round_is_a_frame() -> None:
    program, stream = streamed(reading(ROW))
    assert stream == FrameStream("t", 4, 3)
    assert program.variable("X").shape == (3,)
    (loop,) = program.body
    assert isinstance(loop, ir.Loop)
    assert [o for o in next(ir.operations(loop.body)).operands if isinstance(o, ir.View)][1].offset == ir.Affine(0)


BOTH = ir.View("X", (3,), (1,))


def at(line: int, *operands: ir.View) -> ir.Add:
    """A sum that reads the views, on a line of its own."""
    return ir.Add(ir.whole(H), ir.Location("stream.sd", line, 1), *operands)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (  # begins in one row, ends in the next
            reading(dataclasses.replace(ROW, offset=ir.Affine(1, (("t", 3),))), count=3),
            "stream.sd:1:1: .* Add reads not just the next 4 of 12 features in each round",
        ),
        (reading(dataclasses.replace(ROW, strides=(-1,))), "just the next 3"),  # reaches back
        (reading(dataclasses.replace(ROW, strides=(4,)), count=2), "just the next 6"),  # diagonals
        (reading(ROW, start=1, count=3), "just the next 4"),  # the first row is never read
        (reading(ROW, count=5), "Add reads 12 features in 5 rounds"),
        (reading(dataclasses.replace(ROW, offset=ir.Affine(0, (("t", 2),)))), "just the next 3"),  # rows that overlap
        (reading(ROW, besides=(at(7, BOTH, BOTH),)), "stream.sd:7:1: .* Add reads the input outside any loop"),
        (
            reading(ROW, besides=(ir.Loop("s", 0, 4, (at(8, ROW, ROW),), ir.Location("stream.sd", 3, 1)),)),
            "stream.sd:1:1: .* reads the input in a second loop, after that of stream.sd:3:1",
        ),
        (reading(ir.whole(H)), "stream.sd:1:1: no operation reads the input"),
    ],
)
def test_what_reads_the_input_otherwise_asks_for_all_of_it_and_is_not_called_with_parts(
    program: ir.Program, why: str
) -> None:
    assert streamed(program) == (program, FrameStream(None, 1, 12))
    with pytest.raises(ValueError, match=f"^{why}" if why.startswith("stream") else why):
        streamed(program, pushed=True)


def test_an_inner_loop_may_walk_in_the_frame_but_not_out_of_it() -> None:
    def nested(count: int) -> ir.Program:
        element = ir.View("X", (1,), (0,), ir.Affine(0, (("i", 1), ("t", 3))))
        first = ir.View("H", (1,), (0,))
        inner = ir.Loop("i", 0, count, (ir.Add(first, HERE, first, element),), HERE)
        return dataclasses.replace(reading(ROW), body=(ir.Loop("t", 0, 4, (inner,), HERE),))

    assert streamed(nested(3))[1] == FrameStream("t", 4, 3)
    assert streamed(nested(4))[1] == FrameStream(None, 1, 12)


def test_without_input() -> None:
    program = dataclasses.replace(reading(ROW), variables=(H,), body=())
    with pytest.raises(ValueError, match="takes no input"):
        streamed(program)


def recorded(name: str, seed: int | None) -> tuple[CSource, Recording]:
    candidate = bundled(name, samples=20, seed=seed)
    face = candidate.source.interface
    return candidate.source, Recording(
        quantise_features(candidate.features, face.input_bits, face.input_scale), np.asarray(candidate.expected)
    )


@needs_cc
@pytest.mark.parametrize(
    ("name", "seed", "frames", "features"),
    [
        ("fastgrnn16-digits", None, 8, 8),
        ("fastgrnn16-digits", 3, 8, 8),
        ("lenet-digits", 1, 1, 64),
        ("mlp-diabetes", 1, 1, 10),
    ],
)
def test_it_computes_what_the_whole_program_does(
    name: str, seed: int | None, frames: int, features: int, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    write_project(folder, *recorded(name, seed), {}, "c-frames")
    text = (folder / "model.c").read_text()
    assert (f"kt_frame[{features}];" in text) == (frames > 1)
    assert text.count("kt_next(kt_frame);" if frames > 1 else "kt_next(x);") == 1
    assert f"#define MODEL_FRAMES {frames}\n" in (folder / "model.h").read_text()
    done = subprocess.run(["make", "check"], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert "20 of 20 outputs equal" in done.stdout, done.stderr


@needs_cc
def test_called_with_each_frame_it_computes_the_same_and_says_nothing_before_the_last(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_project(folder, *recorded("fastgrnn16-digits", None), {}, "c-steps")
    text, head = (folder / "model.c").read_text(), (folder / "model.h").read_text()
    assert ("kt_frame" in text, "kt_next" in head, "predict_reset(void);" in head) == (False, False, True)
    assert "#define MODEL_FRAMES 8\n" in head
    done = subprocess.run(["make", "check"], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert "20 of 20 outputs equal" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["c-steps", "arduino-steps"])
def test_a_model_that_is_no_loop_over_frames_is_not_exported_in_steps(target: str, tmp_path: Path) -> None:
    """Its whole sample would be its only frame. What is said names the first operation that reads it."""
    with pytest.raises(ValueError, match=r"lenet-digits/model\.sd:12:18: .*: Conv2D reads the input outside any loop$"):
        write_project(tmp_path / "model", *recorded("lenet-digits", 1), {}, target)
    assert not list(tmp_path.rglob("*.c"))


@pytest.mark.parametrize("target", ["c-frames", "c-steps", "arduino-steps"])
def test_inner_loops_are_those_of_the_program_that_was_measured(target: str) -> None:
    """The program is written anew for its frames, in the shape that it had."""
    candidate = bundled("fastgrnn16-digits", samples=2)
    shape, pushed = SHAPES["unrolled16"], target != "c-frames"
    face = candidate.source.interface
    recording = Recording(quantise_features(candidate.features, face.input_bits, face.input_scale), candidate.expected)
    whole, expected = (
        emit_c(candidate.batch, candidate.parameters, candidate.source.offsets, shape=shape, **asked)
        for asked in ({}, {"in_steps": pushed, "in_frames": not pushed})
    )
    files = project_files("out", whole, recording, {}, project_target(target))
    assert files["model.c"] == expected.source
    plain = project_files("out", candidate.source, recording, {}, project_target(target))
    assert files["model.c"] != plain["model.c"]


def test_only_a_frame_is_in_ram() -> None:
    candidate = bundled("fastgrnn16-digits", samples=2)
    source = emit_c(candidate.batch, candidate.parameters, candidate.source.offsets, in_frames=True)
    assert (source.interface.features, source.interface.frames) == (64, 8)
    assert source.ram_bytes == candidate.source.ram_bytes
    assert source.candidate is not None
    assert source.candidate.batch is candidate.batch
    assert "int predict(void (*kt_next)(int16_t *frame));" in source.header


def test_a_sample_that_is_one_frame_lies_among_the_temporaries() -> None:
    """Which need less than both: the first convolution writes over what it has read."""
    candidate = bundled("lenet-mnist", samples=1)
    source = emit_c(candidate.batch, candidate.parameters, in_frames=True)
    apart = candidate.source.variable_bytes
    assert apart < source.variable_bytes < apart + 100 < apart + 2 * source.interface.features
    assert "kt_frame" not in source.source
    assert "kt_next(x);" in source.source
