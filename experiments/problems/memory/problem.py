"""The space `memory` at the front door: from a CSV file to a problem, and from a candidate to its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.language.parser import LIBRARIES as PARSER_LIBRARIES
from kilotune.evaluators.constraint_solver import LIBRARY
from kilotune.experiments.models.catalogue import PLACEMENTS, model_names, model_path
from kilotune.experiments.problems.exported_texts import ExportsTexts
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.buffers import DEFAULT_BITS, as_instance, buffers_of_bundle
from kilotune.experiments.problems.memory.capacity_answer import PlacementAnswer, capacity_answer
from kilotune.experiments.problems.memory.options import PlacementOptions, memory_map
from kilotune.experiments.problems.memory.panels import banks_of
from kilotune.experiments.problems.memory.picture import placement_svg
from kilotune.experiments.requests.request import TuneRequest, parse_size, stored_fields, whole_bytes
from kilotune.search.result import Result
from kilotune.search.space import Trial
from kilotune.search.suggestion import did_you_mean
from kilotune.spaces.memory.csv_files import migrations_csv, read_instance, residences_csv
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.space import MemorySpace

COMPILED = (
    "kilotune.spaces.memory.native:load_kernel()",
    "kilotune.spaces.memory.native:load_ejection()",
)
"""What loads the C code of a search, compiled once a machine."""

ARTEFACTS = MappingProxyType({"placement": "placement.csv", "picture": "placement.svg", "migrations": "migrations.csv"})

DEFAULT_INSTANCE = "fastgrnn-digits"


@dataclass(frozen=True)
class PlacementProblem(ExportsTexts):
    """A placement space and the request that it comes from."""

    artefact_names: ClassVar[Mapping[str, str]] = ARTEFACTS
    artefact: ClassVar[str] = "placement"

    request: TuneRequest
    space: MemorySpace | PricedSpace

    @property
    def name(self) -> str:
        """The instance's."""
        return f"{self.space.instance.name} ({len(self.space.instance.buffers)} buffers)"

    @property
    def measured_by(self) -> str:
        """The checker, and whether there is compiled code behind the search."""
        return "every placement checked; " + ("compiled search" if load_kernel() else "plain Python: no C compiler")

    def certificate(self) -> dict[str, Any]:
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

    def capacity_answer(self, result: Result) -> PlacementAnswer | None:
        """Whether everything fits, with the proof; None without a capacity, or where bytes may move."""
        if not isinstance(self.space, MemorySpace) or self.space.capacity_bytes is None:
            return None
        return capacity_answer(self.space.capacity_bytes, self.space.certificate, result)

    def texts(self, trial: Trial) -> dict[str, str]:
        """The addresses and their picture, and the moves when buffers move."""
        layout = self.space.layout(trial.assignment)
        instance = self.space.instance
        return {
            "placement": residences_csv(instance, layout.residences),
            "picture": placement_svg(instance, banks_of(self.space), layout),
            **({"migrations": migrations_csv(layout.migrations)} if layout.migrations else {}),
        }


def resolve_input(text: str | None) -> Path:
    """The path of a CSV file, of the bundled one that `text` names, or of a model's folder. InputError: it is none."""
    if text is None:
        return PLACEMENTS / f"{DEFAULT_INSTANCE}.csv"
    path = Path(text)
    if path.exists():
        return path.resolve()
    bundled = PLACEMENTS / f"{text}.csv"
    if bundled in PLACEMENTS.glob("*.csv"):
        return bundled
    if text in model_names():
        return model_path(text)
    expected = f"a CSV file id,lower,upper,size[,alignment], a model, or {', '.join(input_names())}"
    raise InputError(text, expected=expected, found=f"neither{did_you_mean(text, input_names())}")


def input_names() -> tuple[str, ...]:
    """The bundled instances and models."""
    return (*sorted(path.stem for path in PLACEMENTS.glob("*.csv")), *model_names())


def load_instance(path: Path) -> Instance:
    """The buffers of a CSV file, or of a model with 16-bit variables. InputError for what cannot be used."""
    if not path.is_dir():
        return read_instance(path)
    return as_instance(path.name, buffers_of_bundle(str(path), DEFAULT_BITS))


def read_options(space: str, asked: CommandOptions) -> dict[str, Any]:
    """`PlacementOptions` as JSON: the capacity is --capacity, else the RAM limit. ValueError for one that is no size."""
    if set(asked.limits) - {"flash", "ram"}:
        raise ValueError("Buffers take no time: limits on latency or cycles do not go with the space memory.")
    if "flash" in asked.stated:
        raise ValueError("Buffers live in RAM: expected --limit ram=SIZE or --capacity SIZE, found --limit flash.")
    given = dict(asked.given)
    text = given.pop("capacity", None)
    capacity_bytes = whole_bytes(asked.limits.get("ram")) if text is None else parse_size(text)
    return dataclasses.asdict(PlacementOptions(capacity_bytes=capacity_bytes, **given))


def command_options(options: Mapping[str, Any]) -> CommandOptions:
    """What `read_options` has read, under the command's names."""
    return CommandOptions({**options, "capacity": options.get("capacity_bytes")})


def libraries(request: TuneRequest) -> tuple[str, ...]:
    """The compiled searches, the solver that bounds a placement in several banks, and what reads a model."""
    banks = request.options.get("banks") or request.options.get("migration_price") is not None
    return (*COMPILED, *((LIBRARY,) if banks else ()), *(PARSER_LIBRARIES if Path(request.input).is_dir() else ()))


def build_problem(request: TuneRequest) -> PlacementProblem:
    """InputError for a file that cannot be used, ValueError for options that contradict each other or the file, and
    for banks that are too small for what is live together."""
    options = stored_fields(PlacementOptions, request.options, "request")
    memory = memory_map(options)
    instance = load_instance(Path(request.input))
    if memory is not None:
        return PlacementProblem(request, PricedSpace(instance, memory))
    for b in instance.buffers:
        if b.banks:
            found = f"banks {' '.join(b.banks)} and no --bank"
            raise InputError(request.input, subject=f"buffer {b.id!r}", expected="--bank for its banks", found=found)
    return PlacementProblem(request, MemorySpace(instance, options.capacity_bytes))
