"""A stored study from its name."""

from __future__ import annotations

import os

from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.experiments.studies import joining
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.workplace import Workplace


def load_study(name: str, storage: str | os.PathLike[str] | None = None) -> TunedStudy:
    """Return a stored study as `tune` returns it, with all its trials. Nothing is searched; `resume` on it goes on.

    name: the study's. storage: a file or a database URL; by default the user's own, or what $KILOTUNE_STORAGE says.

    StoreError: there is no such study, or its input has changed. InputError: its input is gone. ValueError: its space was an object
    (then `tune(space, study=name, storage=...)` has it), or needs a plug-in that is not installed.
    """
    store = open_store(None if storage is None else os.fspath(storage))
    problem, search, row = joining.resume(store, name)
    return TunedStudy(problem, search, Workplace(jobs=1), row)
