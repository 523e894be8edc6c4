"""From the syntax tree to the IR: names, static shapes, constants, views, and the order of operations.

Views share storage with what they view. The one rule that keeps that invisible: a view that is still to be read
is copied before a write to its variable can happen (`assigned_names` says where writes can happen).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Affine, Literal, Location, Program, ResultKind, Role, Variable, View
from kilotune.codegen.language import convolution, gather, subscripts
from kilotune.codegen.language import syntax as ast
from kilotune.codegen.language.assigned import assigned_names, source_names, written_names
from kilotune.codegen.language.chosen_places import with_chosen_places
from kilotune.codegen.language.emitter import NOWHERE, Destination, Emitter
from kilotune.codegen.language.lowering import Lowering, as_shape, real
from kilotune.codegen.language.sizes import check_length, check_work
from kilotune.codegen.language.sparsity import sparse_parameters
from kilotune.codegen.language.values import Integer, Label, Real, Value, describe, describe_shape, shape_of
from kilotune.codegen.language.views import may_overlap, same_elements, scaled

INPUT_NAME = "X"

NO_VALUES: Mapping[str, np.ndarray] = MappingProxyType({})


@dataclass(frozen=True)
class Binding:
    """What a name stands for. A `carried` name is rebound in place, by the loop that carries it."""

    value: Value
    carried: bool = False


Scope = Mapping[str, Binding]


def elaborate(tree: ast.Expression, name: str, values: Mapping[str, np.ndarray] = NO_VALUES) -> Program:
    """The program of a syntax tree.

    `values` are the parameters' elements as far as they are known: they decide which parameters are stored
    sparsely, and `X` is a parameter instead of the input when it is among them.
    Raises InputError for whatever is wrong with names, shapes, ranges, arguments or sizes.
    """
    tree = with_chosen_places(tree)
    emitter = Emitter(source_names(tree))
    try:
        result = Elaborator(emitter, frozenset(values), written_names(tree)).evaluate(tree, {}, NOWHERE)
    except RecursionError:
        raise InputError.at(tree.location, "program", "expressions nested at most some hundred deep", "more") from None
    if isinstance(result, Label):
        view, kind = result.view, ResultKind.CLASS
    else:
        value = real(result, tree.location, "result")
        lowering = Lowering(emitter)
        view = lowering.fill((), value.value, tree.location) if isinstance(value, Literal) else value
        kind = ResultKind.REAL
    check_length(tuple(emitter.body))
    check_work(tuple(emitter.body))
    program = Program(name, tuple(emitter.variables), tuple(emitter.body), view, kind)
    emitter.mark_sparse(sparse_parameters(program, values))
    return replace(program, variables=tuple(emitter.variables))


class Elaborator:
    """Evaluates expressions to values, emitting the operations that compute them."""

    def __init__(self, emitter: Emitter, supplied: frozenset[str], written: frozenset[str]) -> None:
        """`written`: the names that some part of the tree writes."""
        self._emitter = emitter
        self._supplied = supplied
        self._written = written
        self._lowering = Lowering(emitter)

    def evaluate(self, node: ast.Expression, scope: Scope, goal: Destination = NOWHERE) -> Value:
        """The value of an expression, its result written to the goal where that is possible and safe."""
        while isinstance(node, ast.LetExpression):  # no recursion along chains of lets, which are long
            scope = self._bind(node, scope)
            node = node.body
        match node:
            case ast.Number():
                return self._number(node)
            case ast.Name():
                return _look_up(node, scope).value
            case ast.Init():
                _check_extents(node.shape, node.location, "shape of init")
                return self._lowering.fill(node.shape, node.value, node.location, goal)
            case ast.UnaryExpression() | ast.BinaryExpression() | ast.CallExpression() | ast.ConditionalExpression():
                return self._operator(node, scope, goal)
            case ast.SumExpression():
                return self._sum(node, scope, goal)
            case ast.LoopExpression():
                return self._loop(node, scope)
            case ast.Shape() | ast.Declaration():
                raise InputError.at(
                    node.location, "shape", "'let name = (...) in [low, high] in' around it", "no declaration"
                )
            case _:
                return self._tensor_operator(node, scope, goal)

    def _operator(
        self,
        node: ast.UnaryExpression | ast.BinaryExpression | ast.CallExpression | ast.ConditionalExpression,
        scope: Scope,
        goal: Destination,
    ) -> Value:
        """Arithmetic, functions, choices."""
        match node:
            case ast.UnaryExpression():
                value = self.evaluate(node.operand, scope, NOWHERE if node.negative else goal)
                return self._lowering.negate(value, node.location, goal) if node.negative else value
            case ast.BinaryExpression():
                left, right = self._operands((node.left, node.right), scope)
                if node.operator is ast.BinaryOperator.CONVOLVE:
                    return convolution.convolve_same(self._lowering, left, right, node.location, goal)
                return self._lowering.binary(node.operator, left, right, node.location, goal)
            case ast.CallExpression():
                return self._lowering.call(node.function, self._operands(node.arguments, scope), node.location, goal)
            case ast.ConditionalExpression():
                condition, a, b = self._operands((node.condition, node.positive, node.negative), scope)
                return self._lowering.select(condition, node.strict, a, b, node.location, goal)
            case _:
                assert_never(node)

    def _tensor_operator(self, node: ast.Expression, scope: Scope, goal: Destination) -> Value:
        """Views and convolutions."""
        lowering, ranges = self._lowering, self._emitter.index_ranges
        match node:
            case ast.Transpose():
                return subscripts.transpose(self.evaluate(node.operand, scope), node.location)
            case ast.Reverse():
                return subscripts.reverse(self.evaluate(node.operand, scope), node.axis, node.location)
            case ast.Reshape():
                operand = self.evaluate(node.operand, scope)
                return subscripts.reshape(lowering, operand, node.shape, node.order, node.location, goal)
            case ast.Index():
                operand, place = self._operands((node.operand, node.index), scope)
                if isinstance(place, Label):
                    return gather.index_by_label(lowering, operand, place, node.location, goal)
                return subscripts.index(operand, place, ranges, node.location)
            case ast.Slice():
                return self._slice(node, scope, goal)
            case ast.MaxPoolExpression():
                image = self.evaluate(node.operand, scope)
                return convolution.max_pool(
                    lowering, image, node.kernel, node.padding, node.stride, node.location, goal
                )
            case ast.ConvolutionExpression():
                image, filters = self._operands((node.operand, node.filters), scope)
                return convolution.convolve(
                    lowering,
                    image,
                    filters,
                    node.location,
                    goal,
                    stride=node.stride,
                    padding=node.padding,
                    dilation=node.dilation,
                    groups=node.groups,
                )
            case ast.BottleneckExpression():
                image, *rest = self._operands(tuple(ast.parts(node)), scope)
                stages = (
                    convolution.ConvolutionStageValues(*rest[0:3]),
                    convolution.ConvolutionStageValues(*rest[3:6]),
                    convolution.ConvolutionStageValues(*rest[6:9]),
                )
                return convolution.bottleneck(lowering, image, stages, node.stride, node.padding, node.location, goal)
        raise AssertionError(f"no rule for {type(node).__name__}")

    def _slice(self, node: ast.Slice, scope: Scope, goal: Destination) -> Value:
        starts = tuple(span.start for span in node.spans)
        operand, *places = self._operands((node.operand, *starts), scope)
        if any(isinstance(place, Label) for place in places):
            return gather.slice_by_label(self._lowering, operand, node.spans, places, node.location, goal)
        return subscripts.take_slice(operand, node.spans, places, self._emitter.index_ranges, node.location)

    def _number(self, node: ast.Number) -> Value:
        if not math.isfinite(node.value):
            raise InputError.at(node.location, "number", "a finite number", "one too large for a double")
        return Integer(Affine(int(node.value))) if node.integer else Literal(node.value)

    def _operands(self, nodes: tuple[ast.Expression, ...], scope: Scope) -> tuple[Value, ...]:
        """The values of several expressions from left to right.

        A view is copied when an expression to its right may write its variable.
        """
        values: list[Value] = []
        for place, node in enumerate(nodes):
            value = self.evaluate(node, scope)
            # Names and numbers write nothing, and long programs are made of them.
            to_come = [n for n in nodes[place + 1 :] if not isinstance(n, ast.Name | ast.Number)]
            if isinstance(value, View) and to_come and self._may_write(to_come, _aliases(value, scope), scope):
                value = self._lowering.copy(value, node.location)
            values.append(value)
        return tuple(values)

    def _may_write(self, nodes: Iterable[ast.Expression], names: frozenset[str], scope: Scope) -> bool:
        asked = names & self._written
        return bool(asked) and any(asked & assigned_names(node, _carried(scope)) for node in nodes)

    # Lets

    def _bind(self, let: ast.LetExpression, scope: Scope) -> Scope:
        """The scope of the let's body."""
        declared = len(self._emitter.variables)
        if isinstance(let.value, ast.Declaration):
            return {**scope, let.name: Binding(self._settle(let, self._declare(let, let.value), scope, declared))}
        if let.spans:
            self._assign(let, scope, self._slice_target(let, scope))
            return scope
        if let.name in scope and scope[let.name].carried:
            target = scope[let.name].value
            assert isinstance(target, View)
            self._assign(let, scope, target)
            return scope
        value = self.evaluate(let.value, scope, Destination(name=let.name))
        return {**scope, let.name: Binding(self._settle(let, value, scope, declared))}

    def _declare(self, let: ast.LetExpression, declaration: ast.Declaration) -> View:
        _check_extents(declaration.shape, declaration.location, f"shape of {let.name}")
        if declaration.low > declaration.high:
            expected, found = "the lower end first", f"[{declaration.low:g}, {declaration.high:g}]"
            raise InputError.at(declaration.location, f"range of {let.name}", expected, found)
        is_input = let.name == INPUT_NAME and let.name not in self._supplied
        name = self._emitter.claim(let.name)
        if name != let.name:
            # A declaration stands for a file of that name, and one file cannot be two variables.
            raise InputError.at(let.location, f"declaration of {let.name}", "one use of the name", "a second one")
        role = Role.INPUT if is_input else Role.PARAMETER
        declared_range = (declaration.low, declaration.high)
        return self._emitter.declare(Variable(name, declaration.shape, role, let.location, declared_range))

    def _settle(self, let: ast.LetExpression, value: Value, scope: Scope, declared_before: int) -> Value:
        """The value to bind: itself, or a copy when the let's body may write it, or what it shares storage with. It was computed
        when `declared_before` variables were there."""
        if isinstance(value, View):
            is_new = self._emitter.number(value.variable) >= declared_before
            aliases = frozenset[str]() if is_new else _aliases(value, scope)
            if not aliases and self._emitter.role(value) is Role.TEMPORARY:
                return value
            if self._may_write([let.body], aliases | {let.name}, scope):
                return self._lowering.copy(value, let.location, Destination(name=let.name))
            return value
        if isinstance(value, Label) or not self._may_write([let.body], frozenset({let.name}), scope):
            return value
        number = real(value, let.location, f"value of {let.name}")
        assert isinstance(number, Literal)
        return self._lowering.fill((), number.value, let.location, Destination(name=let.name))

    def _slice_target(self, let: ast.LetExpression, scope: Scope) -> View:
        operand = _look_up(ast.Name(let.location, let.name), scope).value
        starts = tuple(self.evaluate(span.start, scope) for span in let.spans)
        ranges = self._emitter.index_ranges
        return subscripts.take_slice(operand, let.spans, starts, ranges, let.location)

    def _assign(self, let: ast.LetExpression, scope: Scope, target: View) -> None:
        """Write the let's value into the elements of `target`."""
        subject = f"value for {'a slice of ' if let.spans else ''}{let.name}"
        value = real(self.evaluate(let.value, scope, Destination(target=target)), let.value.location, subject)
        value = as_shape(value, target.shape)
        if isinstance(value, Literal) and target.size == 1:
            self._emitter.emit(ir.Fill(target, let.location, value.value))
            return
        if not isinstance(value, View) or value.shape != target.shape:
            expected, found = describe_shape(target.shape), describe_shape(shape_of(value))
            raise InputError.at(let.value.location, subject, expected, found)
        if same_elements(value, target):
            return
        if may_overlap(value, target):
            value = self._lowering.copy(value, let.location)
        self._emitter.emit(ir.Copy(target, let.location, value))

    # Loops

    def _sum(self, node: ast.SumExpression, scope: Scope, goal: Destination) -> View:
        """`$(i = [a:b]) e`: an accumulator starts at 0 and takes up each e."""
        index, inner = self._index(node, scope)
        with self._emitter.open_body(index) as body:
            term = real(self.evaluate(node.body, inner), node.body.location, "terms of '$'")
            total = self._emitter.temporary(shape_of(term), node.location, goal.name)
            self._emitter.emit(ir.Add(total, node.location, total, term))
        self._emitter.emit(ir.Fill(total, node.location, 0.0))
        self._emitter.emit(ir.Loop(index, node.start, node.stop - node.start, tuple(body), node.location))
        return total

    def _loop(self, node: ast.LoopExpression, scope: Scope) -> Real:
        """`loop(i = [a:b], H) e`: each rebinding of H inside writes H itself; the value is that of the last e."""
        carried = _look_up(node.carried, scope).value
        if not isinstance(carried, View):
            raise InputError.at(node.carried.location, "what the loop carries", "a tensor", describe(carried))
        index, inner = self._index(node, scope)
        inner = {**inner, node.carried.name: Binding(carried, carried=True)}
        with self._emitter.open_body(index) as body:
            value = real(self.evaluate(node.body, inner), node.body.location, "value of a loop")
        if body:
            self._emitter.emit(ir.Loop(index, node.start, node.stop - node.start, tuple(body), node.location))
        return _after_loop(value, index, node.stop - 1) if isinstance(value, View) else value

    def _index(self, node: ast.SumExpression | ast.LoopExpression, scope: Scope) -> tuple[str, Scope]:
        """The unique name of a loop's index, and the scope of the loop's body."""
        if node.stop <= node.start:
            expected, found = "a stop greater than the start", f"[{node.start}:{node.stop}]"
            raise InputError.at(node.location, f"range of {node.index}", expected, found)
        index = self._emitter.claim(node.index)
        self._emitter.index_ranges[index] = (node.start, node.stop - 1)
        return index, {**scope, node.index: Binding(Integer(Affine(terms=((index, 1),))))}


def _after_loop(view: View, index: str, last: int) -> View:
    """The view as it stands after the last iteration, when the index is gone."""
    factor = dict(view.offset.terms).get(index, 0)
    return replace(view, offset=view.offset + scaled(Affine(-last, ((index, 1),)), -factor)) if factor else view


def _look_up(node: ast.Name, scope: Scope) -> Binding:
    if node.name not in scope:
        known = ", ".join(sorted(scope)) or "no name yet"
        raise InputError.at(node.location, "name", f"one that is bound here ({known})", node.name)
    return scope[node.name]


def _aliases(view: View, scope: Scope) -> frozenset[str]:
    """Names in scope whose values share the view's variable."""
    bound = ((name, binding.value) for name, binding in scope.items())
    return frozenset(name for name, value in bound if isinstance(value, View) and value.variable == view.variable)


def _carried(scope: Scope) -> frozenset[str]:
    return frozenset(name for name, binding in scope.items() if binding.carried)


def _check_extents(shape: tuple[int, ...], location: Location, subject: str) -> None:
    if min(shape) < 1:
        raise InputError.at(location, subject, "extents of at least 1", describe_shape(shape))
