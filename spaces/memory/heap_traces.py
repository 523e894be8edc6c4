"""XLA's heap simulator traces: what was allocated, freed and shared in which order, in a compiled module's buffer assignment.

Read from an `HloProto` or a `BufferAssignmentProto` (xla/service/hlo.proto), as text or binary (`.pb`). An event is a program
point; sizes are those of the logical buffers. A buffer that shares another one's memory lengthens its life: both lie at one address, from
the first allocation to the last release, and have as many bytes as the larger one there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kilotune.codegen.binary_files import read_binary_file
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.text_files import read_text_file
from kilotune.spaces.memory.csv_files import LARGEST, MOST_BYTES
from kilotune.spaces.memory.instance import Buffer, Instance

PACKAGE = "kilotune.xla"

HEAP_TRACES = (".pb", ".pbtxt", ".textproto")
"""How the names of XLA's dumps end; the first one's are binary."""

FIELDS = (
    ("HloProto", (("buffer_assignment", 3, "BufferAssignmentProto", False),)),
    (
        "BufferAssignmentProto",
        (("logical_buffers", 1, "LogicalBufferProto", True), ("heap_simulator_traces", 4, "HeapSimulatorTrace", True)),
    ),
    ("LogicalBufferProto", (("id", 1, "int64", False), ("size", 2, "int64", False))),
    ("HeapSimulatorTrace", (("events", 1, "Event", True),)),
    (
        "Event",
        (
            ("kind", 1, "Kind", False),
            ("buffer_id", 2, "int64", False),
            ("instruction_name", 4, "string", False),
            ("share_with_canonical_id", 5, "int64", False),
        ),
    ),
)
"""The fields of XLA's messages that are read: name, number, type, whether there may be many. Others are skipped."""

KINDS = ("ALLOC", "FREE", "SHARE_WITH")
ALLOC, FREE, SHARE_WITH = range(3)


def read_heap_trace(path: Path, heap: int | None = None) -> Instance:
    """The buffers of a trace. `heap`: which of several, from 0.

    InputError, with the event: a file that is no such message, no trace in it or several and none chosen, a buffer without a size, one
    that is allocated twice, or freed while it is not live.
    """
    assignment = _assignment(path)
    traces = _traces(assignment)
    if not traces or (heap is None and len(traces) > 1) or (heap or 0) >= len(traces):
        expected = "a heap simulator trace" if heap is None else f"heap simulator trace {heap}"
        found = f"{len(traces)} with events" + (" (--heap 0 takes the first one)" if len(traces) > 1 else "")
        raise InputError(str(path), expected=expected, found=found)
    replay = _Replay(str(path), {buffer.id: buffer.size for buffer in assignment.logical_buffers})
    events = traces[heap or 0].events
    for point, event in enumerate(events):
        replay.run(point, event)
    return Instance(path.stem, replay.buffers(len(events)))


def has_heap_trace(path: Path) -> bool:
    """Whether a file is such a message with a trace in it."""
    try:
        return bool(_traces(_assignment(path)))
    except InputError:
        return False


def _assignment(path: Path) -> Any:
    return _binary(path) if path.suffix == HEAP_TRACES[0] else _text(path)


def _traces(assignment: Any) -> list[Any]:
    return [trace for trace in assignment.heap_simulator_traces if len(trace.events)]


def _text(path: Path) -> Any:
    from google.protobuf import text_format

    text = read_text_file(path, "XLA's HloProto as text", MOST_BYTES)
    messages = _messages()
    # A module's text is an HloProto; the fields of a bare assignment would be skipped there as unknown ones.
    whole = _parsed(path, lambda: text_format.Parse(text, messages["HloProto"](), allow_unknown_field=True))
    if whole.HasField("buffer_assignment"):
        return whole.buffer_assignment
    bare = messages["BufferAssignmentProto"]
    return _parsed(path, lambda: text_format.Parse(text, bare(), allow_unknown_field=True))


def _binary(path: Path) -> Any:
    content = read_binary_file(path, "XLA's HloProto", MOST_BYTES)
    try:
        whole = _messages()["HloProto"].FromString(content).buffer_assignment
    except Exception:  # the decoder's own types: a bare assignment is no module
        whole = None
    if whole is not None and whole.heap_simulator_traces:
        return whole
    # Where one of these messages is read as the other no trace is found: neither has a field of that number and type there.
    bare = _parsed(path, lambda: _messages()["BufferAssignmentProto"].FromString(content))
    return bare if bare.heap_simulator_traces or whole is None else whole


def _parsed(path: Path, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except Exception as error:  # text_format's and the decoder's own types
        found = " ".join(str(error).split())
        raise InputError(str(path), expected="XLA's HloProto or BufferAssignmentProto", found=found) from None


@cache
def _messages() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    described = descriptor_pb2.FileDescriptorProto(
        name="kilotune/xla_heap_trace.proto", package=PACKAGE, syntax="proto3"
    )
    kinds = described.enum_type.add(name="Kind")
    for number, name in enumerate(KINDS):
        kinds.value.add(name=name, number=number)
    kind_of = descriptor_pb2.FieldDescriptorProto
    scalars = {"int64": kind_of.TYPE_INT64, "string": kind_of.TYPE_STRING}
    for name, fields in FIELDS:
        message = described.message_type.add(name=name)
        for field_name, number, of, many in fields:
            label = kind_of.LABEL_REPEATED if many else kind_of.LABEL_OPTIONAL
            named = {} if of in scalars else {"type_name": f".{PACKAGE}.{of}"}
            other = kind_of.TYPE_ENUM if of == "Kind" else kind_of.TYPE_MESSAGE
            message.field.add(name=field_name, number=number, label=label, type=scalars.get(of, other), **named)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name, _ in FIELDS
    }


@dataclass
class _SharedMemory:
    """What buffers that share have together: `users` are those of them that are live."""

    name: str
    size: int
    lower: int
    upper: int | None = None
    users: set[int] = field(default_factory=set)


@dataclass
class _Replay:
    """Events up to some point. `blocks` by the buffer that was allocated, `home` by any buffer."""

    path: str
    sizes: dict[int, int]
    blocks: dict[int, _SharedMemory] = field(default_factory=dict)
    home: dict[int, _SharedMemory] = field(default_factory=dict)

    def run(self, point: int, event: Any) -> None:
        """The next one. InputError: it does not go with those before."""
        where = f"event {point} ({KINDS[event.kind] if 0 <= event.kind < len(KINDS) else event.kind})"
        number = event.buffer_id
        if event.kind == FREE:
            block = self.home.get(number)
            if block is None or number not in block.users:
                raise InputError(self.path, place=where, expected="a buffer that is live", found=str(number))
            block.users.remove(number)
            block.upper = point
            return
        if number in self.home:
            raise InputError(self.path, place=where, expected="a buffer once", found=f"{number} again")
        if event.kind == ALLOC:
            block = self.blocks[number] = self._allocated(number, point, event.instruction_name, where)
        else:
            shared = self.home.get(event.share_with_canonical_id)
            if event.kind != SHARE_WITH or shared is None:
                found = f"{event.share_with_canonical_id}" if event.kind == SHARE_WITH else f"kind {event.kind}"
                raise InputError(self.path, place=where, expected="an allocated buffer to share with", found=found)
            block = shared
            block.size = max(block.size, self._size(number, where) if number in self.sizes else 0)
        block.users.add(number)
        self.home[number] = block

    def _allocated(self, number: int, point: int, instruction: str, where: str) -> _SharedMemory:
        name = f"{instruction}#{number}" if instruction else str(number)
        return _SharedMemory(name, self._size(number, where), point)

    def _size(self, number: int, where: str) -> int:
        size = self.sizes.get(number)
        if size is None or not 0 <= size <= LARGEST:
            found = "none" if size is None else str(size)
            expected = f"a size of logical buffer {number} from 0 to {LARGEST}"
            raise InputError(self.path, place=where, expected=expected, found=found)
        return size

    def buffers(self, end: int) -> tuple[Buffer, ...]:
        """What was never freed lives to the end."""
        return tuple(
            Buffer(block.name, block.lower, end if block.users or block.upper is None else block.upper, block.size)
            for block in self.blocks.values()
        )
