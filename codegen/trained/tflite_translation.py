"""The nodes of a TensorFlow Lite file so far, in ONNX's vocabulary: names, constants, and the activation that an operator may end in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kilotune.codegen.arrays import Array
from kilotune.codegen.tflite.model_file import TfliteModel, TfliteOperator
from kilotune.codegen.trained.model import KeptState, TrainedNode

ACTIVATIONS: Mapping[int, tuple[str, dict[str, float]]] = MappingProxyType(
    {
        1: ("Relu", {}),
        2: ("Clip", {"min": -1.0, "max": 1.0}),
        3: ("Clip", {"min": 0.0, "max": 6.0}),
        4: ("Tanh", {}),
    }
)
"""By the numbers of the schema's ActivationFunctionType; 0 is none."""


@dataclass
class Translation:
    """The nodes so far. `constants`: by the name of their tensor, real numbers. `subgraphs` are all of the file, of which `model` is one;
    `within`: what the names of its tensors begin with, where it is the body of an operator. `handles`: variables by the number of the
    tensor that stands for them; `kept`: what has become of them, `behind` empty where nothing was assigned yet."""

    model: TfliteModel
    subgraphs: Sequence[TfliteModel] = ()
    within: str = ""
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[TrainedNode] = field(default_factory=list)
    handles: dict[int, str] = field(default_factory=dict)
    kept: dict[str, KeptState] = field(default_factory=dict)

    def name(self, number: int) -> str:
        """What a tensor is called: as in the file, with its number, since names there need not differ."""
        return f"{self.within}{self.model.tensors[number].name or 'tensor'}#{number}"

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape that the file states."""
        return self.model.tensors[number].shape

    def constant(self, number: int, what: str) -> Array:
        """A constant operand. ValueError for one that is computed."""
        name = self.name(number)
        if name not in self.constants:
            raise ValueError(f"expected constant {what}, found {name!r}, which is computed from the features")
        return self.constants[name]

    def whole_numbers(self, number: int, what: str) -> list[int]:
        """A constant operand as whole numbers."""
        return [int(value) for value in self.constant(number, what).reshape(-1)]

    def add(self, operator: TfliteOperator, kind: str, reads: Sequence[str], write: str, **attributes: Any) -> str:
        """One node; what it writes."""
        self.nodes.append(TrainedNode(kind, tuple(reads), (write,), self.place_of(operator), attributes))
        return write

    def constant_of(self, operator: TfliteOperator, label: str, values: Array) -> str:
        """A new constant of an operator; its name."""
        name = f"{self.name(operator.writes[0])}_{label}"
        self.constants[name] = values
        return name

    def place_of(self, operator: TfliteOperator) -> str:
        """Which operator of the file it is, for messages."""
        written = f" that writes {self.model.tensors[operator.writes[0]].name!r}" if operator.writes else ""
        return f"{self.within and 'body '}operator {operator.number} ({operator.kind}{written})"

    def finish(self, operator: TfliteOperator, before: str) -> None:
        """The activation that is part of an operator, and the operator's result."""
        number = option(operator, "FusedActivationFunction", 0)
        result = self.name(operator.writes[0])
        if number == 0:
            self.add(operator, "Identity", [before], result)
            return
        if number not in ACTIVATIONS:
            raise ValueError(f"expected no activation, or Relu, Relu6 or Tanh, found number {number}")
        kind, attributes = ACTIVATIONS[number]
        self.add(operator, kind, [before], result, **attributes)


Translator = Callable[[Translation, TfliteOperator], None]
"""Appends the nodes of an operator. ValueError, the end of a sentence, for one that cannot be translated."""


def option(operator: TfliteOperator, name: str, default: int) -> int:
    """An operator's option by its name in the schema, as a whole number."""
    value = operator.options.get(name, default)
    return int(value) if isinstance(value, int | float) else default
