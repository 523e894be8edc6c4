"""The space `reverse-split` at the front door: from filters or JSON to a problem, and from a candidate to its program."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.instructions import AUKE, INSTRUCTION_SETS, REGISTERS, SCAMP5
from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel, KernelSet
from kilotune.codegen.scamp.kernel_files import KernelFile, parse_kernel_file, read_kernel_file
from kilotune.codegen.scamp.macros import format_macros
from kilotune.codegen.scamp.network_source import format_network, network_obstacle
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.registers import RegisterPressureError
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.certificate import BoundCertificate
from kilotune.evaluators.scamp5.images import LIBRARIES, photographs, photographs_are_loaded
from kilotune.evaluators.scamp5.macro_check import check_macros
from kilotune.evaluators.scamp5.quality import measure
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.exported_texts import ExportsTexts
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.reverse_split.chip_network import (
    MeasuredNetwork,
    network_with_digits,
)
from kilotune.experiments.problems.reverse_split.filters import DEFAULT_FILTER, FILTERS
from kilotune.experiments.problems.reverse_split.networks import NETWORKS, bundled_file
from kilotune.experiments.problems.reverse_split.wanted_kernels import (
    approximated,
    depth_of,
    network_registers,
    require_program,
    require_registers,
    rounded_weights,
)
from kilotune.experiments.problems.reverse_split.weight_errors import (
    approximation_sentence,
    digits_sentence,
    position_sentence,
    relative_errors,
)
from kilotune.experiments.requests.request import ACCURACY, TuneRequest, stored_fields
from kilotune.search.space import Assignment, Metrics, Trial
from kilotune.search.suggestion import did_you_mean
from kilotune.spaces.reverse_split.approximations import ApproximationSpace, approximations
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.positions import HOME, PositionSpace
from kilotune.spaces.reverse_split.procedure import NODE_LIMIT
from kilotune.spaces.reverse_split.programs import load_kernel
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

COMPILED = (
    "kilotune.spaces.reverse_split.native:load_kernel()",
    "kilotune.spaces.reverse_split.programs:load_kernel()",
    "kilotune.spaces.reverse_split.scheduling:load_scheduler()",
    "kilotune.spaces.reverse_split.exchanging:load_exchange()",
)
"""What loads the C code of a search, compiled once a machine."""

DEFAULT_TARGET = "scamp5"
WRITTEN_OUT = "kernels given as JSON"
"""What an input is called that is no file and no name."""

PHOTOGRAPHS = 8

ARTEFACTS = MappingProxyType({"program": "program.txt", "macros": "program.cpp", "network": "network.cpp"})


WITHOUT_MACROS = (
    f"There is no C++ of this program: the chip's macros of its instructions were not brought into {len(REGISTERS)} registers "
    f"(--target {SCAMP5.name} searches programs of macros)."
)
WITHOUT_NETWORK = "There is no C++ of the whole network: "
READ_RESULTS = (
    "Results are read as they finish: where all stay to the end, the last kernel has one register beside the image, and no program "
    "so short was found."
)
WITHOUT_COMPILER = "Without a C compiler no program is improved or proved beyond its splits: see `tune doctor`."


@dataclass(frozen=True)
class KernelOptions:
    """What the command line says; None where it says nothing. `data`: an absolute path; `accuracy`: the least, a share of the images;
    `error`: how far a kernel's weights may be off, a share of them (`codegen.scamp.few_digits`); `anywhere`: results may lie at any common
    position."""

    depth: int | None = None
    registers: int | None = None
    target: str | None = None
    objective: str | None = None
    data: str | None = None
    accuracy: float | None = None
    error: float | None = None
    anywhere: bool | None = None


KernelSpace = ReverseSplitSpace | ApproximationSpace | PositionSpace


@dataclass(frozen=True)
class KernelProblem(ExportsTexts):
    """Kernels, what is to be computed in place of them, and the space of programs that do."""

    artefact_names: ClassVar[Mapping[str, str]] = ARTEFACTS
    artefact: ClassVar[str] = "program"

    request: TuneRequest
    kernels: KernelSet
    wanted: ApproximatedSet
    space: KernelSpace
    measured: MeasuredNetwork | None = None
    given_depth: int = 0
    """At which the weights are read, before what they have in common is taken out."""

    @property
    def name(self) -> str:
        """The filter's or the file's, with the instruction set."""
        named = WRITTEN_OUT if is_written_out(self.request.input) else Path(self.request.input).stem
        return f"{named} ({self.space.problem.target}, {counted(self.space.problem.registers, 'register')})"

    @property
    def measured_by(self) -> str:
        """Every program is."""
        return "every program proved"

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """RMSE and SSIM on photographs under the chip's noise, of a network what it makes of digits; None without scikit-image (without
        --data), or without a program."""
        try:
            if self.measured is not None:
                return self.measured.metrics(self._text(assignment))
            position = self.space.kernels_of(assignment).position
            return dict(_quality(self._text(assignment), tuple(one.moved(position) for one in self.kernels.kernels)))
        except (ModuleNotFoundError, ValueError):
            return None

    def test_figures(self) -> str | None:
        """What `test_metrics` measures here; None without scikit-image (without --data)."""
        if self.measured is not None:
            return None if self.measured.digits is None else "Accuracy, time and energy of a frame"
        return "RMSE and SSIM" if importlib.util.find_spec("skimage") else None

    def procedure_limits(self) -> str:
        """Where AUKE's search is cut, or that it is not run."""
        problem = self.space.problem
        if not problem.splits_fit:
            kernels, registers = counted(len(set(problem.wanted)), "kernel"), counted(problem.registers, "register")
            return f"It was not run: it keeps all results to the end, and {kernels} are too many for {registers}."
        return f"Its search is cut after {NODE_LIMIT} states or a second of work, so a longer one may have an answer."

    def is_loaded(self) -> bool:
        """Whether photographs are at hand."""
        return self.measured is not None or photographs_are_loaded()

    def texts(self, trial: Trial) -> dict[str, str]:
        """The program, and the chip's macros where they find registers: none that the chip forbids leaves."""
        text, made = self._text(trial.assignment), self.made(trial)
        where = " ".join(self.position_sentences(made))
        source, missing = _macros(text, made.sums, made.depth, where), self.macro_sentences(text, made)
        notes = "".join(f"# {note}\n" for note in (where, *missing, *self.network_sentences(text, made)) if note)
        texts = {"program": text + notes, **({} if source is None else {"macros": source})}
        if "macros" in texts and self.measured is not None and not self.network_sentences(text, made):
            texts["network"] = format_network(prove(text, made.sums, made.depth), self.measured.network)
        return texts

    def details(self, trial: Trial) -> dict[str, Any]:
        """For the result file: the program's text, its cost on the chip, and what approximating the kernels cost."""
        if trial.measurement.failure is not None:
            return {}
        text, made = self._text(trial.assignment), self.made(trial)
        program = prove(text, made.sums, made.depth)
        return {
            "program": text.splitlines(),
            "target": program.target,
            "depth": made.depth,
            **({"position": list(made.position)} if isinstance(self.space, PositionSpace) else {}),
            **({"without_macros": WITHOUT_MACROS} if self.macro_sentences(text, made) else {}),
            **({"without_network": why[0]} if (why := self.network_sentences(text, made)) else {}),
            "largest_weight_error": float(made.largest_error),
            "relative_errors": relative_errors(self.kernels, made),
            "microseconds": 1e6 * program.seconds,
            "energy_microjoules": 1e6 * program.energy_joules,
        }

    def lines(self, trial: Trial) -> list[str]:
        """For the terminal: the same."""
        if trial.measurement.failure is not None:
            return [trial.measurement.failure, *self.approximation_sentences(self.made(trial))]
        text, made = self._text(trial.assignment), self.made(trial)
        program = prove(text, made.sums, made.depth)
        cost = (
            f"{counted(program.instructions, 'instruction')}, {counted(program.bus_transfers, 'bus transfer')}: "
            f"{1e6 * program.seconds:.1f} us and {1e6 * program.energy_joules:.2f} uJ a frame"
        )
        missing = [] if load_kernel() else [WITHOUT_COMPILER]
        if self.measured is not None:
            missing.insert(0, self.measured.sentence(text))
        missing += [
            *self.macro_sentences(text, made),
            *self.network_sentences(text, made),
            *self.read_sentences(program),
        ]
        said = [*self.position_sentences(made), *self.approximation_sentences(made), *missing]
        return [text.rstrip("\n"), cost, *said]

    def position_sentences(self, made: ApproximatedSet) -> list[str]:
        """Where results lie that may lie anywhere; empty for others."""
        return [position_sentence(made.position)] if isinstance(self.space, PositionSpace) else []

    def macro_sentences(self, text: str, made: ApproximatedSet) -> list[str]:
        """Why there is no C++ of a program in AUKE's instructions; empty where there is, and for one in macros, which has its registers."""
        if self.space.problem.target != AUKE.name:
            return []
        there = _macros(text, made.sums, made.depth, " ".join(self.position_sentences(made)))
        return [WITHOUT_MACROS] if there is None else []

    def read_sentences(self, program: ScampProgram) -> list[str]:
        """Why results do not stay to the end that have registers enough; empty where they do, and where they have not."""
        return [READ_RESULTS] if program.read_after and not self.space.problem.consumed else []

    def network_sentences(self, text: str, made: ApproximatedSet) -> list[str]:
        """Why there is no C++ of a network though there is one of its program; empty where there is, and without a network."""
        if self.measured is None or self.macro_sentences(text, made):
            return []
        obstacle = network_obstacle(prove(text, made.sums, made.depth), self.measured.network)
        return [] if obstacle is None else [WITHOUT_NETWORK + obstacle]

    def bound_certificate(self, best: Trial | None, bound: float) -> str:
        """A bound on instructions, with the best program. ValueError for another objective, and where there is no bound to speak of."""
        if isinstance(self.space, ApproximationSpace) or self.space.problem.goal is not KernelGoal.INSTRUCTIONS:
            raise ValueError(
                f"{self.name}: certificates are of bounds on instructions, and the objective is another one."
            )
        program = None if best is None or best.measurement.failure is not None else self._text(best.assignment)
        made, at_least = self.space.problem.kernels, max(0, math.ceil(bound)) if math.isfinite(bound) else 0
        position = None
        if isinstance(self.space, PositionSpace):
            position = HOME if best is None or program is None else self.made(best).position
        return BoundCertificate(self.space.problem.target, made.depth, made.sums, at_least, program, position).text

    def made(self, trial: Trial) -> ApproximatedSet:
        """What the program of a candidate computes."""
        return self.space.kernels_of(trial.assignment)

    def approximation_sentences(self, made: ApproximatedSet) -> list[str]:
        """What the kernels' weights became, and of what is asked for makes them exact, or more so."""
        options = stored_fields(KernelOptions, self.request.options, "request")
        at_depth = self.kernels.approximate(self.given_depth)
        permitted = options.error is not None
        remedies = {
            "a smaller --error": permitted,
            "a greater --limit accuracy": options.accuracy is not None,
            "a greater --depth": at_depth.largest_error > 0,
        }
        asked = [remedy for remedy, helps in remedies.items() if helps]
        digits = [digits_sentence(self.kernels, made, at_depth)] if permitted else []
        return [*digits, approximation_sentence(self.kernels, made, " or ".join(asked))]

    def _text(self, assignment: Assignment) -> str:
        return self.space.program(assignment).text


@lru_cache(maxsize=16)
def _macros(text: str, sums: tuple[Sum, ...], depth: int, note: str) -> str | None:
    """A program as C++; None where the macros find no registers: they may need copies that AUKE's instructions do not."""
    try:
        source = format_macros(prove(text, sums, depth), note=note)
    except RegisterPressureError:
        return None
    check_macros(source, sums, depth)
    return source


@lru_cache(maxsize=16)
def _quality(text: str, kernels: tuple[Kernel, ...]) -> tuple[tuple[str, float], ...]:
    found = measure(text, kernels, photographs(PHOTOGRAPHS))
    return (("rmse_grey_levels", found.rmse_grey_levels), ("ssim", found.ssim))


def resolve_input(text: str | None) -> Path | str:
    """The name of a well-known filter, the absolute path of a JSON file, or kernels themselves as JSON. InputError when it is none."""
    if text is None:
        return Path(DEFAULT_FILTER)
    if text in FILTERS or text in NETWORKS:
        return Path(text)
    if os.path.isfile(text):  # False for a text that is too long for a name
        return Path(text).resolve()
    if is_written_out(text):
        parse_kernel_file(text, WRITTEN_OUT)
        return text
    found = f"neither{did_you_mean(text, input_names())}"
    raise InputError(
        text,
        expected=f"a JSON file with kernels, kernels such as [[1, 0], [0, -1]], or one of {', '.join(input_names())}",
        found=found,
    )


def is_written_out(text: str) -> bool:
    """Whether an input is kernels as JSON rather than a name."""
    return text.lstrip()[:1] in ("[", "{", '"')


def input_names() -> tuple[str, ...]:
    """The well-known filters, and networks of digits."""
    return (*FILTERS, *NETWORKS)


def read_options(space: str, asked: CommandOptions) -> dict[str, Any]:
    """The options as they are given. ValueError for limits but on the accuracy: there is no memory here."""
    if asked.device or set(asked.limits) - {ACCURACY}:
        raise ValueError(f"--device and limits on memory do not go with the space {space}: its programs use none.")
    data = asked.given.get("data")
    if data is not None and not os.path.isfile(data):
        raise InputError(str(data), expected="a file of images", found="none")
    if asked.limits and data is None:
        raise ValueError("--limit accuracy is measured on images: expected --data too, found none.")
    further = {**({} if data is None else {"data": str(Path(data).resolve())}), **asked.limits}
    return {**asked.given, "objective": asked.objective, **further}


def command_options(options: Mapping[str, Any]) -> CommandOptions:
    """What `read_options` has read, under the command's names."""
    given = {name: value for name, value in options.items() if name not in ("objective", ACCURACY)}
    limits = {} if options.get(ACCURACY) is None else {ACCURACY: float(options[ACCURACY])}
    return CommandOptions(given, limits, options.get("objective"))


def libraries(request: TuneRequest) -> tuple[str, ...]:
    """Those of the photographs that the best program is tried on, and the compiled searches."""
    return (*LIBRARIES, *COMPILED)


def build_problem(request: TuneRequest) -> KernelProblem:
    """InputError for a file that cannot be used, ValueError for kernels that the asked depth or registers cannot hold."""
    named, options = FILTERS.get(request.input), stored_fields(KernelOptions, request.options, "request")
    asked = KernelFile(named.kernels) if named else _read_kernels(request.input)
    measured = network_with_digits(asked.network, options.data, request.input)
    depth, registers = options.depth, options.registers or asked.registers
    depth = depth_of(asked.kernels, asked.depth if depth is None else depth)
    objective = options.objective or KernelGoal.INSTRUCTIONS.value
    if options.anywhere:
        _require_place(request, objective, asked)
    is_front = objective == KernelGoal.FRONT.value and options.error is not None
    wanted = approximated(asked.kernels, depth, request.input, None if is_front else options.error)
    if is_front and options.accuracy is not None:
        raise ValueError(
            f"{request.input}: --limit accuracy rounds weights itself, so it does not go with a front of their errors."
        )
    if measured is not None:
        registers = network_registers(registers, request.input)
        wanted, measured = rounded_weights(wanted, measured, options.accuracy, request.input)
    registers = registers or len(REGISTERS)
    require_registers(wanted, registers, request.input)
    target = options.target or asked.target or DEFAULT_TARGET
    if target not in INSTRUCTION_SETS:
        raise ValueError(f"{request.input}: expected a target {' or '.join(INSTRUCTION_SETS)}, found {target!r}.")
    if is_front and options.error is not None:
        offered = approximations(asked.kernels, depth, options.error)
        for one in offered:
            require_program(SplitProblem(one.kernels, target, registers), request.input)
        return KernelProblem(
            request, asked.kernels, wanted, ApproximationSpace(offered, target, registers), measured, depth
        )
    problem = SplitProblem(wanted, target, registers, KernelGoal(objective))
    require_program(problem, request.input)
    space = PositionSpace(problem) if options.anywhere else ReverseSplitSpace(problem)
    return KernelProblem(request, asked.kernels, wanted, space, measured, depth)


def _require_place(request: TuneRequest, objective: str, asked: KernelFile) -> None:
    """ValueError for results that may lie anywhere where something depends on where they are, or where there is a front."""
    if asked.network is not None:
        raise ValueError(
            f"{request.input}: a network counts its results region by region, so --anywhere does not go with it."
        )
    if objective == KernelGoal.FRONT.value:
        raise ValueError(
            f"{request.input}: --anywhere goes with instructions or transfers as the objective, not with a front."
        )


def _read_kernels(text: str) -> KernelFile:
    if is_written_out(text):
        return parse_kernel_file(text, WRITTEN_OUT)
    return bundled_file(text) if text in NETWORKS else read_kernel_file(Path(text))
