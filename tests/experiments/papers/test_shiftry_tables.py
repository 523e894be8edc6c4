"""Shiftry's tables on real data: baselines against what they are by definition, and the command from data to table."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.byte_weights import eight_bit_weights
from kilotune.codegen.dataset import Dataset
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.on_device import missing_tools
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.papers.fixed_point_baselines import float_accuracy, uniform, with_fewer_samples
from kilotune.experiments.papers.paper_models import in_steps, read_parts
from kilotune.experiments.papers.shiftry_tables import (
    _confirmed,
    _problem,
    _searches,
    _unseen,
    lines,
    measure,
    read_rows,
)
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Measurement, Trial
from kilotune.spaces.shiftry.candidates import ShiftryCandidates


def test_hybrid_weights_are_the_nearest_of_255() -> None:
    weights = np.array([[0.5, -1.27], [0.0, 0.344]])
    found = eight_bit_weights({"W": weights, "zeros": np.zeros(3)})
    np.testing.assert_allclose(found["W"], [[0.5, -1.27], [0.0, 0.34]], atol=1e-12)
    assert (found["zeros"] == 0).all()


def toy(folder: Path, weights: list[list[float]], rows: list[list[float]]) -> None:
    """A bundle of two scores W * X of one feature; rows of class and feature, for training and for tests."""
    declared = "let X = (1, 1) in [-1.0, 1.0] in let W = (2, 1) in [0.0, 0.01] in argmax(W * X)\n"
    (folder / "model.sd").write_text(declared)
    np.save(folder / "W.npy", np.array(weights, dtype=np.float32))
    for part in ("train", "test"):
        np.savez(folder / f"{part}.npz", data=np.array(rows, dtype=np.float32))


def test_a_uniform_format_loses_what_it_cannot_hold(tmp_path: Path) -> None:
    """A weight of 0.003 is there with 16 bits; with 8 it is 0 in every format, both scores are equal, and all samples are of class 0."""
    toy(tmp_path, [[0.0], [0.003]], [[1, 0.1], [0, -0.1], [1, 0.2], [1, 0.3]])
    space = build_problem(TuneRequest("shiftry", str(tmp_path), "random")).space
    assert isinstance(space, ShiftryCandidates)
    test = load_bundle(tmp_path).test
    assert test is not None
    assert uniform(space, test, 16) == 100.0
    assert uniform(space, test, 8) == 25.0


def test_a_uniform_format_rounds_down(tmp_path: Path) -> None:
    """At 7 places 0.01 is 1 and -0.1 is -13: rounded down their product -13 / 128 is -1, below the other score, and to nearest 0."""
    toy(tmp_path, [[0.01], [0.0]], [[0, 0.1], [1, -0.1], [1, -0.2], [1, -0.3]])
    space = build_problem(TuneRequest("shiftry", str(tmp_path), "random")).space
    assert isinstance(space, ShiftryCandidates)
    test = load_bundle(tmp_path).test
    assert test is not None
    assert uniform(space, test, 8) == 100.0


def test_a_uniform_format_does_not_saturate(tmp_path: Path) -> None:
    """Features of 0.02 are there from 6 places on, where 3.5 is -0.5 in 8 bits; in 5 places they are 0, and all samples of class 0."""
    toy(tmp_path, [[0.0], [3.5]], [[1, 0.02], [1, 0.03], [1, 0.025], [0, -0.02]])
    space = build_problem(TuneRequest("shiftry", str(tmp_path), "random")).space
    assert isinstance(space, ShiftryCandidates)
    test = load_bundle(tmp_path).test
    assert test is not None
    assert uniform(space, test, 8) == 25.0


def test_fewer_samples_are_the_first_ones() -> None:
    bundle = load_bundle(model_path("protonn-cancer"))
    few = with_fewer_samples(bundle, 5)
    assert bundle.train is not None
    assert few.train is not None
    assert np.array_equal(few.train.features, bundle.train.features[:5])
    assert np.array_equal(few.train.targets, bundle.train.targets[:5])
    assert with_fewer_samples(bundle, len(bundle.train.features)) is bundle


def test_searches_are_limited_to_what_the_procedure_reaches() -> None:
    """Its training accuracy, and for the fastest its memory: its answer is a candidate, and one that is worse in anything is none."""
    path = model_path("protonn-cancer")
    plain = _problem(path, 1.0)
    answer = run_procedure(plain.space)
    assert answer is not None
    limits = {}
    for what, asked in _searches(path, plain, answer.assignment, 1.0):
        (found,) = asked.space.evaluate([answer.assignment])
        limits[what] = {limit.metric for limit in asked.space.constraints}
        for limit in asked.space.constraints:
            assert found.metrics[limit.metric] == pytest.approx(limit.limit, abs=1e-6)
    assert limits == {
        "smallest": {"accuracy_percent"},
        "fastest": {"accuracy_percent", "flash_bytes", "total_ram_bytes"},
    }


def test_the_best_must_hold_on_samples_that_the_search_did_not_see() -> None:
    """All at 16 bits 98 % of the samples are right, all at the last format 36 %. Trials of made-up bytes: those are taken that lose none of
    the unseen samples, take fewer than the procedure's answer and differ from one another in two decisions."""
    problem = _problem(model_path("protonn-cancer"), 100.0)
    decisions = problem.space.format_decisions
    answer, near, bad = ({d.name: d.options[place] for d in decisions} for place in (0, 0, -1))
    near["X"] = decisions[0].options[1]
    (own,) = problem.space.evaluate([answer])

    def confirmed(*made: tuple[Assignment, float]) -> list[Assignment]:
        trials = [
            Trial(number, chosen, Measurement({**own.metrics, "memory_bytes": own.metrics["memory_bytes"] - fewer}))
            for number, (chosen, fewer) in enumerate(made)
        ]
        assert problem.bundle.train is not None
        return [found.assignment for found in _confirmed(problem, trials, answer, problem.bundle.train)]

    assert confirmed((near, 1.0), (bad, 3.0)) == [near]
    assert confirmed((answer, 1.0), (near, 2.0), (bad, 3.0)) == [near]
    assert confirmed((bad, 3.0), (near, 0.0)) == []


def test_inputs_are_made_up_where_the_search_sees_all_samples() -> None:
    bundle = load_bundle(model_path("protonn-cancer"))
    assert bundle.train is not None
    made = _unseen(bundle)
    assert made.features.shape == (2000, bundle.train.features.shape[1])
    assert float_accuracy(bundle, bundle.parameters, made) == 100.0
    assert not (made.features[:, None] == bundle.train.features[None, :5]).all(axis=2).any()
    many = dataclasses.replace(
        bundle, train=Dataset(np.repeat(bundle.train.features, 2, axis=0), np.repeat(bundle.train.targets, 2))
    )
    assert many.train is not None
    left = _unseen(many)
    assert np.array_equal(left.features, many.train.features[600:])
    assert np.array_equal(left.targets, many.train.targets[600:])


def test_rows_and_windows_are_read_apart(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (40, 784)).astype(np.uint8)
    np.savez(tmp_path / "images.npz", X=pixels, y=np.arange(40) % 10)
    train, test = read_parts(tmp_path / "images.npz")
    assert (train.values.shape, test.values.shape) == ((28, 1, 784), (12, 1, 784))
    given = {row.tobytes(): label for row, label in zip(pixels, np.arange(40) % 10, strict=True)}
    read = np.round((np.concatenate([train.values, test.values])[:, 0] + 1.0) * 127.5).astype(np.uint8)
    labels = np.concatenate([train.labels, test.labels])
    assert {row.tobytes(): label for row, label in zip(read, labels, strict=True)} == given
    stepped = in_steps(train)
    assert stepped is not None
    assert stepped.values.shape == (28, 28, 28)
    np.savez(tmp_path / "letters.npz", X=random.normal(size=(40, 16)), y=np.arange(40) % 4)
    assert in_steps(read_parts(tmp_path / "letters.npz")[0]) is None


def test_tables_by_hand() -> None:
    row = {
        "model": "protonn-toy",
        "parameters": 12,
        **{what: {"accuracy": 80.0} for what in ("hybrid", "wide", "ap_fixed 8", "ap_fixed 16", "all 8", "all 16")},
        "float": {"accuracy": 90.0, "flash": 8000, "cycles": 100_000.0},
        "procedure": {"accuracy": 89.0, "flash": 2000, "ram": 100, "cycles": 20_000.0, "equal": 5},
        "smallest": {"accuracy": 89.5, "flash": 1500, "ram": 90, "cycles": 30_000.0, "equal": 5},
        "fastest": {"accuracy": 90.5, "flash": 2500, "ram": 95, "cycles": 12_500.0, "equal": 5},
    }
    shown = list(lines([row]))
    assert (
        "| protonn-toy | 8000, 100000 | does not fit | 2000, 100, 20000 | 1500, 90, 30000 | 2500, 95, 12500 | 75 %, 62 % |"
        in shown
    )
    (means,) = (line for line in shown if line.startswith("protonn: "))
    assert (
        "hybrid 10.00, wide 10.00, ap_fixed 16 10.00, ap_fixed 8 10.00, procedure 1.00, smallest 0.50, fastest -0.50"
        in means
    )
    assert "fastest 8.0 times the float's speed, smallest 19 % of its flash" in means


@pytest.mark.slow
@pytest.mark.skipif(missing_tools(find_device("uno")) is not None, reason="the tools of uno are missing")
def test_a_bundle_becomes_a_row_once(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "protonn-cancer").symlink_to(model_path("protonn-cancer"))
    rows = tmp_path / "rows.jsonl"
    for _ in range(2):
        measure(tmp_path / "bundles", rows, (), 1.0, 150)
    (row,) = read_rows(rows)
    assert row["float"]["accuracy"] == pytest.approx(96.83, abs=0.01)
    assert row["hybrid"]["accuracy"] == pytest.approx(96.83, abs=1.1)
    assert row["hybrid"]["equal"] == row["hybrid"]["compared"] == 60
    assert row["hybrid"]["flash"] < row["float"]["flash"]
    assert row["procedure"]["cycles"] < row["hybrid"]["cycles"]
    assert row["wide"]["accuracy"] == pytest.approx(96.83, abs=1.1)
    assert row["all 16"]["accuracy"] == pytest.approx(96.83, abs=1.1)
    assert row["procedure"]["equal"] == row["smallest"]["equal"] == 189
    assert row["fastest"]["cycles"] <= row["procedure"]["cycles"] < row["float"]["cycles"]
