"""Functions that networks apply element by element, beside Relu and Clip: what they are in floats, and their attributes in ONNX.

Quantised networks have tables of them (`quantise`). A function takes the argument and its parameters, arrays that broadcast,
and keeps the argument's precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array

ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(ERF(x)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (np.tanh(0.5 * x) + 1))


def _hard_sigmoid(x: Array, alpha: Any, beta: Any) -> Array:
    return np.asarray(np.clip(alpha * x + beta, 0, 1))


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _leaky(x: Array, slope: Any) -> Array:
    return np.where(x >= 0, x, slope * x)


def _elu(x: Array, alpha: Any) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _selu(x: Array, alpha: Any, gamma: Any) -> Array:
    return np.asarray(gamma * _elu(x, alpha))


def _clipped_line(x: Array, slope: Any, offset: Any, low: Any, high: Any) -> Array:
    return np.asarray(np.clip(slope * x + offset, low, high))


CLIPPED_LINE = "ClippedLine"
"""A straight line between two limits: no operator of ONNX, but what several of them are together."""

SHIFTED_POWER = "ShiftedPower"
"""A power of the argument plus a number: no operator of ONNX either."""

OUR_OWN = (CLIPPED_LINE, SHIFTED_POWER)

FUNCTIONS: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "Sigmoid": _sigmoid,
        "HardSigmoid": _hard_sigmoid,
        "HardSwish": lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5),
        "Swish": lambda x, alpha: x * _sigmoid(alpha * x),
        "Tanh": np.tanh,
        "Softplus": _softplus,
        "Softsign": lambda x: x / (1 + np.abs(x)),
        "Mish": lambda x: x * np.tanh(_softplus(x)),
        "Gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
        "Erf": _erf,
        "LeakyRelu": _leaky,
        "PRelu": _leaky,
        "ThresholdedRelu": lambda x, alpha: np.where(x > alpha, x, 0),
        "Elu": _elu,
        "Celu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
        "Selu": _selu,
        "Abs": np.abs,
        "Neg": np.negative,
        "Exp": np.exp,
        "Sqrt": np.sqrt,
        "Pow": lambda x, exponent: x**exponent,
        CLIPPED_LINE: _clipped_line,
        SHIFTED_POWER: lambda x, offset, exponent: (x + offset) ** exponent,
    }
)
"""By name; those that ONNX has too have its name."""

ATTRIBUTES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
        "Swish": {"alpha": 1.0},
        "LeakyRelu": {"alpha": 0.01},
        "ThresholdedRelu": {"alpha": 1.0},
        "Elu": {"alpha": 1.0},
        "Celu": {"alpha": 1.0},
        "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    }
)
"""The parameters that are attributes of the ONNX node, in order, with their defaults."""


def apply_function(name: str, arguments: Array, parameters: Sequence[Any] = (), gated: bool = False) -> Array:
    """The function of every argument, in the arguments' precision; multiplied with it where `gated`."""
    with np.errstate(all="ignore"):  # what is not finite is refused by whoever asks
        result = FUNCTIONS[name](arguments, *parameters)
        return np.asarray(result * arguments if gated else result, dtype=arguments.dtype)
