"""What is shown on stderr while something runs: a view that is redrawn on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live

PLAIN_LINE_EVERY_S = 5.0
FIRST_PLAIN_LINE_S = 2.0
DRAWN_PER_S = 4


class LiveDisplay(AbstractContextManager["LiveDisplay"]):
    """Results go to stdout, and so does what others write there meanwhile. Silent when `quiet`.

    `view` is drawn again and again by a thread of its own; without one there is only what `draw` is given. `is_erased`:
    nothing remains of it after a good end, where something else says it all; after an error it is what is left.
    """

    def __init__(self, quiet: bool, view: RenderableType | None = None, *, is_erased: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._is_erased = is_erased
        self._live = None if quiet or not _can_redraw(self._console) else _live(self._console, view)
        self._started_s = time.monotonic()
        self._next_line_s = FIRST_PLAIN_LINE_S

    def __enter__(self) -> LiveDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.transient = self._is_erased and kind is None
            self._live.stop()

    @property
    def is_redrawn(self) -> bool:
        """Whether there is a terminal on which lines can be drawn again."""
        return self._live is not None

    def elapsed_s(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._started_s

    def draw(self, view: RenderableType) -> None:
        """In place of what is drawn; nothing where nothing is redrawn."""
        if self._live is not None:
            self._live.update(view, refresh=True)

    def line(self, text: str) -> None:
        """A line that stays, above what is redrawn."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def line_if_due(self, text: Callable[[], str]) -> None:
        """A line that stays, unless there was one a moment ago."""
        elapsed_s = self.elapsed_s()
        if elapsed_s >= self._next_line_s:
            self._next_line_s = elapsed_s + PLAIN_LINE_EVERY_S
            self.line(text())


def _can_redraw(console: Console) -> bool:
    """A pipe stays a pipe when the environment forces colours."""
    return sys.stderr.isatty() and console.is_terminal and not console.is_dumb_terminal


def _live(console: Console, view: RenderableType | None) -> Live:
    if view is None:
        return Live(console=console, auto_refresh=False, redirect_stdout=False)
    return Live(console=console, refresh_per_second=DRAWN_PER_S, redirect_stdout=False, get_renderable=lambda: view)
