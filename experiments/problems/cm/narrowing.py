"""`--drop`: activations in fewer bits, chosen before mappings are searched, and what is told of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable
from typing import Any

from kilotune.codegen.arrays import Array
from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.onnx.batches import operations_of
from kilotune.codegen.onnx.graph import Graph
from kilotune.evaluators.cm.activation_widths import NarrowedNetwork, most_tries, narrowed, with_widths
from kilotune.evaluators.cm.class_changes import ClassChanges
from kilotune.evaluators.cm.fidelity import fidelity
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.cm.approximation import most_compared
from kilotune.experiments.problems.cm.classes_needed import check_classifier
from kilotune.experiments.problems.cm.image_data import ImageData
from kilotune.search.fingerprint import fingerprint

SEMANTICS = 4
"""Version of how widths are chosen, part of the name under which they are kept."""

MOST_OPERATIONS = 40_000_000_000
"""Multiplications of all networks that are tried, on all images: some ten seconds."""


def narrowed_network(
    graph: Graph, name: str, hardware: Hardware, data: ImageData, points: float, tell: Callable[[str], None]
) -> NarrowedNetwork:
    """`graph` with activations as narrow as so many points allow on the images for calibration. tell: how far that has come. ValueError, a
    sentence, where bits do not count, or there are too many operations."""
    if not hardware.charges_bits and not hardware.input_bits_per_tick:
        expected = "expected hardware with bits_per_tick or input_bits_per_tick"
        raise ValueError(f"--drop makes activations narrower: {expected}, found {hardware.name}, which has neither.")
    check_classifier(graph, "--drop", name)
    tries = most_tries(graph, data.seen)
    most = MOST_OPERATIONS // max(1, operations_of(graph) * tries)
    if len(data.seen) > most:
        expected = f"expected at most {most} images for calibration (--calibration), found {len(data.seen)}"
        raise ValueError(f"--drop tries many networks of the size of {name}: {expected}.")

    def told(tried: int, image_bits: int) -> None:
        tell(f"--drop: {tried} of at most {counted(tries, 'network')} tried, {counted(image_bits, 'bit')} an image")

    return _remembered(graph, data.seen, points, told)


def _remembered(graph: Graph, images: Array, points: float, told: Callable[[int, int], None]) -> NarrowedNetwork:
    """Widths that this or another process has found for the same network, images and points; else they are looked for, and kept: a study
    that is resumed, reported or exported asks again."""
    kinds = [type(node).__name__ for node in graph.nodes]  # nodes of two kinds may have the same fields
    key = fingerprint("widths of activations", SEMANTICS, kinds, graph, images, points)
    with contextlib.closing(EvaluationCache()) as cache:
        kept = cache.artefact(key)
        if kept is not None:
            known = json.loads(kept)
            return with_widths(graph, images, points, known["bits"], ClassChanges(**known["changes"]), known["tried"])
        found = narrowed(graph, images, points, told)
        content = {
            "bits": dict(found.quantised.activation_bits),
            "changes": dataclasses.asdict(found.changes),
            "tried": found.tried,
        }
        cache.keep_artefact(key, json.dumps(content).encode())
    return found


def widths_of(found: NarrowedNetwork, graph: Graph, data: ImageData) -> dict[str, Any]:
    """As JSON, with a sentence without its full stop. graph: in floats. What 8 bits reach is counted on images that calibration has not
    seen: accuracy, or without labels agreement with the floats."""
    bits = found.quantised.activation_bits
    images, labels = data.unseen
    most = most_compared(graph)
    plain = fidelity(graph, found.plain, images[:most], None if labels is None else labels[:most])
    share, what = (plain.agreement, "in the floats' class") if plain.accuracy is None else (plain.accuracy, "right")
    assert share is not None
    each = ", ".join(f"{name} {count}" for name, count in bits.items())
    bought = f"{found.image_bits} an image, {found.plain_image_bits} with 8 each"
    changed, seen, expected = found.changes.changed, found.changes.images, found.changes.expected
    lost = f"{changed} of {counted(seen, 'image')} for calibration have another class than with 8 bits"
    lost += f", and {expected:.1f} of as many others are expected to"
    return {
        "activation_bits": dict(bits),
        "permitted_points": found.points,
        "changed": changed,
        "expected_changes": expected,
        "image_bits": found.image_bits,
        "image_bits_with_8_bits": found.plain_image_bits,
        "share_with_8_bits": share,
        "tried": found.tried,
        "sentence": f"Bits of activations, of {counted(found.tried, 'network')} tried: {each}; {bought}. {lost}."
        f" With 8 bits {100 * share:.2f} % of the images that calibration has not seen are {what}",
    }
