"""The space `cm` at the front door: from an ONNX file and a hardware file to a problem, from a candidate to its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.equalising import equalised_where_better
from kilotune.codegen.onnx.graph import ConvNode, Graph, known
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import (
    QuantisedGraph,
    integer_shape,
    quantise,
    random_images,
)
from kilotune.codegen.onnx.random_weights import with_random_weights
from kilotune.evaluators.cm.fidelity import class_count
from kilotune.evaluators.cm.noisy_fidelity import AnalogueCores
from kilotune.experiments.models.onnx_networks import MADE
from kilotune.experiments.presentation.section import Paragraph, Section
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.cm.approximation import approximations
from kilotune.experiments.problems.cm.artefacts import NAMES, artefacts, describe
from kilotune.experiments.problems.cm.classes_needed import check_classifier
from kilotune.experiments.problems.cm.executable import load
from kilotune.experiments.problems.cm.figures.best import mapping_section
from kilotune.experiments.problems.cm.image_data import ImageData, load_images
from kilotune.experiments.problems.cm.joint_bits import JointBitsProblem, bit_question, joint_bits_problem
from kilotune.experiments.problems.cm.mapped_network import MappedNetwork
from kilotune.experiments.problems.cm.narrowing import narrowed_network, widths_of
from kilotune.experiments.problems.cm.networks import LAYERS, weightless
from kilotune.experiments.problems.exported_texts import ExportsTexts
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.requests.request import TuneRequest, stored_fields
from kilotune.search.space import Trial
from kilotune.search.suggestion import did_you_mean
from kilotune.spaces.cm.bit_candidates import ACCURACY, BitQuestion
from kilotune.spaces.cm.embedding import LIBRARIES
from kilotune.spaces.cm.space import CmSpace

COMPILED = (
    "kilotune.evaluators.cm.timing:load_timing()",
    "kilotune.spaces.cm.annealing:load_kernel()",
    "kilotune.spaces.cm.arrangement:load_kernel()",
)
"""What loads the C code of a search, compiled once a machine."""

DEFAULT_NETWORK = "resnet20"

NEED_IMAGES: Mapping[str, str] = MappingProxyType(
    {
        "calibration": "--calibration counts images of",
        "noise": "--noise is seen on images of",
        "converter_bits": "--converter-bits are seen on images of",
        "joint": "--joint bits is judged on images of",
        "accuracy_drop": "--drop is counted on images of",
    }
)
"""Options that say something of the images, by name; how a sentence about them begins."""


@dataclass(frozen=True)
class MappingOptions:
    """What the command line says. `hardware`: a name, or an absolute path; `image_shape`: channels, height, width; `data`: an
    absolute path; `calibration`: of its images; `noise`: seconds since cells were programmed; `converter_bits`: behind their columns;
    `accuracy_drop`: points that fewer bits may cost; `host`: whether what cannot be mapped is left for the host; `joint`: `bits` where
    they are decided with the mapping; `accuracy`: that they must keep on noisy cells, a share; `equalised`:
    whether channels may be scaled before the network is made integers, as in all requests since there is that."""

    hardware: str | None = None
    image_shape: Sequence[int] | None = None
    strict: bool = False
    data: str | None = None
    calibration: int | None = None
    objective: str = "ticks"
    noise: float | None = None
    converter_bits: int | None = None
    accuracy_drop: float | None = None
    host: bool = False
    joint: str | None = None
    accuracy: float | None = None
    equalised: bool = False


@dataclass(frozen=True, eq=False)
class MappingProblem(MappedNetwork, ExportsTexts):
    """A network, an accelerator, and the request that they come from."""

    artefact_names: ClassVar[Mapping[str, str]] = NAMES
    artefact: ClassVar[str] = "mapping"

    @property
    def name(self) -> str:
        """The network's and the accelerator's."""
        once = self.space.lowered({}).pipeline
        matrices = sum(stage.crossbar_rows > 0 for stage in once.stages)
        hardware = self.space.hardware
        of = f"{matrices} {'matrix' if matrices == 1 else 'matrices'}, {counted(len(once.stages), 'stage')}"
        return f"{self.space.network.name} ({of}) and {hardware.name}"

    @property
    def measured_by(self) -> str:
        """The timing evaluator."""
        return "stream of images simulated tick by tick, with link contention and finite buffers"

    def bound_reason(self) -> dict[str, Any]:
        """What no mapping beats: the least ticks per image of cores and links."""
        ticks = self.space.least_ticks
        sentence = f"no mapping takes less than {counted(ticks, 'tick')} per image on {counted(self.space.hardware.cores, 'core')}"
        return {"ticks_per_image": ticks, "sentence": sentence}

    @property
    def can_be_compared(self) -> bool:
        """Not a network without weights."""
        return self.quantised is not None and self.floats is not None

    def approximations(self) -> Iterator[dict[str, Any]]:
        """What the integers cost, on ever more images; nothing for a network without weights."""
        if self.quantised is None or self.floats is None:
            return
        options = stored_fields(MappingOptions, self.request.options, "request")
        cores = None
        if options.noise is not None:
            cores = AnalogueCores(self.space.network.crossbar, options.noise, options.converter_bits or 8)
        said, left, found = "", dict(self.floats.left or {}), dict[str, Any]()
        if left:
            said = f"Left for the host: {', '.join(f'{count} {name}' for name, count in left.items())}. "
        for one in approximations(self.floats, self.quantised, self.data, cores):
            found = {**one, **({"left_for_the_host": left} if left else {}), "sentence": f"{said}{one['sentence']}"}
            yield found
        if self.narrowed is not None and self.data is not None:
            widths = widths_of(self.narrowed, self.floats, self.data)
            yield {**found, "sentence": f"{widths.pop('sentence')}. {found['sentence']}", "widths": widths}

    def texts(self, trial: Trial) -> dict[str, str | bytes]:
        """The mapping, its pictures, the state machines of the control units, and what executes it all."""
        return artefacts(self, trial)

    def details(self, trial: Trial) -> dict[str, Any]:
        """How many images an export executes, and which share of their iterations; nothing without weights."""
        if self.quantised is None or trial.measurement.failure is not None:
            return {}
        images, share = self.execution(trial.assignment)
        return {"execution": {"images": images, "share": share}}

    def lines(self, trial: Trial) -> list[str]:
        """How much is executed, where that is not all."""
        if trial.measurement.failure is not None:
            return []
        sentence = self.execution_sentence(trial.assignment)
        return [] if sentence is None else [sentence]

    def best_section(self, trial: Trial) -> Section:
        """Stages on cores, streams on routes."""
        section = mapping_section(describe(self, trial))
        return replace(section, blocks=(*map(Paragraph, self.lines(trial)), *section.blocks))


def resolve_input(text: str | None) -> Path:
    """An ONNX file, or the name of a network that needs none. InputError when it is neither."""
    name = text or DEFAULT_NETWORK
    path = Path(name)
    if path.is_file():
        return path.resolve()
    if name in LAYERS or name in MADE:
        return path
    found = f"neither{did_you_mean(name, input_names())}"
    raise InputError(name, expected=f"an ONNX file, or one of {', '.join(input_names())}", found=found)


def input_names() -> tuple[str, ...]:
    """The networks that need no file."""
    return (*LAYERS, *MADE)


def read_options(space: str, asked: CommandOptions) -> dict[str, Any]:
    """The hardware (an absolute path or a name), the image's shape, strictness. ValueError for what cannot be used."""
    given = asked.given
    _check_limits(asked)
    hardware = given.get("hardware")
    if hardware is not None and Path(hardware).is_file():
        hardware = str(Path(hardware).resolve())
    load_hardware(hardware)
    return {
        "hardware": hardware,
        "image_shape": None if given.get("image_shape") is None else _shape(given["image_shape"]),
        "strict": bool(given.get("strict", False)),
        **({"host": True} if given.get("host") else {}),
        **({"objective": asked.objective} if asked.objective not in (None, "ticks") else {}),
        **({"accuracy": asked.limits[ACCURACY]} if ACCURACY in asked.limits else {}),
        **_data_options(given),
    }


def _check_limits(asked: CommandOptions) -> None:
    """ValueError for a limit, a device, an objective or a loss that does not go with the rest."""
    given, joint = asked.given, asked.given.get("joint") is not None
    if set(asked.limits) - {ACCURACY} or asked.device:
        raise ValueError(
            "--device and --limit do not go with the space cm, but for accuracy: its memory is in --hardware."
        )
    for option, there in (
        ("--limit accuracy", ACCURACY in asked.limits),
        (f"--objective {ACCURACY}", asked.objective == ACCURACY),
    ):
        if there and not (joint and given.get("noise") is not None):
            raise ValueError(f"{option} is for bits on noisy cells: expected --joint bits and --noise with it.")
    if joint and given.get("accuracy_drop") is None and not asked.limits and asked.objective != ACCURACY:
        raise ValueError(
            "--joint bits needs to know what may be lost: expected --drop or --limit accuracy, found neither."
        )


def _data_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The place of the images, and what is asked of them; nothing when they were not given, as in older requests."""
    data = given.get("data")
    if data is None:
        for name, what in NEED_IMAGES.items():
            if given.get(name) is not None:
                raise ValueError(f"{what} --data: expected both, found no --data.")
        return {}
    if given.get("converter_bits") is not None and given.get("noise") is None:
        raise ValueError("--converter-bits is for --noise: expected both, found no --noise.")
    if not Path(data).is_file():
        raise InputError(str(data), expected="a file of images", found="none")
    return {
        "data": str(Path(data).resolve()),
        "equalised": True,
        **{name: given[name] for name in NEED_IMAGES if given.get(name) is not None},
    }


def command_options(options: Mapping[str, Any]) -> CommandOptions:
    """What `read_options` has read, under the command's names."""
    shape = options.get("image_shape")
    given = {name: value for name, value in options.items() if name not in ("objective", "equalised", ACCURACY)}
    shown = {**given, "image_shape": "x".join(map(str, shape)) if shape else None}
    limits = {ACCURACY: options[ACCURACY]} if options.get(ACCURACY) is not None else {}
    return CommandOptions(shown, limits, options.get("objective"), stated=frozenset(limits))


def libraries(request: TuneRequest) -> tuple[str, ...]:
    """The solvers of the paper's procedure, what measures mappings, and what reads a file."""
    named = (*LIBRARIES, *COMPILED)
    return named if request.input in LAYERS else ("onnx", *named)


def build_problem(request: TuneRequest) -> MappingProblem | JointBitsProblem:
    """Import, quantise and partition. InputError for files that cannot be used, ValueError when it does not fit."""
    return build_telling(request, lambda _: None)


def build_telling(request: TuneRequest, tell: Callable[[str], None]) -> MappingProblem | JointBitsProblem:
    """As `build_problem`; `tell` is told how far it has come where that takes its time."""
    options = stored_fields(MappingOptions, request.options, "request")
    hardware, image = load_hardware(options.hardware), options.image_shape
    asked = (hardware, options.strict, "ticks" if options.objective == ACCURACY else options.objective)
    name = request.input
    if name in LAYERS and not Path(name).is_absolute():
        reasons = {"--image": "a shape of its own", "--data": "no weights", "--host": "nothing to leave for the host"}
        for value, (option, reason) in zip((image, options.data, options.host or None), reasons.items(), strict=True):
            if value is not None:
                raise ValueError(f"{option} is for ONNX files; {name} has {reason}.")
        return MappingProblem(request, CmSpace.of(integer_shape(weightless(name)), *asked), None)
    graph = _imported(name, image, options.host)
    CmSpace.of(graph, *asked)  # says what is short before any arithmetic
    if options.noise is not None:
        check_classifier(graph, "--noise", name)
    shape = graph.shapes[graph.input]
    data = None
    if options.data is not None:
        data = load_images(Path(options.data), shape, options.calibration, class_count(graph))
    graph = _with_weights(graph)
    if data is not None and options.equalised:
        graph = equalised_where_better(graph, data.seen)
    if data is not None and options.joint is not None:
        return joint_bits_problem(request, graph, hardware, data, _bit_question(options, hardware))
    narrow = None
    if data is not None and options.accuracy_drop is not None:
        narrow = narrowed_network(graph, name, hardware, data, options.accuracy_drop, tell)
    quantised = _quantised(graph, name, data) if narrow is None else narrow.quantised
    return MappingProblem(request, CmSpace.of(quantised.graph, *asked), quantised, graph, data, narrow)


def _bit_question(options: MappingOptions, hardware: Hardware) -> BitQuestion:
    noise = None if options.noise is None else (options.noise, options.converter_bits or 8)
    return bit_question(hardware, options.accuracy_drop, noise, options.accuracy, options.objective, options.strict)


def _imported(name: str, image: Any, host: bool) -> Graph:
    return import_model(load(name), name, image, host)


def _with_weights(graph: Graph) -> Graph:
    """A mere topology, whose weights are all constant, gets seeded random ones: any will do."""
    layers = [node for node in graph.nodes if isinstance(node, ConvNode) and node.output not in (graph.parts or {})]
    weights = [known(node.weight) for node in layers]
    if weights and all(w.size > 1 and w.min() == w.max() for w in weights):
        return with_random_weights(graph, seed=1)
    return graph


def _quantised(graph: Graph, name: str, data: ImageData | None) -> QuantisedGraph:
    """Calibrated on real images, or on one of noise."""
    images = random_images(graph.shapes[graph.input], 1, seed=0) if data is None else data.seen
    try:
        return quantise(graph, images)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _shape(text: str) -> list[int]:
    match = re.fullmatch(r"(\d+)(?:x(\d+))?(?:x(\d+))?", text)
    if match is None or any(part == "0" for part in match.groups()):
        raise ValueError(f"--image {text!r}: expected channels, height and width, such as 3x64x64.")
    return [int(part) for part in match.groups() if part is not None]
