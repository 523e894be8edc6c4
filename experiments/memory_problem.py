"""The space `memory` at the front door: from a CSV file to a problem, and from a candidate to its files."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.families.family import Asked
from kilotune.experiments.memory_options import PlacementOptions, memory_map
from kilotune.experiments.memory_picture import placement_svg
from kilotune.experiments.models.catalogue import model_names, model_path
from kilotune.experiments.output_file import write_whole
from kilotune.experiments.problem import Metrics
from kilotune.experiments.request import TuneRequest, parse_size, whole_bytes
from kilotune.search.space import Assignment, Trial
from kilotune.spaces.memory.csv_files import read_instance, write_migrations, write_residences
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.priced_space import PlanSpace, PricedSpace
from kilotune.spaces.memory.space import MemorySpace, SortKeySpace

FLAT_STRATEGIES = ("tpe", "count_tpe", "optuna")
"""These search the weights of a sort key: over offsets they are hopeless."""

_EXAMPLES = Path(__file__).parent / "models" / "placements"
DEFAULT_INSTANCE = "fastgrnn-digits"


@dataclass(frozen=True)
class PlacementProblem:
    """A placement space and the request that it comes from."""

    request: TuneRequest
    space: MemorySpace | PricedSpace

    @property
    def name(self) -> str:
        """The instance's."""
        return f"{self.space.instance.name} ({len(self.space.instance.buffers)} buffers)"

    @property
    def size(self) -> int | None:
        """Not counted."""
        return None

    @property
    def measured_by(self) -> str:
        """The checker, and whether there is compiled code behind the search."""
        return "every placement checked; " + ("compiled search" if load_kernel() else "plain Python: no C compiler")

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """None: there are no data."""
        return None

    def float_metrics(self) -> dict[str, Metrics]:
        """Empty: there is no float model."""
        return {}

    def certificate(self) -> dict[str, Any] | None:
        """The buffers whose live sum no placement in one bank beats; over several, what no choice of banks costs less than."""
        if isinstance(self.space, PricedSpace) and len(self.space.memory.banks) > 1:
            cost = float(self.space.least_cost)
            return {
                "cost": cost,
                "sentence": f"by prices and live sums alone no choice of banks costs less than {cost:.12g}",
            }
        found = self.space.certificate
        return {
            "peak_bytes": found.peak_bytes,
            "point": found.point,
            "buffers": [b.id for b in found.buffers],
            "sentence": found.sentence(),
        }

    def check_output(self, folder: Path) -> None:
        """Any folder will do: a few files are written, under names of their own. ValueError for a file."""
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file: choose another directory")

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """placement.csv and placement.svg, and migrations.csv when buffers move. ValueError when the trial has no placement."""
        if trial.measurement.failure is not None:
            raise ValueError(f"Trial {trial.number} has no placement: {trial.measurement.failure}")
        layout = self.space.layout(trial.assignment)
        folder.mkdir(parents=True, exist_ok=True)
        table, picture = folder / "placement.csv", folder / "placement.svg"
        write_residences(table, self.space.instance, layout.residences)
        written = {"placement": str(table), "picture": str(picture)}
        moves = folder / "migrations.csv"
        if layout.migrations:
            write_migrations(moves, layout.migrations)
            written["migrations"] = str(moves)
        else:
            moves.unlink(missing_ok=True)  # of an earlier placement
        write_whole(picture, placement_svg(self.space.instance, layout.residences))
        return written


def resolve_input(text: str | None) -> Path:
    """The path of a CSV file, of the bundled one that `text` names, or of a model's folder. InputError: it is none."""
    if text is None:
        return _EXAMPLES / f"{DEFAULT_INSTANCE}.csv"
    path = Path(text)
    if path.exists():
        return path.resolve()
    bundled = _EXAMPLES / f"{text}.csv"
    if bundled in _EXAMPLES.glob("*.csv"):
        return bundled
    if text in model_names():
        return model_path(text)
    names = ", ".join([*sorted(p.stem for p in _EXAMPLES.glob("*.csv")), *model_names()])
    raise InputError(text, expected=f"a CSV file id,lower,upper,size[,alignment], a model, or {names}", found="neither")


def load_instance(path: Path) -> Instance:
    """The buffers of a CSV file, or of a model with 16-bit variables. InputError for what cannot be used."""
    if not path.is_dir():
        return read_instance(path)
    from kilotune.experiments.buffers import DEFAULT_BITS, as_instance, buffers_of_bundle

    return as_instance(path.name, buffers_of_bundle(str(path), DEFAULT_BITS))


def read_options(space: str, asked: Asked) -> dict[str, Any]:
    """`PlacementOptions` as JSON: the capacity is --capacity, else the RAM limit. ValueError for one that is no size."""
    if {"latency", "cycles"} & set(asked.limits):
        raise ValueError("Buffers take no time: limits on latency or cycles do not go with the space memory.")
    given = dict(asked.given)
    text = given.pop("capacity", None)
    capacity_bytes = whole_bytes(asked.limits.get("ram")) if text is None else parse_size(text)
    return dataclasses.asdict(PlacementOptions(capacity_bytes=capacity_bytes, **given))


def build_problem(request: TuneRequest) -> PlacementProblem:
    """InputError for a file that cannot be used, ValueError for a capacity below the live sum and for options that
    contradict each other or the file."""
    options = PlacementOptions(**request.options)
    memory = memory_map(options)
    instance = load_instance(Path(request.input))
    flat = request.strategy.partition(":")[0] in FLAT_STRATEGIES
    if memory is not None:
        return PlacementProblem(request, (PlanSpace if flat else PricedSpace)(instance, memory))
    for b in instance.buffers:
        if b.banks:
            found = f"banks {' '.join(b.banks)} and no --bank"
            raise InputError(request.input, subject=f"buffer {b.id!r}", expected="--bank for its banks", found=found)
    return PlacementProblem(request, (SortKeySpace if flat else MemorySpace)(instance, options.capacity_bytes))
