"""An input that another space reads is named as what it is, with the space, in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.models.catalogue import forest_path, model_path
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.registry import entries
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.spaces.memory.heap_traces import read_heap_trace

TRACE = """
logical_buffers { id: 1 size: 10 }
heap_simulator_traces { events { kind: ALLOC buffer_id: 1 } events { kind: FREE buffer_id: 1 } }
"""

BINARY_TRACE = b"\x0a\x04\x08\x01\x10\x0a\x22\x0a\x0a\x02\x10\x01\x0a\x04\x08\x01\x10\x01"
"""The same, as protobuf writes it."""

FILES: dict[str, tuple[bytes, str, str]] = {
    "list.csv": (b"\xef\xbb\xbfid,start,end,size\na,0,2,10\n", "a CSV of buffers", "memory"),
    "list.txt": (b"size,upper,lower,id,alignment\n10,2,0,a,1\n", "a CSV of buffers", "memory"),
    "module.pbtxt": (TRACE.encode(), "an XLA heap trace", "memory"),
    "whole.textproto": (f"buffer_assignment {{ {TRACE} }}".encode(), "an XLA heap trace", "memory"),
    "module.pb": (BINARY_TRACE, "an XLA heap trace", "memory"),
    "module.plc": (np.array([1, 0, 2, 10, 0, 0, 0, 10], ">u8").tobytes(), "buffers of idealloc", "memory"),
    "one.json": (b" [\n [1, 0], [0, -1]]", "kernels as JSON", "reverse-split"),
    "several.json": (b'{"depth": 4, "kernels": [[[1, 0], [0, -1]]]}', "kernels as JSON", "reverse-split"),
}
"""Content, what it is called, and the space that reads it."""

OTHERS: dict[str, bytes] = {
    "samples.csv": b"label,f0,f1\n1,2,3\n",
    "twice.csv": b"id,id,lower,upper,size\na,a,0,2,10\n",
    "graph.pb": b"\x0a\x04\x0a\x02ab",
    "graph.pbtxt": b'node { name: "a" op: "Const" }',
    "cut.plc": b"\0" * 63,
    "hardware.json": b'{"name": "mesh", "topology": {"kind": "mesh"}}',
    "list.json": b'["a", "b"]',
    "bytes": b"\xff\xfe\0",
    "empty": b"",
}
"""What no space reads, or what cannot be told apart."""

SPACES = [entry.space for entry in entries()]


def refusal(space: str, text: str) -> str:
    with pytest.raises(InputError) as refused:
        build_problem(request_from(space, input=text))
    return str(refused.value)


@pytest.mark.parametrize("name", FILES)
def test_other_spaces_name_a_file_and_its_space(name: str, tmp_path: Path) -> None:
    content, called, reader = FILES[name]
    (tmp_path / name).write_bytes(content)
    for space in SPACES:
        if space != reader:
            said = refusal(space, str(tmp_path / name))
            assert said.startswith(f"{tmp_path / name}: expected ")
            assert said.endswith(f", found {called} (which is for --space {reader})")
            assert "\n" not in said
    assert Path(request_from(reader, input=str(tmp_path / name)).input) == tmp_path / name
    build_problem(request_from(reader, input=str(tmp_path / name)))


def test_the_binary_trace_is_the_one_written_out(tmp_path: Path) -> None:
    (tmp_path / "module.pbtxt").write_text(TRACE)
    (tmp_path / "module.pb").write_bytes(BINARY_TRACE)
    assert read_heap_trace(tmp_path / "module.pb") == read_heap_trace(tmp_path / "module.pbtxt")


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_else_is_said_to_be_for_another_space(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(OTHERS[name])
    for space in SPACES:
        assert "which is for" not in refusal(space, str(tmp_path / name))


def test_kernels_that_are_written_out() -> None:
    assert refusal("memory", "[[1, 0], [0, -1]]").endswith("found kernels as JSON (which is for --space reverse-split)")


@pytest.mark.parametrize("space", ["forest", "reverse-split", "cm"])
def test_a_model_folder(space: str) -> None:
    said = refusal(space, str(model_path("bonsai-digits")))
    readers = " or ".join(f"--space {name}" for name in SPACES if name in ("seedot", "shiftry", "fpga", "memory"))
    assert said.endswith(f"found a model folder (which is for {readers})")


def test_a_folder_without_a_model_is_no_missing_file(tmp_path: Path) -> None:
    assert "found a folder" in refusal("forest", str(tmp_path))


@pytest.mark.parametrize("space", ["memory", "cm"])
def test_decision_trees(space: str) -> None:
    assert "expected a network (decision trees are for the space forest), found TreeEnsembleClassifier" in refusal(
        space, str(forest_path("forest-digits"))
    )


def test_a_name_is_no_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter stays one beside a folder of its name that holds a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sobel").mkdir()
    (tmp_path / "sobel" / "model.sd").write_text("X")
    request = request_from("reverse-split", input="sobel")
    assert request.input == "sobel"
    assert build_problem(request).name.startswith("sobel ")


def test_without_an_input_the_current_folder_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.sd").write_text("X")
    with pytest.raises(InputError, match="found none"):
        request_from("forest")
