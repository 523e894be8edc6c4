"""What most problems export: a few files with fixed names, in a folder that may hold other things."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from kilotune.experiments.artefacts.folder import ArtefactFolder
from kilotune.experiments.artefacts.inputs import files_read
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Trial


class ExportsTexts(ABC):
    """The `check_output` and `export` of a `Problem`. `artefact_names`: the files' names by what they are; `artefact`: what a
    trial that could not be measured lacks."""

    artefact_names: ClassVar[Mapping[str, str]]
    artefact: ClassVar[str]
    request: TuneRequest

    @abstractmethod
    def texts(self, trial: Trial) -> Mapping[str, str | bytes]:
        """The files' content by what they are, some of `artefact_names`. The trial has been measured."""

    def check_output(self, folder: Path) -> None:
        """Any folder will do in which the names are free, or of an earlier export; ValueError, a sentence, otherwise."""
        self._folder(folder).check(self.artefact_names.values())

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """Write the files. ValueError when the trial could not be measured."""
        if trial.measurement.failure is not None:
            raise ValueError(f"Trial {trial.number} has no {self.artefact}: {trial.measurement.failure}")
        texts = self.texts(trial)
        self._folder(folder).write({self.artefact_names[what]: text for what, text in texts.items()})
        return {what: str(folder / self.artefact_names[what]) for what in texts}

    def _folder(self, folder: Path) -> ArtefactFolder:
        return ArtefactFolder(folder, files_read(self.request))
