"""Ctrl-C outside a search: a command ends with one line and its exit status, from its first import on.

A search has a handler of its own (`search.interrupts`). Everywhere else an exception is raised, which commands clean up after;
not inside an import, where a library may turn it into anything: there the process ends at once, since nothing is half done there.
"""

from __future__ import annotations

import os
import signal
import sys

from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.search.importing import is_importing

TYPE_CHECKING = False  # of typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED_LINE = (
    "interrupted; a study that had begun keeps its finished trials: `tune list studies`, `tune resume STUDY`"
)


def quit_on_interrupt() -> None:
    """Until a command runs, and after it. Where Ctrl-C is ignored, as in a script's background processes, it still is; a worker
    process, which imports the command's script too, leaves it to its parent."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        processes = sys.modules.get("multiprocessing.process")
        is_worker = processes is not None and processes.parent_process() is not None
        signal.signal(signal.SIGINT, signal.SIG_IGN if is_worker else _quit)


class QuitsInImports:
    """For `with`, around a command: KeyboardInterrupt wherever that is safe. Off the main thread, and where somebody else handles Ctrl-C
    or ignores it, it changes nothing."""

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        self._ours = self._before in (signal.default_int_handler, _quit)
        try:
            if self._ours:
                signal.signal(signal.SIGINT, _quit_or_raise)
        except ValueError:  # another thread
            self._ours = False

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, self._before)


def _quit_or_raise(number: int, frame: FrameType | None) -> None:
    if is_importing(frame):
        _quit(number, frame)
    raise KeyboardInterrupt


def _quit(_number: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, f"{INTERRUPTED_LINE}\n".encode())
    finally:  # also where nobody reads it
        os._exit(ExitStatus.INTERRUPTED)
