"""Processes of this machine that work for this one, each at the other end of a pipe.

Our own rather than `concurrent.futures`: that pool breaks as a whole when a process dies, cannot say over what it died, and cannot
be told anything while it works. A pipe at its end means that the other side is dead, so neither outlives the other for long.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from kilotune.evaluators.executors.dispatch import Death


@dataclass(frozen=True, eq=False)
class ProcessWorker:
    """One process and our end of its pipe."""

    process: SpawnProcess
    connection: Connection

    @classmethod
    def start(cls, serve: Callable[..., None], *arguments: Any) -> ProcessWorker:
        """A new process that runs `serve(connection, *arguments)`, a function that it can import, and ends with it. The
        connection raises EOFError or OSError where our end is closed, or this process is gone.

        It is deaf to Ctrl-C, which reaches the whole process group: what that means is decided on our side.
        """
        context = multiprocessing.get_context("spawn")  # a fork would copy our threads' locks in whatever state
        ours, theirs = context.Pipe()
        process = context.Process(target=_live, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # so that its death is an end of file on our side
        worker = cls(process, ours)
        # Through our pipe, since `start` waits for ever to hand more than 64 KiB to a process that dies as it imports the caller's script.
        try:
            worker.send((serve, arguments))
        except BaseException:  # of arguments that cannot be pickled, and Ctrl-C
            worker.kill()
            raise
        return worker

    def send(self, message: Any) -> bool:
        """Hand over a message. False: the process turns out to be gone."""
        try:
            self.connection.send(message)
        except OSError:
            return False
        return True

    def receive(self) -> Any:
        """What it has sent, waiting for it; its `Death` when the pipe is at its end."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(1.0)
            return Death(_cause(self.process.exitcode))

    def end(self, grace_s: float) -> None:
        """Close the pipe, at which an idle process ends by itself; one that has not after `grace_s` is killed."""
        self.connection.close()
        self.process.join(grace_s)
        self.kill()

    def kill(self) -> None:
        """End it now, whatever it does. Safe to call twice."""
        self.connection.close()
        self.process.kill()
        self.process.join()


def heard(workers: Iterable[ProcessWorker], timeout_s: float) -> list[tuple[ProcessWorker, Any]]:
    """What has come from workers; waits at most `timeout_s` for the first. At most one message a worker, a `Death` among them."""
    by_connection = {worker.connection: worker for worker in workers}
    if not by_connection:
        time.sleep(timeout_s)
        return []
    ready = [by_connection[one] for one in wait(list(by_connection), timeout_s) if isinstance(one, Connection)]
    return [(worker, worker.receive()) for worker in ready]


def available_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _live(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serve, arguments = connection.recv()
    except (EOFError, OSError):  # whoever started this process is gone, or has closed the pipe
        return
    serve(connection, *arguments)


def _cause(exit_code: int | None) -> str:
    """In words, since a shell shows a signal as another number."""
    if exit_code is None or exit_code >= 0:
        return f"exit status {exit_code}"
    name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else str(-exit_code)
    return f"signal {name}; SIGKILL often means out of memory"
