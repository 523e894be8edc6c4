"""From Lark's parse tree to the syntax tree.

The conversion goes through the subtrees bottom-up without recursion: a program of five hundred `let`s is five
hundred levels deep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Location
from kilotune.codegen.language import syntax as ast

if TYPE_CHECKING:
    from lark import Token, Tree

MOST_DIGITS = 40
"""The most digits of an integer; sizes are refused long before, but by their values."""


def build(tree: Tree[Token], path: str) -> ast.Expression:
    """The syntax tree of a whole program.

    Raises InputError for what the grammar lets through and the language does not: a comparison with another
    number than 0, a declaration without a shape.
    """
    builder = _TreeBuilder(path)
    built: dict[int, Any] = {}
    for subtree in tree.iter_subtrees():
        children = [built[id(child)] if hasattr(child, "children") else child for child in subtree.children]
        built[id(subtree)] = getattr(builder, str(subtree.data))(children)
    result: ast.Expression = built[id(tree)]
    return result


class _TreeBuilder:
    """One method for each rule of the grammar; each takes the rule's converted children.

    Children are untyped: the grammar says which they are.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def _at(self, token: Token) -> Location:
        assert token.line is not None
        assert token.column is not None
        return Location(self._path, token.line, token.column)

    def _whole(self, token: Token) -> int:
        if len(token) > MOST_DIGITS:
            raise InputError.at(self._at(token), "number", f"at most {MOST_DIGITS} digits", str(len(token)))
        return int(token)

    # Leaves

    def integer(self, children: list[Any]) -> ast.Number:
        return ast.Number(self._at(children[0]), float(children[0]), integer=True)

    def decimal(self, children: list[Any]) -> ast.Number:
        return ast.Number(self._at(children[0]), float(children[0]), integer=False)

    def name(self, children: list[Any]) -> ast.Name:
        return ast.Name(self._at(children[0]), str(children[0]))

    def shape(self, children: list[Any]) -> ast.Shape:
        return ast.Shape(self._at(children[0]), self.integers(children))

    def integers(self, children: list[Any]) -> tuple[int, ...]:
        return tuple(self._whole(child) for child in children)

    kernel = integers
    stride = integers
    dilation = integers
    padding = integers
    range = integers

    def extents(self, children: list[Any]) -> tuple[int, ...]:
        result: tuple[int, ...] = children[0]
        return result

    def groups(self, children: list[Any]) -> int:
        return self._whole(children[0])

    def number(self, children: list[Any]) -> float:
        sign, digits = children
        return -float(digits) if sign == "-" else float(digits)

    # Brackets

    def place(self, children: list[Any]) -> tuple[Location, ast.Expression]:
        bracket, index = children
        return self._at(bracket), index

    def span(self, children: list[Any]) -> ast.Span:
        bracket, start, length = children
        return ast.Span(self._at(bracket), start, self._whole(length))

    def brackets(self, children: list[Any]) -> list[Any]:
        return children

    def subscript(self, children: list[Any]) -> ast.Expression:
        """`x[i][a:+n][b:+m]`: adjacent spans are one slice, each index stands for itself."""
        node, brackets = children
        spans: list[ast.Span] = []
        for bracket in brackets:
            if isinstance(bracket, ast.Span):
                spans.append(bracket)
                continue
            node = _slice(node, spans)
            spans = []
            location, index = bracket
            node = ast.Index(location, node, index)
        return _slice(node, spans)

    # Operators

    def transpose(self, children: list[Any]) -> ast.Transpose:
        operand, token = children
        return ast.Transpose(self._at(token), operand)

    def unary(self, children: list[Any]) -> ast.UnaryExpression:
        sign, operand = children
        return ast.UnaryExpression(self._at(sign), sign == "-", operand)

    def binary(self, children: list[Any]) -> ast.BinaryExpression:
        left, operator, right = children
        return ast.BinaryExpression(self._at(operator), ast.BinaryOperator(str(operator)), left, right)

    def conditional(self, children: list[Any]) -> ast.ConditionalExpression:
        condition, comparison, threshold, positive, negative = children
        if self._whole(threshold) != 0:
            raise InputError.at(self._at(threshold), f"condition '{comparison}'", "a comparison with 0", threshold)
        return ast.ConditionalExpression(self._at(comparison), condition, comparison == ">", positive, negative)

    # Functions

    def call(self, children: list[Any]) -> ast.CallExpression:
        name, *arguments = children
        present = tuple(argument for argument in arguments if argument is not None)
        return ast.CallExpression(self._at(name), str(name), present)

    def init(self, children: list[Any]) -> ast.Init:
        keyword, shape, value = children
        return ast.Init(self._at(keyword), shape, value)

    def reshape(self, children: list[Any]) -> ast.Reshape:
        keyword, operand, shape, order = children
        return ast.Reshape(self._at(keyword), operand, shape, order)

    def reverse(self, children: list[Any]) -> ast.Reverse:
        keyword, operand, axis = children
        return ast.Reverse(self._at(keyword), operand, self._whole(axis))

    def maxpool(self, children: list[Any]) -> ast.MaxPoolExpression:
        keyword, operand, kernel, padding, stride = children
        return ast.MaxPoolExpression(self._at(keyword), operand, kernel, padding, stride)

    def blocks_maxpool(self, children: list[Any]) -> ast.MaxPoolExpression:
        keyword, operand, extent = children
        size = (self._whole(extent), self._whole(extent))
        return ast.MaxPoolExpression(self._at(keyword), operand, size, (0, 0, 0, 0), size)

    def convolution(self, children: list[Any]) -> ast.ConvolutionExpression:
        keyword, operand, filters, stride, padding, dilation, groups = children
        return ast.ConvolutionExpression(self._at(keyword), operand, filters, stride, padding, dilation, groups)

    def stage(self, children: list[Any]) -> ast.ConvolutionStage:
        filters, scale, bias = children
        return ast.ConvolutionStage(filters, scale, bias)

    def bottleneck(self, children: list[Any]) -> ast.BottleneckExpression:
        keyword, operand, expand, depthwise, project, stride, padding = children
        return ast.BottleneckExpression(self._at(keyword), operand, expand, depthwise, project, stride, padding)

    # Binders

    def sum(self, children: list[Any]) -> ast.SumExpression:
        keyword, index, (start, stop), body = children
        return ast.SumExpression(self._at(keyword), str(index), start, stop, body)

    def loop(self, children: list[Any]) -> ast.LoopExpression:
        keyword, index, (start, stop), carried, body = children
        return ast.LoopExpression(self._at(keyword), str(index), start, stop, self.name([carried]), body)

    def target(self, children: list[Any]) -> tuple[Token, tuple[ast.Span, ...]]:
        name, *spans = children
        return name, tuple(spans)

    def interval(self, children: list[Any]) -> tuple[float, float]:
        low, high = children
        return low, high

    def let(self, children: list[Any]) -> ast.LetExpression:
        _, (name, spans), value, body = children
        return ast.LetExpression(self._at(name), str(name), spans, value, body)

    def declaration(self, children: list[Any]) -> ast.LetExpression:
        _, (name, spans), shape, (low, high), body = children
        if spans:
            raise InputError.at(self._at(name), f"declaration of {name}", "a name", "a slice")
        declared = ast.Declaration(shape.location, self._extents(str(name), shape), low, high)
        return ast.LetExpression(self._at(name), str(name), (), declared, body)

    def _extents(self, name: str, shape: ast.Expression) -> tuple[int, ...]:
        if isinstance(shape, ast.Shape):
            return shape.extents
        if isinstance(shape, ast.Number) and shape.integer:
            return (int(shape.value),)  # `(16)` reads as an integer in parentheses
        raise InputError.at(shape.location, f"declaration of {name}", "a shape such as (10, 64)", "an expression")


def _slice(node: ast.Expression, spans: list[ast.Span]) -> ast.Expression:
    return ast.Slice(spans[0].location, node, tuple(spans)) if spans else node
