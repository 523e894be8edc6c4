"""The latency that PIMCOMP-NN's own evaluator gives a mapping in batch mode, rebuilt from a description of it in words.

PIMCOMP-NN (Sun et al., 2023), commit 2ed10c8: every convolution and fully connected layer works on an image of its own at the same time. A
core of 64 crossbars of 128 x 128 holds row blocks (128 rows of a layer's matrix with all its columns) of replicas of layers. In a step
each replica takes one output position ("window"): its row blocks load their inputs from global memory, but copy what their core has loaded
for the same layer in the same step; products start every 200 ns and take 800; partial sums go over the bus to the core of the first row
block, which stores the result. Global memory hands out 64 bytes a nanosecond, the bus 25.6, to whoever the evaluator asks first.

On the 24 runs that the tool's latency is known of the result is at most 1.6 % off, 0.2 % at the median: addresses in local memory are left
out, and small loads may be gathered in another order.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray
from kilotune.evaluators.compiled_library import load_library

MOST_NS = 20_000_000
"""Longer latencies are not told."""

RowBlockCores = Sequence[Sequence[Sequence[int]]]
"""By layer and replica, the cores of its row blocks, from the first rows on."""


@dataclass(frozen=True)
class PeerLayer:
    """A layer with products: rows and columns of its matrix in elements, windows an image; a `dense` one has no window that moves. kernel,
    stride, padding (top, left): by height and width."""

    name: str
    channels: int
    image: tuple[int, int]
    out_width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    rows: int
    columns: int
    windows: int
    bias: bool
    activation: bool
    dense: bool

    @property
    def row_blocks(self) -> int:
        """How many of them a replica has."""
        return -(-self.rows // 128)

    @property
    def crossbars(self) -> int:
        """How many of them a row block takes, side by side."""
        return -(-self.columns // 128)

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> PeerLayer:
        """From a file's `layers`; KeyError for one without products."""
        dense = described["operator"] == "FC"
        _, channels, height, width = (1, 1, 1, 1) if dense else described["input_shape"]
        top, _, left, _ = (0,) * 4 if dense else described["padding_top_bottom_left_right"]
        return cls(
            described["name"],
            channels,
            (height, width),
            1 if dense else described["output_shape"][3],
            (1, 1) if dense else (described["kernel"][0], described["kernel"][1]),
            (1, 1) if dense else (described["stride"][0], described["stride"][1]),
            (top, left),
            described["weight_rows"],
            described["weight_cols"],
            described["sliding_windows"],
            bool(described["has_bias"]),
            bool(described["has_fused_activation"]),
            dense,
        )


@dataclass(frozen=True)
class PeerLatency:
    """What the model says of a placement: microseconds until the last core ends, and until each does, and bytes that come from global
    memory."""

    us: float
    loaded_bytes: int
    cores_us: FloatArray


def windows_of(windows: int, heads: Sequence[int]) -> npt.NDArray[np.int32]:
    """By replica: its first window, how far apart its windows are, and how many it has. heads: cores of the first row blocks. Core after
    core gets a share by how many replicas begin on it, dealt to these in turn."""
    by_core = defaultdict[int, list[int]](list)
    for replica, core in enumerate(heads):
        by_core[core].append(replica)
    found, begun = np.zeros((len(heads), 3), dtype=np.int32), 0
    each = np.float32(windows) / np.float32(len(heads))  # the tool counts in single precision
    for core in sorted(by_core):
        there = by_core[core]
        share = max(0, min(windows - begun, int(np.ceil(each * np.float32(len(there))))))
        for k, replica in enumerate(there):
            found[replica] = begun + k, len(there), max(0, -(-(share - k) // len(there)))
        begun += share
    return found


def peer_latency(
    layers: Sequence[PeerLayer], placement: RowBlockCores, cores: int, most_ns: int = MOST_NS
) -> PeerLatency | None:
    """None: more than `most_ns`, a mapping whose cores wait for one another, or no C compiler."""
    kernel = _load_kernel()
    if kernel is None:
        return None
    blocks, replicas, first_replica = [], [], [0]
    for number, (layer, placed) in enumerate(zip(layers, placement, strict=True)):
        heads = [row_blocks[0] for row_blocks in placed]
        replicas.append(np.column_stack([heads, windows_of(layer.windows, heads)]))
        first_replica.append(first_replica[-1] + len(heads))
        blocks += [(number, r, row, core) for r, row_blocks in enumerate(placed) for row, core in enumerate(row_blocks)]
    row_blocks = np.asarray(blocks, dtype=np.int32)
    row_blocks = np.ascontiguousarray(row_blocks[np.lexsort((*row_blocks[:, 2::-1].T, row_blocks[:, 3]))])
    first_block = np.searchsorted(row_blocks[:, 3], np.arange(cores + 1)).astype(np.int32)
    loaded, until = ctypes.c_int64(), np.zeros(cores, dtype=np.int64)
    described = np.asarray([_row(layer) for layer in layers], dtype=np.int32)
    arrays = (
        described,
        row_blocks,
        first_block,
        np.concatenate(replicas, dtype=np.int32),
        np.asarray(first_replica, dtype=np.int32),
    )
    given = [array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, _keys(), until)]
    ns = kernel.kilotune_pimcomp_latency(
        given[0], len(layers), *given[1:3], *given[3:5], cores, given[5], most_ns, given[6], ctypes.byref(loaded)
    )
    return None if ns < 0 else PeerLatency(ns / 1000, loaded.value, until / 1000)


def _row(layer: PeerLayer) -> tuple[int, ...]:
    """As the C code has it."""
    return (
        layer.channels,
        *layer.image,
        layer.out_width,
        layer.kernel[1],
        *layer.stride,
        *layer.padding,
        layer.rows,
        layer.columns,
        layer.windows,
        layer.bias,
        layer.activation,
        layer.dense,
    )


@cache
def _load_kernel() -> ctypes.CDLL | None:
    loaded = load_library(Path(__file__).with_name("pimcomp_latency.c"))
    if loaded is None:
        return None
    function, int32, int64, array = (
        loaded.library.kilotune_pimcomp_latency,
        ctypes.c_int32,
        ctypes.c_int64,
        ctypes.c_void_p,
    )
    function.argtypes = [array, int32, array, array, array, array, int32, array, int64, array, array]
    function.restype = int64
    return loaded.library


MOST_ELEMENTS = 1 << 20
"""So many an image that a layer reads may have."""


@cache
def _keys() -> npt.NDArray[np.int32]:
    kernel = _load_kernel()
    keys = np.zeros(MOST_ELEMENTS, dtype=np.int32)
    assert kernel is not None
    kernel.kilotune_pimcomp_keys(MOST_ELEMENTS, keys.ctypes.data_as(ctypes.c_void_p))
    return keys
