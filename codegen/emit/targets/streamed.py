"""As the plain C sources, for inputs that arrive a frame at a time: RAM holds one frame, not the whole sample."""

from __future__ import annotations

import dataclasses

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.streaming import streamed
from kilotune.codegen.emit.targets import plain
from kilotune.codegen.emit.targets.recording import Export
from kilotune.codegen.emit.targets.target import ASKS, ProjectTarget, make_runs

ASKING = "c-frames"
"""The target's name."""


def in_parts(export: Export, in_steps: bool, *, overlapping: bool = False) -> Export:
    """The export with its program written anew, for input that arrives a frame at a time: the program asks for each frame, or
    (`in_steps`) is called with each, of samples that may be `overlapping`; as it is where it asks already. ValueError, a sentence, for a
    program without input and for one that is no sequence of operations."""
    given = export.source
    if given.input_offset is not None and not in_steps:
        return export
    if given.candidate is None:
        raise ValueError("Programs of floats and of decision trees are not exported in frames.")
    batch, parameters = given.candidate.batch, given.candidate.parameters
    whole = not in_steps and streamed(batch.program)[1].whole
    source = emit_c(
        batch,
        parameters,
        {} if whole else given.candidate.placement,  # which leave no room for the input
        in_frames=not in_steps,
        in_steps=in_steps,
        hop=given.candidate.hop if overlapping else 0,
        shape=given.candidate.shape,
        name=given.name,
        function=given.function,
        scaling=given.interface.scaling,
        class_names=given.interface.class_names,
        result_grid=given.interface.result_grid,
        order=given.interface.order,
    )
    return dataclasses.replace(export, source=source)


def files(export: Export) -> dict[str, str]:
    """Text by path in the folder; ValueError as `in_parts`."""
    return plain.files(in_parts(export, in_steps=False))


TARGET = ProjectTarget(
    ASKING,
    "as `c`, but the program asks for its input a frame at a time, by a function that it is given",
    plain.TARGET.names,
    files,
    make_runs("check", "runs it"),
    input_way=ASKS,
)
