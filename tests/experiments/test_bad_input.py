"""A model of one's own with one mistake in it at a time: one clear sentence, exit status 4, nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from kilotune.experiments.cli import cli, main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.models.catalogue import model_path

MODEL = "protonn-digits"
STRANGE = ("Sign", "Sin", "Cos", "Round", "Mish", "Softplus", "Det")
"""Operators of ONNX that no model of ours has."""


def tune(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a bundled model, and a place of its own for everything that is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    shutil.copytree(model_path(MODEL), tmp_path / "mine")
    return tmp_path / "mine"


def edit(folder: Path, old: str, new: str) -> None:
    program = folder / "model.sd"
    text = program.read_text()
    assert old in text
    program.write_text(text.replace(old, new, 1))


def data(folder: Path) -> np.ndarray:
    return np.load(folder / "train.npz")["data"].astype(np.float64)


def replace_data(folder: Path, array: np.ndarray) -> None:
    (folder / "train.npz").unlink()
    np.save(folder / "train.npy", array)


def change(array: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


def test_all_obstacles_of_a_file_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the list of operators that are supported has taken the room of one sentence."""
    nodes = [
        helper.make_node(kind, [f"t{number}"], [f"t{number + 1}"]) for number, kind in enumerate(["Erf", *STRANGE])
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("t0", f"t{len(nodes)}")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:]), ir_version=8), "net.onnx")
    np.savez("net.npz", X=np.zeros((9, 4)))
    assert tune("--space", "shiftry", "--input", "net.onnx", "--data", "net.npz") == ExitStatus.BAD_INPUT
    said = capsys.readouterr().err
    for number, kind in enumerate(STRANGE, start=1):
        assert f"node {number} ({kind} that writes 't{number + 1}'): not supported" in said


def with_nan(folder: Path) -> None:
    np.save(folder / "W.npy", change(np.load(folder / "W.npy"), (0, 1), np.nan))


MISTAKES: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "parameter of the wrong shape": (
        lambda f: np.save(f / "W.npy", np.load(f / "W.npy")[:-1]),
        ("W.npy", "expected", "found"),
    ),
    "parameter file missing": (lambda f: (f / "B.npy").unlink(), ("model.sd:", "B")),
    "NaN in the weights": (with_nan, ("W.npy", "[0, 1]", "nan")),
    "label outside the classes": (
        lambda f: replace_data(f, change(data(f), (7, 0), 12)),
        ("train.npy", "row", "class", "12"),
    ),
    "label that is no integer": (lambda f: replace_data(f, change(data(f), (7, 0), 0.5)), ("train.npy", "0.5")),
    "NaN in the data": (lambda f: replace_data(f, change(data(f), (3, 2), np.nan)), ("train.npy", "nan")),
    "empty data": (lambda f: replace_data(f, data(f)[:0]), ("train.npy", "expected")),
    "3-D data": (lambda f: replace_data(f, data(f)[:, :, None]), ("train.npy", "expected", "3")),
    "another number of features": (lambda f: replace_data(f, data(f)[:, :-1]), ("train.npy", "expected", "found")),
    "no data": (lambda f: (f / "train.npz").unlink(), ("train",)),
    "no program": (lambda f: (f / "model.sd").unlink(), ("model.sd",)),
    "syntax error": (lambda f: edit(f, "argmax(", "argmax(("), ("model.sd:", "expected", "found")),
    "unbound name": (lambda f: edit(f, "argmax(", "argmax(nowhere + "), ("model.sd:", "nowhere")),
    "pickled parameter": (
        lambda f: np.save(f / "W.npy", np.array([{}], dtype=object), allow_pickle=True),
        ("W.npy",),
    ),
    "parameter file of garbage": (lambda f: (f / "W.npy").write_bytes(b"no array"), ("W.npy",)),
}


@pytest.mark.parametrize("space", ["shiftry", "seedot"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_at_a_time(mistake: str, space: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, said = MISTAKES[mistake]
    make(folder)
    status = tune("--space", space, "--input", str(folder), "--budget", "20trials", "--output", "program")
    captured = capsys.readouterr()
    assert status == ExitStatus.BAD_INPUT
    assert captured.out == ""
    message = captured.err.strip()
    assert message.startswith("tune: ")
    assert len(message.splitlines()) == 1, message
    assert "Traceback" not in message
    for words in said:
        assert words in message
    assert not Path("program").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--space"),
        (("--space", "shifty"), "there are seedot, shiftry, fpga, forest, memory"),
        (("--space", "shiftry", "--input", "nowhere"), "expected a folder with model.sd, or one of the bundled models"),
        (("--space", "shiftry", "--input", "nowhere.tflite"), "expected a model of another tool, found no such file"),
        (("--space", "shiftry", "--strategy", "magic"), "There is no strategy 'magic'"),
        (("--space", "shiftry", "--budget", "soon"), "'soon'"),
        (("--space", "shiftry", "--limit", "flash"), "expected memory=SIZE, flash=SIZE"),
        (("--space", "shiftry", "--limit", "disk=3KiB"), "expected memory=SIZE, flash=SIZE"),
        (("--space", "shiftry", "--device", "due"), "there are uno"),
        (("--space", "shiftry", "--drop", "-1"), "--drop"),
        (("--space", "shiftry", "--input", "mlp-diabetes", "--metric", "f1"), "expected a model that returns a class"),
        (("--space", "shiftry", "--nonsense"), "--nonsense"),
        (
            ("--space", "shiftry", "--capacity", "2KiB"),
            "--capacity does not go with the space shiftry: it is for memory",
        ),
        (("--space", "memory", "--no-in-place"), "--in-place does not go with the space memory"),
        (("--space", "seedot", "--trained"), "--trained: expected the space shiftry without --front, found seedot."),
        (("--space", "shiftry", "--trained", "--front"), "without --front, found --front."),
        (
            ("--space", "shiftry", "--input", "mlp-diabetes", "--trained"),
            "--trained: expected a model whose codes can be trained, found mlp-diabetes: it returns no class that scores decide.",
        ),
        (
            ("--space", "seedot", "--objective", "cycles"),
            "--objective cycles: for the space seedot there is memory, latency",
        ),
        (("--space", "shiftry", "--study", "../up"), "expected letters"),
        (("--space", "shiftry", "--study", ""), "expected letters"),
        (("--space", "shiftry", "--seed", "-1"), "--seed"),
        (("--space", "shiftry", "--seed", "9" * 30), "--seed"),
        (("--space", "shiftry", "--drop", "nan"), "--drop nan: expected a finite number"),
        (("--space", "reverse-split", "--error", "nan"), "--error nan: expected a finite number"),
        (("--space", "cm", "--noise", "inf"), "--noise inf: expected a finite number"),
        (("--space", "shiftry", "--time-limit", "soon"), "'soon': expected a time such as 30s"),
        (("--space", "shiftry", "--ray", "localhost:1"), "The Ray cluster localhost:1 cannot be reached"),
        (("list",), "Choose from: spaces, strategies, devices"),
        (("resume", "never"), "holds no study 'never'"),
        (
            ("--storage", "other.db", "resume", "never"),
            "--storage before resume is not read: expected it behind resume",
        ),
        (("resum", "never"), "Did you mean 'resume'?"),
        (("--space", "shiftry", "--budgte", "1s"), "--budget"),
        (("--space", "shifty"), "(did you mean 'shiftry'?)"),
        (("--space", "shiftry", "--strategy", "refin"), "(did you mean 'refine'?)"),
        (("--space", "memory", "--strategy", "optuna:TPESample"), "(did you mean 'TPESampler'?)"),
        (("compare", "--space", "memory", "--strategies", "tpe,radom"), "(did you mean 'random'?)"),
        (("--space", "shiftry", "--input", "bonsai-digit"), "(did you mean 'bonsai-digits'?)"),
        (("--space", "memory", "--input", "minimaloc-a"), "(did you mean 'minimalloc-a'?)"),
        (("--space", "reverse-split", "--input", "sobl"), "(did you mean 'sobel'?)"),
        (("--space", "cm", "--input", "resnet2"), "(did you mean 'resnet20'?)"),
        (("--space", "shiftry", "--device", "umo"), "(did you mean 'uno'?)"),
        (("export", "never", "--output", "x"), "holds no study 'never'"),
        (("list", "ghosts"), "ghosts"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.exists()
    assert tune(*arguments) == ExitStatus.BAD_INPUT
    message = capsys.readouterr().err.strip().removeprefix("connecting to Ray at localhost:1\n")
    assert said in message
    assert len(message.splitlines()) == 1, message


def test_a_study_that_is_mistyped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--space", "shiftry", "--input", str(folder), "--budget", "5trials", "--quiet", "--no-output")
    assert tune(*arguments, "--study", "evening") == ExitStatus.FEASIBLE
    for command in (("resume", "evenin"), ("report", "evenin"), ("export", "evenin", "--output", "x")):
        assert tune(*command) == ExitStatus.BAD_INPUT
        assert "'evenin' (did you mean 'evening'?)" in capsys.readouterr().err


def test_a_mistake_leaves_no_study_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_nan(folder)
    assert tune("--space", "shiftry", "--input", str(folder)) == ExitStatus.BAD_INPUT
    capsys.readouterr()
    assert tune("list", "studies", "--json") == ExitStatus.FEASIBLE
    assert capsys.readouterr().out.strip() == "[]"


def test_tracebacks_only_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_nan(folder)
    for arguments in (("--space", "shiftry", "--input", str(folder), "--debug"), ("resume", "never", "--debug")):
        assert tune(*arguments) == ExitStatus.BAD_INPUT
        assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--space", "memory", "--input", "nowhere"),
        ("dashboard", "--port", "0", "--storage", "none://here"),
        ("export", "never", "--output", "x"),
        ("list", "studies", "--storage", "none://here"),
        ("report", "never"),
    ],
)
def test_tracebacks_of_every_command(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for place in ((*arguments, "--debug"), ("--debug", *arguments)):
        assert tune(*place) == ExitStatus.BAD_INPUT
        assert "Traceback" in capsys.readouterr().err
    assert tune(*arguments) == ExitStatus.BAD_INPUT
    assert "Traceback" not in capsys.readouterr().err


def test_every_command_takes_debug() -> None:
    for command in cli.commands.values():
        assert [option for option in command.params if "--debug" in option.opts], command.name


@pytest.mark.parametrize(
    ("option", "said"),
    [("--output=foreign", "foreign already holds keep.txt"), ("--json=nowhere/x.json", "in a folder that exists")],
)
def test_results_that_cannot_be_written_are_refused_before_the_search(
    option: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = folder.parent / "foreign"
    foreign.mkdir()
    (foreign / "keep.txt").write_text("mine")
    assert tune("--space", "shiftry", "--input", str(folder), "--budget", "20trials", option) == ExitStatus.BAD_INPUT
    assert said in capsys.readouterr().err
    assert (foreign / "keep.txt").read_text() == "mine"
    assert tune("list", "studies", "--json") == ExitStatus.FEASIBLE
    assert json.loads(capsys.readouterr().out) == []  # no study has begun


def test_values_that_overflow_name_the_operation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(folder, "-gammaSq *", "100000.0 *")
    assert tune("--space", "shiftry", "--input", str(folder)) == ExitStatus.BAD_INPUT
    assert "exp: expected finite values on the training data" in capsys.readouterr().err
