"""Lines of C with their indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field


def counter_type(end: int) -> str:
    """The C type of a number from 0 to `end`. `kt_count` has a byte on AVR, where `kt_index` has two."""
    return "kt_count" if end < 256 else "kt_index"


@dataclass
class Writer:
    """Collects lines; blocks nest."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def line(self, text: str = "") -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """`opening {` ... `}` around what is written inside; a bare block when `opening` is empty."""
        self.line(f"{opening} {{" if opening else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loops(
        self, counters: list[tuple[str, int]], scope: bool = False, *, backward: bool = False
    ) -> Iterator[list[str]]:
        """A nest of loops, (counter, trip count) from the outermost; yields an expression of each counter.

        A loop that would run once is left out; its counter is then `0`. With `scope`, what is written inside may
        declare names: when no loop is left there is a bare block. `backward`: counters go down to 0.
        """
        with ExitStack() as nest:
            expressions = []
            if scope and all(count == 1 for _, count in counters):
                nest.enter_context(self.block(""))
            for counter, count in counters:
                if count != 1:
                    begin = count if backward else 0
                    steps = f"{counter}-- > 0;" if backward else f"{counter} < {count}; {counter}++"
                    nest.enter_context(self.block(f"for ({counter_type(count)} {counter} = {begin}; {steps})"))
                expressions.append(counter if count != 1 else "0")
            yield expressions
