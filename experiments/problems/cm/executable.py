"""The files with which somebody else executes a mapping: its program, weights, images and schedule, a runner, the integers as ONNX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen.cm.bundle import bundle_of
from kilotune.codegen.onnx.importing import load_model
from kilotune.codegen.onnx.reference import evaluate
from kilotune.codegen.onnx.rewriting import integer_model
from kilotune.evaluators.cm.ticks import TickArray
from kilotune.evaluators.cm.timing import simulate_whole
from kilotune.experiments.artefacts.packed_arrays import packed
from kilotune.experiments.models.onnx_networks import MADE
from kilotune.experiments.problems.cm import runner
from kilotune.experiments.problems.cm.mapped_network import MappedNetwork
from kilotune.search.space import Trial


def load(name: str) -> Any:
    """The ModelProto of a network of ours, or of a file. InputError, one sentence, for a file that is none."""
    return MADE[name]() if name in MADE and not Path(name).is_absolute() else load_model(Path(name))


def executable(problem: MappedNetwork, trial: Trial) -> dict[str, str | bytes]:
    """The contents by what they are; none for a network without weights."""
    quantised = problem.quantised
    if quantised is None:
        return {}
    space, graph = problem.space, quantised.graph
    lowered, mapping = space.lowered(space.replicas(trial.assignment)), space.mapping(trial.assignment)
    whole = problem.lowered(trial.assignment)
    bundle = bundle_of(whole, lowered.streams, lowered.ticks, mapping, space.hardware, quantised.exponents)
    images = problem.trial_images(quantised)
    tensors = [evaluate(graph, image, integer=True) for image in images]
    expected = {f"output{k}.expected": np.stack([t[o.tensor] for t in tensors]) for k, o in enumerate(graph.outputs)}
    arrays = {
        **bundle.arrays,
        "images": np.stack(images),
        **expected,
        **_starts(problem, trial, len(images)),
    }
    options = problem.request.options.get("image_shape")
    integers = integer_model(load(problem.request.input), quantised, input_shape=options)
    return {
        "program": json.dumps(bundle.program) + "\n",
        "numbers": packed(arrays),
        "runner": Path(runner.__file__).read_text(encoding="utf-8"),
        "integers": integers.SerializeToString(),
    }


def _starts(problem: MappedNetwork, trial: Trial, images: int) -> dict[str, TickArray]:
    """The tick in which every stage starts each iteration of so many images, by the names of the arrays."""
    _, starts = simulate_whole(problem.setting(trial.assignment), images)
    return {f"stage{k}.starts": ticks for k, ticks in enumerate(starts)}
