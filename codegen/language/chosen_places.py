"""Places that depend on data: `let node = c >= 0 ? 1 : 2 in W[node] * X`, as decision trees of the first public tool are written.

The IR has no addresses that depend on data. So an element whose place is one of several whole numbers is written as the choice between
these elements, `c >= 0 ? W[1] : W[2]`, and a place that depends on another one (`2 * node + 1`) as choices within choices.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Location
from kilotune.codegen.language import syntax as ast
from kilotune.codegen.language.assigned import source_names

MOST_PLACES = 1024
"""Elements among which one is chosen."""


@dataclass(frozen=True)
class _Choice:
    """One of two places, by the sign of what the name `condition` stands for."""

    condition: str
    strict: bool
    positive: _Place
    negative: _Place

    @property
    def count(self) -> int:
        return sum(place.count if isinstance(place, _Choice) else 1 for place in (self.positive, self.negative))


_Place = int | _Choice
_Places = Mapping[str, _Place]


def with_chosen_places(tree: ast.Expression) -> ast.Expression:
    """The program without places that depend on data; the very same one where there are none. InputError for more than MOST_PLACES
    elements to choose from."""
    if not any(isinstance(node, ast.ConditionalExpression) for node in _all(tree)):
        return tree
    return _Rewriting(set(source_names(tree))).rewritten(tree, {})


def _all(tree: ast.Expression) -> list[ast.Expression]:
    found, pending = list[ast.Expression](), [tree]
    while pending:
        found.append(pending.pop())
        pending.extend(ast.parts(found[-1]))
    return found


class _Rewriting:
    """`names` are all that the program binds, and those that it got besides."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def rewritten(self, node: ast.Expression, known: _Places) -> ast.Expression:
        """An expression in which the names of `known` are places."""
        lets = list[ast.LetExpression]()
        while isinstance(node, ast.LetExpression):  # no recursion along chains of lets, which are long
            place = None if node.spans else _place(node.value, known)
            chosen = None if node.spans or place is not None else self._choice(node, known)
            if chosen is not None:
                lets.append(replace(node, name=chosen.condition, value=self._condition(node, known)))
                known = {**known, node.name: chosen}
            else:
                lets.append(replace(node, spans=self._spans(node, known), value=self.rewritten(node.value, known)))
                others = {name: value for name, value in known.items() if name != node.name}
                known = others if place is None else {**others, node.name: place}
            node = node.body
        result = self._inner(node, known)
        for let in reversed(lets):
            result = replace(let, body=result)
        return result

    def _spans(self, let: ast.LetExpression, known: _Places) -> tuple[ast.Span, ...]:
        return tuple(replace(span, start=self.rewritten(span.start, known)) for span in let.spans)

    def _condition(self, let: ast.LetExpression, known: _Places) -> ast.Expression:
        assert isinstance(let.value, ast.ConditionalExpression)
        return self.rewritten(let.value.condition, known)

    def _choice(self, let: ast.LetExpression, known: _Places) -> _Choice | None:
        """What a name is bound to that is used as a place; None for all others."""
        value = let.value
        if not isinstance(value, ast.ConditionalExpression) or not _is_place_in(let.body, let.name):
            return None
        positive, negative = (_place(branch, known) for branch in (value.positive, value.negative))
        if positive is None or negative is None:
            return None
        condition = f"{let.name}_side"
        while condition in self._names:
            condition += "_"
        self._names.add(condition)
        choice = _Choice(condition, value.strict, positive, negative)
        if choice.count > MOST_PLACES:
            raise InputError.at(let.location, f"places of {let.name}", f"at most {MOST_PLACES}", str(choice.count))
        return choice

    def _inner(self, node: ast.Expression, known: _Places) -> ast.Expression:
        """An expression that is no let."""
        if isinstance(node, ast.Name) and isinstance(known.get(node.name), _Choice):
            return _decided(known[node.name], node.location, lambda place: _number(place, node.location))
        for number, at in enumerate(_starts(node)):
            place = _place(at, known)
            if isinstance(place, _Choice):
                return self.rewritten(_decided(place, node.location, partial(_with_start, node, number)), known)
        bound = node.index if isinstance(node, ast.SumExpression | ast.LoopExpression) else None
        known = {name: place for name, place in known.items() if name != bound}
        return cast("ast.Expression", _mapped(node, lambda part: self.rewritten(part, known)))


def _place(node: ast.Expression, known: _Places) -> _Place | None:
    """A whole number made of such, or one of several; None for all else."""
    if isinstance(node, ast.Number):
        return int(node.value) if node.integer and math.isfinite(node.value) else None
    if isinstance(node, ast.Name):
        return known.get(node.name)
    if isinstance(node, ast.UnaryExpression):
        operand = _place(node.operand, known)
        return None if operand is None else _each(operand, lambda k: -k if node.negative else k)
    if not isinstance(node, ast.BinaryExpression) or node.operator not in _ARITHMETIC:
        return None
    left, right, compute = _place(node.left, known), _place(node.right, known), _ARITHMETIC[node.operator]
    if left is None or right is None:
        return None
    return _each(left, lambda a: _each(right, lambda b: compute(a, b)))


_ARITHMETIC: Mapping[ast.BinaryOperator, Callable[[int, int], int]] = MappingProxyType(
    {
        ast.BinaryOperator.ADD: operator.add,
        ast.BinaryOperator.SUBTRACT: operator.sub,
        ast.BinaryOperator.MULTIPLY: operator.mul,
    }
)


def _each(place: _Place, change: Callable[[int], _Place]) -> _Place:
    if isinstance(place, int):
        return change(place)
    return replace(place, positive=_each(place.positive, change), negative=_each(place.negative, change))


def _decided(place: _Place, location: Location, make: Callable[[int], ast.Expression]) -> ast.Expression:
    """What `make` makes of the places, behind the choices between them."""
    if isinstance(place, int):
        return make(place)
    sides = (_decided(side, location, make) for side in (place.positive, place.negative))
    return ast.ConditionalExpression(location, ast.Name(location, place.condition), place.strict, *sides)


def _number(place: int, location: Location) -> ast.Expression:
    if place < 0:
        return ast.UnaryExpression(location, True, ast.Number(location, float(-place), True))
    return ast.Number(location, float(place), True)


def _starts(node: ast.Expression) -> tuple[ast.Expression, ...]:
    """The places of an index or a slice; none for all else."""
    if isinstance(node, ast.Slice):
        return tuple(span.start for span in node.spans)
    return (node.index,) if isinstance(node, ast.Index) else ()


def _with_start(node: ast.Expression, number: int, place: int) -> ast.Expression:
    """An index or a slice with a whole number as one of its places."""
    at = _number(place, node.location)
    if isinstance(node, ast.Slice):
        spans = (replace(span, start=at) if k == number else span for k, span in enumerate(node.spans))
        return replace(node, spans=tuple(spans))
    assert isinstance(node, ast.Index)
    return replace(node, index=at)


def _is_place_in(body: ast.Expression, name: str) -> bool:
    """Whether a place is made of the name, or of one of the same name."""
    places = (place for node in _all(body) for place in _starts(node))
    return any(isinstance(part, ast.Name) and part.name == name for place in places for part in _all(place))


def _mapped(value: Any, change: Callable[[ast.Expression], ast.Expression]) -> Any:
    """A node, or what it holds, with its own expressions changed."""
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    held = {field.name: getattr(value, field.name) for field in fields(value)}
    changed = {name: _changed(item, change) for name, item in held.items()}
    different = {name: item for name, item in changed.items() if item is not held[name]}
    return replace(value, **different) if different else value


def _changed(item: Any, change: Callable[[ast.Expression], ast.Expression]) -> Any:
    if isinstance(item, ast.Expression):
        return change(item)
    return _mapped(item, change) if isinstance(item, ast.Span | ast.ConvolutionStage | tuple) else item
