"""A second definition of the IR: walks it one sample at a time in doubles. Written for tests, independent of the library's evaluator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse

Arrays = dict[str, np.ndarray]


def run(program: ir.Program, values: Mapping[str, object] | None = None) -> np.ndarray:
    """What the program returns. Temporaries start as NaN, so reading one before it is written shows."""
    memory: Arrays = {}
    for variable in program.variables:
        if variable.role is ir.Role.TEMPORARY:
            memory[variable.name] = np.full(variable.size, np.nan)
        else:
            given = np.asarray((values or {})[variable.name], dtype=float)
            assert given.size == variable.size
            memory[variable.name] = given.reshape(-1).copy()
    _run_body(program.body, memory, {}, program)
    return _read(program.result, memory, {})


def evaluate(source: str, **values: object) -> np.ndarray:
    """What the program of a source text returns for the given arrays."""
    arrays = {name: np.asarray(value, dtype=float) for name, value in values.items()}
    return run(elaborate(parse(source), "test", arrays), arrays)


def compile_source(source: str, **values: np.ndarray) -> ir.Program:
    """The program of a source text; errors name `model.sd`."""
    return elaborate(parse(source), "test", values)


def _run_body(body: tuple[ir.Statement, ...], memory: Arrays, indices: dict[str, int], program: ir.Program) -> None:
    for statement in body:
        if isinstance(statement, ir.Loop):
            for value in range(statement.start, statement.start + statement.count):
                _run_body(statement.body, memory, {**indices, statement.index: value}, program)
            continue
        assert program.variable(statement.out.variable).role is ir.Role.TEMPORARY
        operands = {
            name: value if isinstance(value, float) else _read(value, memory, indices)
            for name, value in vars(statement).items()
            if name != "out" and isinstance(value, ir.View | ir.Literal | float)
        }
        _check_shapes(statement, operands)
        _check_in_place(statement, memory, indices)
        result = np.broadcast_to(np.asarray(_apply(statement, operands), dtype=float), statement.out.shape)
        memory[statement.out.variable][_places(statement.out, indices, memory)] = result


def _places(view: ir.View, indices: dict[str, int], memory: Arrays) -> np.ndarray:
    places = np.array(view.offset.at(indices))
    for extent, stride in zip(view.shape, view.strides, strict=True):
        places = np.add.outer(places, np.arange(extent) * stride)
    assert places.min() >= 0
    assert places.max() < memory[view.variable].size
    return places


def _read(operand: ir.Operand, memory: Arrays, indices: dict[str, int]) -> np.ndarray:
    if isinstance(operand, ir.Literal):
        return np.asarray(operand.value)
    return memory[operand.variable][_places(operand, indices, memory)]


def _check_shapes(operation: ir.Operation, operands: dict[str, np.ndarray]) -> None:
    """The promises of the IR about shapes."""
    shape = operation.out.shape
    if isinstance(operation, ir.Add | ir.Subtract | ir.Multiply):
        assert all(np.shape(value) == shape or np.size(value) == 1 for value in operands.values())
    elif isinstance(operation, ir.Select):
        assert np.shape(operands["condition"]) == ()
        branches = (operation.a, operation.b)
        assert all(
            branch.shape == shape if isinstance(branch, ir.View) else operation.out.size == 1 for branch in branches
        )
    elif isinstance(operation, ir.ArgMax | ir.Sign):
        assert shape == ()
    elif not isinstance(operation, ir.MatMul | ir.Conv2D | ir.MaxPool | ir.Fill):
        assert operands["a"].shape == shape


ALIGNED = (ir.Add, ir.Subtract, ir.Multiply, ir.Negate, ir.Relu, ir.Relu6, ir.Exp, ir.Sigmoid, ir.Tanh, ir.Select)


def _check_in_place(operation: ir.Operation, memory: Arrays, indices: dict[str, int]) -> None:
    """An operation may run element by element: it reads what it writes at most to compute that very element."""
    written = _places(operation.out, indices, memory)
    for operand in operation.operands:
        if isinstance(operand, ir.View) and operand.variable == operation.out.variable:
            read = _places(operand, indices, memory)
            aligned = isinstance(operation, ALIGNED) and read.shape == written.shape and (read == written).all()
            assert aligned or not np.intersect1d(read, written).size


def _apply(operation: ir.Operation, operands: dict[str, np.ndarray]) -> np.ndarray:
    a, b = operands.get("a"), operands.get("b")
    if type(operation) in ELEMENTWISE:
        return ELEMENTWISE[type(operation)](*(_match(operand) for operand in (a, b) if operand is not None))
    match operation:
        case ir.Fill():
            return np.asarray(operation.value)
        case ir.MatMul():
            return a @ b
        case ir.NormaliseL2():
            norm = np.sqrt((a * a).sum(axis=-1, keepdims=True))
            return a / np.where(norm == 0, 1, norm)
        case ir.Select():
            condition = operands["condition"]
            return a if (condition > 0 if operation.strict else condition >= 0) else b
        case ir.ArgMax():
            return np.asarray(np.argmax(a))
        case ir.Sign():
            return np.asarray(float(a.reshape(()) > 0))
        case ir.Conv2D():
            return convolve(a, b, operation.stride, operation.padding, operation.dilation)
        case ir.MaxPool():
            return max_pool(a, operation.kernel, operation.stride, operation.padding)
    raise AssertionError(operation)


ELEMENTWISE = {
    ir.Copy: lambda a: a,
    ir.Add: lambda a, b: a + b,
    ir.Subtract: lambda a, b: a - b,
    ir.Multiply: lambda a, b: a * b,
    ir.Negate: lambda a: -a,
    ir.Relu: lambda a: np.maximum(a, 0),
    ir.Relu6: lambda a: np.clip(a, 0, 6),
    ir.Exp: np.exp,
    ir.Sigmoid: lambda a: 1 / (1 + np.exp(-a)),
    ir.Tanh: np.tanh,
}
"""What each of them computes of an element."""


def _match(value: np.ndarray) -> np.ndarray:
    return value.reshape(()) if value.size == 1 else value


def convolve(image, filters, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1)) -> np.ndarray:
    """The definition: one output element at a time."""
    groups, rows, columns, inputs, outputs = filters.shape
    image = np.pad(image, ((0, 0), padding[:2], padding[2:], (0, 0)))
    count, height, width, _ = image.shape
    out_height = (height - dilation[0] * (rows - 1) - 1) // stride[0] + 1
    out_width = (width - dilation[1] * (columns - 1) - 1) // stride[1] + 1
    result = np.zeros((count, out_height, out_width, groups * outputs))
    for y in range(out_height):
        for x in range(out_width):
            top, left = y * stride[0], x * stride[1]
            rows_read = slice(top, top + dilation[0] * (rows - 1) + 1, dilation[0])
            columns_read = slice(left, left + dilation[1] * (columns - 1) + 1, dilation[1])
            window = image[:, rows_read, columns_read]
            for group in range(groups):
                part = window[..., group * inputs : (group + 1) * inputs]
                place = slice(group * outputs, (group + 1) * outputs)
                result[:, y, x, place] = np.einsum("nhwi,hwio->no", part, filters[group])
    return result


def max_pool(image, kernel, stride, padding=(0, 0, 0, 0)) -> np.ndarray:
    """The definition, with padding that never wins."""
    image = np.pad(image, ((0, 0), padding[:2], padding[2:], (0, 0)), constant_values=-np.inf)
    count, height, width, channels = image.shape
    out = (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1
    result = np.zeros((count, *out, channels))
    for y in range(out[0]):
        for x in range(out[1]):
            top, left = y * stride[0], x * stride[1]
            result[:, y, x] = image[:, top : top + kernel[0], left : left + kernel[1]].max(axis=(1, 2))
    return result
