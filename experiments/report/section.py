"""What a report consists of, before it is a page: sections of text, tables and figures. Plain data; all text is escaped
where it becomes HTML, none of it before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kilotune.experiments.problem import Problem
    from kilotune.search.study import Study

Cell = str | int | float | None


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Text whose lines and spaces count: a program."""

    text: str


@dataclass(frozen=True)
class Table:
    """Sorted by the reader, column by column, unless the order of its rows is its meaning; numbers as numbers. None is an
    empty cell."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    sortable: bool = True


@dataclass(frozen=True, eq=False)
class Figure:
    """A Plotly figure without colours of paper and text: the page sets those of its theme. `description` says in words
    what is seen, for those who do not see it; it stands under the figure."""

    figure: go.Figure
    description: str


Block = Paragraph | Listing | Table | Figure


@dataclass(frozen=True, eq=False)
class Section:
    """A heading and what stands under it. `level` 2 is a chapter of the report, 3 a part of the chapter before."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2


class Drawing(Protocol):
    """What a module in `report/spaces/` defines as a function `draw`."""

    def __call__(self, problem: Problem, study: Study) -> tuple[Section, ...]:
        """The space's own figures of a study with at least one trial, which may still be running. Takes a second or two
        at most, also for 10 000 trials."""
