"""A space that somebody else wrote, at the front door: what `Problem` asks for, from what `Space` gives."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from kilotune.experiments.problems.exported_texts import ExportsTexts
from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import FlatSpace, Space, Trial

ARTEFACTS = MappingProxyType({"decisions": "decisions.json"})
SPACE_MEMBERS = ("name", "objectives", "constraints", "fingerprint", "start", "evaluate")


@dataclass(frozen=True)
class PlainProblem(ExportsTexts):
    """A space with nothing around it. What it decided is written as decisions.json. `entry`: for an object that was handed
    over in Python (see `problem_entry.BringsEntry`)."""

    artefact_names: ClassVar[Mapping[str, str]] = ARTEFACTS
    artefact: ClassVar[str] = "result"

    request: TuneRequest
    space: Space
    entry: tuple[SpaceFamily, SpaceEntry] | None = None

    @property
    def name(self) -> str:
        """The input's; without one the space's."""
        return self.request.input or self.space.name

    @property
    def measured_by(self) -> str:
        """The space itself."""
        return f"{type(self.space).__name__}.evaluate"

    def texts(self, trial: Trial) -> dict[str, str]:
        """The decisions and what was measured, as JSON."""
        written = {
            "space": self.request.space,
            "input": self.request.input,
            "assignment": dict(trial.assignment),
            "metrics": {name: _plain(value) for name, value in trial.measurement.metrics.items()},
        }
        text = json.dumps(
            written, indent=2, default=lambda option: option.item()
        )  # NumPy's, of a space that is not flat
        return {"decisions": text + "\n"}


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
