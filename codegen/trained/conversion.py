"""From a `TrainedGraph` to a program: its operators one after the other, and one message for all that cannot be converted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Location, Program, ResultKind, Role, Variable, View
from kilotune.codegen.language.emitter import Emitter
from kilotune.codegen.language.sizes import check_length, check_work
from kilotune.codegen.language.sparsity import sparse_parameters
from kilotune.codegen.language.views import reshaped
from kilotune.codegen.onnx.obstacles import error_at
from kilotune.codegen.trained.builder import INPUT, Builder
from kilotune.codegen.trained.converters import CONVERTERS, NAMES_IN_FILES, supported_operators
from kilotune.codegen.trained.endings import Returns, ended, ending_of, largest, positive
from kilotune.codegen.trained.folded import FOLDED
from kilotune.codegen.trained.folding import fold
from kilotune.codegen.trained.histories import without_histories
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.padded_windows import with_padding_in_windows
from kilotune.codegen.trained.states_in_place import with_states_in_place
from kilotune.codegen.trained.two_classes import with_one_score

MISTAKES = MappingProxyType(
    {IndexError: "too few inputs", KeyError: "an attribute that is missing", OverflowError: "a number out of range"}
)
"""What a converter raises where a file leaves out or overdoes something."""

NOT_SUPPORTED = "expected a supported operator"
"""How the refusal of an operator begins that has no converter; only the first one lists those that have."""


@dataclass(frozen=True, eq=False)
class Converted:
    """A program with its parameters; `class_count` is None for one that returns real numbers."""

    program: Program
    parameters: dict[str, RealArray]
    class_count: int | None


def convert(model: TrainedGraph, name: str, returns: Returns) -> Converted:
    """The program of a model. InputError, one sentence, that says of all of its operators which cannot be converted, and why."""
    return converted_nodes(shortened(model, returns), name, returns)


def shortened(model: TrainedGraph, returns: Returns) -> TrainedGraph:
    """The model without what the program leaves out, and with factors and offsets in its weights."""
    folded = fold(ended(model, ending_of(model), returns))
    return fold(with_one_score(folded)) if returns is Returns.CLASS else folded


def converted_nodes(model: TrainedGraph, name: str, returns: Returns) -> Converted:
    """The program of a model that is `shortened` already; InputError as `convert`."""
    builder = _start(model)
    _convert_nodes(builder, model)
    result, kind = _result(builder, model, returns)
    whole = Program(name, tuple(builder.emitter.variables), tuple(builder.emitter.body), result, kind)
    program = with_padding_in_windows(with_states_in_place(without_histories(whole, builder.histories)))
    program = _used(program)
    check_length(program.body)
    check_work(program.body)
    parameters = {
        variable.name: builder.parameters[variable.name] for variable in program.variables if _trained(variable)
    }
    sparse = sparse_parameters(program, parameters)
    variables = tuple(replace(v, sparse=True) if v.name in sparse else v for v in program.variables)
    program = replace(program, variables=variables)
    return Converted(program, parameters, _class_count(program))


def _trained(variable: Variable) -> bool:
    return variable.role is Role.PARAMETER


def _used(program: Program) -> Program:
    """Without parameters that nothing reads."""
    names = ir.used_variables(program)
    kept = tuple(v for v in program.variables if not _trained(v) or v.name in names)
    return replace(program, variables=kept)


def _class_count(program: Program) -> int | None:
    for operation in ir.operations(program.body):
        if operation.out.variable == program.result.variable and isinstance(operation, ir.ArgMax):
            return operation.a.size
    return 2 if program.result_kind is ResultKind.CLASS else None


def _start(model: TrainedGraph) -> Builder:
    emitter = Emitter(frozenset({INPUT}))
    location = Location(model.path, 0, 0, f"input {model.input_name!r}")
    builder = Builder(emitter, dict(model.constants), location, _convert)
    view = emitter.declare(Variable(emitter.claim(INPUT), model.input_shape, Role.INPUT, location))
    builder.bind(model.input_name, view)
    return builder


def _convert_nodes(builder: Builder, model: TrainedGraph) -> None:
    """All operators. InputError for those that cannot be converted: all unknown ones, and the first of each kind that does not fit."""
    obstacles: dict[tuple[str, str], tuple[TrainedNode, ValueError, int]] = {}
    unread: set[str] = set()
    for node in model.nodes:
        known = not node.refusal and (node.kind in CONVERTERS or node.kind in FOLDED)
        if known and unread.intersection(node.inputs):
            unread.update(node.outputs)
            continue
        try:
            builder.location = Location(model.path, 0, 0, node.place)
            _convert(builder, node)
        except ValueError as error:
            unread.update(node.outputs)
            node = replace(
                node, place=builder.location.place or node.place
            )  # of what is inside of it, where that was it
            key = (node.kind, "" if NOT_SUPPORTED in str(error) else str(error))
            first = obstacles.get(key, (node, error, 0))
            obstacles[key] = (*first[:2], first[2] + 1)
    if obstacles:
        raise _refusal(model.path, list(obstacles.values()))


def _refusal(path: str, found: list[tuple[TrainedNode, ValueError, int]]) -> InputError:
    (node, error, _), *others = found
    first = error_at(path, node.place, error)
    besides = []
    for other, why, count in others:
        more = f" and {count - 1} more" if count > 1 else ""
        besides.append(f"{other.place}{more}: {'not supported' if NOT_SUPPORTED in str(why) else why}")
    return InputError(path, place=first.place, expected=first.expected, found=first.found, besides=besides)


def _convert(builder: Builder, node: TrainedNode) -> None:
    """Add one operator to the program. ValueError "expected X, found Y"."""
    if node.refusal:
        raise ValueError(node.refusal)
    names = [name for name in node.inputs if name]
    if any(name in builder.constants or name in builder.tensors for name in node.outputs if name):
        raise ValueError(f"expected outputs of its own, found {node.output!r}, which is there already")
    if node.kind in FOLDED and all(name in builder.constants for name in names):
        builder.constants[node.output] = _folded(builder, node)
        return
    if node.kind not in CONVERTERS:
        name = NAMES_IN_FILES.get(node.kind, node.kind)
        what = f"{name} of what is computed" if node.kind in FOLDED else name
        raise ValueError(f"{NOT_SUPPORTED} ({supported_operators()}), found {what}")
    there = (builder.constants, builder.tensors, builder.labels)
    unwritten = [name for name in names if not any(name in values for values in there)]
    if unwritten:
        raise ValueError(
            f"expected inputs that were written before, found {unwritten[0]!r} (no node writes it, or only one that waits)"
        )
    try:
        CONVERTERS[node.kind](builder, node)
    except InputError as error:
        raise ValueError(f"expected {error.expected}, found {error.found}") from None
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        what = next((words for kind, words in MISTAKES.items() if isinstance(error, kind)), "one of another type")
        raise ValueError(f"expected the inputs and attributes of {node.kind}, found {what}") from None


def _folded(builder: Builder, node: TrainedNode) -> Array:
    try:
        with np.errstate(all="ignore"):  # what becomes of it is looked at where it is used
            return FOLDED[node.kind](node.attributes, [builder.constants[name] for name in node.inputs if name])
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        what = next((words for kind, words in MISTAKES.items() if isinstance(error, kind)), "some of another type")
        raise ValueError(f"expected constants that {node.kind} takes, found {what}") from None


def _result(builder: Builder, model: TrainedGraph, returns: Returns) -> tuple[View, ResultKind]:
    """What the program returns."""
    name, path = model.outputs[0], model.path
    builder.location = Location(path, 0, 0, f"output {name!r}")
    if name in builder.labels:
        return builder.labels[name], ResultKind.CLASS
    if name not in builder.tensors:
        raise InputError(path, subject=f"output {name!r}", expected="one computed from the features", found="none")
    tensor = builder.tensors[name]
    if returns is Returns.VALUE:
        view = builder.view(tensor)
        if builder.emitter.role(view) is Role.TEMPORARY:
            return view, ResultKind.REAL
        return builder.lowering.copy(view, builder.location), ResultKind.REAL
    if sum(extent > 1 for extent in tensor.shape) > 1:
        shape = "x".join(map(str, tensor.shape))
        raise InputError(path, subject=f"output {name!r}", expected="a score for each class", found=f"shape {shape}")
    if tensor.view.size > 1:
        row = reshaped(builder.view(tensor), (tensor.view.size,))
        return largest(builder, builder.view(tensor) if row is None else row), ResultKind.CLASS
    return positive(builder, tensor.view), ResultKind.CLASS
