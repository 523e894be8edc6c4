"""An emitted program as a folder on disk, for the compilers of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.project import project_files
from kilotune.codegen.emit.targets.recording import Recording
from kilotune.evaluators.architectures.registry import project_target
from kilotune.experiments.artefacts.folder import ArtefactFolder


def write_project(
    folder: Path,
    source: CSource,
    recording: Recording,
    decisions: Mapping[str, Any],
    target: str = "c",
    level: str = "Os",
) -> None:
    ArtefactFolder(folder).write(
        project_files(folder.name, source, recording, decisions, project_target(target), level)
    )
