"""Searches from Python and in notebooks: `tune` is the command's, as a function; what it returns is a `TunedStudy`."""

from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.experiments.notebook.tuning import tune

__all__ = ("TunedStudy", "tune")
