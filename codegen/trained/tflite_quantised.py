"""TensorFlow Lite's operators on integers of 8 bits, as they are: each becomes a node that says what its reference kernel computes.

Sources: the quantisation specification of TensorFlow Lite (int8, weights without zero points), and how the reference kernels of TensorFlow
Lite Micro prepare their multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen import ir
from kilotune.codegen.ir.quantised import HEADROOM
from kilotune.codegen.ir.requantisation import fixed_multiplier
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid
from kilotune.codegen.tflite.model_file import TfliteOperator
from kilotune.codegen.trained.integer_functions import (
    leaky_relu_entries,
    logistic_entries,
    rescaling_entries,
    softmax_powers,
    tanh_entries,
)
from kilotune.codegen.trained.quantised import (
    AVERAGE,
    CONVOLUTION,
    LARGEST,
    LOOKUP,
    MATRIX,
    MEAN,
    PADDING,
    PRODUCT,
    RESCALING,
    SUM,
)
from kilotune.codegen.trained.tflite_grids import grid_of, is_end
from kilotune.codegen.trained.tflite_rearranging import REARRANGING
from kilotune.codegen.trained.tflite_translation import Translation, Translator, option

ACTIVATION_ENDS: Mapping[int, tuple[float | None, float | None]] = MappingProxyType(
    {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
)
"""Between which real numbers an activation holds its argument, by the numbers of the schema's ActivationFunctionType."""


def _ends(translation: Translation, operator: TfliteOperator) -> tuple[int, int]:
    """Between which integers the operator's own activation holds the result."""
    kind = option(operator, "FusedActivationFunction", 0)
    if kind not in ACTIVATION_ENDS:
        raise ValueError(f"expected no activation, or Relu, Relu6 or Relu1, found number {kind}")
    return _ends_of(ACTIVATION_ENDS[kind], grid_of(translation, operator.writes[0]))


def _ends_of(reals: tuple[float | None, float | None], grid: QuantisationGrid) -> tuple[int, int]:
    scale, zero = np.float32(grid.step), grid.zero
    low, high = (None if end is None else zero + int(_rounded(np.float32(end) / scale)) for end in reals)
    return LEAST if low is None else max(LEAST, low), MOST if high is None else min(MOST, high)


def _rounded(value: np.float32) -> float:
    """To the nearest, halves away from zero."""
    return float(np.trunc(value + np.copysign(np.float32(0.5), value)))


def _completion(translation: Translation, operator: TfliteOperator, scales: NDArray[np.float64]) -> ir.Requantisation:
    """What becomes of the sums of a product; `scales`: of the sums, one for all channels or one each."""
    weights = translation.constant(operator.reads[1], "weights")
    depthwise = operator.kind == "DEPTHWISE_CONV_2D"
    channels = weights.shape[-1] if depthwise else weights.shape[0]
    of_channels = np.moveaxis(weights, -1, 0) if depthwise else weights
    given, made = (grid_of(translation, number) for number in (operator.reads[0], operator.writes[0]))
    biases = np.zeros(channels, dtype=np.int64)
    if len(operator.reads) > 2 and operator.reads[2] >= 0:
        biases = translation.constant(operator.reads[2], "bias").astype(np.int64).reshape(-1)
    if biases.shape != (channels,) or scales.size not in (1, channels):
        raise ValueError(
            f"expected a bias and a scale for each of {channels} channels, found {biases.size} and {scales.size}"
        )
    sums = of_channels.reshape(channels, -1).astype(np.int64).sum(axis=1)
    factors = tuple(fixed_multiplier(float(one) / made.step) for one in np.broadcast_to(scales, (channels,)))
    least, most = _ends(translation, operator)
    return ir.Requantisation(tuple((biases - given.zero * sums).tolist()), factors, made.zero, least, most)


def _weight_scales(translation: Translation, operator: TfliteOperator) -> NDArray[np.float64]:
    """One, or one a channel. ValueError for weights of other integers."""
    tensor = translation.model.tensors[operator.reads[1]]
    quantised = tensor.quantisation
    if tensor.element_type != "INT8" or quantised is None:
        raise ValueError(f"expected weights of INT8, found {tensor.element_type}")
    if quantised.zero_points.any() or not (np.isfinite(quantised.scales).all() and (quantised.scales > 0).all()):
        raise ValueError("expected weights with zero point 0 and scales above 0, found others")
    return quantised.scales.reshape(-1).astype(np.float64)


def _convolution(translation: Translation, operator: TfliteOperator) -> None:
    given = grid_of(translation, operator.reads[0])
    completion = _completion(translation, operator, given.step * _weight_scales(translation, operator))
    same = option(operator, "Padding", 0) == 0
    translation.add(
        operator,
        CONVOLUTION,
        [translation.name(number) for number in operator.reads[:2]],
        translation.name(operator.writes[0]),
        auto_pad="SAME_UPPER" if same else "VALID",
        strides=[option(operator, "StrideH", 1), option(operator, "StrideW", 1)],
        dilations=[option(operator, "DilationHFactor", 1), option(operator, "DilationWFactor", 1)],
        depthwise=operator.kind == "DEPTHWISE_CONV_2D",
        completion=completion,
        outside=given.zero,
    )


def _fully_connected(translation: Translation, operator: TfliteOperator) -> None:
    scales = grid_of(translation, operator.reads[0]).step * _weight_scales(translation, operator)
    reads = [translation.name(number) for number in operator.reads[:2]]
    completion = _completion(translation, operator, scales)
    translation.add(
        operator,
        MATRIX,
        reads,
        translation.name(operator.writes[0]),
        completion=completion,
        keeps_axes=bool(operator.options.get("KeepNumDims")),
    )


def _sum(translation: Translation, operator: TfliteOperator) -> None:
    first, second = (grid_of(translation, number) for number in operator.reads[:2])
    made = grid_of(translation, operator.writes[0])
    twice = 2.0 * max(first.step, second.step)
    least, most = _ends(translation, operator)
    translation.add(
        operator,
        SUM,
        [translation.name(number) for number in operator.reads[:2]],
        translation.name(operator.writes[0]),
        zeros=(first.zero, second.zero),
        factors=(fixed_multiplier(first.step / twice), fixed_multiplier(second.step / twice)),
        factor=fixed_multiplier(twice / ((1 << HEADROOM) * made.step)),
        zero=made.zero,
        minus=operator.kind == "SUB",
        least=least,
        most=most,
    )


def _product(translation: Translation, operator: TfliteOperator) -> None:
    first, second = (grid_of(translation, number) for number in operator.reads[:2])
    made = grid_of(translation, operator.writes[0])
    least, most = _ends(translation, operator)
    factor = first.step * second.step / made.step
    translation.add(
        operator,
        PRODUCT,
        [translation.name(number) for number in operator.reads[:2]],
        translation.name(operator.writes[0]),
        zeros=(first.zero, second.zero),
        factor=fixed_multiplier(factor),
        zero=made.zero,
        least=least,
        most=most,
    )


def _pool(translation: Translation, operator: TfliteOperator) -> None:
    given, made = (grid_of(translation, number) for number in (operator.reads[0], operator.writes[0]))
    if given != made:
        raise ValueError("expected a pool whose result has the scale of its operand, found another one")
    least, most = _ends(translation, operator)
    kernel = [option(operator, "FilterHeight", 0), option(operator, "FilterWidth", 0)]
    largest = operator.kind == "MAX_POOL_2D"
    averaging = {"completion": ir.Averaging(math.prod(kernel), least, most), "outside": given.zero}
    held: dict[str, object] = {"least": least, "most": most} if largest else averaging
    translation.add(
        operator,
        LARGEST if largest else AVERAGE,
        [translation.name(operator.reads[0])],
        translation.name(operator.writes[0]),
        auto_pad="SAME_UPPER" if option(operator, "Padding", 0) == 0 else "VALID",
        strides=[option(operator, "StrideH", 1), option(operator, "StrideW", 1)],
        kernel_shape=kernel,
        **held,
    )


def _mean(translation: Translation, operator: TfliteOperator) -> None:
    """The average over height and width, or over time: one over their number is part of the multiplier, rounded down."""
    given, made = (grid_of(translation, number) for number in (operator.reads[0], operator.writes[0]))
    shape = translation.shape(operator.reads[0])
    axes = {axis % max(1, len(shape)) for axis in translation.whole_numbers(operator.reads[1], "axes")}
    spatial = tuple(range(1, len(shape) - 1))
    if len(shape) not in (3, 4) or axes != set(spatial):
        expected = "the mean over height and width of an image, or over time"
        raise ValueError(f"expected {expected}, found axes {sorted(axes)} of {list(shape)}")
    factor = fixed_multiplier(given.step / made.step)

    def completion(count: int) -> ir.Requantisation:
        shift = min(count.bit_length() - 1, 31 + factor.shift)
        scaled = ir.FixedMultiplier((factor.mantissa << shift) // count, factor.shift - shift)
        return ir.Requantisation((-given.zero * count,), (scaled,), made.zero)

    translation.add(
        operator,
        MEAN,
        [translation.name(operator.reads[0])],
        translation.name(operator.writes[0]),
        completion_of=completion,
        axes=spatial,
        keepdims=len(translation.shape(operator.writes[0])) == len(shape),
    )


def _pad(translation: Translation, operator: TfliteOperator) -> None:
    widths = translation.constant(operator.reads[1], "widths").astype(np.int64)
    if widths.ndim != 2 or widths.shape[1] != 2 or len(operator.reads) > 2:
        raise ValueError(f"expected two widths an axis and no value, found shape {list(widths.shape)}")
    zero = grid_of(translation, operator.reads[0]).zero
    reads, write = [translation.name(operator.reads[0])], translation.name(operator.writes[0])
    translation.add(operator, PADDING, reads, write, widths=tuple(map(tuple, widths.tolist())), value=zero)


def _lookup(entries: Callable[[QuantisationGrid, QuantisationGrid], tuple[int, ...]], function: str = "") -> Translator:
    """A function of one element, as a table; `entries` from the operand's grid and the result's, `function` its name in ONNX."""

    def translate(translation: Translation, operator: TfliteOperator) -> None:
        given, made = (grid_of(translation, number) for number in (operator.reads[0], operator.writes[0]))
        reads = [translation.name(operator.reads[0])]
        result = translation.name(operator.writes[0])
        translation.add(operator, LOOKUP, reads, result, entries=entries(given, made), function=function)

    return translate


def _clipped(reals: tuple[float | None, float | None]) -> Translator:
    return _lookup(
        lambda given, made: tuple(int(v) for v in np.clip(rescaling_entries(given, made), *_ends_of(reals, made)))
    )


def _relu6(translation: Translation, operator: TfliteOperator) -> None:
    """Reference kernels agree where the result has the scale of its operand: that of microcontrollers ignores another one."""
    if grid_of(translation, operator.reads[0]) != grid_of(translation, operator.writes[0]):
        raise ValueError("expected a Relu6 whose result has the scale of its operand, found another one")
    _clipped((0.0, 6.0))(translation, operator)


def _between_grids(translation: Translation, operator: TfliteOperator) -> None:
    """QUANTIZE or DEQUANTIZE: nothing at the ends of the model, whose caller has integers; between integers another scale."""
    given, made = (translation.model.tensors[number] for number in (operator.reads[0], operator.writes[0]))
    if is_end(translation, operator):
        translation.add(operator, "Identity", [translation.name(given.number)], translation.name(made.number))
    elif given.element_type == made.element_type == "INT8":
        _lookup(rescaling_entries, RESCALING)(translation, operator)
    else:
        found = f"{given.element_type} to {made.element_type}"
        raise ValueError(f"expected integers of 8 bits with a sign between the ends of the model, found {found}")


def _leaky_relu(translation: Translation, operator: TfliteOperator) -> None:
    alpha = operator.options.get("Alpha", 0.0)
    slope = float(alpha) if isinstance(alpha, int | float) else 0.0
    _lookup(lambda given, made: leaky_relu_entries(given, made, slope))(translation, operator)


def _softmax(translation: Translation, operator: TfliteOperator) -> None:
    """A program that returns a class leaves it out."""
    given, made = (grid_of(translation, number) for number in (operator.reads[0], operator.writes[0]))
    if made != QuantisationGrid(2.0**-8, LEAST):
        raise ValueError(f"expected a Softmax in steps of 1/256 from -128 on, found {made.step!r} and {made.zero}")
    beta = operator.options.get("Beta", 0.0)
    powers = softmax_powers(given, float(beta) if isinstance(beta, int | float) else 0.0)
    reads, write = [translation.name(operator.reads[0])], translation.name(operator.writes[0])
    translation.add(operator, "Softmax", reads, write, axis=-1, powers=powers)


def _same_grid(translator: Translator) -> Translator:
    """An operator that moves integers, whose results have the scale of its operands."""

    def translate(translation: Translation, operator: TfliteOperator) -> None:
        tensors = [translation.model.tensors[n] for n in (*operator.reads, *operator.writes) if n >= 0]
        grids = {grid_of(translation, tensor.number) for tensor in tensors if tensor.element_type == "INT8"}
        if len(grids) > 1:
            raise ValueError(f"expected one scale and zero point for all that is moved, found {len(grids)}")
        translator(translation, operator)

    return translate


def _arg_max(translation: Translation, operator: TfliteOperator) -> None:
    axis = translation.whole_numbers(operator.reads[1], "axis")[0]
    reads = [translation.name(operator.reads[0])]
    translation.add(operator, "ArgMax", reads, translation.name(operator.writes[0]), axis=axis, keepdims=0)


QUANTISED: Mapping[str, Translator] = MappingProxyType(
    {
        **{kind: _same_grid(translator) for kind, translator in REARRANGING.items() if not kind.startswith("PAD")},
        "PAD": _pad,
        "MEAN": _mean,
        "CONV_2D": _convolution,
        "DEPTHWISE_CONV_2D": _convolution,
        "FULLY_CONNECTED": _fully_connected,
        "ADD": _sum,
        "SUB": _sum,
        "MUL": _product,
        "MAX_POOL_2D": _pool,
        "AVERAGE_POOL_2D": _pool,
        "RELU": _clipped((0.0, None)),
        "RELU6": _relu6,
        "LOGISTIC": _lookup(logistic_entries, "Sigmoid"),
        "TANH": _lookup(tanh_entries),
        "LEAKY_RELU": _leaky_relu,
        "QUANTIZE": _between_grids,
        "DEQUANTIZE": _between_grids,
        "SOFTMAX": _softmax,
        "ARG_MAX": _arg_max,
    }
)
"""By the schema's names of operators."""
