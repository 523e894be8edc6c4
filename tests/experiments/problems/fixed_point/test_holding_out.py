"""Samples held out of a search: by class, by the seed, unseen by the space, and shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.dataset import Dataset
from kilotune.experiments.cli import main
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.holding_out import hold_out, too_few
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, read_options, resolve_input
from kilotune.experiments.requests.request import TuneRequest

LABELS = np.array([0] * 10 + [1] * 4 + [2] * 1)


def labelled(targets: np.ndarray = LABELS) -> Dataset:
    """Sample k has the feature k."""
    return Dataset(np.arange(float(len(targets)))[:, None], targets)


def problem(model: str = "protonn-cancer", seed: int = 0, **given: object) -> ModelProblem:
    options = read_options("shiftry", CommandOptions(given))
    return build_problem(TuneRequest("shiftry", str(resolve_input(model)), "refine", seed, options))


def test_every_class_gives_its_share_and_keeps_a_sample() -> None:
    searched, held = hold_out(labelled(), 0.5, 0, classifies=True)
    assert np.bincount(held.targets.astype(int), minlength=3).tolist() == [5, 2, 0]
    assert sorted([*searched.features[:, 0], *held.features[:, 0]]) == list(range(15))
    for part in (searched, held):
        assert (np.diff(part.features[:, 0]) > 0).all()
        np.testing.assert_array_equal(part.targets, LABELS[part.features[:, 0].astype(int)])


def test_the_largest_share_leaves_one_of_each_class() -> None:
    searched, _ = hold_out(labelled(), 0.99, 3, classifies=True)
    assert np.bincount(searched.targets.astype(int)).tolist() == [1, 1, 1]


def test_which_ones_hangs_on_the_seed_alone() -> None:
    """The samples themselves, since stored studies hang on them."""
    _, held = hold_out(labelled(), 0.3, 7, classifies=True)
    assert held.features[:, 0].tolist() == hold_out(labelled(), 0.3, 7, classifies=True)[1].features[:, 0].tolist()
    assert held.features[:, 0].tolist() == GOLDEN
    assert held.features[:, 0].tolist() != hold_out(labelled(), 0.3, 8, classifies=True)[1].features[:, 0].tolist()


GOLDEN = [3.0, 7.0, 8.0, 10.0]


def test_real_targets_are_one_class() -> None:
    searched, held = hold_out(labelled(np.linspace(-1, 1, 10)), 0.3, 0, classifies=False)
    assert (len(searched.targets), len(held.targets)) == (7, 3)


@pytest.mark.parametrize(("share", "targets"), [(0.01, LABELS), (0.9, np.array([0, 1, 2]))])
def test_nothing_to_hold_out_is_said(share: float, targets: np.ndarray) -> None:
    with pytest.raises(ValueError, match=f"--validation {share}: expected a share that holds out at least one"):
        hold_out(labelled(targets), share, 0, classifies=True)


@pytest.mark.parametrize(
    ("searched", "held", "classes", "least"),
    [(2, 48, 2, 20), (48, 2, 2, 20), (19, 20, None, 20), (20, 20, None, None), (20, 20, 4, None), (24, 90, 5, 25)],
)
def test_too_few_on_either_side_is_said(searched: int, held: int, classes: int | None, least: int | None) -> None:
    said = too_few(0.4, searched, held, classes)
    if least is None:
        assert said is None
    else:
        assert said is not None
        assert (
            f"leaves {searched} training samples to the search and holds out {held}: expected {least} of each" in said
        )


def test_the_summary_says_that_two_samples_were_left_to_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--space", "shiftry", "--input", "protonn-cancer", "--budget", "3trials", "--no-output", "--no-cache"]
    for share, few in (("0.99", True), ("0.5", False)):
        with pytest.raises(SystemExit):
            main([*asked, "--validation", share, "--storage", str(tmp_path / f"{share}.db")])
        said = (
            "--validation 0.99 leaves 3 training samples to the search and holds out 377: expected 20 of each at least"
        )
        assert (said in capsys.readouterr().out) is few


@pytest.mark.parametrize("share", [-0.1, 1.0, 2.5, float("nan")])
def test_what_is_no_share_is_refused(share: float) -> None:
    """It may stand in the stored request of a study."""
    with pytest.raises(ValueError, match=f"--validation {share:g}: expected a share between 0 and 1"):
        hold_out(labelled(), share, 0, classifies=True)


def test_the_space_sees_the_rest_only() -> None:
    whole, part = problem(), problem(validation=0.25)
    assert part.held_out is not None
    assert part.sample_counts() == {"train": 286, "validation": 94, "test": 189}
    assert whole.sample_counts() == {"train": 380, "test": 189}
    seen = {row.tobytes() for row in part.space.task.features}
    assert not seen & {row.tobytes() for row in part.held_out.features.astype(np.float64)}
    assert len({p.space.fingerprint for p in (whole, part, problem(validation=0.25, seed=1))}) == 3
    assert problem(validation=0.25).space.fingerprint == part.space.fingerprint


def test_candidates_are_measured_on_what_is_held_out() -> None:
    part = problem(validation=0.25)
    assert part.held_out is not None
    candidate = {d.name: d.options[0] for d in part.space.decisions}  # type: ignore[union-attr]
    measured = part.validation_metrics([candidate, candidate])
    assert measured is not None
    labels = part.space.evaluator.on(
        type(part.space.task)(
            part.bundle.program,
            part.bundle.parameters,
            part.held_out.features,
            part.held_out.targets.astype(np.float64),
        )
    ).simulator.run(part.lower(candidate))[0, :, 0]
    assert measured[0] == measured[1]
    assert measured[0]["accuracy_percent"] == pytest.approx(100 * float((labels == part.held_out.targets).mean()))
    assert problem().validation_metrics([candidate]) is None


def test_the_summary_and_the_result_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--space", "shiftry", "--input", "protonn-digits", "--drop", "0.5", "--budget", "150trials"]
    kept = ["--storage", str(tmp_path / "s.db"), "--no-output", "--no-cache", "--json", str(tmp_path / "r.json")]
    with pytest.raises(SystemExit) as status:
        main([*asked, "--validation", "0.25", *kept])
    assert status.value.code in (0, 1)
    shown, result = capsys.readouterr().out, json.loads((tmp_path / "r.json").read_text())
    assert "validation accuracy %" in shown
    assert set(result["float"]) == {"train", "validation", "test"}
    assert all("validation_metrics" in held for held in (result["best"], result["procedure"], *result["front"]))
    counts = {"": 901, "validation_": 299, "test_": 597}
    words = {"": "training", "validation_": "validation", "test_": "test"}
    told = []
    for part, samples in counts.items():
        best, paper = (
            result[who][f"{part}metrics"]["accuracy_percent"] * samples / 100 for who in ("best", "procedure")
        )
        more = round(best - paper)
        if more:
            told.append(f"{abs(more)} of {samples} {words[part]} samples {'more' if more > 0 else 'fewer'}")
    sentence = f"Than the paper's procedure, the best found is right on {', on '.join(told)}."
    assert (sentence in shown) if told else ("the best found is right on" not in shown)


@pytest.mark.parametrize(("model", "found"), [("worked-example", "found none in worked-example")])
def test_a_model_without_samples_has_none_to_hold_out(model: str, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        problem(model, validation=0.2)
