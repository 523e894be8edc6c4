"""Models of other tools with samples, for the spaces of fixed-point programs: ONNX graphs and TensorFlow Lite files."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from kilotune.codegen.tflite.model_file import is_tflite
from kilotune.experiments.artefacts.packed_arrays import packed
from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.models import TUNE
from kilotune.experiments.fuzz.kinds.onnx_files import GRAPH_MUTATIONS, NETWORK, NETWORK_NAME, networks, parsed

DATA, LITE = "data.npz", "net.tflite"

FEATURES = {
    "small": 36,
    "branches": 50,
    "vectors": 4,
    "conv_2d.tflite": 120,
    "split_v.tflite": 6,
    "strided_slice.tflite": 8,
}
"""Elements of a sample, by the name of the network."""


def _case(model: str, content: bytes, features: int) -> FuzzCase:
    samples = np.random.default_rng(1).normal(0, 1, (6, features)).astype(np.float32)
    command = ("--space", "shiftry", "--input", model, "--data", DATA, *TUNE)
    return FuzzCase("trained", command, {model: content, DATA: packed({"X": samples})})


def _corpus() -> tuple[FuzzCase, ...]:
    graphs = [_case(NETWORK, content, FEATURES[name]) for name, content in networks().items() if name in FEATURES]
    files = [_case(LITE, content, FEATURES[name]) for name, content in corpus_files("tflite").items()]
    return (*graphs, *files)


def _damaged(mutate: Callable[[Any, Random], None]) -> Callable[[bytes, Random], bytes]:
    """The mutation of a graph where the file is one, of bytes where it is TensorFlow Lite's."""
    in_graph = parsed(mutate)
    return lambda content, random: mutate_bytes(content, random) if is_tflite(content) else in_graph(content, random)


TRAINED = Kind(
    "trained",
    _corpus,
    (
        on_files("net.*", mutate_bytes),
        on_files(DATA, mutate_bytes),
        *(on_files("net.*", _damaged(mutate)) for mutate in GRAPH_MUTATIONS),
    ),
    named=(NETWORK_NAME,),
)
