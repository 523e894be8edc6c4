# ruff: noqa: E501  (tables of messages, one case a line)
"""Whole models: the programs against hand-written NumPy, and programs in the shapes that the public tool's users write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_interpreter import compile_source, convolve, evaluate, max_pool, run

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError

PROGRAMS = Path(__file__).parent / "programs"
RANDOM = np.random.default_rng(7)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def random_parameters(program: ir.Program, spread: float = 0.5) -> dict[str, np.ndarray]:
    return {
        v.name: RANDOM.normal(scale=spread, size=v.shape) for v in program.variables if v.role is not ir.Role.TEMPORARY
    }


def test_protonn() -> None:
    """Prototypes vote with a Gaussian weight of their distance in the projection."""
    program = compile_source((PROGRAMS / "protonn.sd").read_text())
    labels = set()
    for _ in range(10):
        p = random_parameters(program)
        projected = p["W"] @ p["X"]
        distances = ((projected[None] - p["B"]) ** 2).sum(axis=(1, 2))
        scores = (p["Z"] * np.exp(-0.0625 * distances)[:, None, None]).sum(0)
        assert run(program, p) == scores.argmax()
        labels.add(int(scores.argmax()))
    assert len(labels) > 2
    assert program.input is not None
    assert program.input.size == 64


def fastgrnn_scores(p: dict[str, np.ndarray]) -> np.ndarray:
    h = np.zeros((1, 16))
    for step in p["X"].reshape(8, 1, 8):
        pre = step @ p["W"] + h @ p["U"]
        gate, update = sigmoid(pre + p["Bg"]), np.tanh(pre + p["Bh"])
        h = gate * h + (0.94511356 * (1 - gate) + 0.21154822) * update
    return h @ p["FC"] + p["FCbias"]


def test_fastgrnn() -> None:
    program = compile_source((PROGRAMS / "fastgrnn.sd").read_text())
    labels = set()
    for _ in range(10):
        p = random_parameters(program)
        assert run(program, p) == fastgrnn_scores(p).argmax()
        labels.add(int(fastgrnn_scores(p).argmax()))
    assert len(labels) > 2
    (loop,) = (statement for statement in program.body if isinstance(statement, ir.Loop))
    assert loop.body[-1].out.variable == "H"
    assert not any(isinstance(operation, ir.Copy) for operation in ir.operations(program.body))


def test_scores_of_fastgrnn_as_a_regression_model() -> None:
    source = (PROGRAMS / "fastgrnn.sd").read_text().replace("argmax((last * FC) + FCbias)", "(last * FC) + FCbias")
    program = compile_source(source)
    p = random_parameters(program)
    assert program.result_kind is ir.ResultKind.REAL
    np.testing.assert_allclose(run(program, p), fastgrnn_scores(p), rtol=1e-12, strict=True)


@pytest.mark.parametrize(
    ("program", "old", "new", "message"),
    [
        ("protonn", "X = (64, 1)", "X = (65, 1)", "8:19: operands of '|*|'"),
        ("protonn", "B = (30, 10, 1)", "B = (29, 10, 1)", "11:23: axis 1 of (29, 10, 1): expected places 0 to 28, found 0 to 29"),
        ("protonn", "d^T * d", "d * d", "12:27: operands of '*'"),
        ("protonn", "exp(", "expp(", "12:9: function"),
        ("protonn", "[j] in", "[k] in", "11:24: name: expected one that is bound here (B, W, X, Z, gammaSq, j, projected), found k"),
        ("protonn", "in\nlet scores", "let scores", "8:25: syntax: expected an operator or 'in', found 'let'"),
        ("fastgrnn", "(8, 1, 8), (1, 2)", "(8, 1, 9), (1, 2)", "12:13: shape of reshape: expected 64 elements as in (64, 1), found (8, 1, 9) with 72"),
        ("fastgrnn", "[0:8], H", "[0:9], H", "16:18: axis 1 of (8, 1, 8): expected places 0 to 7, found 0 to 8"),
        ("fastgrnn", "init([1, 16]", "init([16, 1]", "16:32: operands of '*'"),
        ("fastgrnn", "let H = (gate", "let G = (gate", None),
        ("fastgrnn", "FCbias = (1, 10)", "FCbias = (10)", "21:20: operands of '+'"),
    ],
)  # fmt: skip
def test_programs_with_one_mistake(program: str, old: str, new: str, message: str | None) -> None:
    source = (PROGRAMS / f"{program}.sd").read_text()
    assert old in source
    if message is None:  # no mistake: the public tool takes it too, and its H keeps its first value
        compile_source(source.replace(old, new))
        return
    with pytest.raises(InputError) as caught:
        compile_source(source.replace(old, new))
    assert str(caught.value).startswith(f"model.sd:{message}")


def test_low_rank_fastgrnn_with_factored_weights() -> None:
    source = """
    let W1 = (5, 2) in [-1.0, 1.0] in
    let W2 = (2, 6) in [-1.0, 1.0] in
    let U1 = (6, 3) in [-1.0, 1.0] in
    let U2 = (3, 6) in [-1.0, 1.0] in
    let b = (1, 6) in [-1.0, 1.0] in
    let X = (20, 1) in [-1.0, 1.0] in
    let XX = reshape(X, (4, 1, 5), (1, 2)) in
    let zeta = 0.2 in let nu = 0.1 in
    let H = init([1, 6], 0.0) in
    let res = loop(i = [0:4], H) (
        let a = (XX[i] * W1) * W2 in
        let c = a + (H * U1) * U2 in
        let g = sigmoid(c + b) in
        let H = (g <*> H) + (zeta * (1.0 - g) + nu) <*> tanh(c) in
        H
    ) in res
    """
    program = compile_source(source)
    p = random_parameters(program)
    h = np.zeros((1, 6))
    for step in p["X"].reshape(4, 1, 5):
        c = step @ p["W1"] @ p["W2"] + h @ p["U1"] @ p["U2"]
        g = sigmoid(c + p["b"])
        h = g * h + (0.2 * (1 - g) + 0.1) * np.tanh(c)
    np.testing.assert_allclose(run(program, p), h, rtol=1e-12)


def test_patches_of_an_image_through_two_recurrences() -> None:
    """RNNPool's form: nested loops whose results go to slices, windows at multiples of loop indices, reversed rows."""
    source = """
    let X = (30, 1) in [-1.0, 1.0] in
    let W = (3, 1) in [-1.0, 1.0] in
    let U = (3, 3) in [-1.0, 1.0] in
    let image = reshape(X, (1, 5, 6, 1), (1, 2)) in
    let out = init([1, 2, 2, 12], 0.0) in
    let acc = init([1, 1], 0.0) in
    let acc2 = init([1, 1], 0.0) in
    let dummy = loop(y = [0:2], acc) (
        let dummy2 = loop(x = [0:2], acc2) (
            let patch = reshape(image[0:+1][2*y:+3][2*x:+4][0:+1], (3, 4, 1), (1, 2, 3, 4)) in
            let rows = init([3, 4], 0.0) in
            let inner = loop(j = [0:4], rows) (
                let H = init([3, 1], 0.0) in
                let rows[0:+3][j:+1] = loop(i = [0:3], H) (
                    let pixel = reshape(patch[i:+1][j:+1][0:+1], (1, 1), (1, 2, 3)) in
                    let H = tanh(W * pixel + U * H) in
                        H
                ) in
                rows
            ) in
            let out[0:+1][y:+1][x:+1][0:+12] = reshape(reverse(rows, 1), (1, 1, 1, 12), (2, 1)) in
            let acc2[0:+1][0:+1] = inner[0:+1][0:+1] in
            acc2
        ) in
        let acc[0:+1][0:+1] = dummy2[0:+1][0:+1] in
        out[0][0][0][0]
    ) in
    let out[0:+1][1:+1][0:+2][0:+12] = out[0:+1][0:+1][0:+2][0:+12] in
    out
    """
    program = compile_source(source)
    p = random_parameters(program)
    image = p["X"].reshape(5, 6)
    expected = np.zeros((1, 2, 2, 12))
    for y in range(2):
        for x in range(2):
            rows = np.zeros((3, 4))
            for j in range(4):
                h = np.zeros((3, 1))
                for i in range(3):
                    h = np.tanh(p["W"] * image[2 * y + i, 2 * x + j] + p["U"] @ h)
                rows[:, j] = h[:, 0]
            expected[0, y, x] = rows[:, ::-1].T.reshape(-1)
    expected[0, 1] = expected[0, 0]
    np.testing.assert_allclose(run(program, p), expected, rtol=1e-12, strict=True)


def test_detection_head_that_keeps_the_largest_of_three() -> None:
    """The face detectors' form: a label chooses the channel that is kept."""
    source = """
    let X = (1, 2, 3, 2) in [-1.0, 1.0] in
    let F = (1, 1, 1, 2, 4) in [-1.0, 1.0] in
    let CN = conv2d(X, F, {s 1 1}, {p 0 0 0 0}, {d 1 1}, {g 1}) in
    let kept = init([1, 2, 3, 2], 0.0) in
    let acc = init([1, 1], 0.0) in
    let acc2 = init([1, 1], 0.0) in
    let dummy = loop(i = [0:2], acc) (
        let dummy2 = loop(j = [0:3], acc2) (
            let index = argmax(reshape(CN[0:+1][i:+1][j:+1][0:+3], (3, 1), (1, 2, 3, 4))) in
            let kept[0:+1][i:+1][j:+1][0:+1] = CN[0:+1][i:+1][j:+1][index:+1] in
            let kept[0:+1][i:+1][j:+1][1:+1] = CN[0:+1][i:+1][j:+1][3:+1] in
            let acc2[0:+1][0:+1] = reshape(kept[0:+1][0:+1][0:+1][0:+1], (1, 1), (1, 2, 3, 4)) in
            kept[0][0][0][0]
        ) in
        let acc[0:+1][0:+1] = acc2[0:+1][0:+1] in
        kept[0][0][0][0]
    ) in
    kept
    """
    program = compile_source(source)
    p = random_parameters(program)
    scores = convolve(p["X"], p["F"])
    expected = np.stack([scores[..., :3].max(-1), scores[..., 3]], axis=-1)
    np.testing.assert_allclose(run(program, p), expected, rtol=1e-12, strict=True)


def test_small_lenet() -> None:
    source = """
    let X = (64, 1) in [0.0, 1.0] in
    let W1 = (1, 3, 3, 1, 4) in [-1.0, 1.0] in let B1 = (4) in [-1.0, 1.0] in
    let W2 = (1, 3, 3, 4, 6) in [-1.0, 1.0] in let B2 = (6) in [-1.0, 1.0] in
    let F = (24, 10) in [-1.0, 1.0] in let FB = (10) in [-1.0, 1.0] in
    let image = reshape(X, (1, 8, 8, 1), (1, 2)) in
    let c1 = relu(conv2d(image, W1, {s 1 1}, {p 1 1 1 1}, {d 1 1}, {g 1}) <+> B1) in
    let p1 = maxpool(c1, {k 2 2}, {p 0 0 0 0}, {s 2 2}) in
    let c2 = relu(conv2d(p1, W2, {s 1 1}, {p 1 1 1 1}, {d 1 1}, {g 1}) <+> B2) in
    let p2 = maxpool(c2, {k 2 2}, {p 0 0 0 0}, {s 2 2}) in
    argmax(reshape(p2, (1, 24), (1, 4, 2, 3)) * F <+> FB)
    """
    program = compile_source(source)
    for _ in range(5):
        p = random_parameters(program)
        step = p["X"].reshape(1, 8, 8, 1)
        for filters, bias in (("W1", "B1"), ("W2", "B2")):
            step = np.maximum(convolve(step, p[filters], padding=(1, 1, 1, 1)) + p[bias], 0)
            step = max_pool(step, (2, 2), (2, 2))
        scores = step.transpose(0, 3, 1, 2).reshape(1, 24) @ p["F"] + p["FB"]
        assert run(program, p) == scores.argmax()


def test_the_worked_example_has_a_constant_x() -> None:
    """Without input, X is a parameter when a value for it is given (SeeDot Section 3)."""
    source = "let X = (2, 1) in [-1.0, 1.0] in let W = (1, 2) in [-2.0, 2.0] in W * X"
    x, w = np.array([[0.5], [-0.25]]), np.array([[1.0, 2.0]])
    program = compile_source(source, X=x, W=w)
    assert program.input is None
    assert program.variable("X").role is ir.Role.PARAMETER
    assert evaluate(source, X=x, W=w) == 0.0


@pytest.mark.parametrize(
    ("tail", "nonzeros", "sparse"),
    [
        ("W |*| X", 1, True),  # 2 + 4 < 24
        ("W |*| X", 9, True),  # 18 + 4 < 24
        ("W |*| X", 10, False),  # 20 + 4 = 24
        ("W * X", 1, False),
        ("(W |*| X) + (W |*| X)", 1, True),
        ("(W |*| X) + (W * X)", 1, False),
        ("W^T^T |*| X", 1, True),
        ("let w = W in w |*| X", 1, True),
        ("W[0:+2][0:+6] |*| X", 1, False),
        ("let y = W |*| X in W", 1, False),
        ("W |*| reshape(X, (6, 1), (2, 1))", 1, True),
    ],
)
def test_parameters_are_sparse_where_that_is_smaller(tail: str, nonzeros: int, sparse: bool) -> None:
    matrix = np.zeros(24)
    matrix[:nonzeros] = 1.0
    source = f"let X = (6, 1) in [0.0, 1.0] in let W = (4, 6) in [0.0, 1.0] in {tail}"
    assert compile_source(source, W=matrix.reshape(4, 6)).variable("W").sparse is sparse


def test_declared_ranges_are_kept() -> None:
    program = compile_source("let X = (2) in [-1.5, 2] in X")
    assert program.variable("X").declared_range == (-1.5, 2.0)
    assert str(program.variable("X").location) == "model.sd:1:5"
