"""The space `memory` at the front door: from a file to a problem, and from a candidate to its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kilotune.codegen.diagnostics import InputError
from kilotune.evaluators.constraint_solver import LIBRARY
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.exported_texts import ExportsTexts
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.memory.artefacts import ARTEFACTS, placement_files, planned_model
from kilotune.experiments.problems.memory.capacity_answer import PlacementAnswer, capacity_answer
from kilotune.experiments.problems.memory.inputs import alignment_of, libraries_of_input, load_graph, load_instance
from kilotune.experiments.problems.memory.inputs import input_names as input_names
from kilotune.experiments.problems.memory.inputs import resolve_input as resolve_input
from kilotune.experiments.problems.memory.options import PlacementOptions, memory_map
from kilotune.experiments.requests.request import TuneRequest, parse_size, stored_fields, whole_bytes
from kilotune.search.result import Result
from kilotune.search.space import Trial
from kilotune.spaces.memory.csv_files import order_csv
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.ordered_space import OrderedSpace
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.space import MemorySpace

COMPILED = (
    "kilotune.spaces.memory.native:load_kernel()",
    "kilotune.spaces.memory.native:load_ejection()",
    "kilotune.spaces.memory.separating:load_separation()",
)
"""What loads the C code of a search, compiled once a machine."""


@dataclass(frozen=True)
class PlacementProblem(ExportsTexts):
    """A placement space and the request that it comes from."""

    artefact_names: ClassVar[Mapping[str, str]] = ARTEFACTS
    artefact: ClassVar[str] = "placement"

    request: TuneRequest
    space: MemorySpace | OrderedSpace | PricedSpace

    @property
    def name(self) -> str:
        """The instance's."""
        return f"{self.space.instance.name} ({counted(len(self.space.instance.buffers), 'buffer')})"

    @property
    def measured_by(self) -> str:
        """The checker, and whether there is compiled code behind the search."""
        return "every placement checked; " + ("compiled search" if load_kernel() else "plain Python: no C compiler")

    def bound_reason(self) -> dict[str, Any]:
        """The buffers whose live sum no placement in one bank beats; over several, what no choice of banks costs less than."""
        if isinstance(self.space, PricedSpace) and len(self.space.memory.banks) > 1:
            cost = float(self.space.least_cost)
            return {
                "cost": cost,
                "sentence": f"by prices and live sums alone no choice of banks costs less than {cost:.12g}",
            }
        found = self.space.largest_sum
        return {
            "peak_bytes": found.peak_bytes,
            "point": found.point,
            "buffers": [b.id for b in found.buffers],
            "sentence": self.space.sentence() if isinstance(self.space, OrderedSpace) else found.sentence(),
        }

    def capacity_answer(self, result: Result) -> PlacementAnswer | None:
        """Whether everything fits, with the proof; None without a capacity, or where bytes may move."""
        if isinstance(self.space, PricedSpace) or self.space.capacity_bytes is None:
            return None
        known = self.bound_reason()
        return capacity_answer(self.space.capacity_bytes, known["peak_bytes"], known["sentence"], result)

    def texts(self, trial: Trial) -> Mapping[str, str | bytes]:
        """The addresses, their picture, a C header, the moves when buffers move, and a TFLite model with its plan."""
        layout = self.space.layout(trial.assignment)
        planned = {} if isinstance(self.space, PricedSpace) else planned_model(Path(self.request.input), layout)
        return {**placement_files(self.space, layout), **planned}


@dataclass(frozen=True)
class OrderedProblem(PlacementProblem):
    """A placement space whose candidates are orders of execution as well."""

    space: OrderedSpace

    def details(self, trial: Trial) -> dict[str, Any]:
        """For the result file: the order, and what the file's one takes at least."""
        if trial.measurement.failure is not None:
            return {}
        names = [self.space.graph.operators[k].name for k in self.space.order_of(trial.assignment)]
        return {"order": names, "file_order_least_bytes": self.space.in_file_order.least_peak_bytes}

    def lines(self, trial: Trial) -> list[str]:
        """For the terminal."""
        if trial.measurement.failure is not None:
            return []
        order, file_order = self.space.order_of(trial.assignment), self.space.graph.file_order
        least = counted(self.space.in_file_order.least_peak_bytes, "byte")
        moved = sum(one != other for one, other in zip(order, file_order, strict=True))
        if not moved:
            return [
                f"The {counted(len(order), 'operator')} run in the file's order, in which no placement takes less than {least}."
            ]
        return [
            f"{moved} of {counted(len(order), 'operator')} run at another step than in the file, in whose order no placement takes "
            f"less than {least}."
        ]

    def texts(self, trial: Trial) -> Mapping[str, str | bytes]:
        """The addresses, their picture, a C header, the order, and a TFLite model that keeps to both."""
        layout, order = self.space.layout(trial.assignment), self.space.order_of(trial.assignment)
        names = [self.space.graph.operators[k].name for k in order]
        planned = planned_model(Path(self.request.input), layout, order)
        return {**placement_files(self.space, layout), "order": order_csv(names), **planned}


def read_options(space: str, asked: CommandOptions) -> dict[str, Any]:
    """`PlacementOptions` as JSON: the capacity is --capacity, else the RAM limit. ValueError for one that is no size."""
    if set(asked.limits) - {"flash", "ram"}:
        raise ValueError("Buffers take no time and no code: of limits only flash and ram go with the space memory.")
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
    return (*COMPILED, *((LIBRARY,) if banks else ()), *libraries_of_input(Path(request.input)))


def build_problem(request: TuneRequest) -> PlacementProblem:
    """InputError for a file that cannot be used, ValueError for options that contradict each other or the file, and
    for banks that are too small for what is live together."""
    options = stored_fields(PlacementOptions, request.options, "request")
    memory = memory_map(options)
    if options.order == "search":
        if memory is not None:
            raise ValueError("--order search does not go with --bank and --migration-price: expected one of them.")
        path = Path(request.input)
        graph = load_graph(path)
        return OrderedProblem(request, OrderedSpace(graph, alignment_of(path, options), options.capacity_bytes))
    instance = load_instance(Path(request.input), options)
    if memory is not None:
        return PlacementProblem(request, PricedSpace(instance, memory))
    for b in instance.buffers:
        if b.banks:
            found = f"banks {' '.join(b.banks)} and no --bank"
            raise InputError(request.input, subject=f"buffer {b.id!r}", expected="--bank for its banks", found=found)
    return PlacementProblem(request, MemorySpace(instance, options.capacity_bytes))
