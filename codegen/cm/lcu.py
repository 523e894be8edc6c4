"""State machines of local control units (Section 3.3): readable Python made from the isl AST of S, and its interpreter.

For every array that a core reads there are three functions, in coordinates of pixels:

- `initial()`: the last iteration that may run before any write, or None;
- `written(h, w)`: the last iteration that may run once pixel (h, w) is written, or None when that allows nothing new;
- `keeps(oh, ow)`: the first pixel still needed once iteration (oh, ow) has run, or None: what credits are sent back for.

`iterations()` is the core's own loop nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.access import AccessPattern, Rectangle, allowed, counts
from kilotune.codegen.cm.polyhedral import Dependences, dependences, pixel_names

Pixel = tuple[int, int]

MOST_TAPS = 100
"""Up to so many taps of windows isl is given one by one: less than a tenth of a second."""


class WrongStateMachineError(ValueError):
    """A generated state machine that is not the one that NumPy counts: a fault of isl, or of what Python is made of it."""

    def __init__(self, function: str, reading: AccessPattern) -> None:
        self.function, self.reading = function, reading
        super().__init__(
            f"`{function}` of the state machine for {reading} is not what counting says: an error of isl, or of kilotune."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return WrongStateMachineError, (self.function, self.reading)


@dataclass(frozen=True, eq=False)
class StateMachine:
    """The functions for one array; `source` is their text."""

    source: str
    initial: Callable[[], Pixel | None]
    written: Callable[[int, int], Pixel | None]
    keeps: Callable[[int, int], Pixel | None]


def state_machine(reading: AccessPattern) -> StateMachine:
    """Generate and compile, some milliseconds, of a large image some tens; one machine serves all edges that read alike.

    From isl's relations, which have to say what NumPy counts for every pixel; where those from the short form of the accesses do not,
    from their taps; where neither do, or there are many taps, of tables. WrongStateMachineError where these are wrong, too.
    """
    taps = sum(math.prod(window.kernel) for window in reading.windows)
    for by_tap in (False, True) if taps <= MOST_TAPS else (False,):
        try:
            return _checked(reading, source_of(dependences(reading, by_tap=by_tap), reading.writer))
        except (WrongStateMachineError, isl.Error):
            continue
    return _checked(reading, tabulated_source(reading))


def _checked(reading: AccessPattern, source: str) -> StateMachine:
    names: dict[str, Any] = {}
    exec(compile(source, "<lcu>", "exec"), {}, names)  # our own generated text
    machine = StateMachine(source, names["initial"], names["written"], names["keeps"])
    _check(machine, reading)
    return machine


def _check(machine: StateMachine, reading: AccessPattern) -> None:
    """WrongStateMachineError where one of the functions says anything else than `access.counts`."""
    reader, writer = reading.reader, reading.writer
    needed, released, _ = counts(reading)
    expected = allowed(needed, writer.size)
    (limit,) = _ranks([machine.initial()], reader, -1) + 1
    if limit != expected[0]:
        raise WrongStateMachineError("initial", reading)
    reached = _ranks([machine.written(*pixel) for pixel in _pixels(writer)], reader, -1) + 1
    if (np.maximum(np.maximum.accumulate(reached), limit) != expected[1:]).any():
        raise WrongStateMachineError("written", reading)
    kept = _ranks([machine.keeps(*pixel) for pixel in _pixels(reader)], writer, writer.size)
    if (kept != released).any():
        raise WrongStateMachineError("keeps", reading)


def _pixels(rectangle: Rectangle) -> list[Pixel]:
    """In the order of the rectangle's iterations; a large image has many."""
    rows, columns = range(rectangle.top, rectangle.bottom), range(rectangle.left, rectangle.right)
    if rectangle.by_columns:
        return [(row, column) for column in columns for row in rows]
    return [(row, column) for row in rows for column in columns]


def _ranks(pixels: Sequence[Pixel | None], rectangle: Rectangle, absent: int) -> NDArray[np.int64]:
    """Which iteration of the rectangle each pixel is; `absent` where there is none."""
    down, right = rectangle.steps
    first = rectangle.rank(0, 0)
    return np.array([absent if p is None else p[0] * down + p[1] * right + first for p in pixels])


def loop_nest(rectangle: Rectangle) -> tuple[str, Callable[[], Iterator[Pixel]]]:
    """The text of `iterations()`, from the isl AST of a rectangle's row-major schedule, and the function."""
    r = rectangle
    domain = f"{{ R[oh, ow] -> [oh, ow] : {r.top} <= oh < {r.bottom} and {r.left} <= ow < {r.right} }}"
    build = isl.AstBuild.from_context(isl.Set("{ : }"))
    build = build.set_iterators(_identifiers(isl, "oh", "ow"))
    node = build.node_from_schedule_map(isl.UnionMap(domain))
    source = "def iterations():\n" + "\n".join(_statements(isl, node, 1)) + "\n"
    names: dict[str, Any] = {}
    exec(compile(source, "<lcu>", "exec"), {}, names)
    return source, names["iterations"]


def tabulated_source(reading: AccessPattern) -> str:
    """The three functions of one array as tables of what NumPy counts: as long as the image is large."""
    reader, writer = reading.reader, reading.writer
    needed, released, _ = counts(reading)
    may_run = allowed(needed, writer.size)
    written = {
        writer.pixel(n): reader.pixel(int(may_run[n + 1]) - 1) for n in np.flatnonzero(np.diff(may_run)).tolist()
    }
    keeps = {reader.pixel(n): writer.pixel(int(released[n])) for n in np.flatnonzero(released < writer.size).tolist()}
    first = reader.pixel(int(may_run[0]) - 1) if may_run[0] else None
    return (
        f"def initial():\n    return {first}\n\n"
        f"def written(h, w, last={written}):\n    return last.get((h, w))\n\n"
        f"def keeps(oh, ow, first={keeps}):\n    return first.get((oh, ow))\n"
    )


def source_of(found: Dependences, writer: Rectangle) -> str:
    """The three functions of one array."""
    first = "None"
    if not found.initial.is_empty():
        point = found.initial.lexmax().sample_point()
        first = ", ".join(str(point.get_coordinate_val(isl.dim_type.set, i)) for i in range(2))
    lines = ["def initial():", f"    return {first}", ""]
    lines += ["def written(h, w):", *_cases(isl, found.S, found.writer, pixel_names(writer))]
    lines += ["", "def keeps(oh, ow):", *_cases(isl, found.keeps, found.reader, ("oh", "ow"), writer.by_columns)]
    return "\n".join(lines) + "\n"


def _cases(isl: Any, relation: Any, domain: Any, names: tuple[str, str], swapped: bool = False) -> list[str]:
    """`if CONDITION: return ROW, COLUMN` for every piece of a single-valued relation; the pieces are disjoint.

    swapped: the relation's range is (column, row).
    """
    pieces: list[tuple[Any, Any]] = []
    if not relation.is_empty():
        pieces_of = isl.PwMultiAff.from_map(relation.coalesce()).coalesce()
        pieces_of.foreach_piece(lambda piece, value: pieces.append((piece, value)))
    lines = []
    named = _named(isl, domain, names)
    for piece, value in pieces:
        inside = _named(isl, piece, names)
        condition = python_of(isl, isl.AstBuild.from_context(named).expr_from_set(inside.gist(named)))
        build = isl.AstBuild.from_context(inside)
        answers = []
        for axis in (1, 0) if swapped else (0, 1):
            affine = isl.PwAff.from_aff(value.get_aff(axis))
            for i, name in enumerate(names):
                affine = affine.set_dim_id(isl.dim_type.in_, i, isl.Id(name))
            answers.append(python_of(isl, build.expr_from_pw_aff(affine)))
        test = [] if condition in ("1", "True") else [f"    if {condition}:"]
        lines += [*test, f"{'    ' if not test else '        '}return {', '.join(answers)}"]
    return [*lines, "    return None"]


def _named(isl: Any, found: Any, names: tuple[str, str]) -> Any:
    for i, name in enumerate(names):
        found = found.set_dim_name(isl.dim_type.set, i, name)
    return found


def _identifiers(isl: Any, *names: str) -> Any:
    found = isl.IdList.alloc(isl.DEFAULT_CONTEXT, len(names))
    for name in names:
        found = found.add(isl.Id(name))
    return found


def _statements(isl: Any, node: Any, depth: int) -> list[str]:
    """Python of an AST node: loops around one `yield` of the iteration."""
    indent = "    " * depth
    kind = node.get_type()
    kinds = isl.ast_node_type
    if kind == kinds.for_:
        name = python_of(isl, node.for_get_iterator())
        start = python_of(isl, node.for_get_init())
        if node.for_is_degenerate():
            return [f"{indent}{name} = {start}", *_statements(isl, node.for_get_body(), depth)]
        condition = node.for_get_cond()
        bound = python_of(isl, condition.op_get_arg(1))
        stop = f"{bound} + 1" if condition.op_get_type() == isl.ast_expr_op_type.le else bound
        if stop.replace(" + 1", "").isdigit():
            stop = str(int(stop.removesuffix(" + 1")) + stop.endswith(" + 1"))
        step = python_of(isl, node.for_get_inc())
        span = f"{start}, {stop}" + ("" if step == "1" else f", {step}")
        return [f"{indent}for {name} in range({span}):", *_statements(isl, node.for_get_body(), depth + 1)]
    if kind == kinds.user:
        call = node.user_get_expr()
        arguments = [python_of(isl, call.op_get_arg(i)) for i in range(1, call.op_get_n_arg())]
        return [f"{indent}yield {', '.join(arguments)}"]
    if kind == kinds.block:
        children = node.block_get_children()
        parts = [_statements(isl, children.get_at(i), depth) for i in range(children.n_ast_node())]
        return [line for part in parts for line in part]
    raise TypeError(f"no Python for the AST node {kind}")


def python_of(isl: Any, expression: Any) -> str:
    """Python of an isl AST expression, fully bracketed where it must be."""
    kinds = isl.ast_expr_type
    kind = expression.get_type()
    if kind == kinds.int:
        return str(expression.get_val())
    if kind == kinds.id:
        return str(expression.get_id().get_name())
    operators = isl.ast_expr_op_type
    operator = expression.op_get_type()
    count = expression.op_get_n_arg()
    arguments = [python_of(isl, expression.op_get_arg(i)) for i in range(count)]
    binary = {
        operators.and_: "and",
        operators.and_then: "and",
        operators.or_: "or",
        operators.or_else: "or",
        operators.add: "+",
        operators.sub: "-",
        operators.mul: "*",
        operators.div: "//",  # exact
        operators.fdiv_q: "//",  # towards minus infinity
        operators.pdiv_q: "//",  # of a dividend that is not negative
        operators.pdiv_r: "%",
        operators.zdiv_r: "%",  # only compared with zero
        operators.eq: "==",
        operators.le: "<=",
        operators.lt: "<",
        operators.ge: ">=",
        operators.gt: ">",
    }
    if operator in binary:
        operands = [
            f"({a})" if _brackets(isl, expression.op_get_arg(i), operator) else a for i, a in enumerate(arguments)
        ]
        return f" {binary[operator]} ".join(operands)
    if operator == operators.minus:
        return f"-({arguments[0]})"
    if operator in (operators.max, operators.min):
        return f"{'max' if operator == operators.max else 'min'}({', '.join(arguments)})"
    if operator in (operators.cond, operators.select):
        return f"({arguments[1]} if {arguments[0]} else {arguments[2]})"
    raise TypeError(f"no Python for the AST operator {operator}")


def _brackets(isl: Any, argument: Any, outer: Any) -> bool:
    """Whether an operand needs brackets: an operation under anything but the same `and`, `or` or sum."""
    if argument.get_type() != isl.ast_expr_type.op:
        return False
    operators = isl.ast_expr_op_type
    inner = argument.op_get_type()
    logical = (operators.and_, operators.and_then, operators.or_, operators.or_else)
    compared = (operators.eq, operators.le, operators.lt, operators.ge, operators.gt)
    if outer in (operators.and_, operators.and_then):
        return inner in logical[2:]
    if outer in logical:
        return inner not in (*logical[2:], *compared)
    if outer in compared:
        return False
    return not (outer == operators.add and inner in (operators.add, operators.mul))
