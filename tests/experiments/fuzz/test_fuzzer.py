"""The fuzzer itself: it sees what it is for, makes the same cases again, makes findings small, and its own have all been mended."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kilotune.experiments.comparison.suite import load_suite
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.finding_files import load_case, save_finding
from kilotune.experiments.fuzz.kind import Kind, MutationRecipe, made_corpus, make, recipe_of
from kilotune.experiments.fuzz.kinds.registry import KINDS, find_kind
from kilotune.experiments.fuzz.kinds.storage_urls import STORAGE_URLS
from kilotune.experiments.fuzz.kinds.suites import SUITES
from kilotune.experiments.fuzz.sandbox import Ran
from kilotune.experiments.fuzz.shrinking import shrink_case
from kilotune.experiments.fuzz.verdict import Finding, judge

pytestmark = pytest.mark.slow

FOUND = Path(__file__).parent / "found"
KIND = Kind("toy", lambda: (), ())
CASE = FuzzCase("toy", ("read", "in.json"), {"in.json": b"{}"})
REFUSED = "tune: in.json: key 'a': expected a number, found none\n"


def ran(status: int = 4, stderr: str = REFUSED, **changes: object) -> Ran:
    fields = {
        "signal": 0,
        "cpu_s": 0.1,
        "timed_out": False,
        "peak_bytes": 0,
        "stdout": "",
        "trace": "",
        "files": {"in.json": b"{}"},
    }
    return Ran(status=status, stderr=stderr, **{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "fault"),
    [
        (ran(), None),
        (ran(0, ""), None),
        (ran(1, ""), None),
        (ran(3, "tune: internal error"), "exit 3"),
        (ran(2, "interrupted"), "exit 2"),
        (ran(-1, "", signal=11), "signal"),
        (ran(-1, "", timed_out=True, signal=24), "over time"),
        (ran(3, "", trace="  File a\nMemoryError"), "over memory"),
        (ran(4, "Traceback (most recent call last):\n"), "traceback"),
        (ran(4, REFUSED + REFUSED), "no single line"),
        (ran(4, ""), "no single line"),
        (ran(4, "tune: in.json: \x1b[2J"), "unprintable message"),
        (ran(4, "tune: in.json: " + "x" * 3000), "long message"),
        (ran(4, "tune: in.json: 'NoneType' object is not subscriptable"), "Python's own words"),
        (ran(4, "tune: expected a number, found none"), "place not named"),
        (ran(0, "", files={"in.json": b"{ }"}), "changed file"),
        (ran(0, "", files={}), "changed file"),
        (ran(0, "", files={"in.json": b"{}", "out/r.html.partial": b""}), "half-written file"),
        (ran(0, "", files={"in.json": b"{}", "result.json": b'{"a": '}), "half-written file"),
    ],
)
def test_what_counts_as_a_finding(what: Ran, fault: str | None) -> None:
    finding = judge(KIND, CASE, what)
    assert (finding.fault if finding else None) == fault


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_seed_makes_the_same_cases_and_mutations_change_them(kind: Kind) -> None:
    recipes = [recipe_of(kind, 5, number) for number in range(60)]
    cases = [make(kind, recipe) for recipe in recipes]
    assert cases == [make(kind, recipe) for recipe in recipes]
    assert sum(case != made_corpus(kind)[recipe.origin] for case, recipe in zip(cases, recipes, strict=True)) > 40
    assert cases != [make(kind, recipe_of(kind, 6, number)) for number in range(60)]


def test_half_of_the_mutated_suites_are_suites_still(tmp_path: Path) -> None:
    """None of them was, so that what comes after a suite has been read was never tried."""
    read = 0
    for number in range(60):
        case = make(SUITES, recipe_of(SUITES, 5, number))
        (suite,) = [path for path in case.files if path.endswith(".toml")]
        for path, content in case.files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(content)
        with contextlib.suppress(ValueError), contextlib.chdir(tmp_path):
            load_suite(suite)
            read += 1
    assert 25 <= read <= 50
    refusal = "tune: The comparison 'compared' was of other cases, from another seed, ..."
    assert SUITES.took(4, refusal)
    assert not SUITES.took(4, "tune: two.toml: expected a TOML file, found Invalid value")


def test_no_storage_url_leads_out_of_the_folder() -> None:
    for number in range(2000):
        url = make(STORAGE_URLS, recipe_of(STORAGE_URLS, 1, number)).arguments[-1]
        assert not url.startswith(("/", "postgres"))
        assert "////" not in url
        assert ".." not in url


def test_findings_are_made_small() -> None:
    """One word in one of two files is all that matters."""
    case = FuzzCase(
        "toy", ("read",), {"a.txt": b"filler\n" * 40 + b"the NEEDLE is here\n" + b"filler\n" * 40, "b.txt": b"x"}
    )
    small = shrink_case(case, lambda one: b"NEEDLE" in one.files.get("a.txt", b""), 400)
    assert small.files == {"a.txt": b"NEEDLE"}


def test_a_stored_finding_is_the_same_case(tmp_path: Path) -> None:
    case = FuzzCase("toy", ("read", "\ud800"[:0] + "x"), {"a": b"\x00\xff", "b": "ü\n".encode()})
    path = save_finding(
        tmp_path, case, MutationRecipe("toy", 0, ("1",)), Finding("exit 3", "KeyError: 'a'", "KeyError in a.py:f")
    )
    assert load_case(path) == case
    path.write_text("{}")
    with pytest.raises(ValueError, match="expected a finding of the fuzzer"):
        load_case(path)


def fuzz(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kilotune.experiments.fuzz", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ}, check=False)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the sandbox needs Linux")
def test_what_was_found_stays_mended(tmp_path: Path) -> None:
    """Every input in `found/` was exit 3, too much memory, or no sentence once; each is run as a user would run it."""
    assert {find_kind(load_case(file).kind).name for file in FOUND.glob("*.json")} >= {
        "arrays",
        "databases",
        "onnx",
        "requests",
    }
    done = fuzz("--replay", str(FOUND), folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("no finding") == len(list(FOUND.glob("*.json")))
