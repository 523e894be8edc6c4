"""Bits as decisions of the mapping problem: a space as others are, what is decided, what it costs, and what a search finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import sqrt
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import Hardware, crossbar_of, load_hardware
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.bit_networks import BitNetworks, BitWidths, weight_levels
from kilotune.evaluators.cm.noisy_fidelity import AnalogueCores, interval
from kilotune.search.space import Assignment
from kilotune.spaces.cm.bit_candidates import BitQuestion
from kilotune.spaces.cm.bits import BitsSpace
from kilotune.spaces.cm.space import CmSpace
from kilotune.testing import check_space
from tests.codegen.cm.digits import digits_images, digits_network
from tests.spaces.cm.test_charges import described

SLICED = "mesh-8x8-sliced"


def networks(hardware: Hardware, images: int = 40) -> BitNetworks:
    pixels, labels = digits_images(16)
    graph = import_model(digits_network(16), "digits")
    return BitNetworks(graph, pixels[:images], labels[:images], crossbar_of(hardware), hardware.input_bits_per_tick)


def bits_space(hardware: str | Hardware = SLICED, **question: Any) -> BitsSpace:
    found = load_hardware(hardware) if isinstance(hardware, str) else hardware
    return BitsSpace(networks(found), found, BitQuestion(**{"points": 5.0, **question}))


@pytest.mark.slow
def test_it_is_a_space_as_others_are() -> None:
    check_space(bits_space(), samples=3)


@pytest.mark.parametrize(
    ("cell_bits", "levels"), [(0, (8,)), (1, tuple(range(8, 1, -1))), (2, (8, 7, 5, 3)), (4, (8, 5)), (7, (8,))]
)
def test_weights_have_as_many_bits_as_their_slices_hold(cell_bits: int, levels: tuple[int, ...]) -> None:
    assert weight_levels(cell_bits) == levels


def test_what_the_hardware_charges_is_decided() -> None:
    def kinds(hardware: str) -> dict[str, int]:
        names = [decision.name.split(" bits ")[0] for decision in bits_space(hardware).bit_decisions]
        return {name: names.count(name) for name in names}

    assert kinds(SLICED) == {"activation": 4, "weight": 3, "converter": 3}
    assert kinds("mesh-8x8-bits") == {"activation": 4}
    only_cells = described("mesh-8x8", crossbar={"cell_bits": 4})
    assert {d.options for d in BitsSpace(networks(only_cells), only_cells, BitQuestion(1.0)).bit_decisions} == {(8, 5)}
    with pytest.raises(ValueError, match="found mesh-8x8, which charges no bits"):
        bits_space("mesh-8x8")


def drawn(space: BitsSpace, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {d.name: d.options[int(rng.integers(len(d.options)))] for d in space.bit_decisions}


@pytest.mark.parametrize("seed", range(3))
def test_losses_are_counted_image_by_image(seed: int) -> None:
    """By the definition of the operators, one image after the other."""
    space = bits_space()
    found, plain = (
        space.networks.quantised(space.widths(drawn(space, seed))),
        quantise(space.networks.graph, space.networks.images),
    )

    def classes(network: Any) -> list[int]:
        output = network.graph.output
        every = (evaluate(network.graph, network.image(image), integer=True) for image in space.networks.images)
        return [int(tensors[output].reshape(-1).argmax()) for tensors in every]

    changed = sum(a != b for a, b in zip(classes(found), classes(plain), strict=True))
    losses = space.losses(drawn(space, seed))
    assert losses["changed_images"] == changed
    most = max(changed + sqrt(changed), losses["expected_changes"] - 0.5)
    assert losses["lost_points"] == pytest.approx(100 * most / 40)
    assert losses["expected_changes"] > 0


def test_with_8_bits_and_exact_sums_it_is_the_plain_network() -> None:
    found = networks(load_hardware(SLICED))
    plain = quantise(found.graph, found.images)
    assert found.plain.bounds == plain.bounds
    for mine, other in zip(found.plain.graph.nodes, plain.graph.nodes, strict=True):
        assert (mine.inputs, mine.output) == (other.inputs, other.output)
        for name, value in vars(mine).items():
            np.testing.assert_equal(value, getattr(other, name))


def test_a_candidate_measures_what_its_network_does_in_its_own_space() -> None:
    space = bits_space()
    bits = drawn(space, 1)
    inner = CmSpace.of(space.networks.quantised(space.widths(bits)).graph, space.hardware)
    mapping = inner.candidate({}, range(len(inner.lowered({}).pipeline.stages)))
    measured = space.measure({**bits, **mapping}).metrics
    assert {name: measured[name] for name in inner.measure(mapping).metrics} == inner.measure(mapping).metrics


def test_nothing_asks_less_than_the_bound() -> None:
    space = bits_space()
    assert space.least_ticks <= min(space.at(drawn(space, seed)).least_ticks for seed in range(12))
    narrowest = {decision.name: decision.options[-1] for decision in space.bit_decisions}
    assert space.least_ticks <= space.at(narrowest).least_ticks < space.at(space.widest).least_ticks


@pytest.mark.parametrize("field", ["activations", "weights", "converters"])
def test_fewer_bits_of_each_kind_make_a_mapping_cheaper(field: str) -> None:
    space = bits_space()
    prefix = {"activations": "activation", "weights": "weight", "converters": "converter"}[field]
    fewer = {d.name: d.options[-1] if d.name.startswith(prefix) else d.options[0] for d in space.bit_decisions}

    def energy(bits: Assignment) -> float:
        inner = space.at(bits)
        stages = len(inner.lowered({}).pipeline.stages)
        measured = inner.measure(inner.candidate({}, range(stages))).metrics
        return measured["energy_nj"]

    assert energy(fewer) < 0.7 * energy(space.widest)
    assert space.at(fewer).least_ticks <= space.at(space.widest).least_ticks


def permitted(space: BitsSpace, found: Iterator[Assignment | None], steps: int) -> list[tuple[float, Assignment]]:
    """Ticks and candidates that keep all constraints."""
    measured = [(space.measure(c), c) for c in islice(found, steps) if c is not None]
    return [
        (m.metrics["ticks_per_image"], c)
        for m, c in measured
        if m.failure is None and all(limit.violation(m.metrics) == 0 for limit in space.constraints)
    ]


def test_the_search_trades_bits_for_ticks_within_what_may_be_lost() -> None:
    space = bits_space()
    found = permitted(space, space.anneal(0), 180)
    wide = min(t for t, c in found if all(c[name] == bits for name, bits in space.widest.items()))
    assert wide == space.at(space.widest).least_ticks == 128
    assert min(t for t, _ in found) <= 64
    ticks, best = min(found, key=lambda each: each[0])
    assert len({best[d.name] for d in space.bit_decisions if d.name.startswith("activation")}) > 1, "a tensor each"
    assert ticks >= space.least_ticks


def test_noisy_cells_are_a_limit_and_an_objective() -> None:
    cores = AnalogueCores(crossbar_of(load_hardware(SLICED)), 3600.0)
    space = bits_space(points=None, cores=cores, accuracy=0.9, objective="accuracy")
    assert [o.metric for o in space.objectives][:2] == ["noisy_error", "ticks_per_image"]
    (limit,) = (c for c in space.constraints if c.metric == "noisy_error_high")
    assert limit.limit == pytest.approx(10.0)
    losses = space.losses(space.widest)
    noisy = space.networks.noisy(space.widths(space.widest), cores)
    assert noisy.accuracies is not None
    assert len(noisy.accuracies) == 10
    mean, half = interval(noisy.accuracies)
    assert losses["noisy_error"] == pytest.approx(100 * (1 - mean))
    assert losses["noisy_error_high"] == pytest.approx(100 * min(1.0, 1 - mean + half))
    last = bits_space(points=None, cores=cores, accuracy=0.9)
    assert [o.metric for o in last.objectives] == [*(o.metric for o in bits_space().objectives), "noisy_error"]


def test_another_model_of_noise_is_another_problem_where_noise_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = AnalogueCores(crossbar_of(load_hardware(SLICED)), 3600.0)
    exact, noisy = bits_space().fingerprint, bits_space(cores=cores).fingerprint
    monkeypatch.setattr("kilotune.spaces.cm.bit_candidates.NOISE_SEMANTICS", 0)
    assert (bits_space().fingerprint == exact, bits_space(cores=cores).fingerprint == noisy) == (True, False)


def test_bits_that_no_network_has_are_failures() -> None:
    space = bits_space()
    space.networks._kept[BitWidths({}, {}, {}).key] = space.networks.plain

    def refuse(_: BitWidths) -> Any:
        raise ValueError("no weights keep its sums below 2**24")

    space.networks.quantised = refuse  # type: ignore[method-assign]
    space._spaces.clear()
    assert space.measure(space.widest).failure == "no weights keep its sums below 2**24"
    state: Any = space.start()
    for bits in space.widest.values():
        state = state.take(bits)
    assert state.decision is None
    assert state.bound() == float("inf")
