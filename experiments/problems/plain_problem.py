"""A space that somebody else wrote, at the front door: what `Problem` asks for, from what `Space` gives."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilotune.experiments.artefacts.folder import ArtefactFolder
from kilotune.experiments.artefacts.inputs import files_read
from kilotune.experiments.problems.family import Family, Offer
from kilotune.experiments.problems.problem import Metrics
from kilotune.experiments.studies.request import TuneRequest
from kilotune.search.candidates import count_candidates
from kilotune.search.space import Assignment, FlatSpace, Space, Trial

DECISIONS = "decisions.json"
SPACE_MEMBERS = ("name", "objectives", "constraints", "fingerprint", "start", "evaluate")


@dataclass(frozen=True)
class PlainProblem:
    """A space with nothing around it. What it decided is written as decisions.json. `offered`: for an object that was handed
    over in Python (see `problem.BringsOffer`)."""

    request: TuneRequest
    space: Space
    offered: tuple[Family, Offer] | None = None

    @property
    def name(self) -> str:
        """The input's; without one the space's."""
        return self.request.input or self.space.name

    @property
    def size(self) -> int | None:
        """Where the space counts its candidates, or is flat."""
        return count_candidates(self.space)

    @property
    def measured_by(self) -> str:
        """The space itself."""
        return f"{type(self.space).__name__}.evaluate"

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """None: there are no data."""
        return None

    def float_metrics(self) -> dict[str, Metrics]:
        """Empty: there is no float model."""
        return {}

    def certificate(self) -> dict[str, Any] | None:
        """None: bounds come from the space's states, or from a search."""
        return None

    def check_output(self, folder: Path) -> None:
        """Any folder will do in which the name is free, or of an earlier export."""
        self._folder(folder).check((DECISIONS,))

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """decisions.json. ValueError when the trial could not be measured."""
        if trial.measurement.failure is not None:
            raise ValueError(f"Trial {trial.number} has no result: {trial.measurement.failure}")
        written = {
            "space": self.request.space,
            "input": self.request.input,
            "assignment": dict(trial.assignment),
            "metrics": {name: _plain(value) for name, value in trial.measurement.metrics.items()},
        }
        text = json.dumps(
            written, indent=2, default=lambda option: option.item()
        )  # NumPy's, of a space that is not flat
        self._folder(folder).write({DECISIONS: text + "\n"})
        return {"decisions": str(folder / DECISIONS)}

    def _folder(self, folder: Path) -> ArtefactFolder:
        return ArtefactFolder(folder, files_read(self.request))


def _plain(metric: float) -> float | None:
    """As JSON can hold it: NumPy's numbers become Python's, infinity and NaN become null."""
    value = float(metric)
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def as_space(made: Any, who: str) -> Space:
    """The thing itself. ValueError, a sentence, for something that is no space, or whose options no study can keep."""
    if isinstance(made, type):
        raise ValueError(f"{who}: expected a space, found the class {made.__name__}: expected one of its objects.")
    missing = [member for member in SPACE_MEMBERS if not hasattr(made, member)]
    if missing:
        raise ValueError(
            f"{who}: expected a space (kilotune.search.space.Space), found {type(made).__name__} without "
            f"{', '.join(missing)}."
        )
    space: Space = made
    for decision in space.decisions if isinstance(space, FlatSpace) else ():
        for option in decision.options:
            if not isinstance(option, str | int | float):
                kind = f"{type(option).__module__}.{type(option).__qualname__}"
                hint = "; .tolist() makes Python's of NumPy's" if kind.startswith("numpy.") else ""
                raise ValueError(
                    f"{who}: decision {decision.name!r} of {type(made).__name__}: expected options that are numbers, strings, "
                    f"True or False, found {option!r} ({kind}){hint}."
                )
    return space
