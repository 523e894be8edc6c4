"""The space `fpga` at the front door: from a model and a board to a problem, and from a candidate to its Verilog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kilotune.codegen.emit.targets.target import ProjectTarget
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.language.parser import LIBRARIES
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.evaluators.architectures.registry import project_target
from kilotune.evaluators.constraint_solver import LIBRARY
from kilotune.evaluators.fpga.board_files import ClockGoal
from kilotune.evaluators.fpga.boards import (
    DEFAULT_BOARD,
    FAMILIES,
    GATE_KINDS,
    Board,
    board_from_json,
    counted_gates,
    find_board,
)
from kilotune.evaluators.fpga.project import TARGET, hardware_obstacle, hardware_target
from kilotune.evaluators.fpga.synthesis import Implementation, implement, kept_implementation
from kilotune.evaluators.fpga.tools import ToolError
from kilotune.experiments.presentation.section import Section
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.export import check_export, export_batch, formats_of
from kilotune.experiments.problems.fixed_point.problem import COMPILED, ModelProblem
from kilotune.experiments.problems.fixed_point.problem import build_problem as build_formats
from kilotune.experiments.problems.fixed_point.problem import input_names as model_input_names
from kilotune.experiments.problems.fixed_point.problem import resolve_input as resolve_model
from kilotune.experiments.problems.fpga.further_candidates import FurtherCandidates
from kilotune.experiments.problems.fpga.predicted_room import overfull, overfull_sentence, space_on_board
from kilotune.experiments.problems.fpga.tables import hardware_section
from kilotune.experiments.problems.placing import FinalistPlacing, PlacedTrial, placed_in_turn
from kilotune.experiments.requests.request import TuneRequest, stored_fields
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Metrics, Trial
from kilotune.spaces.fpga.candidates import FixedProgram, HardwareGoal, gate_constraints
from kilotune.spaces.fpga.joint import JointSpace
from kilotune.spaces.fpga.space import FpgaSpace
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

DEFAULT_FORMATS = "seedot"
MOST_PLACED = 3
"""Candidates that are tried on the board where nobody says how many."""


@dataclass(frozen=True)
class HardwareOptions:
    """What the command line says. `board`: as `evaluators.fpga.boards.board_from_json` reads it; `formats`: the space whose procedure
    decides widths and scales, where they are not decided jointly; `narrow`: jointly, also parameters of fewer than 8 bits; `place`: how
    many candidates are tried on the board."""

    board: Mapping[str, Any]
    formats: str = DEFAULT_FORMATS
    joint: bool = False
    narrow: bool = False
    place: int | None = None
    objective: str = "latency"
    latency_limit_ms: float | None = None


@dataclass(frozen=True)
class HardwareProblem:
    """A model, the space over its hardware, and the problem that its widths and scales come from. `decided`: these, where they are not
    decided jointly; `known`: what a study has found on the board before."""

    request: TuneRequest
    model: ModelProblem
    space: FpgaSpace | JointSpace
    decided: Mapping[str, Any] | None
    known: FinalistPlacing | None = field(default=None, compare=False)
    _plans: dict[int, HardwarePlan] = field(default_factory=dict, init=False, compare=False)

    @property
    def options(self) -> HardwareOptions:
        """What was asked."""
        return stored_fields(HardwareOptions, self.request.options, "request")

    @property
    def name(self) -> str:
        """The model's, and the board's."""
        return f"{self.model.bundle.name} on {self.space.board.name}"

    @property
    def measured_by(self) -> str:
        """The cost model, and the simulator where widths are decided."""
        return "cost model; cycles exact"

    @property
    def only_placing_tells(self) -> bool:
        """Whether the cost model says of no candidate that the board has room for it."""
        return bool(overfull(self.space.goal, self.space.board))

    @property
    def places_beyond_budget(self) -> bool:
        """Whether a number of candidates was given."""
        return self.options.place is not None

    def lower(self, assignment: Assignment) -> FixedBatch:
        """The fixed-point program of a candidate."""
        space = self.space
        return space.program.batch if isinstance(space, FpgaSpace) else space.lower(assignment)

    def formats_of(self, assignment: Assignment) -> Assignment:
        """What the candidate, or the procedure before it, says of widths and scales."""
        if isinstance(self.space, JointSpace):
            return self.space.formats_in(assignment)
        assert self.decided is not None
        return self.decided

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """The program on the test data."""
        return self.model.test_metrics(self.formats_of(assignment))

    def float_metrics(self) -> dict[str, Metrics]:
        """The float model."""
        return self.model.float_metrics()

    def sample_counts(self) -> dict[str, int]:
        """Samples by part of the data."""
        return self.model.sample_counts()

    def lines(self, trial: Trial) -> list[str]:
        """Whose widths these are, and what of the figures is measured."""
        if trial.measurement.failure is not None:
            return [trial.measurement.failure]
        whose = "decided jointly" if isinstance(self.space, JointSpace) else f"of {self.options.formats}'s procedure"
        said = [f"Widths and scales are {whose}. Cycles are exact; gates, clock and energy are the cost model's."]
        unsure = overfull_sentence(self.space.goal, self.space.board)
        if unsure is not None:
            said.append(unsure)
        places = FAMILIES[self.space.board.family].placer is not None
        if not places:
            said.append(
                "No open tool places on this board: its clock, and so its latency, is an ECP5's and not verified."
            )
        if self.options.place == 0:
            does = "synthesises, places and routes" if places else "synthesises"
            said.append(f"`--place 3` {does} candidates until one fits the board.")
        obstacle = hardware_obstacle()
        return said if obstacle is None else [*said, f"No Verilog is written: {obstacle}"]

    def details(self, trial: Trial) -> dict[str, Any]:
        """For the result file: the board, and how each operation is done."""
        choices = self.space.choices
        return {
            "board": self.space.board.name,
            "operations": {choices.label(row): asdict(way) for row, way in choices.chosen(trial.assignment).items()},
        }

    def best_section(self, trial: Trial) -> Section:
        """How each operation is done, in how many cycles, on which gates."""
        return hardware_section(self.space, trial)

    def with_places(self, most: int) -> HardwareProblem:
        """This problem with another number of candidates to place."""
        return replace(self, request=replace(self.request, options={**self.request.options, "place": most}))

    def knowing(self, placing: FinalistPlacing) -> HardwareProblem:
        """This problem, with what was found."""
        return replace(self, known=placing)

    @property
    def most_placed(self) -> int:
        """As many as were asked for."""
        return MOST_PLACED if self.options.place is None else self.options.place

    def place(self, finalists: Iterable[Trial], new_number: int | None = None) -> Iterator[FinalistPlacing]:
        """Synthesis, place and route, until one holds what the board has and what was asked; see `further_candidates.py`."""
        candidates = FurtherCandidates(self.space, tuple(finalists), self.most_placed, new_number)
        for found in placed_in_turn(candidates.next, self.space.board.name, self._implemented, self._broken):
            yield found
        if not found.held and candidates.verdict is not None:
            yield replace(found, unplaced=candidates.verdict)

    def _implemented(self, trial: Trial) -> Implementation:
        return implement(self.space.plan(trial.assignment), self.space.board)

    def _broken(self, found: Metrics) -> str | None:
        """The first limit that measurements break."""
        words = {**GATE_KINDS, "latency_us": "us"}
        finds = "Synthesis" if FAMILIES[self.space.board.family].placer is None else "Place and route"
        for limit in gate_constraints(self.space.board, replace(self.space.goal, budget=None)):
            taken = found.get(limit.metric)
            if limit.metric in words and taken is not None and taken > limit.limit:
                return f"{finds} finds {taken:g} {words[limit.metric]}; the limit is {limit.limit:g}."
        return None

    def check_output(self, folder: Path) -> None:
        """The folder must be new, empty, or of an earlier export."""
        check_export(self._exporter, folder, hardware_target(self.space.board))

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """The candidate's Verilog with its test bench; where its tools are missing the same integers in C. ValueError, a sentence, where
        Yosys is there and fails."""
        return self.export_for(trial, folder, self.usual_target, None)

    @property
    def usual_target(self) -> str:
        """Hardware; where its tools are missing the same integers in C."""
        return "c" if hardware_obstacle() else TARGET.name

    def export_for(self, trial: Trial, folder: Path, target: str, level: str | None) -> dict[str, str]:
        """The candidate's hardware, or the same integers as a program for another target. ValueError, a sentence, without Yosys."""
        kind = self._target(trial) if target == TARGET.name else project_target(target)
        batch = self.lower(trial.assignment)
        decided = {
            "space": self.request.space,
            "model": self.model.bundle.name,
            "board": self.space.board.name,
            "assignment": dict(trial.assignment),
            "metrics": dict(trial.measurement.metrics),
            "measured": PlacedTrial(trial, self._kept(trial), None).metrics() or None,
            **formats_of(batch),
        }
        return export_batch(self._exporter, batch, folder, decided, kind, level or self.model.level)

    @property
    def _exporter(self) -> ModelProblem:
        """Writes for this problem's request: its files are those that must not be replaced."""
        return replace(self.model, request=replace(self.request, options=self.model.request.options))

    def _target(self, trial: Trial) -> ProjectTarget:
        design = self.space.choices.design_of(trial.assignment)
        return hardware_target(self.space.board, self._clock(trial), design)

    def _kept(self, trial: Trial) -> Implementation | None:
        """What the tools have found of a candidate before: what is kept of those that are here, else what the study has recorded (the
        cache may be another one, and the tools newer ones or gone); None where nothing is known."""
        try:
            kept = kept_implementation(self.space.plan(trial.assignment), self.space.board)
        except ToolError:
            kept = None
        recorded = None if self.known is None else self.known.made(trial.assignment)
        return recorded if kept is None else kept

    def _clock(self, trial: Trial) -> ClockGoal:
        """What place and route has measured of a candidate where it is kept, else what the cost model predicts."""
        kept, predicted = self._kept(trial), trial.measurement.metrics
        if kept is None:
            counts = ((kind, predicted[kind]) for kind in GATE_KINDS)
            taken = _taken(counts, "as the cost model predicts; it has not been placed")
        else:
            measured = "synthesis" if kept.clock_mhz is None else "place and route"
            taken = _taken(
                asdict(kept.gates).items(), f"as {measured} measured ({predicted['luts']:.0f} LUTs were predicted)"
            )
        if kept is not None and kept.clock_mhz is not None:
            return ClockGoal(kept.clock_mhz, "the clock that place and route measured", taken, kept.options)
        return ClockGoal(predicted["clock_mhz"], "the clock that the cost model predicts", taken)


def _taken(counts: Iterable[tuple[str, float]], who: str) -> str:
    """A sentence: what a design takes, and who says so."""
    return f"The design takes {', '.join(counted_gates(count, kind) for kind, count in counts if count)}, {who}."


def resolve_input(text: str | None) -> Path:
    """A folder, or the name of a bundled model. InputError when it is neither."""
    return resolve_model(text)


def input_names() -> tuple[str, ...]:
    """The bundled models."""
    return model_input_names()


def read_options(space: str, asked: CommandOptions) -> dict[str, Any]:
    """`HardwareOptions` as JSON. ValueError for what cannot be used, InputError for a board's file."""
    if asked.device:
        raise ValueError("--device is for programs; the space fpga takes a --board.")
    unknown = sorted(set(asked.limits) - {"latency"})
    if unknown:
        raise ValueError(
            f"--limit {unknown[0]}: the space {space} takes a limit on latency; gates are limited by --board."
        )
    given = dict(asked.given)
    if given.get("joint") and "formats" in given:
        raise ValueError("--formats is decided by the search with --joint: expected one of them, found both.")
    if given.get("narrow") and not given.get("joint"):
        raise ValueError("--narrow widens what is decided of widths: expected --joint with it, found it alone.")
    board = find_board(given.pop("board", DEFAULT_BOARD))
    stored = {"board": board_as_json(board), **given, "latency_limit_ms": asked.limits.get("latency")}
    return {**stored, **({} if asked.objective is None else {"objective": asked.objective})}


def board_as_json(board: Board) -> dict[str, Any]:
    """As `board_from_json` reads it."""
    about = {"name": board.name, "description": board.description, "family": board.family, "part": list(board.part)}
    return {**about, **asdict(board.gates)}


def command_options(options: Mapping[str, Any]) -> CommandOptions:
    """What `read_options` has read, under the command's names."""
    given = {name: options.get(name) for name in ("formats", "joint", "narrow", "place")}
    limit = options.get("latency_limit_ms")
    limits = {} if limit is None else {"latency": limit}
    return CommandOptions({"board": options["board"]["name"], **given}, limits, options.get("objective"))


def libraries(request: TuneRequest) -> tuple[str, ...]:
    """What reads a model and executes it, and the solver that gives columns to processing elements."""
    return (*LIBRARIES, *COMPILED, LIBRARY)


def build_problem(request: TuneRequest) -> HardwareProblem:
    """Load the model, decide its widths and scales, and make the space. InputError for a model that cannot be used, ValueError for one
    that the board has no room for, as far as the cost model can tell."""
    options = stored_fields(HardwareOptions, request.options, "request")
    board = board_from_json(options.board, "the stored board")
    limit = options.latency_limit_ms
    goal = HardwareGoal(options.objective, None if limit is None else 1000 * limit)
    space = "shiftry" if options.joint else options.formats
    widths = {"narrow": True} if options.narrow else {}
    model = build_formats(TuneRequest(space, request.input, "procedure", request.seed, widths))
    if options.joint:
        assert isinstance(model.space, ShiftrySpace)
        narrow = f"{model.bundle.name} at its narrowest widths"
        narrowest = FixedProgram(narrow, _narrowest(model.space), model.bundle.parameters)
        allowed = space_on_board(narrowest, board, goal).goal
        return HardwareProblem(request, model, JointSpace(model.space, model.bundle.name, board, allowed), None)
    answer = run_procedure(model.space)
    assert answer is not None
    program = FixedProgram(model.bundle.name, model.lower(answer.assignment), model.bundle.parameters)
    return HardwareProblem(request, model, space_on_board(program, board, goal), answer.assignment)


def _narrowest(formats: ShiftrySpace) -> FixedBatch:
    """The program with the fewest bits of each variable, at the first of the scales that these have. Other scales have been predicted to
    take up to 7 % fewer look-up tables, far less than what `predicted_room.py` leaves for the model's error."""
    fewest = {d.name: min(d.options, key=lambda option: parse_format(str(option)).bits) for d in formats.decisions}
    return formats.lower([fewest])
