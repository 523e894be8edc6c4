"""TensorFlow Lite files that keep their state in variables from one call to the next, as models for streams do: one call is one step."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.tflite.model_file import TfliteModel, TfliteOperator
from kilotune.codegen.trained.model import KeptState
from kilotune.codegen.trained.tflite_translation import Translation, Translator, option


def _once(translation: Translation, operator: TfliteOperator) -> None:
    """CALL_ONCE: a subgraph that gives variables their first values, which are constants."""
    graph = translation.subgraphs[option(operator, "InitSubgraphIndex", -1)]
    handles: dict[int, str] = {}
    for one in graph.operators:
        if one.kind == "VAR_HANDLE":
            handles[one.writes[0]] = _variable(one)
        elif one.kind != "ASSIGN_VARIABLE":
            raise ValueError(f"expected constants as first values of variables, found {one.kind}")
        else:
            name = f"{handles[one.reads[0]]} at first"
            translation.constants[name] = _content(graph, one.reads[1])
            translation.kept[handles[one.reads[0]]] = KeptState("", "", name)


def _content(graph: TfliteModel, number: int) -> Array:
    tensor = graph.tensors[number]
    if tensor.data is None or tensor.element_type != "FLOAT32":
        raise ValueError("expected 32-bit floats, known beforehand, as first values of variables, found others")
    return np.frombuffer(tensor.data.tobytes(), dtype="<f4").reshape(tensor.shape).astype(np.float64)


def _variable(operator: TfliteOperator) -> str:
    parts = [operator.options.get(label, "") for label in ("Container", "SharedName")]
    return f"variable {'/'.join(str(part) for part in parts if part)}"


def _handle(translation: Translation, operator: TfliteOperator) -> None:
    translation.handles[operator.writes[0]] = _variable(operator)


def _read(translation: Translation, operator: TfliteOperator) -> None:
    """What the last call left, or, behind an assignment, what this one has assigned."""
    variable = _known(translation, operator)
    kept, result = translation.kept[variable], translation.name(operator.writes[0])
    if kept.behind:
        translation.add(operator, "Identity", [kept.behind], result)
        return
    before = kept.before or f"{variable} before"
    translation.kept[variable] = KeptState(before, "", kept.first)
    translation.add(operator, "Identity", [before], result)


def _assign(translation: Translation, operator: TfliteOperator) -> None:
    variable = _known(translation, operator)
    kept = translation.kept[variable]
    before = kept.before or f"{variable} before"
    translation.kept[variable] = KeptState(before, translation.name(operator.reads[1]), kept.first)


def _known(translation: Translation, operator: TfliteOperator) -> str:
    """The variable that an operator is about, which has a first value."""
    variable = translation.handles.get(operator.reads[0], "")
    if variable not in translation.kept:
        raise ValueError("expected a variable with a first value (CALL_ONCE), found none")
    return variable


VARIABLES: Mapping[str, Translator] = MappingProxyType(
    {"CALL_ONCE": _once, "VAR_HANDLE": _handle, "READ_VARIABLE": _read, "ASSIGN_VARIABLE": _assign}
)
"""By the schema's names of operators."""
