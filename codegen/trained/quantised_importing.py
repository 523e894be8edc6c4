"""From a quantised TensorFlow Lite or ONNX file, whose integers are kept, and samples to a model bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from kilotune.codegen.bundle import Bundle
from kilotune.codegen.class_names import told_names
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.scaled_sums import check_scaled_sums
from kilotune.codegen.file_kinds import FileKind, kind_of_file
from kilotune.codegen.ir import is_quantised
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid
from kilotune.codegen.trained.classical import without_classical
from kilotune.codegen.trained.constant_nodes import with_constants
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import RENAMING, ROUNDING, Returns
from kilotune.codegen.trained.importing import check_scores, labelled, returned
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.onnx_models import read_onnx
from kilotune.codegen.trained.onnx_quantised import with_kept_integers
from kilotune.codegen.trained.qlinear import with_real_operators
from kilotune.codegen.trained.quantised import LOOKUP, RESCALING
from kilotune.codegen.trained.samples import SamplePart, read_samples
from kilotune.codegen.trained.tflite_models import read_tflite
from kilotune.codegen.trained.zero_points import with_zero_points


# as `import_bundle` has it; a constant is divided by what may be 0
@np.errstate(invalid="ignore", over="ignore", divide="ignore")
def import_quantised_bundle(path: Path, data: Path, label: str | None = None, returns: Returns | None = None) -> Bundle:
    """A quantised model with the samples of `data`, as `import_bundle` without this; features become the integers that the file
    takes, and real targets the integers that it returns.

    InputError, one sentence, for whatever cannot be used: a file whose operators are not those of integers of 8 bits, or whose
    sums do not fit 32 bits.
    """
    model = read_kept(path)
    samples = read_samples(data, model.input_shape, label)
    wanted = returns or _returned(model, samples.train, data)
    converted = convert(with_answer(model) if wanted is Returns.CLASS else model, path.stem, wanted)
    given, made = model.input_grid, model.output_grid
    if given is None or not is_quantised(converted.program):
        expected = "a quantised model for --keep-quantisation, with an input of 8 bits or one that is quantised first"
        found = "one of floats" if given is None else "one that moves its integers and computes nothing with them"
        raise InputError(str(path), expected=expected, found=found)
    check_scaled_sums(converted.program, converted.parameters)
    if wanted is Returns.CLASS:
        check_scores(model, converted)
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


def read_kept(path: Path) -> TrainedGraph:
    """The model of a TensorFlow Lite or ONNX file on its own integers. InputError, one sentence, for a file that is none."""
    if kind_of_file(path) is FileKind.TFLITE or path.suffix == ".tflite":
        return read_tflite(path, keep_quantisation=True)
    graph = with_zero_points(with_real_operators(with_constants(read_onnx(path), besides=ROUNDING)))
    return with_kept_integers(without_classical(graph))


def _returned(model: TrainedGraph, part: SamplePart, data: Path) -> Returns:
    """As `returned`: a file's one probability, with labels of no and yes, tells these apart."""
    wanted = returned(model, part, data)
    answers = part.targets is not None and bool(np.isin(part.targets, (0, 1)).all())
    return Returns.CLASS if answers and _ends_in_probability(model) else wanted


def with_answer(model: TrainedGraph) -> TrainedGraph:
    """The model with 1 for yes and 0 for no, where it returns one integer: yes is more than a half where that is a probability, behind a
    Sigmoid, and more than 0 where it is another score."""
    grid = model.output_grid
    if grid is None or convert(model, "", Returns.VALUE).program.result.size != 1:
        return model
    least = 0.5 if _ends_in_probability(model) else 0.0
    entries = tuple(int(real > least) for real in grid.reals(np.arange(LEAST, MOST + 1)))
    name = f"{model.outputs[0]}/answer"
    node = TrainedNode(LOOKUP, (model.outputs[0],), (name,), f"output {model.outputs[0]!r}", {"entries": entries})
    return replace(model, nodes=(*model.nodes, node), outputs=(name,))


def _ends_in_probability(model: TrainedGraph) -> bool:
    """Whether what the model returns first comes from a Sigmoid, on whatever grid it stands in the end."""
    makers = {name: node for node in model.nodes for name in node.outputs}
    node = makers.get(model.outputs[0])
    while node is not None and _keeps_values(node) and node.inputs[0] in makers:
        node = makers[node.inputs[0]]
    return node is not None and node.attributes.get("function") == "Sigmoid"


def _keeps_values(node: TrainedNode) -> bool:
    """Whether its result stands for the same real numbers as its operand: renamed, moved, or on another grid."""
    return node.kind in RENAMING | {"Transpose"} or (
        node.kind == LOOKUP and node.attributes.get("function") == RESCALING
    )


def _integers(part: SamplePart, given: QuantisationGrid, made: QuantisationGrid | None) -> SamplePart:
    """Samples as the file's own integers; `made`: the grid of targets, None for labels."""
    targets = part.targets
    if targets is not None and made is not None:
        targets = targets / made.step + made.zero
    return replace(part, features=given.apply(part.features), targets=targets)
