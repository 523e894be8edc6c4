"""Ctrl-C while a command imports what it needs: one line and the exit status of an interrupted command, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.commands.interrupts import INTERRUPTED_LINE
from tests.experiments.plugins.packages import PLAIN, environment, install

PRESSED_IN_IMPORT = """
import os, signal, sys

def press(event, arguments):
    if event == "import" and arguments[0] == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(press)
signal.signal(signal.SIGINT, {handler})
from kilotune.experiments.__main__ import main
main({arguments!r})
"""


def pressed_in_import(
    folder: Path, module: str, *arguments: str, handler: str = "signal.default_int_handler"
) -> subprocess.CompletedProcess[str]:
    """A command in whose import of a module Ctrl-C is pressed."""
    code = PRESSED_IN_IMPORT.format(module=module, arguments=list(arguments), handler=handler)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env=environment(folder),
    )


SEARCH = ("--space", "memory", "--strategy", "tpe", "--budget", "2trials", "--quiet", "--no-output")


@pytest.mark.parametrize("module", ["click", "numpy", "colorlog"])
def test_an_interrupted_import_ends_in_one_line(tmp_path: Path, module: str) -> None:
    ended = pressed_in_import(tmp_path, module, *SEARCH)
    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitStatus.INTERRUPTED, "", f"{INTERRUPTED_LINE}\n")
    assert not (tmp_path / "studies.db").exists()


def test_who_ignores_interrupts_goes_on_ignoring_them(tmp_path: Path) -> None:
    ended = pressed_in_import(tmp_path, "click", "list", "strategies", handler="signal.SIG_IGN")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_library_that_a_plug_in_names_is_loaded_before_anything_is_searched(tmp_path: Path) -> None:
    """By the space that names it; here its import is what is interrupted."""
    install(tmp_path, "sums", "sums", PLAIN + '\nmake.libraries = ("slow_library",)\n', sum="sums:make")
    (tmp_path / "slow_library.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ended = pressed_in_import(tmp_path, "nothing", "--space", "sum", "--budget", "2trials", "--no-output")
    assert (ended.returncode, ended.stderr) == (ExitStatus.INTERRUPTED, f"{INTERRUPTED_LINE}\n")
    assert not (tmp_path / "studies.db").exists()


def test_a_library_that_cannot_be_loaded_is_left_to_whoever_needs_it(tmp_path: Path) -> None:
    install(tmp_path, "sums", "sums", PLAIN + '\nmake.libraries = ("no_such_library", 7)\n', sum="sums:make")
    ended = pressed_in_import(tmp_path, "nothing", "--space", "sum", "--budget", "2trials", "--no-output", "--quiet")
    assert (ended.returncode, ended.stderr) == (ExitStatus.FEASIBLE, "")
