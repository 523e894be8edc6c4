"""Forests in integers, and their C: equal to the floats on what the integers are for, and bit for bit to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.forest.emission import emit_forest
from kilotune.codegen.forest.importing import read_forest
from kilotune.codegen.forest.integers import (
    FeatureFormat,
    Given,
    IntegerForest,
    Threshold,
    counted,
    feature_formats,
    integer_forest,
    leaf_formats,
    undecided,
)
from kilotune.codegen.forest.model import Forest
from kilotune.codegen.forest.plan import CODE, STORED, Says, plan_forest
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.forest.random_forests import hard_samples, random_ensemble, written


@dataclass(frozen=True)
class Drawn:
    """A forest with samples."""

    forest: Forest
    samples: np.ndarray


def drawn(seed: int, folder: Path, grid: float = 0.25, **options: Any) -> Drawn:
    forest = read_forest(written(random_ensemble(seed, grid=grid, **options), folder, f"f{seed}"))
    return Drawn(forest, hard_samples(seed, forest.feature_count, grid))


KINDS: dict[str, dict[str, Any]] = {
    "votes": {},
    "many votes": {"classes": 9, "trees": 12, "depth": 6},
    "by column": {"by_column": True, "signed": True, "trees": 6},
    "binary": {"binary": True},
    "one tree": {"trees": 1, "depth": 7},
    "leaves alone": {"depth": 0},
    "values": {"values": True, "signed": True},
    "values of leaves alone": {"depth": 0, "values": True},
    "one value": {"values": True, "signed": True, "classes": 1},
    "wide": {"features": 80, "trees": 8, "depth": 8},
    "stumps": {"depth": 1, "trees": 7},
}


def in_integers(case: Drawn) -> list[IntegerForest]:
    formats = feature_formats(case.forest, case.samples)
    return [
        integer_forest(case.forest, given, leaves) for given in formats for leaves in leaf_formats(case.forest).values()
    ]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "value" not in kind])
def test_integers_give_every_sample_the_class_of_the_floats(kind: str, tmp_path: Path) -> None:
    for seed in range(4):
        case = drawn(seed, tmp_path, **KINDS[kind])
        expected = case.forest.labels(case.samples)
        for made in in_integers(case):
            found = made.outputs(made.quantise(case.samples))[:, 0]
            assert (found != expected).sum() <= undecided(made, case.samples)
            if made.leaves.exact:
                np.testing.assert_array_equal(found, expected)


def test_values_are_as_close_as_their_leaves_are_rounded(tmp_path: Path) -> None:
    case = drawn(1, tmp_path, **KINDS["values"])
    for made in in_integers(case):
        found = made.outputs(made.quantise(case.samples)) / made.leaves.factor
        most = (0.5 * len(case.forest.trees) + 0.5) / made.leaves.factor
        np.testing.assert_allclose(found, case.forest.scores(case.samples), atol=most + 1e-5)


def test_ranks_keep_every_comparison_of_32_bit_floats(tmp_path: Path) -> None:
    case = drawn(5, tmp_path, grid=0.0)
    formats = feature_formats(case.forest, case.samples)
    assert [form.given for form in formats] == [Given.RANK]
    samples = case.samples.astype(np.float32)
    for tree in case.forest.trees:
        for feature, threshold in zip(tree.feature, tree.threshold, strict=True):
            near = samples[:3].copy()
            near[:, feature] = [
                threshold,
                np.nextafter(threshold, np.float32(9e9)),
                np.nextafter(threshold, np.float32(-9e9)),
            ]
            samples = np.r_[samples, near]
    made = integer_forest(case.forest, formats[0], leaf_formats(case.forest)["int8"])
    assert made.leaves.exact
    wide = samples.astype(np.float64)
    np.testing.assert_array_equal(made.outputs(made.quantise(wide))[:, 0], case.forest.labels(wide))


def test_a_grid_is_the_coarsest_that_holds_all_samples(tmp_path: Path) -> None:
    forest = drawn(1, tmp_path).forest
    assert feature_formats(forest, np.array([[0.0, 16.0]]))[0] == FeatureFormat(Given.GRID, 8, 0)
    assert feature_formats(forest, np.array([[0.25, -3.0]]))[0] == FeatureFormat(Given.GRID, 8, 2)
    assert feature_formats(forest, np.array([[0.25, 40.0]]))[0] == FeatureFormat(Given.GRID, 16, 2)
    assert [form.given for form in feature_formats(forest, np.array([[0.1, 40.0]]))] == [Given.RANK]


def test_what_earlier_comparisons_imply_is_gone(tmp_path: Path) -> None:
    """At each leaf some integers must be left, or nothing could come there."""
    for seed in range(6):
        made = in_integers(drawn(seed, tmp_path, depth=7, features=2))[0]
        for tree in made.trees:
            check_reachable(tree, {}, made.features.range)


def check_reachable(branch: Threshold | int, known: dict[int, tuple[int, int]], whole: tuple[int, int]) -> None:
    if isinstance(branch, int):
        return
    low, high = known.get(branch.feature, whole)
    assert low <= branch.threshold < high
    assert branch.left != branch.right
    check_reachable(branch.left, {**known, branch.feature: (low, branch.threshold)}, whole)
    check_reachable(branch.right, {**known, branch.feature: (branch.threshold + 1, high)}, whole)


def test_what_leaves_say(tmp_path: Path) -> None:
    says = {kind: plan_forest(made, [STORED] * len(made.trees)).says for kind, options in KINDS.items()
            for made in in_integers(drawn(2, tmp_path, **options))[:1]}  # fmt: skip
    assert says["one tree"] is Says.LABEL
    assert {says["by column"], says["binary"], says["one value"]} == {Says.NUMBER}
    assert {says["votes"], says["values"]} == {Says.VOTES}


@needs_compiler
@pytest.mark.slow
def test_programs_return_what_the_integers_say(tmp_path: Path) -> None:
    flags = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    cases, sources = [], []
    for seed, options in enumerate(KINDS.values()):
        case = drawn(seed, tmp_path, **options)
        for made in in_integers(case):
            number = len(sources)
            least = CODE if made.leaves.stored_bits == 16 else (STORED, 200)[number % 2]
            made = counted(made, made.quantise(case.samples))
            plan = plan_forest(made, [least / (1 + n % 2) for n in range(len(made.trees))])
            sources.append(emit_forest(plan, f"m{number}", f"predict{number}"))
            cases.append((made, case.samples))
    compiled = compile_sources(sources, tmp_path, flags)
    for number, (made, samples) in enumerate(cases):
        integers = made.quantise(samples)
        np.testing.assert_array_equal(compiled.run_integers(number, integers), made.outputs(integers))


def test_samples_are_counted_where_they_come(tmp_path: Path) -> None:
    case = drawn(3, tmp_path)
    made = in_integers(case)[0]
    integers = made.quantise(case.samples)
    for tree in counted(made, integers).trees:
        check_counts(tree, integers)


def check_counts(branch: Threshold | int, integers: np.ndarray) -> None:
    if isinstance(branch, Threshold):
        left = integers[:, branch.feature] <= branch.threshold
        assert (branch.samples, branch.left_samples) == (len(integers), left.sum())
        check_counts(branch.left, integers[left])
        check_counts(branch.right, integers[~left])


def test_what_classes_are_called_stands_in_the_header(tmp_path: Path) -> None:
    case = drawn(2, tmp_path)
    count = case.forest.class_count
    assert count is not None
    named = replace(case.forest, classes=tuple(f"kind {k}" for k in range(count)))
    made = [in_integers(Drawn(forest, case.samples))[0] for forest in (named, case.forest)]
    headers = [emit_forest(plan_forest(one, [STORED] * len(one.trees))).header for one in made]
    quoted = ", ".join(f'"kind {k}"' for k in range(count))
    assert [f"#define MODEL_CLASS_NAMES {{{quoted}}}\n" in header for header in headers] == [True, False]
