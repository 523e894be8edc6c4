"""Loop nests whose pointers walk: elements that lie beside each other are read and written by `*p++`.

Small processors have few address registers and no indexed addressing, so a pointer that walks is worth a multiplication
and an addition an element. A pointer starts at the outermost loop from which on it never jumps; what is the same
throughout an inner loop is read before it. Anything else is reached by its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context
from kilotune.codegen.emit.operators import Value, cast


@dataclass(frozen=True)
class Access:
    """A view that a nest of loops visits; `strides[d]`: how far a step of loop d moves, for the loops around the access."""

    view: ir.View
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Cursor:
    """An access within the loops that are left: it happens inside `depth` of them.

    `start`: the number of loops around the declaration of its pointer, or None for an element reached by its number.
    """

    view: ir.View
    strides: tuple[int, ...]
    depth: int
    start: int | None


class Walk:
    """A nest of loops, (counter, trip count) from the outermost, over reads and one write.

    `inside(first, last)` opens the loops numbered first..last-1 and emits the reads that belong there; `values` holds what
    was read, in the order of `reads`. `numbered`: counters that the caller uses himself.
    """

    def __init__(
        self,
        context: Context,
        counters: Sequence[tuple[str, int]],
        reads: Sequence[Access],
        write: Access | None = None,
        numbered: Sequence[str] = (),
    ) -> None:
        self._context, self._counters = context, tuple(counters)
        self._reads = [self._cursor(access) for access in reads]
        self._write = None if write is None else self._cursor(write)
        self._numbered = set(numbered) | self._used_counters()
        self.values: list[Value] = [Value("", 0)] * len(self._reads)

    @property
    def target(self) -> str:
        """The lvalue of the element to write; a pointer has moved on behind it, so it is used once."""
        assert self._write is not None
        return "*to++" if self._write.start is not None else self._numbered_element(self._write).text

    @property
    def target_bits(self) -> int:
        """Width of the element to write."""
        assert self._write is not None
        return self._context.storage.bits[self._write.view.variable]

    def counter(self, name: str) -> str:
        """The counter of that name, or 0 where its loop would run once."""
        return next((n if count != 1 else "0") for n, count in self._counters if n == name)

    def store(self, value: Value) -> None:
        """Write the element."""
        bits = self.target_bits
        self._context.writer.line(f"{self.target} = {cast(value, bits).text};")

    @contextmanager
    def inside(self, first: int, last: int) -> Iterator[None]:
        """Loops first..last-1, with the pointers and reads in front of and within them."""
        writer = self._context.writer
        with ExitStack() as nest:
            if first == 0:
                if self._declares(0) or all(count == 1 for _, count in self._counters[:last]):
                    nest.enter_context(writer.block(""))
                self._enter(0)
            for level in range(first, last):
                name, count = self._counters[level]
                if count != 1:
                    nest.enter_context(writer.block(self._context.storage.loop(name, count, name in self._numbered)))
                self._enter(level + 1)
            yield

    def _cursor(self, access: Access) -> _Cursor:
        """Loops that run once do not count, nor do those that the view stands still in."""
        extents = [count for _, count in self._counters[: len(access.strides)]]
        moving = [d for d, (s, e) in enumerate(zip(access.strides, extents, strict=True)) if s and e != 1]
        depth = moving[-1] + 1 if moving else 0
        strides = access.strides[:depth]
        start = None
        if moving and strides[-1] == 1:
            start, reach = depth - 1, extents[depth - 1]
            # the pointer runs on through an outer loop whose step is what the inner ones have walked
            while start > 0 and (extents[start - 1] == 1 or strides[start - 1] == reach):
                start -= 1
                reach *= extents[start]
        return _Cursor(access.view, strides, depth, start)

    def _used_counters(self) -> set[str]:
        """Counters that appear in numbers of elements: those of reads without a pointer, and of pointers' beginnings."""
        used = set()
        for cursor in [*self._reads, *([self._write] if self._write else [])]:
            reach = len(cursor.strides) if cursor.start is None else cursor.start
            used |= {name for (name, _), s in zip(self._counters[:reach], cursor.strides[:reach], strict=True) if s}
        return used

    def _declares(self, level: int) -> bool:
        every = [*self._reads, *([self._write] if self._write else [])]
        return any(c.start == level for c in every) or any(c.depth == level for c in self._reads)

    def _enter(self, level: int) -> None:
        """Pointers that begin at this level, then reads that belong to it."""
        writer, storage = self._context.writer, self._context.storage
        for number, cursor in enumerate(self._reads):
            if cursor.start == level:
                writer.line(f"{storage.pointer(cursor.view, self._moves(cursor, level), f'p{number}', False)};")
        if self._write is not None and self._write.start == level:
            writer.line(f"{storage.pointer(self._write.view, self._moves(self._write, level), 'to', True)};")
        for number, cursor in enumerate(self._reads):
            if cursor.depth == level:
                bits = storage.bits[cursor.view.variable]
                walks = cursor.start is not None
                text = storage.next(cursor.view, f"p{number}") if walks else self._numbered_element(cursor).text
                writer.line(f"const {storage.type_of(cursor.view.variable)} v{number} = {text};")
                self.values[number] = Value(f"v{number}", bits)

    def _moves(self, cursor: _Cursor, level: int) -> list[tuple[str, int]]:
        """Where the access is inside the outermost `level` loops."""
        outer = zip(self._counters[:level], cursor.strides[:level], strict=True)
        return [(name, stride) for (name, count), stride in outer if count != 1]

    def _numbered_element(self, cursor: _Cursor) -> Value:
        return self._context.storage.element(cursor.view, self._moves(cursor, len(cursor.strides)))
