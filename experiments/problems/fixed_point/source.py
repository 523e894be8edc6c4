"""Where a model comes from: a folder of ours, or a file of another tool with samples beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.file_kinds import FileKind, kind_of_file
from kilotune.codegen.onnx.external_data import external_bytes
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from kilotune.codegen.trained.quantised_importing import import_quantised_bundle
from kilotune.evaluators.architectures.registry import boards
from kilotune.evaluators.device import Device
from kilotune.experiments.models.catalogue import MODEL_SUFFIXES

LARGE_FILE = 1 << 20
"""Smaller files may be names and structure for the most part."""


def is_trained_model(path: Path) -> bool:
    """Whether an input is another tool's file."""
    return path.is_file() and (path.suffix in MODEL_SUFFIXES or kind_of_file(path) in (FileKind.ONNX, FileKind.TFLITE))


def load_source(
    path: Path, data: str | None, label: str | None, returns: str | None, *, keep_quantisation: bool = False
) -> Bundle:
    """The model with its samples, with `keep_quantisation` of the file's own integers. InputError for what cannot be read, and for a file
    of another tool without `data`, or a folder with it."""
    if not is_trained_model(path):
        given = {"--data": data, "--label": label, "--returns": returns}
        given |= {"--keep-quantisation": "yes" if keep_quantisation else None}
        named = [option for option, value in given.items() if value is not None]
        if named:
            raise InputError(
                str(path), expected=f"an ONNX or TFLite model, to which {named[0]} belongs", found="a model folder"
            )
        return load_bundle(path)
    if data is None:
        expected = "--data FILE with samples for it (.npz with X and y, .npy or .csv)"
        raise InputError(str(path), expected=expected, found="a model without any")
    load = import_quantised_bundle if keep_quantisation else import_bundle
    return load(path, Path(data), label, None if returns is None else Returns(returns))


def check_size(path: Path, device: Device | None, narrow: bool) -> None:
    """InputError for a large file of another tool whose weights cannot fit the device's flash, without a device that of any which is known
    by name, before anything of it is read: 32-bit floats that become bytes, or bits where they may be so `narrow`."""
    if not is_trained_model(path):
        return
    size = path.stat().st_size
    beside = 0 if size >= LARGE_FILE or path.suffix == ".tflite" else external_bytes(path)
    least = (size + beside) // (32 if narrow else 4)
    largest = device or max(boards(), key=lambda board: board.flash_bytes)
    if size + beside >= LARGE_FILE and least > largest.flash_bytes:
        with_weights = f" and {beside} bytes of weights beside it" if beside else ""
        found = f"a file of {size} bytes{with_weights}, whose weights take about {least} or more"
        known = "" if device else ", the largest device known by name (--device FILE.json describes another)"
        expected = f"weights for the {largest.flash_bytes} bytes of {largest.name}{known}"
        raise InputError(str(path), expected=expected, found=found)


def data_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that belong to a file of another tool, the path of --data made absolute."""
    data = given.get("data")
    return {} if data is None else {"data": str(Path(data).resolve())}
