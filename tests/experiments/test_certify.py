"""`tune certify`: what a study has proved becomes a file that `tune check` confirms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.cli import cli
from kilotune.spaces.reverse_split.programs import load_kernel

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")


def run(*words: str) -> object:
    return CliRunner().invoke(cli, list(words), standalone_mode=False, catch_exceptions=False).return_value


def test_a_study_is_certified_and_confirmed(tmp_path: Path) -> None:
    store, file = ("--storage", str(tmp_path / "s.db")), tmp_path / "c.json"
    search = ("--space", "reverse-split", "--quiet", "--no-output", "--budget", "20s", *store)
    run(*search, "--input", "sobel", "--study", "edges", "--jobs", "2")
    run("certify", "edges", "--output", str(file), *store)
    claimed = json.loads(file.read_text())
    assert claimed["at_least"] == len(claimed["program"]) - 1 == 5
    assert "gives one result (what `div` leaves in its further registers counts as lost)" in claimed["claim"]
    assert claimed["claim"].endswith(" computes these kernels in fewer than 5 instructions.")
    assert run("check", str(file)) == 0
    run(*search, "--input", "roberts", "--study", "elsewhere", "--anywhere")
    run("certify", "elsewhere", "--output", str(file), *store)
    claimed = json.loads(file.read_text())
    assert (claimed["version"], claimed["at_least"], len(claimed["program"]) - 1) == (2, 1, 1)
    assert claimed["position"] != [0, 0]
    assert claimed["claim"].endswith(" in fewer than 1 instruction, wherever its results lie together.")
    checked = CliRunner().invoke(cli, ["check", str(file)], standalone_mode=False, catch_exceptions=False)
    assert checked.return_value == 0
    assert "no program has fewer than 1 instruction," in checked.output
    file.write_text(json.dumps({**claimed, "version": 1}))
    with pytest.raises(InputError, match="expected version 2 with a position, found 1"):
        run("check", str(file))
    run(*search, "--input", "sobel", "--study", "energy", "--objective", "transfers")
    with pytest.raises(ValueError, match="bounds on instructions"):
        run("certify", "energy", "--output", str(file), *store)


def test_another_space_has_none(tmp_path: Path) -> None:
    buffers, store = tmp_path / "b.csv", ("--storage", str(tmp_path / "s.db"))
    buffers.write_text("id,lower,upper,size\na,0,2,4\nb,1,3,4\n")
    run(
        "--space", "memory", "--input", str(buffers), "--budget", "2s", "--study", "m", "--quiet", "--no-output", *store
    )
    with pytest.raises(ValueError, match="has no certificates"):
        run("certify", "m", "--output", str(tmp_path / "c.json"), *store)
