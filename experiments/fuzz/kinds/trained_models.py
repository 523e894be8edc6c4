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
from kilotune.experiments.fuzz.kinds.onnx_files import (
    GRAPH_MUTATIONS,
    NETWORK,
    NETWORK_NAME,
    change_list,
    networks,
    parsed,
)
from kilotune.experiments.fuzz.kinds.tflite_fields import mutate_fields
from kilotune.experiments.fuzz.kinds.trained_networks import FEATURES as FEW_FEATURES
from kilotune.experiments.fuzz.kinds.trained_networks import kept_networks, small_trees, trained_networks

DATA, LITE = "data.npz", "net.tflite"

FEATURES = {
    "small": 36,
    "branches": 50,
    "vectors": 4,
    "conv_2d.tflite": 120,
    "split_v.tflite": 6,
    "dense.tflite": 6,
    "quantised.tflite": 6,
    "mean.tflite": 120,
    "kept.tflite": 35,
    "unpack.tflite": 12,
    "pad.tflite": 6,
    "strided_slice.tflite": 8,
}
"""Elements of a sample, by the name of the network."""


KEPT = ("quantised.tflite", "kept.tflite")
"""Files that are also read with their own integers."""

KEPT_OPTION = ("--keep-quantisation",)


def _case(model: str, content: bytes, features: int, space: str = "shiftry", options: tuple[str, ...] = ()) -> FuzzCase:
    samples = np.random.default_rng(1).normal(0, 1, (6, features)).astype(np.float32)
    command = ("--space", space, "--input", model, "--data", DATA, *options, *TUNE)
    return FuzzCase("trained", command, {model: content, DATA: packed({"X": samples})})


def _corpus() -> tuple[FuzzCase, ...]:
    graphs = [_case(NETWORK, content, FEATURES[name]) for name, content in networks().items() if name in FEATURES]
    files = [_case(LITE, content, FEATURES[name]) for name, content in corpus_files("tflite").items()]
    more = [_case(NETWORK, content, features) for content, features in trained_networks().values()]
    lite = corpus_files("tflite")
    kept = [_case(LITE, lite[name], FEATURES[name], options=KEPT_OPTION) for name in KEPT]
    kept += [_case(NETWORK, content, features, options=KEPT_OPTION) for content, features in kept_networks().values()]
    framed = [
        _case(LITE, lite[name], FEATURES[name], options=("--streaming",)) for name in ("conv_2d.tflite", "kept.tflite")
    ]
    return (*graphs, *more, _case(NETWORK, small_trees(), FEW_FEATURES, "forest"), *files, *kept, *framed)


def _damaged(mutate: Callable[[Any, Random], None]) -> Callable[[bytes, Random], bytes]:
    """The mutation of a graph where the file is one, of fields where it is TensorFlow Lite's."""
    in_graph = parsed(mutate)
    return lambda content, random: mutate_fields(content, random) if is_tflite(content) else in_graph(content, random)


TRAINED = Kind(
    "trained",
    _corpus,
    (
        on_files("net.*", mutate_bytes),
        on_files(DATA, mutate_bytes),
        *(on_files("net.*", _damaged(mutate)) for mutate in (*GRAPH_MUTATIONS, change_list)),
    ),
    named=(NETWORK_NAME,),
)
