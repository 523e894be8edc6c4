"""What every simulated device has in common: the program handed to it, and what comes back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.fixed.arithmetic import quantise_features

Bytes = npt.NDArray[np.uint8]


class DeviceError(RuntimeError):
    """A program that cannot be built for a device, or does not run there as it should; the message is for users."""


@dataclass(frozen=True)
class Artefact:
    """C with an entry `function`: `features` inputs of `input_type`, `results` outputs of `result_type`. `calls`: how many calls make an
    inference; each gets the next `features` of the sample, and the last one has the outputs.

    A class program returns its label, which the harness stores as `result_type`. Types are those of NumPy; `float32` too.
    `array`, `offsets`: the name of the RAM array and the byte of each variable in it, for tracing. `asks_at`: of a program that asks for
    its whole sample by a function that it is given, the byte of the array from which on it wants it; None where it is called with it.
    """

    name: str
    header: str
    source: str
    function: str
    kind: ir.ResultKind
    features: int
    input_type: np.dtype[np.generic]
    results: int
    result_type: np.dtype[np.generic]
    array: str = ""
    offsets: Mapping[str, int] | None = None
    calls: int = 1
    asks_at: int | None = None

    @property
    def held_bytes(self) -> int:
        """What the caller holds of the input."""
        return self.input_bytes if self.asks_at is None else 0

    @property
    def input_bytes(self) -> int:
        """Size of what one call gets: one sample, or a frame of it."""
        return self.features * self.input_type.itemsize

    @property
    def output_bytes(self) -> int:
        """Size of one result."""
        return self.results * self.result_type.itemsize


def of_emitted(source: CSource) -> Artefact:
    """The artefact of an emitted program, of fixed-point or of float numbers; one that is called with each frame of its input gets a
    frame a call. ValueError for one that asks for several frames: no harness has them."""
    face = source.interface
    calls = face.frames if face.pushed else 1
    asks = face.frames > 0 and not face.pushed
    if asks and source.input_offset is None:
        raise ValueError(f"{source.name} asks for its input in {face.frames} frames")
    return Artefact(
        source.name,
        source.header,
        source.source,
        source.function,
        face.kind,
        face.features // calls,
        _type(face.input_type if face.input_bits else "int8_t"),
        face.results,
        _type(face.result_type),
        "kt_ram",
        source.offsets,
        calls,
        source.input_offset if asks else None,
    )


def _type(name: str) -> np.dtype[np.generic]:
    """NumPy's type of a C type."""
    return np.dtype("<f4") if name == "float" else np.dtype(f"<i{int(name[3:-2]) // 8}")


@dataclass(frozen=True)
class Sizes:
    """Bytes of a linked program. Static RAM holds what one call gets too, the sample or a frame (`input_bytes` of it, 0 where the program
    itself holds it); the stack comes on top."""

    flash_bytes: int
    static_ram_bytes: int
    input_bytes: int


@dataclass(frozen=True)
class SimulatedRun:
    """`outputs` [samples, results] and `cycles` [samples] of inferences that all ended. Where cycles are estimated, not counted,
    `instructions` [samples] were counted. `most_step_cycles`: the most that one call took, where several make an inference."""

    outputs: IntArray | npt.NDArray[np.float32]
    cycles: npt.NDArray[np.int64]
    peak_stack_bytes: int
    instructions: npt.NDArray[np.int64] | None = None
    most_step_cycles: int | None = None


def inferences(run: SimulatedRun, calls: int) -> SimulatedRun:
    """A run of single calls as one of inferences, each of so many calls: the outputs of the last, and the cycles of all."""
    if calls == 1:
        return run
    counted = None if run.instructions is None else run.instructions.reshape(-1, calls).sum(axis=1)
    cycles = run.cycles.reshape(-1, calls)
    outputs = run.outputs[calls - 1 :: calls]
    return dataclasses.replace(
        run, outputs=outputs, cycles=cycles.sum(axis=1), instructions=counted, most_step_cycles=int(cycles.max())
    )


@dataclass(frozen=True)
class Trace:
    """One inference after each operation: `rows` [events] (its number), and the bytes of the RAM array [events, bytes]."""

    rows: npt.NDArray[np.int32]
    snapshots: Bytes


def quantised(source: CSource, features: FloatArray) -> IntArray:
    """Samples as the program takes them [samples, features]; without features for a program that has no input."""
    face = source.interface
    if face.real:
        raise ValueError("a float program takes its samples as they are")
    if not face.input_bits:
        return np.zeros((features.shape[0], 0), dtype=np.int64)
    return quantise_features(features, face.input_bits, face.input_scale)
