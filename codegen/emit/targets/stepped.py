"""As the plain C sources and the sketch, for inputs that arrive a frame at a time: the program is called with each, and keeps its state."""

from __future__ import annotations

import dataclasses

from kilotune.codegen.emit.targets import arduino, plain
from kilotune.codegen.emit.targets.recording import Export
from kilotune.codegen.emit.targets.streamed import in_parts
from kilotune.codegen.emit.targets.target import STEPPED, ProjectTarget, make_runs


def files(export: Export) -> dict[str, str]:
    """Text by path in a folder of C sources; ValueError as `in_parts`."""
    return plain.files(in_parts(export, in_steps=True, overlapping=True))


def sketch_files(export: Export) -> dict[str, str]:
    """Text by path in the folder of a sketch, which gives every recorded sample frame by frame; ValueError as `in_parts`, and for a
    folder whose name is no sketch's."""
    return arduino.files(in_parts(export, in_steps=True))


TARGET = ProjectTarget(
    "c-steps",
    "as `c`, but the program is called with a frame of its input at a time, and keeps its state until the last one",
    plain.TARGET.names,
    files,
    make_runs("check", "runs it"),
    input_way=STEPPED,
)

SKETCH = dataclasses.replace(
    arduino.TARGET,
    name="arduino-steps",
    what="as `arduino`, but the program is called as in `c-steps`: the board holds one frame of the input",
    files=sketch_files,
    input_way=STEPPED,
)
