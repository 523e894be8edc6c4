"""A TensorFlow Lite model that says where its tensors lie, by an offline memory plan, and that has its operators in another order.

The plan is a list of 32-bit integers in a buffer that the metadata `OfflineMemoryAllocation` names: a version, the subgraph (1 for the only
one, as Arm's Vela writes it; the runtime reads neither of these two), the number of offsets, and for each tensor its offset in the head of
the arena, or -1 for one that is placed when the model is loaded ("Memory Management in TensorFlow Lite Micro"). Offsets of a flatbuffer
lead forward, so what is new stands before the old content, which stays as it is; only the list of operators is written anew where their
order is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from kilotune.codegen.tflite.model_file import IDENTIFIER, IDENTIFIER_AT

METADATA_NAME = b"OfflineMemoryAllocation"
VERSION, SUBGRAPH, PLACED_AT_RUN_TIME = 1, 1, -1

ALIGNMENT = 16
"""What buffers of a model are aligned to: the old content moves by a multiple of it."""

MODEL_FIELDS = 8
"""version, operator_codes, subgraphs, description, buffers, metadata_buffer, metadata, signature_defs, in the schema's order."""

BUFFERS, METADATA, SUBGRAPH_LIST, SUBGRAPH_OPERATORS = 4, 6, 2, 3


def plan_words(tensors: int, offsets: Mapping[int, int]) -> tuple[int, ...]:
    """The plan of a model with so many tensors. `offsets` in bytes, by a tensor's number."""
    return (VERSION, SUBGRAPH, tensors, *(offsets.get(number, PLACED_AT_RUN_TIME) for number in range(tensors)))


def with_plan(content: bytes, plan: Sequence[int], order: Sequence[int] | None = None) -> bytes:
    """The model with that plan in place of another one, and its operators in that order (their numbers, first to run first). The content is
    a model that was read without an error; nothing else of it changes."""
    old = _Flatbuffer(bytearray(content))
    model = old.root()
    if order is not None:
        (graph,) = old.elements(old.field(model, SUBGRAPH_LIST))
        old.permute(old.field(graph, SUBGRAPH_OPERATORS), order)
    fields = {number: old.field(model, number) for number in range(1, MODEL_FIELDS)}
    kept = [one for one in old.elements(fields[METADATA]) if old.text(old.field(one, 0)) != METADATA_NAME]
    return _Prefix(old, fields, kept, plan).whole(old.scalar(model, 0))


class _Flatbuffer:
    """Positions in a flatbuffer; 0 for what is not there."""

    def __init__(self, content: bytearray) -> None:
        self.content = content

    def root(self) -> int:
        return self._word(0)

    def field(self, table: int, number: int) -> int:
        """What a field of a table refers to."""
        at = self._at(table, number)
        return at + self._word(at) if at else 0

    def scalar(self, table: int, number: int) -> int:
        """A 32-bit field."""
        at = self._at(table, number)
        return self._word(at) if at else 0

    def elements(self, vector: int) -> list[int]:
        """What the elements of a vector of references refer to."""
        if not vector:
            return []
        places = [vector + 4 + 4 * k for k in range(self._word(vector))]
        return [at + self._word(at) for at in places]

    def text(self, vector: int) -> bytes:
        return bytes(self.content[vector + 4 : vector + 4 + self._word(vector)]) if vector else b""

    def permute(self, vector: int, order: Sequence[int]) -> None:
        """Element k becomes what element `order[k]` was."""
        elements = self.elements(vector)
        for k, element in enumerate(order):
            at = vector + 4 + 4 * k
            struct.pack_into("<I", self.content, at, elements[element] - at)

    def _at(self, table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", self.content, table)[0]
        (size,) = struct.unpack_from("<H", self.content, vtable)
        if 4 + 2 * number >= size:
            return 0
        (offset,) = struct.unpack_from("<H", self.content, vtable + 4 + 2 * number)
        return table + offset if offset else 0

    def _word(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.content, at)[0])


class _Prefix:
    """What stands before the old content, which begins at `base`: the new model, its lists of buffers and metadata, and the plan."""

    def __init__(
        self, old: _Flatbuffer, fields: Mapping[int, int], metadata: Sequence[int], plan: Sequence[int]
    ) -> None:
        self._old, self._fields, self._kept, self._plan = old, fields, metadata, plan
        self._buffers = old.elements(fields[BUFFERS])
        # Each piece is aligned to 16 bytes, so that the data of the plan are, too.
        self._places: dict[str, int] = {}
        at = 8
        sizes = {
            "model table": 4 + 2 * MODEL_FIELDS + 4 * MODEL_FIELDS + 8,
            "buffers": 4 + 4 * (len(self._buffers) + 1),
            "metadata list": 4 + 4 * (len(metadata) + 1),
            "metadata": 8 + 12,
            "name": 4 + len(METADATA_NAME) + 1,
            "buffer": 8 + 8,
            "plan": ALIGNMENT + 4 * len(plan),
        }
        for name, size in sizes.items():
            at = -(-at // ALIGNMENT) * ALIGNMENT
            self._places[name] = at
            at += size
        self.base = -(-at // ALIGNMENT) * ALIGNMENT

    def whole(self, version: int) -> bytes:
        """The new file."""
        head = bytearray(self.base)
        place = self._places
        model = self._table(head, place["model table"], MODEL_FIELDS, range(MODEL_FIELDS))
        struct.pack_into("<I", head, 0, model)
        head[IDENTIFIER_AT : IDENTIFIER_AT + len(IDENTIFIER)] = IDENTIFIER
        struct.pack_into("<I", head, model + 4, version)
        for number, target in self._fields.items():
            where = {BUFFERS: place["buffers"], METADATA: place["metadata list"]}.get(number)
            if where is None and not target:
                self._drop(head, place["model table"], number)
                continue
            self._refer(head, model + 4 + 4 * number, self.base + target if where is None else where)
        self._list(head, place["buffers"], [self.base + buffer for buffer in self._buffers], place["buffer"] + 8)
        self._list(head, place["metadata list"], [self.base + one for one in self._kept], place["metadata"] + 8)
        metadata = self._table(head, place["metadata"], 2, range(2))
        self._refer(head, metadata + 4, place["name"])
        struct.pack_into("<I", head, metadata + 8, len(self._buffers))
        struct.pack_into(f"<I{len(METADATA_NAME)}s", head, place["name"], len(METADATA_NAME), METADATA_NAME)
        buffer = self._table(head, place["buffer"], 1, range(1))
        data = place["plan"] + ALIGNMENT - 4
        self._refer(head, buffer + 4, data)
        struct.pack_into(f"<I{len(self._plan)}i", head, data, 4 * len(self._plan), *self._plan)
        return bytes(head + self._old.content)

    def _table(self, head: bytearray, at: int, fields: int, there: Sequence[int]) -> int:
        """A vtable and behind it its table of 32-bit fields; the table's place, a multiple of four."""
        table = -(-(at + 4 + 2 * fields) // 4) * 4
        struct.pack_into("<HH", head, at, 4 + 2 * fields, 4 + 4 * fields)
        for number in there:
            struct.pack_into("<H", head, at + 4 + 2 * number, 4 + 4 * number)
        struct.pack_into("<i", head, table, table - at)
        return table

    def _drop(self, head: bytearray, vtable: int, number: int) -> None:
        struct.pack_into("<H", head, vtable + 4 + 2 * number, 0)

    def _list(self, head: bytearray, at: int, elements: Sequence[int], last: int) -> None:
        struct.pack_into("<I", head, at, len(elements) + 1)
        for k, element in enumerate((*elements, last)):
            self._refer(head, at + 4 + 4 * k, element)

    def _refer(self, head: bytearray, at: int, target: int) -> None:
        struct.pack_into("<I", head, at, target - at)
