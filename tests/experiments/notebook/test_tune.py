"""`tune` from Python: the command's trials, its options, its errors, and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.experiments.notebook.tuning import tune
from kilotune.experiments.problems.registry import FAMILIES
from kilotune.experiments.studies import joining
from kilotune.experiments.studies.request_parsing import keyword_of
from kilotune.experiments.studies.storage import default_storage
from kilotune.search.budget import Budget
from kilotune.search.result import Progress, Status
from kilotune.search.space import Decision, Trial
from kilotune.search.store import Store, StoreError
from tests.commands import tune as run_command
from tests.experiments.notebook.spaces import Branch, Hopeless, Mixed


def by_command(folder: Path, *arguments: str) -> list[Trial]:
    """The trials of a study that the command has made."""
    storage = str(folder / "command.db")
    options = ("--study", "one", "--storage", storage, "--no-output", "--quiet")
    done = run_command(folder, os.environ, *arguments, *options)
    assert done.returncode in (ExitStatus.FEASIBLE, ExitStatus.INFEASIBLE), done.stderr
    _, study, _ = joining.resume(Store(storage), "one")
    return study.trials()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        (
            "--space shiftry --input protonn-digits --strategy tpe --budget 40trials --seed 5 --limit flash=4KiB --rounding floor "
            "--accumulator-bits 32 --no-in-place",
            {
                "space": "shiftry",
                "input": "protonn-digits",
                "strategy": "tpe",
                "budget": "40trials",
                "seed": 5,
                "limits": {"flash": "4KiB"},
                "rounding": "floor",
                "accumulator_bits": 32,
                "in_place": False,
            },
        ),
        (
            "--space shiftry --input protonn-digits --budget 60trials --drop 1.5 --device uno --limit latency=30",
            {
                "space": "shiftry",
                "input": "protonn-digits",
                "budget": Budget(trials=60),
                "drop": 1.5,
                "device": "uno",
                "limits": {"latency": 30.0},
            },
        ),
        (
            "--space memory --strategy random --budget 30trials --bank sram=256 --bank ccm=1024:0.5 --migration-price 0.5 --moves 1",
            {
                "space": "memory",
                "strategy": "random",
                "budget": "30trials",
                "bank": ["sram=256", "ccm=1024:0.5"],
                "migration_price": 0.5,
                "moves": np.int64(1),
            },
        ),
        (
            "--space cm --input lenet5 --strategy random --budget 5trials --strict",
            {"space": "cm", "input": "lenet5", "strategy": "random", "budget": "5trials", "strict": True},
        ),
    ],
    ids=["options", "device", "banks", "flag"],
)
def test_the_trials_are_the_commands(tmp_path: Path, arguments: str, keywords: dict[str, Any]) -> None:
    study = tune(**keywords)
    expected = by_command(tmp_path, *arguments.split())
    assert study.trials == expected  # numbers, assignments and measurements, to the last bit
    assert [list(trial.assignment) for trial in study.trials] == [list(trial.assignment) for trial in expected]
    assert len(expected) > 1


def test_several_processes_find_the_same() -> None:
    alone = tune(Mixed(), strategy="local", budget="20trials")
    together = tune(Mixed(), strategy="local", budget="20trials", jobs=2)
    assert together.trials == alone.trials
    limited = tune(Mixed(), strategy="local", budget="20trials", time_limit="20s")
    assert limited.trials == alone.trials


def test_what_a_study_says() -> None:
    study = tune(Mixed(), strategy="exhaustive", budget="100trials")
    assert len(study.trials) == 48
    assert study.best is not None
    assert study.best.assignment == {"count": 1, "share": 0.25, "kind": "<b>a</b>", "flag": True, "number": 1}
    assert study.best.metrics == {"cost": 0.25, "count": 1.0, "weight": 2.0}
    assert study.best is study.result.best
    assert study.feasible
    assert study.proved
    assert study.gap == 0.0
    assert study.bound == 0.25
    assert study.status is Status.FINISHED
    assert study.front == study.result.front == (study.best,)
    assert study.procedure is None
    assert study.test_metrics is None
    assert study.name == "mixed"
    assert study.space == Mixed()


def test_a_bundled_model_has_a_procedure_and_test_data() -> None:
    study = tune("shiftry", input="protonn-digits", strategy="random", budget="5trials")
    assert study.procedure is not None
    assert study.procedure.metrics["memory_bytes"] == study.outcome().procedure.metrics["memory_bytes"]  # type: ignore[union-attr]
    assert study.test_metrics is not None
    assert study.test_metrics == study.outcome().test
    assert "paper's procedure" in study.summary()
    assert "test accuracy %" in study.summary()


def test_the_nearest_stands_for_the_best() -> None:
    study = tune("shiftry", input="protonn-digits", strategy="random", limits={"flash": 10}, budget="5trials")
    assert study.best is not None
    assert not study.feasible
    assert study.front == ()
    assert "nearest (breaks a limit)" in repr(study)


def test_nothing_measured_has_no_best() -> None:
    study = tune(Hopeless(), strategy="random", budget="10trials")
    assert study.best is None
    assert len(study.trials) == 4
    assert "nothing measured" in repr(study)
    with pytest.raises(ValueError, match="has measured nothing yet"):
        study.export("anywhere")


def test_html_is_escaped() -> None:
    study = tune(Mixed(name="<script>alert(1)</script>"), strategy="random", budget="3trials")
    html = study._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert html.startswith("<table>")


def test_resuming_goes_on_where_it_stopped() -> None:
    whole = tune(Mixed(), strategy="random", budget="30trials", seed=2)
    parts = tune(Mixed(), strategy="random", budget="10trials", seed=2)
    assert len(parts.trials) == 10
    assert parts.resume("20trials") is parts
    assert parts.trials == whole.trials


def test_a_stored_study_goes_on(tmp_path: Path) -> None:
    stored = {"study": "kept", "storage": tmp_path / "studies.db", "strategy": "random"}
    first = tune("reverse-split", budget="10trials", objective="transfers", **stored)
    assert first.name == "kept"
    again = tune("reverse-split", budget="10trials", objective="transfers", **stored)
    assert again.trials[:10] == first.trials
    assert len(again.trials) == 20
    _, seen, row = joining.resume(Store(str(tmp_path / "studies.db")), "kept")
    assert seen.trials() == again.trials
    assert row.budget == "10trials"
    with pytest.raises(StoreError, match="strategy random and seed 0"):
        tune("reverse-split", budget="10trials", objective="transfers", seed=1, **stored)


def test_an_object_is_stored_too(tmp_path: Path) -> None:
    storage = str(tmp_path / "studies.db")
    first = tune(Branch(), strategy="random", budget="2trials", study="mine", storage=storage)
    again = tune(Branch(), strategy="random", budget="2trials", study="mine", storage=storage)
    assert again.trials[:2] == first.trials
    assert len(again.trials) == 4
    with pytest.raises(ValueError, match="This study is of a Branch that was handed over in Python"):
        joining.resume(Store(storage), "mine")
    unnamed = tune(Branch(), strategy="random", budget="2trials", storage=storage)
    assert unnamed.name.startswith("branch-")


@pytest.mark.slow
def test_nothing_is_left_on_disk(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    code = (
        "from kilotune.experiments.notebook.tuning import tune\n"
        "s = tune('memory', strategy='random', budget='20trials')\n"
        "s.resume('5trials'); s.to_dataframe(); s.figures; s.procedure; print(repr(s), s._repr_html_())\n"
        "from tests.experiments.notebook.spaces import Mixed\n"
        "tune(Mixed(sleep_s=0.002), strategy='random', budget='20trials').summary()\n"
    )
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "KILOTUNE_"))}
    variables |= {"HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code], cwd=work, env=variables, check=True, timeout=120, capture_output=True)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    # the compiled code of the placement search is kept once a machine
    assert [path.name for path in left if path.suffix != ".so"] == []


def test_in_a_notebook_the_summary_is_the_text_and_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tune("memory", strategy="random", budget="5trials")
    text = study.summary()
    kernel = type("ZMQInteractiveShell", (), {})()  # the shell of a Jupyter kernel, by which rich knows one
    monkeypatch.setattr("builtins.get_ipython", lambda: kernel, raising=False)
    assert study.summary() == text
    assert "paper's procedure" in text
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("unset", ["", "data", "./data"])
def test_an_empty_or_relative_data_folder_counts_as_unset(monkeypatch: pytest.MonkeyPatch, unset: str) -> None:
    monkeypatch.delenv("KILOTUNE_STORAGE", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_DATA_HOME", unset)
    assert default_storage() == "/home/somebody/.local/share/kilotune/studies.db"
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")
    assert default_storage() == "/elsewhere/kilotune/studies.db"


def test_measurements_are_shared_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    slow = Mixed(sleep_s=0.002)
    tune(slow, strategy="random", budget="5trials", cache=False)
    assert list(tmp_path.rglob("evaluations.db")) == []
    tune(slow, strategy="random", budget="5trials", cache=True)
    assert len(list(tmp_path.rglob("evaluations.db"))) == 1


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    known = r"there are accumulator_bits, codebook, data, drop, .*, validation, wide\."
    with pytest.raises(ValueError, match=rf"no option 'dorp' of the space shiftry \(did you mean 'drop'\?\); {known}"):
        tune("shiftry", dorp=1.0)
    with pytest.raises(
        ValueError, match=r"no option 'capacity' of the space cm \(it is an option of memory\); there are calibration"
    ):
        tune("cm", capacity="2KiB")


def test_every_option_of_the_command_has_a_keyword() -> None:
    """Each is Python's, and none is one of tune's own."""
    own = set(tune.__annotations__)
    for family in FAMILIES:
        for option in family.options:
            assert keyword_of(option).isidentifier()
            assert keyword_of(option) not in own


class Numpys(Mixed):
    """With options that a study cannot keep."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return (Decision("tile", tuple(np.arange(3))),)


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        (
            {"space": Numpys()},
            r"decision 'tile' of Numpys: expected options .* found .*numpy.int64.*; .tolist\(\) makes",
        ),
        ({"space": "nope"}, "There is no space 'nope'; there are seedot, shiftry"),
        ({"space": 3}, "expected a space .* found int without name, objectives"),
        ({"space": Mixed, "budget": "1trials"}, "found the class Mixed: expected one of its objects"),
        ({"space": "shiftry", "drop": "x"}, "drop='x': 'x' is not a valid float"),
        ({"space": "shiftry", "drop": -1}, "drop=-1: -1.* is not in the range 0<=x<=100"),
        ({"space": "shiftry", "level": "O9"}, "level='O9': 'O9' is not one of 'Os', 'O1'"),
        ({"space": "shiftry", "in_place": "no"}, "in_place='no': expected True or False"),
        ({"space": "shiftry", "limits": {"flash": "3XB"}}, "flash=3XB"),
        ({"space": "shiftry", "limits": {"speed": 3}}, "speed=3"),
        ({"space": "shiftry", "limits": "flash=4KiB"}, "limits='flash=4KiB': expected a mapping"),
        ({"space": "shiftry", "objective": "joy"}, "for the space shiftry there is memory, latency"),
        ({"space": "shiftry", "device": "mainframe"}, "There is no device 'mainframe'"),
        ({"space": "shiftry", "input": "nothing"}, "nothing: expected a folder with model.sd"),
        ({"space": "memory", "depth": 3}, "no option 'depth' of the space memory .it is an option of reverse-split"),
        ({"space": "reverse-split", "depth": True}, "depth=True: 'True' is not a valid integer"),
        ({"space": "reverse-split", "limits": {"ram": 3}}, "do not go with the space reverse-split"),
        ({"space": Mixed(), "strategy": "magic"}, "There is no strategy 'magic'"),
        ({"space": Mixed(), "strategy": "cp"}, "Strategy 'cp' needs a constraint model"),
        ({"space": Mixed(), "drop": 1.0}, "drop=1.0 goes with the name of a space; Mixed is one already"),
        ({"space": Mixed(), "input": "x"}, "input='x' goes with the name of a space"),
        ({"space": Mixed(), "budget": "3"}, "Budget '3': expected a time"),
        ({"space": Mixed(), "budget": 3}, "budget=3: expected a text such as"),
        ({"space": Mixed(), "seed": -1}, "seed=-1: expected a whole number from 0"),
        ({"space": Mixed(), "seed": 1.5}, "seed=1.5: expected a whole number"),
        ({"space": Mixed(), "jobs": 0}, "jobs=0: expected a whole number from 1"),
        ({"space": Mixed(), "time_limit": "3"}, "'3': expected a time"),
        ({"space": Mixed(), "study": "a/b"}, "expected letters, digits"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(
    keywords: dict[str, Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    with pytest.raises(ValueError, match=sentence):
        tune(**keywords)


@pytest.mark.slow
def test_a_function_sees_the_search_and_may_end_it() -> None:
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return progress.trials >= 5

    study = tune(Mixed(sleep_s=0.25), strategy="random", budget="40s", progress=watch)
    assert study.status is Status.INTERRUPTED
    assert 5 <= len(study.trials) < 15
    assert seen[-1].trials == len(study.trials)
    assert seen[0].trials < 5


def test_threads_search_at_the_same_time() -> None:
    """No signal handler outside the main thread."""
    found: dict[int, TunedStudy] = {}

    def search(seed: int) -> None:
        found[seed] = tune(Mixed(sleep_s=0.001), strategy="random", budget="30trials", seed=seed)

    threads = [threading.Thread(target=search, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for seed in range(3):
        assert found[seed].trials == tune(Mixed(), strategy="random", budget="30trials", seed=seed).trials
    assert found[0].trials != found[1].trials


def test_the_program_is_exported(tmp_path: Path) -> None:
    study = tune("shiftry", input="protonn-digits", strategy="random", budget="5trials")
    written = study.export(tmp_path / "program", target="c")
    assert set(written) == {"source", "header", "check", "decisions"}
    assert all(Path(path).is_file() for path in written.values())
    decisions = json.loads((tmp_path / "program" / "decisions.json").read_text())
    assert study.best is not None
    assert decisions["assignment"] == study.best.assignment
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(ValueError, match="mine"):
        study.export(tmp_path / "mine")
    with pytest.raises(ValueError, match="A target and a level are for programs"):
        tune("memory", strategy="random", budget="2trials").export(tmp_path / "placement", target="arduino")


@pytest.mark.slow
def test_trials_do_not_depend_on_the_order_of_sets() -> None:
    code = (
        "from kilotune.experiments.notebook.tuning import tune\n"
        "study = tune('memory', strategy='random', budget='30trials', bank=['sram=256', 'ccm=1024:0.5'],"
        " migration_price=0.5, moves=1)\n"
        "print([(dict(t.assignment), dict(t.metrics), t.measurement.failure) for t in study.trials])\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(printed) == 1
    assert "moves 2 times, at most 1 time allowed" in printed.pop()
