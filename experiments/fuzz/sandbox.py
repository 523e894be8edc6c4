"""One case, run by the `tune` command's entry point in a forked child with limits of time and memory.

A fork of a process that has imported everything costs milliseconds where an interpreter's start costs most of a second. The
child is the leader of a process group of its own, which is killed as a whole when it has ended. Linux only.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kilotune.evaluators.compiled_library import cache_folder
from kilotune.experiments.cli import main
from kilotune.experiments.fuzz.case import FuzzCase

MOST_CPU_S = 10
MOST_WALL_S = 60.0
"""For a case that waits instead of computing; far above `MOST_CPU_S`, since a busy machine is no finding."""

MOST_MEMORY_BYTES = 2 << 30
"""Address space beyond what the parent process takes already."""

MOST_WRITTEN_BYTES = 256 << 20
"""The most bytes of one file that a case may write."""

TOO_SLOW = ("skimage",)
"""Optional packages that would take most of a case's time: this one judges programs on photographs."""

LEFT_OPEN = 64
"""File descriptors of the parent up to this number are closed in the child."""


@dataclass(frozen=True)
class Ran:
    """What a case's command did. `status` is its exit status, `signal` what killed it (0: nothing); `trace` is the traceback of
    the exception that the command turned into its exit status; `files` are all files of the folder afterwards."""

    status: int
    signal: int
    cpu_s: float
    timed_out: bool
    peak_bytes: int
    stdout: str
    stderr: str
    trace: str
    files: dict[str, bytes]


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder in memory where there is one, since every case writes its files anew."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kilotune-fuzz-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def run_case(case: FuzzCase, scratch: Path, at_end: Callable[[], None] | None = None) -> Ran:
    """Run a case in a folder of `scratch`, which is emptied first. `at_end`: what the child does after the command; then it
    has the tools and the cache folder of this process, too."""
    folder, logs = scratch / "case", scratch / "logs"
    for place in (folder, logs):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    for path, content in case.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _in_child(case, folder, logs, at_end)
    timed_out = _wait(child)
    _, state, used = os.wait4(child, 0)
    killed = os.WTERMSIG(state) if os.WIFSIGNALED(state) else 0
    return Ran(
        status=os.WEXITSTATUS(state) if os.WIFEXITED(state) else -1,
        signal=killed,
        cpu_s=used.ru_utime + used.ru_stime,
        timed_out=timed_out or killed == signal.SIGXCPU,
        peak_bytes=used.ru_maxrss * 1024,
        stdout=_text(logs / "stdout"),
        stderr=_text(logs / "stderr"),
        trace=_text(logs / "trace"),
        files=_contents(folder),
    )


def _wait(child: int) -> bool:
    """Until the child has ended, or has had its time; whether it was killed for that. What it started is killed with it."""
    handle = os.pidfd_open(child)
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        late = not waiting.poll(MOST_WALL_S * 1000)
    finally:
        os.close(handle)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # an ended leader is not reaped yet, so the number is still the group's
    return late


def _in_child(case: FuzzCase, folder: Path, logs: Path, at_end: Callable[[], None] | None) -> None:
    """Run the command and end the process, whatever happens."""
    gc.freeze()  # a database that the parent has not collected yet would close a file of the child's, under the same number
    status = 70
    try:
        os.setsid()
        _redirect(logs)
        os.chdir(folder)
        _surroundings(folder, with_tools=at_end is not None)
        _limits()
        status = _command(case, logs)
        if at_end is not None:
            at_end()
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _redirect(logs: Path) -> None:
    for name, number in (("stdout", 1), ("stderr", 2)):
        opened = os.open(logs / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.closerange(3, LEFT_OPEN)


def _surroundings(folder: Path, with_tools: bool) -> None:
    """Nothing of the user's is read or written, and no tool is found that takes seconds, such as a device's compiler."""
    if with_tools:
        os.environ["KILOTUNE_CACHE"] = str(cache_folder())
    else:
        os.environ["PATH"] = ""
    os.environ.update(HOME=str(folder), KILOTUNE_STORAGE=str(folder / "studies.db"), COLUMNS="100")
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        os.environ[name] = str(folder / ".home")
    for name in TOO_SLOW:
        sys.modules[name] = None  # type: ignore[assignment]  # cannot be imported: the commands go on without


def _limits() -> None:
    with open("/proc/self/statm", encoding="ascii") as opened:
        taken = int(opened.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_MEMORY_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _command(case: FuzzCase, logs: Path) -> int:
    """The command's exit status. What it ended with is written down: a status alone does not say where."""
    try:
        main(list(case.arguments))
    except SystemExit as end:
        if end.__context__ is not None:
            trace = "".join(traceback.format_exception(end.__context__))
            (logs / "trace").write_text(trace, encoding="utf-8", errors="replace")
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their paths in it; of a link or a pipe, only that it is there."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            name = str(path.relative_to(folder))
            found[name] = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return found
