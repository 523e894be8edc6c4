"""What a model is, by its first bytes or by what lies in its folder: so that one given to a space that does not read it is named as what it
is."""

from __future__ import annotations

import contextlib
import enum
from pathlib import Path

from kilotune.codegen.tflite.model_file import is_tflite

PROGRAM_FILE = "model.sd"
"""What makes a folder a model."""

LOOKED_AT = 32
"""First bytes."""

IR_VERSION_TAG, NEWEST_IR_VERSION = 0x08, 0x20
AFTER_IR_VERSION = frozenset((0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42))
"""An ONNX file is a ModelProto: the field of its version comes first, then one of the next six."""


class FileKind(enum.Enum):
    """Models that spaces of several families read, in words."""

    TFLITE = "a TFLite model"
    ONNX = "an ONNX model"
    MODEL_FOLDER = "a model folder"


def kind_of_file(path: Path) -> FileKind | None:
    """What the file or folder is; None for anything else, and for what is neither."""
    head = b""
    with contextlib.suppress(OSError):
        if (path / PROGRAM_FILE).is_file():
            return FileKind.MODEL_FOLDER
        if path.is_file():
            with path.open("rb") as stream:
                head = stream.read(LOOKED_AT)
    if is_tflite(head):
        return FileKind.TFLITE
    if len(head) > 2 and head[0] == IR_VERSION_TAG and head[1] <= NEWEST_IR_VERSION and head[2] in AFTER_IR_VERSION:
        return FileKind.ONNX
    return None
