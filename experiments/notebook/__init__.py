"""Searches from Python and in notebooks: `tune` is the command's, as a function; what it returns is a `TunedStudy`."""

from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.experiments.notebook.tuning import tune as _tune
from kilotune.search.deprecation import deprecated

__all__ = ("TunedStudy", "tune")

tune = deprecated("kilotune.tune", since="0.1", removed="0.2")(_tune)
