"""`tune` in the process of the test, with what a process of its own would have: a folder, an environment, two streams.

An interpreter that imports what a search needs takes over a second, so only tests whose subject is the process (signals, pipes,
what is imported) start one.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

from platformdirs import user_cache_dir

from kilotune.experiments.cli import main

COMPILED_TOOLS = {"YOWASP_CACHE_DIR": user_cache_dir("YoWASP", appauthor=False)}
"""Where the wheels' synthesiser and placer keep what they compile of themselves: a home of their own costs each a minute."""


def tune(cwd: Path, env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command there to its end; `env` is its whole environment, but for `COMPILED_TOOLS`."""
    with _within(cwd, {**COMPILED_TOOLS, **env}) as (stdout, stderr):
        try:
            main(list(arguments))
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(["tune", *arguments], status, stdout.getvalue(), stderr.getvalue())


@contextlib.contextmanager
def _within(cwd: Path, env: Mapping[str, str]) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, env, clear=True),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        yield stdout, stderr
