"""Collects variables and statements while a program is elaborated, and hands out names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kilotune.codegen.ir import Location, Operation, Role, Statement, Variable, View, whole
from kilotune.codegen.language.sizes import check_variable


@dataclass(frozen=True)
class Destination:
    """Where the result of an expression should go: under a name, or into given elements."""

    name: str | None = None
    target: View | None = None


NOWHERE = Destination()
"""The goal of a subexpression: any new temporary."""


@dataclass
class Emitter:
    """The program so far. `reserved` are the names of the source, which temporaries `t1`, `t2`, ... avoid."""

    reserved: frozenset[str]
    variables: list[Variable] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    index_ranges: dict[str, tuple[int, int]] = field(default_factory=dict)  # loop index -> first, last value
    open_loops: tuple[str, ...] = ()  # indices of the loops around the innermost open body
    _writes: Counter[str] = field(default_factory=Counter)
    _taken: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)  # places in `variables`
    _temporaries: int = 0

    def emit(self, statement: Statement) -> None:
        """Append a statement to the innermost open body."""
        self.body.append(statement)
        if isinstance(statement, Operation):
            self._writes[statement.out.variable] += 1

    @contextmanager
    def open_body(self, index: str) -> Iterator[list[Statement]]:
        """Statements emitted meanwhile go to the yielded list: the body of the loop over `index`."""
        outer, self.body = self.body, []
        loops, self.open_loops = self.open_loops, (*self.open_loops, index)
        try:
            yield self.body
        finally:
            self.body, self.open_loops = outer, loops

    def write_count(self, variable: str) -> int:
        """How many operations so far write a variable."""
        return self._writes[variable]

    def claim(self, name: str) -> str:
        """`name`, or when it is taken `name_2`, `name_3`, ...: a name that nothing else has."""
        candidate, count = name, 1
        while candidate in self._taken or (count > 1 and candidate in self.reserved):
            count += 1
            candidate = f"{name}_{count}"
        self._taken.add(candidate)
        return candidate

    def declare(self, variable: Variable) -> View:
        """Add a variable whose name has been claimed; returns the view of all of it. InputError for one that is far too large."""
        check_variable(variable)
        self._numbers[variable.name] = len(self.variables)
        self.variables.append(variable)
        return whole(variable)

    def temporary(self, shape: tuple[int, ...], location: Location, name: str | None = None) -> View:
        """A new temporary, all of it."""
        return self.declare(Variable(self.claim(name or self._number()), shape, Role.TEMPORARY, location))

    def role(self, view: View) -> Role:
        """Where the elements of a view come from."""
        return self.variable(view.variable).role

    def variable(self, name: str) -> Variable:
        """The variable of that name."""
        return self.variables[self._numbers[name]]

    def number(self, name: str) -> int:
        """How many variables were declared before it."""
        return self._numbers[name]

    def mark_sparse(self, names: Iterable[str]) -> None:
        """Have these parameters stored as non-zeros and positions."""
        chosen = frozenset(names)
        self.variables = [replace(v, sparse=True) if v.name in chosen else v for v in self.variables]

    def _number(self) -> str:
        while True:
            self._temporaries += 1
            name = f"t{self._temporaries}"
            if name not in self.reserved and name not in self._taken:
                return name
