"""XLA's heap simulator traces: lifetimes of what is allocated, freed and shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.spaces.memory.heap_traces import read_heap_trace
from kilotune.spaces.memory.instance import Buffer

LOGICAL = """
  logical_buffers { id: 1 size: 64 color: 0 defined_at { instruction_id: 0 shape_index: 0 } }
  logical_buffers { id: 2 size: 64 }
  logical_buffers { id: 3 size: 16 }
"""
ONE = "events { buffer_id: 1 instruction_name: 'dot' } events { kind: ALLOC buffer_id: 3 } events { kind: FREE buffer_id: 1 }"


def write(path: Path, events: str, whole: bool = True) -> Path:
    """As an HloProto with what is not read here around it, or as its buffer assignment alone."""
    inner = f"{LOGICAL} heap_simulator_traces {{ {events} whole_module_simulation: true }}"
    path.write_text(f"hlo_module {{ name: 'm' id: 3 }} buffer_assignment {{ {inner} }}" if whole else inner)
    return path


@pytest.mark.parametrize("whole", [True, False])
def test_lives_are_counted_in_events(tmp_path: Path, whole: bool) -> None:
    """The kind ALLOC is the default, which text leaves out; what is never freed lives to the end."""
    assert read_heap_trace(write(tmp_path / "t.pbtxt", ONE, whole)).buffers == (
        Buffer("dot#1", 0, 2, 64),
        Buffer("3", 1, 3, 16),
    )


def test_sharing_lengthens_a_life(tmp_path: Path) -> None:
    shared = """events { kind: ALLOC buffer_id: 1 } events { kind: SHARE_WITH buffer_id: 2 share_with_canonical_id: 1 }
      events { kind: FREE buffer_id: 1 } events { kind: ALLOC buffer_id: 3 } events { kind: FREE buffer_id: 2 }
      events { kind: FREE buffer_id: 3 }"""
    assert read_heap_trace(write(tmp_path / "t.pbtxt", shared)).buffers == (
        Buffer("1", 0, 4, 64),
        Buffer("3", 3, 5, 16),
    )


def test_what_is_shared_is_as_large_as_the_largest_that_lies_there(tmp_path: Path) -> None:
    """Buffer 1 has 64 bytes and buffer 3 has 16, whichever comes first; one without a size takes no more than the others."""
    for first, second, third in ((1, 3, 9), (3, 1, 9)):
        shared = f"""events {{ kind: ALLOC buffer_id: {first} }}
          events {{ kind: SHARE_WITH buffer_id: {second} share_with_canonical_id: {first} }}
          events {{ kind: SHARE_WITH buffer_id: {third} share_with_canonical_id: {second} }}"""
        found = read_heap_trace(write(tmp_path / "t.pbtxt", shared)).buffers
        assert found == (Buffer(str(first), 0, 3, 64),)


@pytest.mark.parametrize("whole", [True, False])
def test_binary_as_protobuf_writes_it(tmp_path: Path, whole: bool) -> None:
    """By hand: HloProto.buffer_assignment (3) with logical_buffers (1) and heap_simulator_traces (4), and an unknown field 9; or the
    assignment alone, where 3 is a list of allocations, whose sizes (2) are numbers."""

    def message(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    logical = message(1, b"\x08\x01\x10\x40")
    alloc, free = message(1, b"\x10\x01"), message(1, b"\x08\x01\x10\x01")
    path = tmp_path / "t.pb"
    allocations = message(3, b"\x08\x00\x10\x40") + message(3, b"\x08\x01\x10\x10")
    traced = logical + allocations + message(4, alloc + free)
    path.write_bytes(message(9, b"abc") + message(3, traced) if whole else traced)
    assert read_heap_trace(path).buffers == (Buffer("1", 0, 1, 64),)


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ("events { kind: FREE buffer_id: 1 }", "event 0 (FREE): expected a buffer that is live, found 1"),
        ("events { buffer_id: 1 } events { buffer_id: 1 }", "event 1 (ALLOC): expected a buffer once, found 1 again"),
        ("events { buffer_id: 7 }", "expected a size of logical buffer 7"),
        (
            "events { kind: SHARE_WITH buffer_id: 1 share_with_canonical_id: 2 }",
            "event 0 (SHARE_WITH): expected an allocated buffer to share with, found 2",
        ),
        ("events { kind: ", "expected XLA's HloProto or BufferAssignmentProto"),
        ("", "expected a heap simulator trace, found 0 with events"),
    ],
)
def test_mistakes(tmp_path: Path, events: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_heap_trace(write(tmp_path / "t.pbtxt", events))
    assert sentence in str(caught.value)


def test_one_of_several(tmp_path: Path) -> None:
    path = write(tmp_path / "t.pbtxt", f"{ONE} }} heap_simulator_traces {{ events {{ buffer_id: 2 }}")
    with pytest.raises(InputError, match=r"expected a heap simulator trace, found 2 with events \(--heap 0"):
        read_heap_trace(path)
    assert [b.id for b in read_heap_trace(path, 1).buffers] == ["2"]
    with pytest.raises(InputError, match="expected heap simulator trace 2, found 2 with events"):
        read_heap_trace(path, 2)
