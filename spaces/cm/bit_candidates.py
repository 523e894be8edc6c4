"""Bits as decisions of the mapping problem: of activations a tensor, of weights and converters a layer, then all that a mapping decides.

With its bits decided a candidate is one of the space of the network in these bits (`CmSpace`), and measures the same there; besides, how
many calibration images it costs their class, and where noise is asked about, what is left of them on noisy cells. Only what the
hardware charges is decided: activations where it counts bits of packets or of operands, weights where cells hold some of their bits, and
converters where it says how many bits these have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kilotune.codegen.cm.hardware import Hardware
from kilotune.evaluators.cm.activation_widths import FEWEST_BITS, MOST_BITS
from kilotune.evaluators.cm.bit_networks import BitNetworks, BitWidths, weight_levels
from kilotune.evaluators.cm.noisy_fidelity import AnalogueCores, interval
from kilotune.evaluators.cm.phase_change import SEMANTICS as NOISE_SEMANTICS
from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import (
    Assignment,
    Constraint,
    Decision,
    Measurement,
    Objective,
    Option,
)
from kilotune.search.work_memory import NoMemory, WorkMemory
from kilotune.spaces.cm.bit_bound import BoundInAnyBits
from kilotune.spaces.cm.space import CmSpace

SEMANTICS = 1
"""Version of what bits mean and cost; part of the fingerprint."""

SPACES_KEPT = 8
ACTIVATIONS, WEIGHTS, CONVERTERS = "activation bits ", "weight bits ", "converter bits "
"""How the names of decisions begin; a tensor's or a layer's follows."""

ACCURACY = "accuracy"
NOISY_ERROR, NOISY_ERROR_HIGH = "noisy_error", "noisy_error_high"


@dataclass(frozen=True)
class BitQuestion:
    """points: of a hundred calibration images that may get another class, with a standard error of their count; None: any number. cores:
    noisy ones that are asked about. accuracy: the share of images that the lower end of its 95 % interval must reach on
    these. objective: what leads, one of `OBJECTIVES` or ACCURACY on noisy cells."""

    points: float | None = None
    cores: AnalogueCores | None = None
    accuracy: float | None = None
    objective: str = "ticks"
    strict: bool = False


class BitCandidates:
    """Mappings of one network in any bits. ValueError where the hardware charges none, or does not hold the network in 8."""

    def __init__(self, networks: BitNetworks, hardware: Hardware, question: BitQuestion) -> None:
        self.networks, self.hardware, self.question = networks, hardware, question
        self.work_memory: WorkMemory = NoMemory()
        self.bit_decisions = _decisions(networks, hardware)
        if not self.bit_decisions:
            raise ValueError(
                "--joint bits: expected hardware with bits_per_tick, input_bits_per_tick, cell_bits or converter_bits, found "
                f"{hardware.name}, which charges no bits."
            )
        self._spaces: dict[tuple[Option, ...], CmSpace] = {}
        self.at(self.widest)  # says what is short

    @property
    def widest(self) -> dict[str, Option]:
        """The answers with most bits."""
        return {decision.name: decision.options[0] for decision in self.bit_decisions}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the network in 8 bits and what it computes, the images, the hardware, the question, and the model of noise in it."""
        networks, plain = self.networks, self.at(self.widest).fingerprint
        content = [networks.graph, networks.images, networks.labels, networks.plain_outputs, self.question]
        if self.question.cores is not None:
            content.append(NOISE_SEMANTICS)
        return fingerprint("cm, joint bits", SEMANTICS, plain, [d.name for d in self.bit_decisions], *content)

    @property
    def mapping_objective(self) -> str:
        """What leads among mappings of one network: where accuracy leads, ticks."""
        return "ticks" if self.question.objective == ACCURACY else self.question.objective

    def widths(self, assignment: Assignment) -> BitWidths:
        """What a candidate decides of bits."""

        def those(prefix: str) -> dict[str, int]:
            names = (d.name for d in self.bit_decisions if d.name.startswith(prefix))
            return {name.removeprefix(prefix): int(assignment[name]) for name in names}

        return BitWidths(those(ACTIVATIONS), those(WEIGHTS), those(CONVERTERS))

    def at(self, assignment: Assignment) -> CmSpace:
        """The mappings of the network with the bits of a candidate; the last few are kept. ValueError, a sentence, where there is none."""
        key = tuple(assignment[decision.name] for decision in self.bit_decisions)
        found = self._spaces.pop(key, None)
        if found is None:
            graph = self.networks.quantised(self.widths(assignment)).graph
            found = CmSpace.of(graph, self.hardware, self.question.strict, self.mapping_objective)
            while len(self._spaces) >= SPACES_KEPT:
                del self._spaces[next(iter(self._spaces))]
        found.work_memory = self.work_memory
        self._spaces[key] = found
        return found

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate in the order in which they were asked; bits alone where no network has these."""
        bits = {decision.name: answers[decision.name] for decision in self.bit_decisions}
        try:
            space = self.at(bits)
        except ValueError:
            return bits
        return {**bits, **space.in_order(answers)}

    def outlined(self, assignment: Assignment) -> CmSpace:
        """Mappings of the network with the bits of a candidate, as far as `BitNetworks.outline` tells. ValueError as of `at`."""
        graph = self.networks.outline(self.widths(assignment))
        return CmSpace.of(graph, self.hardware, self.question.strict, self.mapping_objective)

    @cached_property
    def least(self) -> CmSpace:
        """Mappings of as few cores as any candidate's has, and elements of a bit: see `BitNetworks.narrowest`."""
        return self._narrowest(weight_levels(self.hardware.cell_bits)[-1])

    def _narrowest(self, weight_bits: int) -> CmSpace:
        converters = FEWEST_BITS if self.hardware.converter_bits else 0
        graph = self.networks.narrowest(weight_bits, converters)
        return CmSpace.of(graph, self.hardware, self.question.strict, self.mapping_objective)

    @property
    def least_ticks(self) -> int:
        """Ticks per image that no candidate beats."""
        return self._bound.ticks

    @cached_property
    def _bound(self) -> BoundInAnyBits:
        wider = [self._narrowest(bits) for bits in weight_levels(self.hardware.cell_bits)[:-1]]
        return BoundInAnyBits.of([*wider, self.least])

    @property
    def least_objective(self) -> float:
        """The leading objective's bound for all candidates, where it is one of mappings."""
        return self.least.objective_bound(self._bound.ticks, self._bound.cores)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """Those of mappings; with noise, the error on noisy cells leads or breaks the last ties, so that the front has both."""
        mapping = self.least.objectives
        if self.question.cores is None:
            return mapping
        error = Objective(NOISY_ERROR)
        return (error, *mapping) if self.question.objective == ACCURACY else (*mapping, error)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Those of mappings, and what may be lost."""
        question, found = self.question, list(self.least.constraints)
        if question.points is not None:
            found.append(Constraint("lost_points", question.points))
        if question.accuracy is not None:
            found.append(Constraint(NOISY_ERROR_HIGH, 100 * (1 - question.accuracy)))
        return tuple(found)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics as `measure` names them."""
        return [self.measure(assignment) for assignment in batch]

    def measure(self, assignment: Assignment) -> Measurement:
        """The metrics of `CmCandidates.measure`; changed_images of the calibration images, expected_changes of as many others and
        lost_points, the larger of both; noisy_error and
        noisy_error_high, its mean and the upper end of its interval, of a hundred of them."""
        try:
            measured = self.at(assignment).measure(assignment)
            if measured.failure is not None:
                return measured
            return Measurement({**measured.metrics, **self.losses(assignment)})
        except ValueError as error:
            return Measurement(failure=str(error))

    def losses(self, assignment: Assignment) -> dict[str, float]:
        """What the bits of a candidate cost, whatever its mapping. ValueError where there is no such network."""
        return {**self.exact_losses(assignment), **self.noisy_losses(assignment)}

    def exact_losses(self, assignment: Assignment) -> dict[str, float]:
        """Classes of images, without noise. ValueError as of `losses`."""

        def work() -> dict[str, float]:
            found = self.networks.changes(self.widths(assignment))
            changed, expected = float(found.changed), found.expected
            return {"changed_images": changed, "expected_changes": expected, "lost_points": found.lost_points}

        return self.recalled("classes", assignment, work)

    def noisy_losses(self, assignment: Assignment) -> dict[str, float]:
        """Errors on noisy cells, which take ten times as long to count; none where nothing is asked of noise. ValueError as of `losses`."""
        cores = self.question.cores
        if cores is None:
            return {}

        def work() -> dict[str, float]:
            noisy = self.networks.noisy(self.widths(assignment), cores)
            mean, half = interval(noisy.agreements if noisy.accuracies is None else noisy.accuracies)
            return {NOISY_ERROR: 100 * (1 - mean), NOISY_ERROR_HIGH: 100 * min(1.0, 1 - mean + half)}

        return self.recalled("classes on noisy cells", assignment, work)

    def recalled(self, subject: str, assignment: Assignment, work: Callable[[], dict[str, float]]) -> dict[str, float]:
        """What work says of the bits of a candidate, from the memory where it knows them."""
        bits = [assignment[decision.name] for decision in self.bit_decisions]
        return dict(self.work_memory.recalled([subject, self.fingerprint, bits], work))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spaces": {}, "work_memory": NoMemory()}


def _decisions(networks: BitNetworks, hardware: Hardware) -> tuple[Decision, ...]:
    """What the hardware charges, most bits first."""
    found: list[Decision] = []
    if hardware.charges_bits or hardware.input_bits_per_tick:
        bits = tuple(range(MOST_BITS, FEWEST_BITS - 1, -1))
        found += [Decision(ACTIVATIONS + name, bits) for name in networks.tensors]
    levels = weight_levels(hardware.cell_bits)
    if len(levels) > 1:
        found += [Decision(WEIGHTS + name, levels) for name in networks.layers]
    if hardware.converter_bits > FEWEST_BITS:
        bits = tuple(range(hardware.converter_bits, FEWEST_BITS - 1, -1))
        found += [Decision(CONVERTERS + name, bits) for name in networks.layers]
    return tuple(found)
