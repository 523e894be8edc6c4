"""C of models whose layers walk along time: called with each frame, asking for each, or with all of them, and with overlapping windows."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.emit.targets.recording import Export, Recording
from kilotune.codegen.emit.targets.streamed import in_parts
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.interference import find_interference
from kilotune.codegen.placement import Placer
from kilotune.codegen.time_steps import FramedProgram, over_frames
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import SANITISED, compile_sources, needs_compiler
from tests.codegen.walking_programs import WalkingPrograms

pytestmark = [needs_compiler, pytest.mark.slow]
TYPES = {8: np.int8, 16: np.int16, 32: np.int32}
NOTHING_RECORDED = Recording(np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64))
ASKING = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
quick = settings(suppress_health_check=list(HealthCheck), database=None, max_examples=10)


def drawn(
    seed: int, *, padded: bool, overlapping: bool = False
) -> tuple[FramedProgram, dict[str, FloatArray], FloatArray]:
    """A framed program, its parameters, and features [samples, features] in the order of frames."""
    random = np.random.default_rng(seed)
    while True:
        program, parameters, features = WalkingPrograms(random, padded).program(int(random.integers(1, 6)))
        try:
            made = over_frames(program, overlapping=overlapping)
        except ValueError:
            continue
        return made, parameters, features[:, list(made.order)]


def candidate(made: FramedProgram, seed: int) -> FixedBatch:
    random, shape = np.random.default_rng(seed), (1, len(made.program.variables))
    return ShiftryLowering(made.program, {}).lower(random.choice([8, 16], shape), random.integers(2, 8, shape))


class Called:
    """One emitted program in a library."""

    def __init__(self, library: ctypes.CDLL, source: CSource) -> None:
        self.face, self.function = source.interface, getattr(library, source.function)
        self.reset = getattr(library, f"{source.function}_reset", None)
        self.result = np.zeros(self.face.results, dtype=TYPES[self.face.result_bits])
        self.width = self.face.features // max(self.face.frames, 1)

    def integers(self, features: FloatArray) -> IntArray:
        rows = quantise_features(features, self.face.input_bits, self.face.input_scale)
        return np.ascontiguousarray(rows).astype(TYPES[self.face.input_bits])

    def at_once(self, row: np.ndarray) -> list[int]:
        self.function(ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(self.result.ctypes.data))
        return self.result.tolist()

    def asking(self, row: np.ndarray) -> list[int]:
        frames = iter(row.reshape(-1, self.width))
        given = ASKING(
            lambda to: ctypes.memmove(to, next(frames).copy().ctypes.data, self.width * row.itemsize) and None
        )
        self.function(given, ctypes.c_void_p(self.result.ctypes.data))
        assert next(frames, None) is None
        return self.result.tolist()

    def pushed(self, frames: np.ndarray) -> list[list[int] | None]:
        """What each call brings."""
        found: list[list[int] | None] = []
        for frame in frames.reshape(-1, self.width):
            row = frame.copy()
            ready = self.function(ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(self.result.ctypes.data))
            found.append(self.result.tolist() if ready else None)
        return found


def compiled(sources: Sequence[CSource], folder: str) -> list[Called]:
    made = compile_sources(sources, Path(folder), SANITISED)
    return [Called(made.library, source) for source in sources]


@given(seed=st.integers(0, 1 << 32), padded=st.booleans())
@quick
def test_all_ways_to_give_frames_compute_the_definition(seed: int, padded: bool) -> None:
    made, parameters, features = drawn(seed, padded=padded)
    batch = candidate(made, seed)
    expected = run_reference(batch, parameters, features)[0].tolist()
    ways = [
        (shape, how) for shape in ("plain", "rows4", "unrolled8", "compact") for how in ("steps", "frames", "whole")
    ]
    sources = [
        emit_c(
            batch,
            parameters,
            shape=SHAPES[shape],
            in_steps=how == "steps",
            in_frames=how == "frames",
            name=f"m{n}",
            function=f"predict{n}",
        )
        for n, (shape, how) in enumerate(ways)
    ]
    with tempfile.TemporaryDirectory() as folder:
        for (_, how), called in zip(ways, compiled(sources, folder), strict=True):
            rows = called.integers(features)
            if how == "steps":
                brought = called.pushed(rows)
                assert [n for n, one in enumerate(brought) if one is not None] == [
                    called.face.frames * (n + 1) - 1 for n in range(len(rows))
                ]
                found = [one for one in brought if one is not None]
            else:
                found = [called.asking(row) if how == "frames" else called.at_once(row) for row in rows]
            assert found == expected, how


@given(seed=st.integers(0, 1 << 32), shape=st.sampled_from(["rows4", "places2", "unrolled8"]))
@settings(quick, max_examples=15)
def test_written_anew_for_frames_where_the_search_placed_it(seed: int, shape: str) -> None:
    """Code made for speed may place temporaries anew, so that operations run as one: what is written anew starts from the same place."""
    made, parameters, _ = drawn(seed, padded=bool(seed % 2))
    batch = candidate(made, seed)
    bits = {variable.name: int(b) for variable, b in zip(made.program.variables, batch.bits[0], strict=True)}
    placement = Placer(find_interference(made.program, True)).place(bits).offsets
    whole = emit_c(batch, parameters, placement, shape=SHAPES[shape])
    for in_steps in (False, True):
        expected = emit_c(batch, parameters, placement, shape=SHAPES[shape], in_steps=in_steps, in_frames=not in_steps)
        found = in_parts(Export(whole, NOTHING_RECORDED, "m", "O2"), in_steps)
        assert found.source.source == expected.source


@given(seed=st.integers(0, 1 << 32))
@quick
def test_overlapping_windows_have_the_results_that_each_has_alone(seed: int) -> None:
    made, parameters, _ = drawn(seed, padded=False, overlapping=True)
    if not made.hop:
        return
    batch = candidate(made, seed)
    hop = made.hop * (1 + seed % 2)
    source = emit_c(batch, parameters, in_steps=True, hop=hop)
    frames, width = source.interface.frames, source.interface.features // source.interface.frames
    hop = min(hop, made.hop * (frames // made.hop))
    source = emit_c(batch, parameters, in_steps=True, hop=hop)
    assert f"#define MODEL_HOP {hop}\n" in source.header
    stream = np.random.default_rng(seed).normal(0, 1, (frames + 3 * hop, width))
    windows = np.stack([stream[start : start + frames].reshape(-1) for start in range(0, 3 * hop + 1, hop)])
    expected = run_reference(batch, parameters, windows)[0].tolist()
    with tempfile.TemporaryDirectory() as folder:
        (called,) = compiled([source], folder)
        for _ in range(2):  # after a reset again
            brought = called.pushed(called.integers(stream))
            assert [n for n, one in enumerate(brought) if one is not None] == [frames - 1 + hop * n for n in range(4)]
            assert [one for one in brought if one is not None] == expected
            assert called.reset is not None
            called.reset()


@pytest.mark.parametrize("frames", [65535, 65537])
def test_a_sample_may_have_more_frames_than_16_bits_count(frames: int) -> None:
    here = ir.Location("long.sd", 1, 1)
    x, last = ir.Variable("X", (frames, 1), ir.Role.INPUT, here), ir.Variable("H", (1,), ir.Role.TEMPORARY, here)
    row = ir.View("X", (1,), (1,), ir.Affine(0, (("t", 1),)))
    body = (ir.Loop("t", 0, frames, (ir.Add(ir.whole(last), here, row, row),), here),)
    program = ir.Program("long", (x, last), body, ir.whole(last), ir.ResultKind.REAL)
    batch = ShiftryLowering(program, {}).lower(np.full((1, 2), 16), np.array([[4, 3]]))
    with tempfile.TemporaryDirectory() as folder:
        (called,) = compiled([emit_c(batch, {}, in_steps=True)], folder)
        rows = np.zeros((2, frames), dtype=np.int16)
        rows[:, -1] = (4, 6)
        for row in rows:
            brought = called.pushed(row)
            assert [n for n, one in enumerate(brought) if one is not None] == [frames - 1]
            assert brought[-1] == [int(row[-1])]
