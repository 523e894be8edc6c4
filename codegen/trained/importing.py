"""From a file of another tool, and samples, to a model bundle."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.class_names import ClassName, told_names
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.file_kinds import FileKind, kind_of_file
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.ir import View
from kilotune.codegen.onnx.tree_ensembles import READER
from kilotune.codegen.trained.between_grids import with_real_moves
from kilotune.codegen.trained.classical import DOMAIN, TREES, without_classical
from kilotune.codegen.trained.column_selection import with_columns_in_weights
from kilotune.codegen.trained.constant_nodes import with_constants, with_executed_constants
from kilotune.codegen.trained.conversion import Converted, convert, converted_nodes, shortened
from kilotune.codegen.trained.endings import RENAMING, ROUNDING, Ending, Returns, ending_of
from kilotune.codegen.trained.feature_scales import scaled_features
from kilotune.codegen.trained.frames import over_frames
from kilotune.codegen.trained.joining import with_joined_parts
from kilotune.codegen.trained.logistic_shares import with_named_shares
from kilotune.codegen.trained.model import TrainedGraph
from kilotune.codegen.trained.normalising import check_quantised_range
from kilotune.codegen.trained.onnx_models import read_onnx
from kilotune.codegen.trained.polynomials import with_rows_of_terms
from kilotune.codegen.trained.qlinear import with_real_operators
from kilotune.codegen.trained.quantised_ends import with_ends, without_idle_rounding
from kilotune.codegen.trained.rolling import rolled
from kilotune.codegen.trained.samples import SamplePart, Samples, read_samples
from kilotune.codegen.trained.tflite_models import read_tflite
from kilotune.codegen.trained.zero_points import with_zero_points


# numbers that are not finite are refused in words; NumPy's warnings of them would be lines besides
@np.errstate(invalid="ignore", over="ignore")
def import_bundle(path: Path, data: Path, label: str | None = None, returns: Returns | None = None) -> Bundle:
    """A trained model with the samples of `data` (see `read_samples`).

    `returns`: a class or real numbers; None: a class where the file ends in probabilities or in the place of the largest, or where the
    labels are whole numbers that its outputs can stand for. Without labels the model's own outputs are the targets. InputError, one
    sentence, for whatever cannot be used.
    """
    model = read_trained(path)
    trees = [node for node in model.nodes if node.kind in TREES]
    if trees:
        expected = f"a network, or a linear model ({READER})"
        raise InputError(str(path), place=trees[0].place, expected=expected, found=trees[0].kind.removeprefix(DOMAIN))
    samples = read_samples(data, (1, 0, *model.input_shape) if model.kept else model.input_shape, label)
    model = over_frames(model, samples.train.features.shape[1] // math.prod(model.input_shape))
    check_quantised_range(model, samples.train.features, data)
    wanted = returns or returned(model, samples.train, data)
    if wanted is Returns.VALUE:
        _check_real(model)
    model = _with_ends(model, path, samples.train.features, wanted)
    scaled = scaled_features(shortened(model, wanted), samples.train.features)
    if scaled is None:
        converted, scaling = convert(model, path.stem, wanted), None
    else:
        converted, scaling = converted_nodes(scaled[0], path.stem, wanted), scaled[1]
        samples = _rescaled(samples, scaling)
    check_scores(model, converted)
    train = labelled(converted, samples.train, data, model.classes)
    test = None if samples.test is None else labelled(converted, samples.test, data, model.classes)
    names = told_names(model.classes, converted.class_count)
    return Bundle(
        path.stem, converted.program, converted.parameters, train, test, converted.class_count, scaling, names
    )


def _with_ends(model: TrainedGraph, path: Path, features: RealArray, wanted: Returns) -> TrainedGraph:
    """As `with_ends`. A TensorFlow Lite file is read again with what rounds its values, and stays as it was read where none is at an end:
    what is alike in its steps is easier to see then."""
    if not model.rounded or model.kept:
        return with_ends(model, features, wanted)
    bounded = without_idle_rounding(with_ends(read_tflite(path, rounding=True), features, wanted))
    return model if bounded is None else rolled(bounded)


def _check_real(model: TrainedGraph) -> None:
    """InputError for a file that returns the integers of a QuantizeLinear: which is the largest a program knows, not what they are."""
    makers = {name: node for node in model.nodes for name in node.outputs}
    name = ending_of(model).value
    for _ in model.nodes:
        maker = makers.get(name)
        if maker is None or maker.kind not in RENAMING | {"Transpose"} or not maker.inputs:
            break
        name = maker.inputs[0]
    if name in makers and makers[name].kind == "QuantizeLinear":
        expected = "real numbers (a DequantizeLinear behind the last QuantizeLinear)"
        raise InputError(model.path, subject="output", expected=expected, found=f"the integers of {makers[name].place}")


def _rescaled(samples: Samples, scaling: FeatureScaling) -> Samples:
    parts = [None if part is None else replace(part, features=scaling.apply(part.features))
             for part in (samples.train, samples.test)]  # fmt: skip
    assert parts[0] is not None
    return Samples(parts[0], parts[1])


def check_scores(model: TrainedGraph, converted: Converted) -> None:
    """InputError for a file whose largest score is that of one: its class is always the first. For one that puts the probabilities of
    several yes behind those of their no, of which `ending_of` knows only one. And for one whose probability is moved or bounded, so that it
    would be told as a score is, by its sign."""
    ending, classes = ending_of(model), converted.class_count
    if classes is None:
        return
    if classes == 2 and "Sigmoid" not in ending.passed:
        _check_probability(model, ending.score)
    if "Concat" in ending.passed:
        if classes != 2:
            expected, found = "those of no and yes, one each", f"{classes} of each"
            raise InputError(model.path, subject="probabilities", expected=expected, found=found)
        return
    if ending.classifies and (classes in (1, 2) or ending.of_last_axis):
        scores = _scores(model, ending)
        if scores.size == 1 or (ending.of_last_axis and scores.shape[-1] == 1):
            raise InputError(model.path, subject="scores", expected="those of at least two classes", found="one")


def _check_probability(model: TrainedGraph, name: str) -> None:
    """InputError where a value is a probability behind operators that leave it one."""
    makers = {written: node for node in model.nodes for written in node.outputs}
    last = node = makers.get(name)
    while node is not None and node.kind in RENAMING | ROUNDING | {"Transpose", "Clip"} and node.inputs:
        node = makers.get(node.inputs[0])
    if last is not None and node is not None and node.kind == "Sigmoid" and node is not last:
        raise InputError(
            model.path, subject="output", expected="the Sigmoid of a score", found=f"{last.place} behind one"
        )


def _scores(model: TrainedGraph, ending: Ending) -> View:
    """What tells the classes apart."""
    score = ending.score
    for node in () if ending.of_last_axis else reversed(model.nodes):
        if score in node.outputs and node.kind in RENAMING | {"ArgMax"}:
            score = node.inputs[0]
    return convert(replace(model, outputs=(score,)), "", Returns.VALUE).program.result


def read_trained(path: Path) -> TrainedGraph:
    """The model of an ONNX or TensorFlow Lite file."""
    if kind_of_file(path) is FileKind.TFLITE or path.suffix == ".tflite":
        return rolled(read_tflite(path))
    graph = without_classical(with_real_moves(with_zero_points(with_constants(with_real_operators(read_onnx(path))))))
    graph = with_columns_in_weights(with_joined_parts(with_rows_of_terms(with_named_shares(graph))))
    return with_executed_constants(rolled(graph))


def returned(model: TrainedGraph, part: SamplePart, data: Path) -> Returns:
    """What a program is to return, by how its model ends and what the labels are. InputError for labels that are none of its classes."""
    ending, targets = ending_of(model), part.targets
    if ending.classifies:
        return Returns.CLASS
    if targets is None:
        return Returns.VALUE
    scores = convert(model, "", Returns.VALUE).program.result.size
    tells_apart = scores > 1 or "Sigmoid" in ending.passed
    strange = np.flatnonzero((targets != np.floor(targets)) | (targets < 0) | (targets >= max(2, scores)))
    if scores > 1 and strange.size:
        expected = f"a class from 0 to {scores - 1}, since the model returns {scores} numbers"
        raise _label_error(part, int(strange[0]), expected, data)
    if scores == 1 and tells_apart and strange.size:
        _check_two(targets, part.label, data)
    return Returns.CLASS if tells_apart and not strange.size else Returns.VALUE


def _label_error(part: SamplePart, sample: int, expected: str, path: Path) -> InputError:
    assert part.targets is not None
    place, found = f"sample {part.row(sample)} (counted from 0)", f"{part.targets[sample]:g}"
    return InputError(str(path), place=place, subject=part.label, expected=expected, found=found)


def _check_two(targets: RealArray, label: str, data: Path) -> None:
    """InputError for two whole numbers other than 0 and 1: the labels of a model whose one probability is that of yes."""
    names = np.unique(targets)
    if names.size == 2 and (names == np.floor(names)).all():
        expected = "0 and 1, since the model returns one probability (or --returns value for numbers)"
        raise InputError(str(data), subject=label, expected=expected, found=f"{names[0]:g} and {names[1]:g}")


def labelled(converted: Converted, part: SamplePart, path: Path, classes: tuple[ClassName, ...]) -> Dataset:
    """The samples with their targets; where there are none, with what the float program makes of them."""
    given, has_labels = part.targets, part.targets is not None
    if given is None:
        given = run_float(converted.program, converted.parameters, part.features).outputs[:, 0]
        part, classes = replace(part, targets=given), ()
    if converted.class_count is None:
        return Dataset(part.features, given, has_labels)
    return Dataset(part.features, class_places(part, classes, converted.class_count, path), has_labels)


def class_places(part: SamplePart, classes: tuple[ClassName, ...], count: int, path: Path) -> NDArray[np.int64]:
    """Which class each label of samples that have some is, counted from 0; `classes`: what the labels are called, where those
    are whole numbers, else they are the numbers from 0. InputError for one that is none."""
    whole = tuple(name for name in classes if isinstance(name, int))
    named = whole if len(whole) == count else tuple(range(count))
    assert part.targets is not None
    targets = _places(part.targets, named)
    wrong = np.flatnonzero(targets < 0)
    if len(wrong):
        words = f"a class from 0 to {len(named) - 1}"
        expected = words if named == tuple(range(len(named))) else f"one of the classes {', '.join(map(str, named))}"
        raise _label_error(part, int(wrong[0]), expected, path)
    return targets


def _places(targets: RealArray, classes: tuple[int, ...]) -> NDArray[np.int64]:
    """Which of the classes each target is, -1 for one that is none."""
    order = np.argsort(classes)
    found = np.minimum(np.searchsorted(np.asarray(classes)[order], targets), len(classes) - 1)
    places = order[found]
    return np.where(np.asarray(classes)[places] == targets, places, -1).astype(np.int64)
