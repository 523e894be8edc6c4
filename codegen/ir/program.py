"""Whole programs over the Reals: statements, loops, and what can be asked of all of them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace

from kilotune.codegen.ir.operators import ArgMax, Operation, Product, Sign
from kilotune.codegen.ir.quantised import QuantisedElements
from kilotune.codegen.ir.quantised_softmax import QuantisedSoftmax
from kilotune.codegen.ir.views import NOT_CONTENT, Location, Role, Variable, View


class ResultKind(enum.Enum):
    """What the program returns."""

    CLASS = "class"  # an integer label (argmax or sgn)
    REAL = "real"  # the elements of a tensor: a numerical (regression) model


@dataclass(frozen=True)
class Loop:
    """`body` once for each value start, start+1, ..., start+count-1 of `index` (names unique in the program)."""

    index: str
    start: int
    count: int
    body: tuple[Statement, ...]
    location: Location = field(metadata=NOT_CONTENT)


@dataclass(frozen=True)
class Periodic:
    """`body`, operations one after the other, in the rounds `first`, `first` + `every`, ... of the loop around it, `count` of them, where
    its index is that number.

    Whatever an operation reads of what others in such bodies have written, it reads in rounds in which that was written, or of variables
    that are never written as a whole.
    """

    index: str
    first: int
    every: int
    count: int
    body: tuple[Operation, ...]
    location: Location = field(metadata=NOT_CONTENT)

    content_kind = "periodic"

    def runs_in(self, round_number: int) -> bool:
        """Whether that is one of its rounds."""
        place, rest = divmod(round_number - self.first, self.every)
        return rest == 0 and 0 <= place < self.count


Statement = Operation | Loop | Periodic

INTEGER_RESULTS = (ArgMax, Sign)
"""Operations whose output is an exact integer, with no scale."""


@dataclass(frozen=True)
class Program:
    """A whole program. `name` is for messages. `result` is what it returns; for ResultKind.CLASS a scalar written by ArgMax or Sign."""

    name: str = field(metadata=NOT_CONTENT)
    variables: tuple[Variable, ...]
    body: tuple[Statement, ...]
    result: View
    result_kind: ResultKind

    def variable(self, name: str) -> Variable:
        """The variable of that name; KeyError when there is none."""
        for candidate in self.variables:
            if candidate.name == name:
                return candidate
        raise KeyError(name)

    @property
    def input(self) -> Variable | None:
        """The features `X`, or None for a program that has only constants."""
        return next((v for v in self.variables if v.role is Role.INPUT), None)


def operations(body: tuple[Statement, ...]) -> Iterator[Operation]:
    """Every operation of a body in program order, loop bodies once."""
    for statement in body:
        if isinstance(statement, Loop | Periodic):
            yield from operations(statement.body)
        else:
            yield statement


def with_views(operation: Operation, change: Callable[[View], View]) -> Operation:
    """The operation on other views: what it reads and writes, each changed."""
    values = {item.name: getattr(operation, item.name) for item in fields(operation)}
    changed = {name: change(value) for name, value in values.items() if isinstance(value, View)}
    return replace(operation, **changed)  # type: ignore[arg-type]


def executions(body: tuple[Statement, ...], times: int = 1, entered: int = 1) -> Iterator[tuple[Operation, int]]:
    """Every operation in program order with how often it runs when the body runs so many times; `entered`: how often the loop around it
    begins."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from executions(statement.body, times * statement.count, times)
        elif isinstance(statement, Periodic):
            yield from ((operation, entered * statement.count) for operation in statement.body)
        else:
            yield statement, times


def rounds(body: tuple[Statement, ...], times: int = 1) -> Iterator[int]:
    """For every loop in program order, how often its body runs when the whole runs so many times."""
    for statement in body:
        if isinstance(statement, Loop):
            yield times * statement.count
            yield from rounds(statement.body, times * statement.count)


def label_variables(program: Program) -> frozenset[str]:
    """Variables that hold labels: exact integers, which no bitwidth or scale is decided for."""
    return frozenset(o.out.variable for o in operations(program.body) if isinstance(o, INTEGER_RESULTS))


def used_variables(program: Program) -> frozenset[str]:
    """Variables that some operation reads or writes, or that the program returns."""
    views = [program.result]
    for operation in operations(program.body):
        views += [operation.out, *(operand for operand in operation.operands if isinstance(operand, View))]
    return frozenset(view.variable for view in views)


def check_formats_open(program: Program) -> None:
    """ValueError, a sentence, for a quantised program: nobody who decides formats, or takes them for powers of two, can use it."""
    if is_quantised(program):
        raise ValueError(
            f"Expected a program whose formats are to be decided, found {program.name}, which has integers of its own."
        )


def is_quantised(program: Program) -> bool:
    """Whether it has integers of its own, as a quantised file states them: every variable has 8 bits at scale 0, and no other format."""
    return any(
        isinstance(o, QuantisedElements | QuantisedSoftmax) or (isinstance(o, Product) and o.completion is not None)
        for o in operations(program.body)
    )
