"""From a file of another tool, and samples, to a model bundle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.file_kinds import FileKind, kind_of_file
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns, ending_of
from kilotune.codegen.trained.model import TrainedGraph
from kilotune.codegen.trained.onnx_models import read_onnx
from kilotune.codegen.trained.samples import SamplePart, read_samples
from kilotune.codegen.trained.tflite_models import read_tflite


def import_bundle(path: Path, data: Path, label: str | None = None, returns: Returns | None = None) -> Bundle:
    """A trained model with the samples of `data` (see `read_samples`).

    `returns`: a class or real numbers; None: a class where the file ends in probabilities or in the place of the largest, or where the
    labels are whole numbers that its outputs can stand for. Without labels the model's own outputs are the targets. InputError, one
    sentence, for whatever cannot be used.
    """
    model = read_trained(path)
    samples = read_samples(data, model.input_shape, label)
    converted = convert(model, path.stem, returns or _returns(model, samples.train.targets))
    train = _dataset(converted, samples.train, data)
    test = None if samples.test is None else _dataset(converted, samples.test, data)
    return Bundle(path.stem, converted.program, converted.parameters, train, test, converted.class_count)


def read_trained(path: Path) -> TrainedGraph:
    """The model of an ONNX or TensorFlow Lite file."""
    return read_tflite(path) if kind_of_file(path) is FileKind.TFLITE or path.suffix == ".tflite" else read_onnx(path)


def _returns(model: TrainedGraph, targets: RealArray | None) -> Returns:
    """What a program is to return, by how its model ends and what the labels are."""
    ending = ending_of(model)
    makers = {node.output: node.kind for node in model.nodes}
    if ending.probabilities or makers.get(ending.output) == "ArgMax":
        return Returns.CLASS
    if targets is None or (targets != np.floor(targets)).any() or targets.min() < 0:
        return Returns.VALUE
    labels = convert(model, "", Returns.CLASS).class_count
    fits = labels is not None and targets.max() < labels
    return Returns.CLASS if fits and (labels != 2 or ending.sigmoid or _scores(model) > 1) else Returns.VALUE


def _scores(model: TrainedGraph) -> int:
    """How many numbers the model returns."""
    return convert(model, "", Returns.VALUE).program.result.size


def _dataset(converted: Converted, part: SamplePart, path: Path) -> Dataset:
    """The samples with their targets; where there are none, with what the float program makes of them."""
    targets = part.targets
    if targets is None:
        targets = run_float(converted.program, converted.parameters, part.features).outputs[:, 0]
    if converted.class_count is None:
        return Dataset(part.features, targets)
    wrong = np.flatnonzero((targets != np.floor(targets)) | (targets < 0) | (targets >= converted.class_count))
    if len(wrong):
        row = int(wrong[0])
        expected = f"a class from 0 to {converted.class_count - 1}"
        place = f"sample {row} (counted from 0)"
        raise InputError(str(path), place=place, subject="label", expected=expected, found=f"{targets[row]:g}")
    return Dataset(part.features, targets.astype(np.int64))
