"""As the plain C sources, for inputs that arrive a frame at a time: the program is called with each, and keeps its state between calls."""

from __future__ import annotations

from functools import partial

from kilotune.codegen.emit.targets import plain, streamed
from kilotune.codegen.emit.targets.target import ProjectTarget, make_runs

TARGET = ProjectTarget(
    "c-steps",
    "as `c`, but the program is called with a frame of its input at a time, and keeps its state until the last one",
    plain.TARGET.names,
    partial(streamed.files, in_steps=True),
    make_runs("check", "runs it"),
)
