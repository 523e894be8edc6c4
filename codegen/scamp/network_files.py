"""The key `network` of a kernel file: see `ChipNetwork` for what its keys mean.

`{"side": 28, "binarised_at": 128, "level": 120, "thresholds": [15, 15, 45], "regions": [[0, 5, 9, 14], ...],
"layers": [{"weights": [[3, -1, ...], ...], "biases": [7, ...]}, ...], "held_out": 5}`
"""

from __future__ import annotations

from numbers import Rational
from typing import Any

from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.json_values import shown
from kilotune.codegen.scamp.network import ChipNetwork, DenseLayer, Region

MOST_LAYERS = 8
MOST_REGIONS = 256
MOST_OUTPUTS = 1024
LARGEST_LEVEL = 127
"""Grey levels that the chip's converter of 8 bits loads into the array."""

LEAST_BINARISED_AT = 2
"""With one less the constant that pixels are compared with is larger than what the converter loads."""

LARGEST_INTEGER = 1 << 24
"""The largest weight or bias: sums of products stay within 64 bits."""

_NEEDED = ("side", "binarised_at", "level", "thresholds", "regions", "layers")


def parse_network(given: Any, kernels: int, path: str) -> ChipNetwork:
    """The network of that many kernels. `InputError` for an object that is none: place, expected, found."""
    if not isinstance(given, dict):
        raise InputError(path, place="network", expected="an object", found=shown(given))
    for key in given:
        if key not in (*_NEEDED, "held_out"):
            raise InputError(
                path, place=f"key {key!r} of network", expected=f"one of {', '.join(_NEEDED)}", found=repr(key)
            )
    for key in _NEEDED:
        if key not in given:
            raise InputError(path, place="network", expected=f"the key {key!r}", found="none")
    side = _integer(given["side"], 2, 256, "side of network", path)
    thresholds = _listed(given["thresholds"], "thresholds of network", path)
    if len(thresholds) != kernels:
        expected = f"{counted(kernels, 'threshold')}, one a kernel"
        raise InputError(path, place="thresholds of network", expected=expected, found=str(len(thresholds)))
    regions = tuple(
        _region(one, side, number, path) for number, one in enumerate(_listed(given["regions"], "regions", path), 1)
    )
    if not 1 <= len(regions) <= MOST_REGIONS:
        raise InputError(path, place="regions of network", expected=f"1 to {MOST_REGIONS}", found=str(len(regions)))
    return ChipNetwork(
        side,
        _integer(given["binarised_at"], LEAST_BINARISED_AT, 255, "binarised_at of network", path),
        _integer(given["level"], 1, LARGEST_LEVEL, "level of network", path),
        tuple(_whole_level(one, f"threshold {number}", path) for number, one in enumerate(thresholds, start=1)),
        regions,
        _layers(given["layers"], kernels * len(regions), path),
        _integer(given.get("held_out", 0), 0, 1 << 20, "held_out of network", path),
    )


def _region(given: Any, side: int, number: int, path: str) -> Region:
    place = f"region {number} of network"
    edges = _listed(given, place, path)
    if len(edges) != 4:
        raise InputError(path, place=place, expected="4 edges: top, left, bottom, right", found=str(len(edges)))
    top, left, bottom, right = (_integer(edge, 0, side, place, path) for edge in edges)
    if top >= bottom or left >= right:
        raise InputError(path, place=place, expected="top < bottom and left < right", found=shown(given))
    return Region(top, left, bottom, right)


def _layers(given: Any, inputs: int, path: str) -> tuple[DenseLayer, ...]:
    listed = _listed(given, "layers of network", path)
    if not 1 <= len(listed) <= MOST_LAYERS:
        raise InputError(path, place="layers of network", expected=f"1 to {MOST_LAYERS}", found=str(len(listed)))
    layers = []
    for number, one in enumerate(listed, start=1):
        layers.append(_layer(one, inputs, f"layer {number}", path))
        inputs = len(layers[-1].biases)
    return tuple(layers)


def _layer(given: Any, inputs: int, place: str, path: str) -> DenseLayer:
    if not isinstance(given, dict) or set(given) != {"weights", "biases"}:
        raise InputError(path, place=place, expected="an object of weights and biases", found=shown(given))
    biases = _integers(given["biases"], f"biases of {place}", path)
    rows = _listed(given["weights"], f"weights of {place}", path)
    if len(rows) != inputs:
        raise InputError(
            path, place=place, expected=f"{counted(inputs, 'row')} of weights, one an input", found=str(len(rows))
        )
    weights = tuple(_integers(row, f"row {number} of {place}", path) for number, row in enumerate(rows, start=1))
    for number, row in enumerate(weights, start=1):
        if len(row) != len(biases):
            expected = f"{counted(len(biases), 'weight')}, one an output"
            raise InputError(path, place=f"row {number} of {place}", expected=expected, found=str(len(row)))
    return DenseLayer(weights, biases)


def _integers(given: Any, place: str, path: str) -> tuple[int, ...]:
    listed = _listed(given, place, path)
    if not 1 <= len(listed) <= MOST_OUTPUTS:
        raise InputError(path, place=place, expected=f"1 to {MOST_OUTPUTS} integers", found=str(len(listed)))
    return tuple(_integer(one, -LARGEST_INTEGER, LARGEST_INTEGER, place, path) for one in listed)


def _integer(given: Any, least: int, most: int, place: str, path: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise InputError(path, place=place, expected=f"an integer from {least} to {most}", found=shown(given))
    return given


def _whole_level(given: Any, place: str, path: str) -> int:
    """The chip loads whole grey levels, so a threshold between two of them would be another one there. 10.0 is 10."""
    is_whole = isinstance(given, Rational) and not isinstance(given, bool) and given.denominator == 1
    if not is_whole or not -LARGEST_LEVEL <= given <= LARGEST_LEVEL:
        expected = f"a whole number of grey levels from -{LARGEST_LEVEL} to {LARGEST_LEVEL}"
        raise InputError(path, place=place, expected=expected, found=shown(given))
    return int(given)


def _listed(given: Any, place: str, path: str) -> list[Any]:
    if not isinstance(given, list):
        raise InputError(path, place=place, expected="a list", found=shown(given))
    return given
