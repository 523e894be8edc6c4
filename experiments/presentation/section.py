"""What a report consists of, before it is a page: sections of text, tables and figures. Plain data; all text is escaped
where it becomes HTML, none of it before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go

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

    def is_numeric(self, column: int) -> bool:
        """Whether the cells of that column, from 0, are numbers, which stand right-aligned."""
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and not any(isinstance(cell, str) for cell in cells)


@dataclass(frozen=True, eq=False)
class Figure:
    """A Plotly figure without colours of paper and text: the page sets those of its theme. `description` says in words
    what is seen, for those who do not see it; it stands under the figure. `title` names it, and the file that it is exported
    to: "Best memory bytes so far, by seconds"; empty: the title of its section. `narrow_height`: pixels on a phone, where the
    height of the layout would leave room for nothing."""

    figure: go.Figure
    description: str
    title: str = ""
    narrow_height: int | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """Figures to compare: side by side where there is room, below each other on a phone."""

    figures: tuple[Figure, ...]


Block = Paragraph | Listing | Table | Figure | Row


@dataclass(frozen=True, eq=False)
class Section:
    """A heading and what stands under it. `level` 2 is a chapter of the report, 3 a part of the chapter before."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2


def figures_in(blocks: Sequence[Block]) -> Iterator[Figure]:
    """All figures, in their order, those of rows among them."""
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Row):
            yield from block.figures
