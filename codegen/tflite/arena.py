"""What TensorFlow Lite Micro plans of a model: the tensors in the head of its arena, and the operators that read and write them.

Constants stay in the file, and variables at the tail of the arena: neither is planned. Nor is what kernels ask for when they are prepared
(scratch buffers), since no file says how much that is. See "Memory Management in TensorFlow Lite Micro" of the project's
documentation.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.tensor_graph import GraphOperator, GraphTensor, TensorGraph
from kilotune.codegen.tflite.model_file import TfliteModel, read_model

ALIGNMENT_BYTES = 16
"""Tensors of an arena lie at multiples of it (`MicroArenaBufferAlignment`)."""


def read_arena(path: Path) -> TensorGraph:
    """The tensors that a file's operators compute. InputError for a file that is no model, or whose operators cannot run in its order."""
    return arena_of(read_model(path))


def arena_of(model: TfliteModel) -> TensorGraph:
    """The tensors that the operators of a model compute. InputError for operators that cannot run in its order."""
    written = {number for operator in model.operators for number in operator.writes}
    planned = [
        t for t in model.tensors if not t.variable and t.data is None and t.number in written.union(model.inputs)
    ]
    names = dict(zip((t.number for t in planned), _unique(t.name or "tensor" for t in planned), strict=True))
    places = _unique(f"{operator.kind} {operator.number}" for operator in model.operators)

    def named(numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names[number] for number in numbers if number in names))

    try:
        for operator in model.operators:
            _require_values(model, operator.reads, written, f"operator {operator.number} ({operator.kind})")
        return TensorGraph(
            Path(model.path).stem,
            tuple(GraphTensor(names[t.number], t.size_bytes, t.number) for t in planned),
            tuple(
                GraphOperator(place, named(operator.reads), named(operator.writes))
                for place, operator in zip(places, model.operators, strict=True)
            ),
            named(model.inputs),
            named(number for number in model.outputs if number in written.union(model.inputs)),
        )
    except ValueError as error:
        expected, _, found = str(error).removeprefix("expected ").partition(", found ")
        raise InputError(model.path, expected=expected, found=found) from None


def _require_values(model: TfliteModel, numbers: Iterable[int], written: set[int], reader: str) -> None:
    """ValueError for a tensor that nothing gives a value, though it has elements."""
    for number in numbers:
        tensor = model.tensors[number] if number >= 0 else None
        if tensor is None or tensor.variable or tensor.data is not None or number in written or number in model.inputs:
            continue
        if tensor.size_bytes:
            raise ValueError(f"expected a value of tensor {number} {tensor.name!r} for {reader}, found none")


def _unique(names: Iterable[str]) -> list[str]:
    """The names, those that stood before with a number behind."""
    given: set[str] = set()
    unique = []
    for name in names:
        chosen, k = name, 1
        while chosen in given:
            k += 1
            chosen = f"{name}#{k}"
        given.add(chosen)
        unique.append(chosen)
    return unique
