"""From a quantised TensorFlow Lite file, whose integers are kept, and samples to a model bundle."""

from __future__ import annotations

from pathlib import Path

from kilotune.codegen.bundle import Bundle
from kilotune.codegen.class_names import told_names
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.file_kinds import FileKind, kind_of_file
from kilotune.codegen.ir import is_quantised
from kilotune.codegen.quantisation_grid import QuantisationGrid
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import labelled, returned
from kilotune.codegen.trained.samples import SamplePart, read_samples
from kilotune.codegen.trained.tflite_models import read_tflite


def import_quantised_bundle(path: Path, data: Path, label: str | None = None, returns: Returns | None = None) -> Bundle:
    """A quantised model with the samples of `data`, as `import_bundle` without this; features become the integers that the file
    takes, and real targets the integers that it returns.

    InputError, one sentence, for whatever cannot be used: a file that is not TensorFlow Lite's, or whose operators are not those of
    integers of 8 bits.
    """
    if kind_of_file(path) is not FileKind.TFLITE and path.suffix != ".tflite":
        expected = (
            "a TensorFlow Lite file for --keep-quantisation (others round as floats do, differently from tool to tool)"
        )
        raise InputError(str(path), expected=expected, found="another file")
    model = read_tflite(path, keep_quantisation=True)
    samples = read_samples(data, model.input_shape, label)
    wanted = returns or returned(model, samples.train.targets, data)
    converted = convert(model, path.stem, wanted)
    given, made = model.input_grid, model.output_grid
    if given is None or not is_quantised(converted.program):
        expected = "a quantised model for --keep-quantisation, with an input of 8 bits or one that is quantised first"
        raise InputError(str(path), expected=expected, found="one of floats")
    parts = [
        None if part is None else _integers(part, given, None if wanted is Returns.CLASS else made)
        for part in (samples.train, samples.test)
    ]
    train, test = (None if part is None else labelled(converted, part, data, model.classes) for part in parts)
    assert isinstance(train, Dataset)
    names = told_names(model.classes, converted.class_count)
    grid = made if converted.class_count is None else None
    return Bundle(
        path.stem, converted.program, converted.parameters, train, test, converted.class_count, given, names, grid
    )  # fmt: skip


def _integers(part: SamplePart, given: QuantisationGrid, made: QuantisationGrid | None) -> SamplePart:
    """Samples as the file's own integers; `made`: the grid of targets, None for labels."""
    targets = part.targets
    if targets is not None and made is not None:
        targets = targets / made.step + made.zero
    return SamplePart(given.apply(part.features), targets)
