"""Which operator of a trained model is converted by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kilotune.codegen import ir
from kilotune.codegen.trained import (
    elementwise,
    exponential_units,
    normalising,
    products,
    rearranging,
    recurrent,
    scan,
    shares,
    voting,
    windows,
)
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.endings import arg_max
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.quantised import QUANTISED_CONVERTERS
from kilotune.codegen.trained.support_vectors import BALLOT

Converter = Callable[[Builder, TrainedNode], None]

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {
        "Gemm": products.gemm,
        "MatMul": products.matmul,
        "Conv": products.convolution,
        "MaxPool": windows.pool,
        "AveragePool": windows.pool,
        "GlobalAveragePool": windows.global_pool,
        "GlobalMaxPool": windows.global_pool,
        "ReduceMean": windows.reduction,
        "ReduceSum": windows.reduction,
        "ReduceMax": windows.reduction,
        "Add": elementwise.binary(ir.Add),
        "Sub": elementwise.binary(ir.Subtract),
        "Mul": elementwise.binary(ir.Multiply),
        "Div": elementwise.divide,
        "Sum": elementwise.summed,
        "Max": elementwise.extreme,
        "Min": elementwise.extreme,
        "Pow": elementwise.power,
        "Relu": elementwise.function("relu"),
        "Sigmoid": elementwise.function("sigmoid"),
        "Tanh": elementwise.function("tanh"),
        "Exp": elementwise.function("exp"),
        "Abs": elementwise.function("abs"),
        "HardSwish": elementwise.function("hardswish"),
        "HardSigmoid": exponential_units.hard_sigmoid,
        "Elu": exponential_units.elu,
        "Selu": exponential_units.selu,
        "Celu": exponential_units.celu,
        "LeakyRelu": elementwise.leaky_relu,
        "PRelu": elementwise.prelu,
        "Clip": elementwise.clip,
        "Neg": normalising.negate,
        "BatchNormalization": normalising.batch_normalization,
        "NormaliseL2": normalising.normalise,
        "QuantizeLinear": normalising.quantize,
        "DequantizeLinear": normalising.dequantize,
        "Cast": normalising.cast,
        "Identity": rearranging.identity,
        "Dropout": rearranging.dropout,
        "Reshape": rearranging.reshape,
        "Flatten": rearranging.reshape,
        "Squeeze": rearranging.reshape,
        "Unsqueeze": rearranging.reshape,
        "Transpose": rearranging.transpose,
        "Gather": rearranging.gather,
        "Slice": rearranging.cut,
        "Split": rearranging.split,
        "Concat": rearranging.concat,
        "Pad": rearranging.pad,
        "Shape": rearranging.shape_of,
        "GRU": recurrent.recurrent,
        "LSTM": recurrent.recurrent,
        "RNN": recurrent.recurrent,
        "Scan": scan.scan,
        "Softmax": shares.softmax,
        "ArgMax": arg_max,
        BALLOT: voting.ballot,
        **QUANTISED_CONVERTERS,
    }
)
"""By ONNX's names, and by names of our own for parts of operators of classical models."""

NAMES_IN_FILES: Mapping[str, str] = MappingProxyType(
    {BALLOT: "SVMClassifier", "NormaliseL1": "Normalizer (L1)", "NormaliseL2": "Normalizer (L2)"}
)
"""What files call the operators that have such a name of our own."""


def supported_operators() -> str:
    """All operators by the names that files have for them, for a message."""
    return ", ".join(sorted(NAMES_IN_FILES.get(kind, kind) for kind in CONVERTERS if kind not in QUANTISED_CONVERTERS))
