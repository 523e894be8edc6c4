"""Our own C, compiled where it may be kept, and loaded also where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilotune.evaluators import compiled_library
from kilotune.evaluators.compiled_library import load_library

SOURCE = "int kilotune_answer(void) { return 42; }\n"


def test_a_cache_folder_that_cannot_be_written_keeps_no_library_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "answer.c").write_text(SOURCE)
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "file" / "cache"))
    loaded = load_library(tmp_path / "answer.c")
    assert loaded is not None
    assert loaded.library.kilotune_answer() == 42


def test_a_file_that_is_included_counts_as_the_source_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "answer.c").write_text('#include "first.h"\nint kilotune_answer(void) { return ANSWER; }\n')
    (tmp_path / "first.h").write_text('  #  include "second.h"\n')
    for answer in (42, 43):
        (tmp_path / "second.h").write_text(f"#define ANSWER {answer}\n")
        loaded = load_library(tmp_path / "answer.c")
        assert loaded is not None
        assert loaded.library.kilotune_answer() == answer


def test_files_that_include_one_another_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "answer.c").write_text('#include "first.h"\nint kilotune_answer(void) { return ANSWER; }\n')
    (tmp_path / "first.h").write_text('#pragma once\n#include "second.h"\n')
    (tmp_path / "second.h").write_text('#pragma once\n#include "first.h"\n#define ANSWER 42\n')
    loaded = load_library(tmp_path / "answer.c")
    assert loaded is not None
    assert loaded.library.kilotune_answer() == 42


@pytest.mark.parametrize("command", ["gcc -DANSWER=42", "'gcc' \"-DANSWER=42\""])
def test_the_compilers_command_may_have_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    (tmp_path / "answer.c").write_text("int kilotune_answer(void) { return ANSWER; }\n")
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", command)
    loaded = load_library(tmp_path / "answer.c")
    assert loaded is not None
    assert loaded.library.kilotune_answer() == 42
    assert loaded.compiler == "gcc -DANSWER=42"
    monkeypatch.setenv("CC", "gcc -DANSWER=43")  # not what was kept for other options
    other = load_library(tmp_path / "answer.c")
    assert other is not None
    assert other.library.kilotune_answer() == 43


def test_a_command_that_no_shell_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc '-O1")
    with pytest.raises(ValueError, match=r"CC=gcc '-O1: expected a command, found .*No closing quotation"):
        load_library(tmp_path / "answer.c")


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ("no-such-compiler -O1", "found no command no-such-compiler on the path"),
        ("gcc --no-such-option", "found one that refuses its options: .*no-such-option"),
        ("false", "found one that refuses its options"),
        ("true", "found a command that is none: it preprocesses no C"),
    ],
)
def test_a_compiler_that_was_chosen_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, found: str
) -> None:
    (tmp_path / "answer.c").write_text(SOURCE)
    monkeypatch.setenv("CC", chosen)
    with pytest.raises(ValueError, match=f"CC={chosen}: expected a C compiler, {found}"):
        load_library(tmp_path / "answer.c")


@pytest.mark.parametrize("unset", ["", "cache", "./cache"])
def test_an_empty_or_relative_cache_folder_counts_as_unset(monkeypatch: pytest.MonkeyPatch, unset: str) -> None:
    monkeypatch.delenv("KILOTUNE_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", unset)
    assert compiled_library.cache_folder() == Path("/home/somebody/.cache/kilotune")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert compiled_library.cache_folder() == Path("/elsewhere/kilotune")
