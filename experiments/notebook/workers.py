"""What goes wrong with worker processes in scripts and notebooks, said before the search instead of once a candidate.

Workers are spawned: each is a new Python that imports the caller's script under another name, and then unpickles the space.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

from kilotune.evaluators.executors.dispatch import Death, News, Worker
from kilotune.evaluators.executors.pool import ProcessSource
from kilotune.experiments.studies.workplace import Workplace, require_picklable
from kilotune.search.space import Space

PATIENCE_S = 60.0
WAIT_S = 0.1


def refuse_in_starting_worker() -> None:
    """RuntimeError in a worker process that is importing the caller's script: the search would start once more there."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a worker process imports this script, which begins a search as it is imported: put the call of tune under "
            "`if __name__ == '__main__':`"
        )


def require_workers(space: Space, workplace: Workplace) -> None:
    """Start one worker and see that it can read the space. ValueError, a sentence that says what to do, when it cannot."""
    if (workplace.jobs or 1) == 1 and workplace.limit_s is None:
        return
    kind = type(space)
    if kind.__module__ == "__main__" and not _is_script():
        raise ValueError(
            f"{kind.__name__} is defined in a notebook or at the prompt, where worker processes cannot import it: put it into a "
            f"module (a .py file beside the notebook) and import it from there, or use jobs=1 and no time_limit."
        )
    require_picklable(space)
    source = ProcessSource(space, 1)
    worker = source.start_worker()
    try:
        news: list[tuple[Worker, News]] = []
        until = time.monotonic() + PATIENCE_S
        while not news and time.monotonic() < until:
            news = source.wait([worker], WAIT_S)
    finally:
        worker.kill()
    for _, what in news:
        if isinstance(what, Death):
            raise ValueError(
                f"A worker process ended before it could measure anything ({what.cause}; its own message is on stderr): a "
                f"script with jobs or a time_limit calls tune under `if __name__ == '__main__':`, and {kind.__name__} must be "
                f"something that another Python can import from {kind.__module__}. Or use jobs=1 and no time_limit."
            )


def _is_script() -> bool:
    """Whether the main module is a file, which another Python can read; a notebook, a prompt or a pipe is none."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return file is not None and Path(file).is_file()
