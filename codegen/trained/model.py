"""A trained model as its file states it: operators in ONNX's vocabulary, constants, shapes. What reads ONNX and TensorFlow Lite makes
one; nothing here computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kilotune.codegen.arrays import Array
from kilotune.codegen.class_names import ClassName
from kilotune.codegen.language.sizes import MOST_ELEMENTS
from kilotune.codegen.quantisation_grid import QuantisationGrid


def check_features(shape: tuple[int, ...]) -> None:
    """ValueError "expected X, found Y" for no features a sample, and for more than a variable of a program may have."""
    count, found = math.prod(shape), "x".join(map(str, shape))
    if min(shape, default=1) < 1:
        raise ValueError(f"expected at least one element, found {found}")
    if count > MOST_ELEMENTS:
        raise ValueError(f"expected at most {MOST_ELEMENTS} elements, found {found}")


@dataclass(frozen=True, eq=False)
class TrainedNode:
    """One operator. `kind`: its ONNX name, behind its domain where that is not ONNX's own; an input that is left out is "". `place` says
    in words which node of the file it is. `opset`: the version of its domain that the file is written for. `refusal`: "expected X, found Y"
    of an operator that cannot be stated in this vocabulary."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    place: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 13
    refusal: str = ""

    @property
    def output(self) -> str:
        """The first output."""
        return self.outputs[0]

    def integer(self, name: str, default: int) -> int:
        """An attribute that is a whole number. ValueError "expected X, found Y" for one that is none."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise ValueError(f"expected a whole number as {name}, found {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number. ValueError "expected X, found Y" for one that is none."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise ValueError(f"expected a number as {name}, found {value!r}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        value = self.attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def in_its_place(self, kind: str, *reads: str, write: str | None = None, **attributes: Any) -> TrainedNode:
        """An operator of ONNX, as of opset 13, for the same place of the file. `write`: its output; this one's outputs where it is None."""
        outputs = self.outputs if write is None else (write,)
        return replace(self, kind=kind, inputs=reads, outputs=outputs, attributes=attributes, opset=13)


@dataclass(frozen=True)
class KeptState:
    """A state of a model that is one step of a stream: its names before and behind the step, and the constant that it is at first."""

    before: str
    behind: str
    first: str


@dataclass(frozen=True, eq=False)
class TrainedGraph:
    """`nodes` in an order in which they can run. `input_shape` is that of one sample as the operators expect it, a free batch as 1;
    `outputs` are the values that the file returns, in its order. `classes`: what labels stand for, where the file says it.
    `input_grid` and `output_grid`: of files whose integers are kept. `rounded`: whether constants are integers' real numbers, so that a
    bias that a file has several times, with other scales, is not quite the same. `kept`: the states of a file that is one step of a
    stream, whose input is one frame. `feature_ends`: between which real numbers the
    integers of a quantised file's features are, where they are not what a QuantizeLinear says."""

    path: str
    nodes: tuple[TrainedNode, ...]
    constants: Mapping[str, Array]
    input_name: str
    input_shape: tuple[int, ...]
    outputs: tuple[str, ...]
    classes: tuple[ClassName, ...] = ()
    input_grid: QuantisationGrid | None = None
    output_grid: QuantisationGrid | None = None
    rounded: bool = False
    kept: tuple[KeptState, ...] = ()
    feature_ends: tuple[float, float] | None = None
