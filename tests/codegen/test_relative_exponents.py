"""ProtoNN far from its prototypes: the same class by exponents less the largest, in floats and where 16 bits have nothing left of e**t."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.relative_exponents import relative_where_lost, samples_without_scores, with_relative_exponents
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Trial
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.emit.compiled import compile_sources, needs_compiler

PLACES = np.array([[-0.8, -0.4], [-0.3, 0.6], [0.2, -0.7], [0.5, 0.1], [0.9, 0.8]])
WEIGHTS = np.eye(3)[[2, 0, 1, 2, 1]]
GAMMA = 30.0
ENDS = {
    "argmax": "argmax(score)",
    "a sign": "sgn(score)",
    "numbers": "score",
    "more scores": "argmax(score + score)",
}


def proto(
    folder: Path, end: str = "argmax", term: str = "Z[j] * exp(-gammaSq * (d^T * d))", gamma: float = GAMMA
) -> Bundle:
    """Five prototypes of two features, and a sum of what they say of three classes, or of one number before a sign."""
    weights = WEIGHTS if end != "a sign" else WEIGHTS[:, :1] - WEIGHTS[:, 1:2] + 0.3
    kept = {"B": PLACES[:, :, None], "Z": weights[:, :, None]}
    lines = ["let X = (2, 1) in [-1.0, 1.0] in"]
    for name, values in kept.items():
        np.save(folder / f"{name}.npy", values.astype(np.float32))
        lines.append(f"let {name} = ({', '.join(map(str, values.shape))}) in [-1.0, 1.3] in")
    lines += [
        f"let gammaSq = {gamma:.4f} in",
        "let score = $(j = [0:5]) (let d = X - B[j] in",
        f"{term}) in",
        ENDS[end],
    ]
    (folder / "model.sd").write_text("\n".join(lines) + "\n")
    features = np.random.default_rng(0).uniform(-1, 1, (200, 2)).astype(np.float32)
    for part in ("train", "test"):
        labels = np.minimum(np.argmax(scores(features) @ WEIGHTS, axis=1), 1 if end == "a sign" else 2)
        np.savez(folder / f"{part}.npz", data=np.column_stack([labels, features]).astype(np.float32))
    return load_bundle(folder)


def scores(features: FloatArray) -> FloatArray:
    """Of every prototype, by the formula."""
    return np.exp(exponents(features, GAMMA))


def exponents(features: FloatArray, gamma: float) -> FloatArray:
    squares = ((features[:, None, :].astype(np.float64) - PLACES.astype(np.float32)[None]) ** 2).sum(axis=2)
    return np.asarray(-gamma * squares)


def features_of(bundle: Bundle) -> FloatArray:
    assert bundle.train is not None
    return bundle.train.features


@pytest.mark.parametrize("end", ["argmax", "a sign"])
def test_the_class_is_the_same_by_exponents_less_the_largest(end: str, tmp_path: Path) -> None:
    bundle = proto(tmp_path, end)
    relative = with_relative_exponents(bundle.program)
    assert relative is not None
    expected = run_float(bundle.program, bundle.parameters, features_of(bundle)).outputs
    found = run_float(relative, bundle.parameters, features_of(bundle)).outputs
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 1
    loop = relative.body[-2]
    assert isinstance(loop, ir.Loop)
    assert isinstance(loop.body[1], ir.Exp)
    seen = dataclasses.replace(
        relative,
        body=(*relative.body[:-2], dataclasses.replace(loop, count=3, body=loop.body[:1])),
        result=ir.View("exponents", (5,), (1,)),
        result_kind=ir.ResultKind.REAL,
    )
    of_all = run_float(seen, bundle.parameters, features_of(bundle)).outputs
    np.testing.assert_allclose(of_all, exponents(features_of(bundle), GAMMA), rtol=1e-5, atol=1e-5)
    ends = dataclasses.replace(seen, result=ir.View("relative_exponent", (1,), (1,)))
    of_third = run_float(ends, bundle.parameters, features_of(bundle)).outputs[:, 0]
    np.testing.assert_allclose(of_third, of_all[:, 2] - of_all.max(axis=1), rtol=1e-5, atol=1e-5)


def test_samples_whose_exponentials_are_all_0_are_counted(tmp_path: Path) -> None:
    """Of numbers up to 1 a table of 16 bits has 14 places."""
    bundle = proto(tmp_path)
    features = features_of(bundle)
    lost = int((exponents(features, GAMMA).max(axis=1) < np.log(2.0**-14)).sum())
    assert 10 < lost < 100
    assert samples_without_scores(bundle.program, bundle.parameters, features) == lost
    program, said = relative_where_lost(bundle.program, bundle.parameters, features)
    assert said == lost
    assert program == with_relative_exponents(bundle.program)


@pytest.mark.parametrize("model", ["protonn-digits", "protonn-cancer", "bonsai-digits"])
def test_a_model_that_loses_no_sample_stays_as_it_is(model: str) -> None:
    bundle = load_bundle(resolve_model(model))
    program, lost = relative_where_lost(bundle.program, bundle.parameters, features_of(bundle))
    assert program is bundle.program
    assert lost == 0


@pytest.mark.parametrize(
    ("end", "term"),
    [
        ("numbers", "Z[j] * exp(-gammaSq * (d^T * d))"),
        ("more scores", "Z[j] * exp(-gammaSq * (d^T * d))"),
        ("argmax", "exp(Z[j])"),
        ("argmax", "Z[j] + exp(-gammaSq * (d^T * d)) * Z[j]"),
        ("argmax", "relu(Z[j] * exp(-gammaSq * (d^T * d)))"),
        ("argmax", "Z[j] * tanh(exp(-gammaSq * (d^T * d)))"),
    ],
)
def test_where_a_common_factor_would_matter_nothing_is_done(end: str, term: str, tmp_path: Path) -> None:
    bundle = proto(tmp_path, end, term)
    assert with_relative_exponents(bundle.program) is None
    assert samples_without_scores(bundle.program, bundle.parameters, features_of(bundle)) == 0


@pytest.mark.parametrize("part", ["difference", "product", "sum", "start", "result"])
def test_any_other_program_stays(part: str, tmp_path: Path) -> None:
    """It needs what was added before, weighs by what is computed, adds something else, begins elsewhere, or returns another class."""
    program = proto(tmp_path).program
    start, loop, last = program.body
    assert isinstance(loop, ir.Loop)
    difference, product, added = loop.body[0], loop.body[-2], loop.body[-1]
    assert isinstance(start, ir.Fill)
    assert isinstance(difference, ir.Subtract)
    assert isinstance(product, ir.Multiply)
    assert isinstance(added, ir.Add)
    assert isinstance(product.a, ir.View)
    if part == "difference":
        difference = dataclasses.replace(difference, a=product.out)
    elif part == "product":
        product = dataclasses.replace(product, a=dataclasses.replace(product.a, variable=difference.out.variable))
    elif part == "sum":
        added = dataclasses.replace(added, b=product.a)
    elif part == "start":
        start = dataclasses.replace(start, value=1.0)
    result = dataclasses.replace(program.result, variable="earlier") if part == "result" else program.result
    changed = dataclasses.replace(loop, body=(difference, *loop.body[1:-2], product, added))
    assert with_relative_exponents(dataclasses.replace(program, body=(start, changed, last), result=result)) is None


@needs_compiler
def test_16_bits_keep_the_class_of_far_samples(tmp_path: Path) -> None:
    """As it is written the program loses most of them; the emitted one keeps all, and the summary says why."""
    bundle = proto(tmp_path)
    features = features_of(bundle)
    plain = ShiftrySpace(task_of(bundle, bundle.train))
    lost = samples_without_scores(bundle.program, bundle.parameters, features)
    first = plain.evaluate([{d.name: d.options[0] for d in plain.decisions}])[0].metrics
    assert first["disagreements"] > lost / 2
    problem = build_problem(TuneRequest("shiftry", str(tmp_path), "random"))
    space = problem.space
    assert isinstance(space, ShiftrySpace)
    assignment = {d.name: d.options[0] for d in space.decisions}
    measured = space.evaluate([assignment])[0]
    assert measured.metrics["disagreements"] <= 1
    (said,) = (line for line in problem.lines(Trial(0, assignment, measured)) if line.startswith("Exponents are less"))
    assert said.endswith(f"of {lost} of 200 training samples all exponentials were 0 in 16 bits.")
    batch = space.lower([assignment])
    expected = run_reference(batch, bundle.parameters, features)[0]
    compiled = compile_sources([emit_c(batch, bundle.parameters)], tmp_path)
    np.testing.assert_array_equal(compiled.run(0, features), expected)
