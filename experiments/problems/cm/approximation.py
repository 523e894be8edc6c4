"""What the integers of a network cost, in figures and in a sentence: the same for all of its mappings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from kilotune.codegen.onnx.batches import operations_of, outputs_of_images
from kilotune.codegen.onnx.graph import ConvNode, Graph
from kilotune.codegen.onnx.quantise import QuantisedGraph
from kilotune.evaluators.cm.fidelity import Fidelity, fidelities
from kilotune.evaluators.cm.noisy_fidelity import AnalogueCores, interval, noisy_fidelity
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.cm.image_data import ImageData

MOST_COMPARED_OPERATIONS = 40_000_000_000
"""Multiplications of all compared images together: some ten seconds."""

WITHOUT_DATA = (
    "calibrated on one image of noise for want of --data, so what they cost in accuracy is not known; where real images have "
    "other magnitudes than noise of deviation 1, it may be all of it (a digits CNN fell from 99 % to 13 % with inputs from 0 to 16)"
)


def approximations(
    graph: Graph, quantised: QuantisedGraph, data: ImageData | None, cores: AnalogueCores | None = None
) -> Iterator[dict[str, Any]]:
    """The fidelity on ever more images that calibration has not seen, as JSON; `sentence` says it without its full stop. cores: what
    noise does to it, too, the last time."""
    if data is None:
        yield {"calibration_images": 0, "images": 0, "sentence": f"Integers: {WITHOUT_DATA}"}
        return
    images, labels = data.unseen
    most = most_compared(graph)
    made = dict[str, Any]()
    for found in fidelities(graph, quantised, images[:most], None if labels is None else labels[:most]):
        figures = {name: value for name, value in dataclasses.asdict(found).items() if value is not None}
        made = {
            "calibration_images": data.calibration,
            **figures,
            "sentence": _sentence(found, data, len(images)),
        }
        yield made
    if cores is not None:
        noise = _noise(graph, quantised, data, cores)
        said = noise.pop("sentence")
        yield {**made, "noise": noise, "sentence": f"{made['sentence']}. {said}"}


def most_compared(graph: Graph, times: int = 1) -> int:
    """How many images are compared, so many times, within MOST_COMPARED_OPERATIONS."""
    return max(1, MOST_COMPARED_OPERATIONS // max(1, times * operations_of(graph)))


def _noise(graph: Graph, quantised: QuantisedGraph, data: ImageData, cores: AnalogueCores) -> dict[str, Any]:
    """What becomes of the classes on noisy cells, by figures and a sentence."""
    images, labels = data.unseen
    most = most_compared(graph, cores.draws)
    images, labels = images[:most], None if labels is None else labels[:most]
    exact = outputs_of_images(graph, np.asarray(images, np.float32)).reshape(len(images), -1)
    seen, integers = quantised.image(data.seen), quantised.image(images)
    found = noisy_fidelity(quantised.graph, cores, seen, integers, exact.argmax(axis=1), labels)
    figures: dict[str, Any] = {
        "seconds": cores.seconds,
        "converter_bits": cores.converter_bits,
        "draws": cores.draws,
        "images": len(images),
        "agreements": list(found.agreements),
    }
    mean, half = interval(found.agreements)
    shown = f"the class of the floats on {100 * mean:.2f} +- {100 * half:.2f} %"
    if found.accuracies is not None:
        figures["accuracies"] = list(found.accuracies)
        mean, half = interval(found.accuracies)
        shown = f"{100 * mean:.2f} +- {100 * half:.2f} % right, {shown}"
    own = any(node.converter is not None for node in quantised.graph.nodes if isinstance(node, ConvNode))
    converters = "the layers' own converters" if own else f"{cores.converter_bits}-bit converters"
    when = f"{cores.seconds:g} s after programming, {converters}"
    figures["sentence"] = (
        f"On phase-change cells ({when}, {cores.draws} draws of {counted(len(images), 'image')}): {shown}"
    )
    return figures


def _sentence(found: Fidelity, data: ImageData, unseen: int) -> str:
    parts = []
    if found.accuracy is not None and found.float_accuracy is not None:
        parts.append(f"{100 * found.accuracy:.2f} % right, {100 * found.float_accuracy:.2f} % in floats")
    if found.agreement is not None:
        parts.append(f"the class of the floats on {100 * found.agreement:.2f} %")
    parts.append(f"relative error of the outputs {100 * found.relative_error:.3g} %")
    of = "" if found.images == unseen else f" of {unseen}"
    seen = f"calibrated on {data.calibration}"
    return (
        f"Integers on {found.images}{of} {'image' if unseen == 1 else 'images'} that calibration has not seen ({seen}): "
        + ", ".join(parts)
    )
