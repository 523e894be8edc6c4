"""`--joint bits` at the front door: bits and mappings decided together, and what is told of the bits that were found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from kilotune.codegen.cm.hardware import Hardware, crossbar_of
from kilotune.codegen.onnx.batches import operations_of
from kilotune.codegen.onnx.converters import slice_count
from kilotune.codegen.onnx.graph import WEIGHT_BITS, Graph
from kilotune.codegen.onnx.quantise import QuantisedGraph
from kilotune.evaluators.cm.activation_widths import MOST_BITS
from kilotune.evaluators.cm.bit_networks import BitNetworks
from kilotune.evaluators.cm.noisy_fidelity import AnalogueCores
from kilotune.experiments.presentation.section import Paragraph, Section
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.cm.approximation import approximations
from kilotune.experiments.problems.cm.artefacts import NAMES, artefacts, describe
from kilotune.experiments.problems.cm.classes_needed import check_classifier
from kilotune.experiments.problems.cm.figures.best import mapping_section
from kilotune.experiments.problems.cm.image_data import ImageData
from kilotune.experiments.problems.cm.mapped_network import MappedNetwork
from kilotune.experiments.problems.exported_texts import ExportsTexts
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment, Trial
from kilotune.spaces.cm.bit_candidates import BitQuestion
from kilotune.spaces.cm.bits import BitsSpace

MOST_OPERATIONS = 40_000_000_000
"""Products of cells and pieces of one network on all images for calibration: some ten seconds, which a search takes for each."""

NAMED = (("activations", "activations"), ("weights", "weights"), ("converters", "conversions"))
"""Fields of `BitWidths`, and what they are of."""


@dataclass(frozen=True, eq=False)
class JointBitsProblem(ExportsTexts):
    """A network of floats, images, an accelerator, and the request that they come from."""

    artefact_names: ClassVar[Mapping[str, str]] = NAMES
    artefact: ClassVar[str] = "mapping"

    request: TuneRequest
    space: BitsSpace
    floats: Graph
    data: ImageData

    @property
    def name(self) -> str:
        """The network's and the accelerator's."""
        return f"{self.floats.name} ({counted(len(self.space.networks.layers), 'layer')}, bits open) and {self.space.hardware.name}"

    @property
    def measured_by(self) -> str:
        """The timing evaluator, and the integers on the images for calibration."""
        return f"stream of images simulated tick by tick; integers executed on {self.data.calibration} images"

    def bound_reason(self) -> dict[str, Any]:
        """What no mapping beats whatever the bits."""
        ticks, hardware = self.space.least_ticks, self.space.hardware
        sentence = f"whatever its bits, no mapping takes less than {counted(ticks, 'tick')} per image on {counted(hardware.cores, 'core')}"
        return {"ticks_per_image": ticks, "sentence": sentence}

    def quantised(self, assignment: Assignment) -> QuantisedGraph:
        """The integers of a candidate."""
        return self.space.networks.quantised(self.space.widths(assignment))

    def mapped(self, assignment: Assignment) -> MappedNetwork:
        """A candidate as a mapping of the network in its bits."""
        space = self.space.at(assignment)
        return MappedNetwork(self.request, space, self.quantised(assignment), self.floats, self.data)

    def texts(self, trial: Trial) -> dict[str, str | bytes]:
        """The mapping, its pictures, the state machines of the control units, and what executes it all."""
        return artefacts(self.mapped(trial.assignment), trial)

    def best_section(self, trial: Trial) -> Section:
        """The bits, stages on cores, streams on routes."""
        section = mapping_section(describe(self.mapped(trial.assignment), trial))
        return replace(section, blocks=(*map(Paragraph, self.lines(trial)), *section.blocks))

    def details(self, trial: Trial) -> dict[str, Any]:
        """The bits, and what they cost on images that no search has seen, beside 8 bits everywhere."""
        if trial.measurement.failure is not None:
            return {}
        widths = self.space.widths(trial.assignment)
        if widths.key not in self._approximations:
            self._approximations[widths.key] = self._approximation(self.quantised(trial.assignment))
        return {
            "bits": {name: dict(getattr(widths, name)) for name, _ in NAMED},
            "approximation": self._approximations[widths.key],
            "with_8_bits": self._plain,
        }

    def lines(self, trial: Trial) -> list[str]:
        """Sentences of `details`."""
        told = self.details(trial)
        if not told:
            return []
        each = [
            f"{what} {', '.join(f'{name} {count}' for name, count in told['bits'][field].items())}"
            for field, what in NAMED
            if told["bits"][field]
        ]
        metrics = trial.measurement.metrics
        of = counted(self.data.calibration, "image")
        lost = f"{metrics['changed_images']:g} of {of} for calibration have another class than with 8 bits"
        executed = self.mapped(trial.assignment).execution_sentence(trial.assignment)
        with_8 = f"With 8 bits everywhere and exact sums: {told['with_8_bits']['sentence']}."
        return [
            f"Bits: {'; '.join(each)}. {lost}, and {metrics['expected_changes']:.1f} of as many others are expected to.",
            f"{told['approximation']['sentence']}.",
            with_8,
            *([] if executed is None else [executed]),
        ]

    def _approximation(self, quantised: QuantisedGraph) -> dict[str, Any]:
        *_, found = approximations(self.floats, quantised, self.data, self.space.question.cores)
        return found

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return self._approximation(self.space.networks.plain)

    @cached_property
    def _approximations(self) -> dict[object, dict[str, Any]]:
        """What has been found so far, by bits."""
        return {}


def joint_bits_problem(
    request: TuneRequest, graph: Graph, hardware: Hardware, data: ImageData, question: BitQuestion
) -> JointBitsProblem:
    """ValueError, a sentence, where no class is to be lost, the hardware charges no bits, or there are too many operations."""
    check_classifier(graph, "--joint bits", request.input)
    pieces = -(-MOST_BITS // hardware.input_bits_per_tick) if hardware.input_bits_per_tick else 1
    products = operations_of(graph) * pieces * slice_count(WEIGHT_BITS, hardware.cell_bits)
    most = MOST_OPERATIONS // max(1, products * (1 if question.cores is None else question.cores.draws))
    if len(data.seen) > most:
        expected = f"expected at most {most} images for calibration (--calibration), found {len(data.seen)}"
        raise ValueError(f"--joint bits tries many networks of the size of {request.input}: {expected}.")
    labels = None if data.labels is None else data.labels[: data.calibration]
    networks = BitNetworks(graph, data.seen, labels, crossbar_of(hardware), hardware.input_bits_per_tick)
    return JointBitsProblem(request, BitsSpace(networks, hardware, question), graph, data)


def bit_question(
    hardware: Hardware,
    points: float | None,
    noise: tuple[float, int] | None,
    accuracy: float | None,
    objective: str,
    strict: bool,
) -> BitQuestion:
    """What options ask. noise: seconds since programming, and bits of converters."""
    cores = None if noise is None else AnalogueCores(crossbar_of(hardware), *noise)
    return BitQuestion(points, cores, accuracy, objective, strict)
