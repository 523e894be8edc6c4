"""Loop nests whose pointers walk: elements that lie beside each other are read and written by `*p++`.

Small processors have few address registers and no indexed addressing, so a pointer that walks is worth a multiplication
and an addition an element. Which pointers walk and where they start is said by a `Nest` of `schedule.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kilotune.codegen.emit.context import Context
from kilotune.codegen.emit.operators import CExpression, cast
from kilotune.codegen.emit.packing import code_of_byte, decoded, layout_of, next_code, walks
from kilotune.codegen.emit.schedule import Cursor, Nest


class LoopNestWriter:
    """A nest of loops while it is written.

    `inside(first, last)` opens the loops numbered first..last-1 and emits the reads that belong there; `values` holds what
    was read, in the order of `reads`. `numbered`: counters that the caller uses himself.
    """

    def __init__(self, context: Context, nest: Nest, numbered: Sequence[str] = ()) -> None:
        self._context, self._counters = context, nest.loops
        self._reads, self._write = nest.reads, nest.write
        self._numbered = set(numbered) | self._used_counters()
        self.values: list[CExpression] = [CExpression("", 0)] * len(self._reads)

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

    def store(self, value: CExpression) -> None:
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
                    numbered = name in self._numbered
                    nest.enter_context(writer.block(self._context.storage.loop(name, count, numbered)))
                    if not numbered:
                        writer.line(f"KT_COUNT({name});")
                self._enter(level + 1)
            yield

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
                groups = self._groups(cursor)
                if groups is not None:
                    writer.line(f"const uint8_t *p{number} = {groups};")
                    writer.line(f"uint8_t byte{number} = 0;")
                else:
                    writer.line(f"{storage.pointer(cursor.view, self._moves(cursor, level), f'p{number}', False)};")
        if self._write is not None and self._write.start == level:
            writer.line(f"{storage.pointer(self._write.view, self._moves(self._write, level), 'to', True)};")
        for number, cursor in enumerate(self._reads):
            if cursor.depth == level:
                self._read(number, cursor)
                bits = storage.bits[cursor.view.variable]
                self.values[number] = CExpression(f"v{number}", bits)

    def _read(self, number: int, cursor: Cursor) -> None:
        """The declaration of v{number}, the element that the cursor reaches."""
        writer, storage = self._context.writer, self._context.storage
        declared = f"const {storage.type_of(cursor.view.variable)} v{number} ="
        if cursor.start is None:
            writer.line(f"{declared} {self._numbered_element(cursor).text};")
        elif self._groups(cursor) is None:
            writer.line(f"{declared} {storage.next(cursor.view, f'p{number}')};")
        else:
            packing = storage.packing(cursor.view.variable)
            assert packing is not None
            byte, counter = f"byte{number}", self._counters[cursor.depth - 1][0]
            code = code_of_byte(packing.width, byte)
            table = storage.codebook(cursor.view.variable)
            element = decoded(code, packing, storage.bits[cursor.view.variable], table)
            writer.line(
                f"if (({counter} & {layout_of(packing.width).codes - 1}) == 0) {byte} = KT_NEXT_PLACE8(p{number});"
            )
            writer.line(f"{declared} {element};")
            writer.line(f"{byte} = {next_code(packing.width, byte)};")

    def _groups(self, cursor: Cursor) -> str | None:
        """The expression of a pointer to the bytes that a cursor takes apart one after the other, where code is to be short: those of codes
        that fill bytes, in a loop over whole bytes of them. None elsewhere."""
        storage, packing = self._context.storage, self._context.storage.packing(cursor.view.variable)
        short = self._context.shape.shared and packing is not None and walks(packing.width)
        if not short or cursor.start is None:
            return None
        count = self._counters[cursor.depth - 1][1]
        return storage.group_address(cursor.view, self._moves(cursor, cursor.start), count)

    def _moves(self, cursor: Cursor, level: int) -> list[tuple[str, int]]:
        """Where the access is inside the outermost `level` loops."""
        outer = zip(self._counters[:level], cursor.strides[:level], strict=True)
        return [(name, stride) for (name, count), stride in outer if count != 1]

    def _numbered_element(self, cursor: Cursor) -> CExpression:
        return self._context.storage.element(cursor.view, self._moves(cursor, len(cursor.strides)))
