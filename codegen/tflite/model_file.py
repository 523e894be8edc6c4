"""A TensorFlow Lite file as plain data: tensors and operators in the file's order of execution.

The format is a flatbuffer, which Python reads without verifying it: every number of a damaged file leads somewhere. So all of it is
read here, once, and what lies outside the file or outside a list is one `InputError`.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.binary_files import read_binary_file
from kilotune.codegen.diagnostics import InputError

IDENTIFIER, IDENTIFIER_AT = b"TFL3", 4
"""The flatbuffer's file identifier, and where it stands."""

MOST_FILE_BYTES = (1 << 31) - 1
"""What 32-bit offsets reach."""

ELEMENT_BITS = MappingProxyType(
    {
        "FLOAT32": 32, "FLOAT16": 16, "BFLOAT16": 16, "FLOAT64": 64, "COMPLEX64": 64, "COMPLEX128": 128, "BOOL": 8,
        "INT4": 4, "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64,
    }
)  # fmt: skip
"""By the schema's names of element types; strings, resources and variants have no fixed size."""


OptionValue = int | float | bool | str | tuple[int, ...]
"""What an option of an operator may be."""


@dataclass(frozen=True, eq=False)
class TfliteQuantisation:
    """Real numbers are (integer - zero point) * scale; several of both are those of the places along `axis`."""

    scales: NDArray[np.float64]
    zero_points: NDArray[np.int64]
    axis: int


@dataclass(frozen=True, eq=False)
class TfliteTensor:
    """`shape` as the file states it, with 1 for a free batch. `data`: the bytes of a constant, shape (bytes,), uint8; None for what is
    computed, is an input, or is a variable (kept from one run to the next)."""

    number: int
    name: str
    shape: tuple[int, ...]
    element_type: str
    data: NDArray[np.uint8] | None
    variable: bool
    quantisation: TfliteQuantisation | None = None

    @property
    def size_bytes(self) -> int:
        """In memory. ValueError "expected X, found Y" for elements without a fixed size."""
        if self.element_type not in ELEMENT_BITS:
            raise ValueError(f"expected elements of a fixed size, found {self.element_type}")
        return -(-math.prod(self.shape) * ELEMENT_BITS[self.element_type] // 8)


@dataclass(frozen=True)
class TfliteOperator:
    """`kind`: the schema's name of a built-in operator, or a custom one's own. `reads` and `writes` are numbers of tensors; an
    optional operand that is not there is -1. `options`: those of a built-in operator, by the schema's names (`StrideW`)."""

    number: int
    kind: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True)
class TfliteModel:
    """One subgraph of a file, most often the only one."""

    path: str
    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_model(path: Path) -> TfliteModel:
    """The model of a file. InputError for one that is none, is cut short, or has several subgraphs (control flow)."""
    subgraphs = read_subgraphs(path)
    if len(subgraphs) != 1:
        raise InputError(str(path), expected="a model with one subgraph", found=str(len(subgraphs)))
    return subgraphs[0]


def read_subgraphs(path: Path) -> tuple[TfliteModel, ...]:
    """All subgraphs of a file, by their numbers; the first one is the model, the others are what its control flow runs. InputError for a
    file that is none, is cut short, or has none."""
    content = read_content(path)
    import tflite  # two hundred small modules

    with _inside(path):
        model = tflite.Model.GetRootAs(content, 0)
        kinds = [
            _kind(model.OperatorCodes(k), _names(tflite.BuiltinOperator)) for k in range(model.OperatorCodesLength())
        ]
        types = _names(tflite.TensorType)
        found = tuple(_subgraph(path, model, number, kinds, types) for number in range(model.SubgraphsLength()))
    if not found:
        raise InputError(str(path), expected="a model with one subgraph", found="0")
    return found


def _subgraph(path: Path, model: Any, number: int, kinds: list[str], types: dict[int, str]) -> TfliteModel:
    graph = model.Subgraphs(number)
    tensors = tuple(_tensor(model, graph.Tensors(k), k, types) for k in range(graph.TensorsLength()))
    operators = tuple(_operator(graph.Operators(k), k, kinds) for k in range(graph.OperatorsLength()))
    found = TfliteModel(
        str(path), tensors, operators, _numbers(graph.InputsAsNumpy()), _numbers(graph.OutputsAsNumpy())
    )
    _require_tensors(found)
    return found


def read_content(path: Path) -> bytes:
    """The bytes of a TensorFlow Lite file. InputError for a file that cannot be read or does not begin like one."""
    content = read_binary_file(path, "a TFLite model", MOST_FILE_BYTES)
    if not is_tflite(content):
        raise InputError(str(path), expected="a TFLite model", found="bytes that are none")
    return content


def is_tflite(content: bytes) -> bool:
    """Whether a file of these first bytes says that it is a TensorFlow Lite model."""
    return content[IDENTIFIER_AT : IDENTIFIER_AT + len(IDENTIFIER)] == IDENTIFIER


@contextlib.contextmanager
def _inside(path: Path) -> Iterator[None]:
    """What generated code raises where an offset leads out of the file, as InputError."""
    try:
        yield
    except InputError:
        raise
    except (struct.error, IndexError, TypeError, AttributeError, OverflowError, MemoryError, ValueError) as error:
        found = (
            str(error).removeprefix("expected ")
            if isinstance(error, _MisplacedError)
            else "one that is damaged or cut short"
        )
        raise InputError(str(path), expected="a whole TFLite model", found=found) from None


class _MisplacedError(ValueError):
    """A number that leads to nothing, in words."""


def _names(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


def _numbers(vector: Any) -> tuple[int, ...]:
    """Generated code says 0 for a list that is not there."""
    return () if isinstance(vector, int) else tuple(int(number) for number in vector)


def _tensor(model: Any, tensor: Any, number: int, types: dict[int, str]) -> TfliteTensor:
    shape = _numbers(tensor.ShapeAsNumpy())
    name = (tensor.Name() or b"").decode("utf-8", errors="replace")
    if min(shape, default=1) < 0:
        raise _MisplacedError(f"tensor {number} {name!r} of shape {list(shape)}")
    buffer = None if tensor.Buffer() == 0 else model.Buffers(tensor.Buffer())
    data = None if buffer is None or buffer.DataLength() == 0 else buffer.DataAsNumpy()
    if buffer is not None and buffer.Offset() > 1:
        raise _MisplacedError(f"weights of tensor {number} {name!r} beyond the flatbuffer")
    kind = types.get(tensor.Type(), f"type {tensor.Type()}")
    variable = bool(tensor.IsVariable())
    return TfliteTensor(number, name, shape, kind, None if variable else data, variable, _quantisation(tensor))


def _quantisation(tensor: Any) -> TfliteQuantisation | None:
    found = tensor.Quantization()
    if found is None or not found.ScaleLength():
        return None
    scales = np.array(found.ScaleAsNumpy(), dtype=np.float64)
    zero = np.array(found.ZeroPointAsNumpy(), dtype=np.int64) if found.ZeroPointLength() else np.zeros(1, np.int64)
    if zero.size not in (1, scales.size):
        raise _MisplacedError(f"{zero.size} zero points for {scales.size} scales")
    return TfliteQuantisation(scales, zero, int(found.QuantizedDimension()))


def _kind(code: Any, names: dict[int, str]) -> str:
    """Codes up to 127 stood in a field of a byte first."""
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    kind = names.get(number, f"operator {number}")
    return (code.CustomCode() or b"").decode("utf-8", errors="replace") or kind if kind == "CUSTOM" else kind


def _operator(operator: Any, number: int, kinds: list[str]) -> TfliteOperator:
    return TfliteOperator(
        number,
        kinds[operator.OpcodeIndex()],
        _numbers(operator.InputsAsNumpy()),
        _numbers(operator.OutputsAsNumpy()),
        _options(operator),
    )


def _options(operator: Any) -> dict[str, OptionValue]:
    """What the generated class of the operator's options has, each number by the name of the method that reads it."""
    import tflite

    table = operator.BuiltinOptions()
    names = {value: name for name, value in vars(tflite.BuiltinOptions).items() if isinstance(value, int)}
    kind = names.get(operator.BuiltinOptionsType())
    if table is None or kind is None or not hasattr(tflite, kind):
        return {}
    made = getattr(tflite, kind)()
    made.Init(table.Bytes, table.Pos)
    found: dict[str, OptionValue] = {}
    for name, method in vars(type(made)).items():
        if name == "Init" or name.startswith(("_", "GetRootAs")) or name.endswith("BufferHasIdentifier"):
            continue
        if name.endswith("AsNumpy"):
            found[name.removesuffix("AsNumpy")] = _numbers(method(made))
        elif method.__code__.co_argcount == 1 and not name.endswith(("IsNone", "Length")):
            value = method(made)
            found[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return found


def _require_tensors(model: TfliteModel) -> None:
    lists = [("inputs", model.inputs, 0), ("outputs", model.outputs, 0)]
    for operator in model.operators:
        lists.append((f"inputs of operator {operator.number} ({operator.kind})", operator.reads, -1))
        lists.append((f"outputs of operator {operator.number} ({operator.kind})", operator.writes, 0))
    for what, numbers, least in lists:
        for number in numbers:
            if not least <= number < len(model.tensors):
                raise _MisplacedError(f"tensor {number} of {len(model.tensors)} among the {what}")
