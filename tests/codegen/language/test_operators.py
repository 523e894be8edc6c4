"""Each operator of the language against its NumPy formula."""

from __future__ import annotations

import numpy as np
import pytest
from float_interpreter import compile_source, convolve, evaluate, max_pool

from kilotune.codegen import ir

RANDOM = np.random.default_rng(1)
A = RANDOM.normal(size=(3, 4))
B = RANDOM.normal(size=(3, 4))
SQUARE = RANDOM.normal(size=(4, 5))
IMAGE = RANDOM.normal(size=(1, 5, 6, 4))
DECLARE = (
    "let A = (3, 4) in [-9.0, 9.0] in let B = (3, 4) in [-9.0, 9.0] in "
    "let M = (4, 5) in [-9.0, 9.0] in let I = (1, 5, 6, 4) in [-9.0, 9.0] in let v = (4) in [-9.0, 9.0] in "
    "let s = (1, 1) in [-9.0, 9.0] in let g = 0.5 in "
)
V = RANDOM.normal(size=4)
S = np.array([[0.75]])


def check(expression: str, expected: np.ndarray) -> None:
    result = evaluate(DECLARE + expression, A=A, B=B, M=SQUARE, I=IMAGE, v=V, s=S)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12, strict=True)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A + B", A + B),
        ("A - B", A - B),
        ("A <*> B", A * B),
        ("A * M", A @ SQUARE),
        ("A |*| M", A @ SQUARE),
        ("-A", -A),
        ("+A", A),
        ("g * A", 0.5 * A),
        ("A * g", 0.5 * A),
        ("A * 2", 2 * A),
        ("-g * A", -0.5 * A),
        ("1.0 - A", 1 - A),
        ("A - 1.5e0", A - 1.5),
        ("s * A", 0.75 * A),
        ("A * s", 0.75 * A),
        ("A + s", 0.75 + A),
        ("s - A", 0.75 - A),
        ("s <*> A", 0.75 * A),
        ("s * s", S * S),
        ("s + g", S + 0.5),
        ("A <+> v", A + V),
        ("A <-> v", A - V),
        ("I <+> v", IMAGE + V),
        ("I <-> v", IMAGE - V),
        ("v <+> v", V + V),
        ("A^T", A.T),
        ("A^T * B", A.T @ B),
        ("A * B^T", A @ B.T),
        ("A^T^T", A),
        ("relu(A)", np.maximum(A, 0)),
        ("relu6(4.0 * A)", np.clip(4 * A, 0, 6)),
        ("exp(A)", np.exp(A)),
        ("tanh(A)", np.tanh(A)),
        ("sigmoid(A)", 1 / (1 + np.exp(-A))),
        ("normaliseL2(I)", IMAGE / np.sqrt((IMAGE**2).sum(-1, keepdims=True))),
        ("normaliseL2(A - A)", np.zeros((3, 4))),
        ("reverse(A, 0)", A[::-1]),
        ("reverse(A, 1)", A[:, ::-1]),
        ("reverse(reverse(A, 1), 0)^T", A[::-1, ::-1].T),
        ("A[2]", A[2]),
        ("A[1][3]", A[1, 3]),
        ("A[0:+2][1:+3]", A[0:2, 1:4]),
        ("A[2][1:+2]", A[2, 1:3]),
        ("A[1:+2][1:+2][1]", A[1:3, 1:3][1]),
        ("(A[1:+2][1:+2])[1:+1][0:+2]", A[2:3, 1:3]),
        ("reverse(A, 1)[0:+1][0:+2]", A[0:1, ::-1][:, :2]),
        ("reshape(A, (2, 6), (1, 2))", A.reshape(2, 6)),
        ("reshape(A, (2, 6))", A.reshape(2, 6)),
        ("reshape(A, (12), (2, 1))", A.T.reshape(12)),
        ("reshape(A, (4, 3), (2, 1))", A.T),
        ("reshape(A, (6, 2), (2, 1))", A.T.reshape(6, 2)),
        ("reshape(A[0:+2][1:+2], (1, 4), (1, 2))", A[0:2, 1:3].reshape(1, 4)),
        ("reshape(reverse(A, 1), (2, 2, 3), (1, 2))", A[:, ::-1].reshape(2, 2, 3)),
        ("reshape(I, (1, 120), (1, 4, 2, 3))", IMAGE.transpose(0, 3, 1, 2).reshape(1, 120)),
        ("reshape(I, (4, 30), (4, 2, 3))", IMAGE[0].transpose(2, 0, 1).reshape(4, 30)),
        ("init([2, 3], 1.5)", np.full((2, 3), 1.5)),
        ("init([2], -1)", np.full(2, -1.0)),
        ("$(i = [0:3]) (A[i])", A.sum(0)),
        ("$(i = [1:3]) A[i] <*> v", (A[1:3] * V).sum(0)),
        ("$(i = [0:2]) ($(j = [0:3]) (A[i + 1][j + 1] * A[i][j]))", (A[1:, 1:] * A[:2, :3]).sum()),
        ("$(i = [0:2]) (A[0:+3][2*i:+2])", A[:, :2] + A[:, 2:]),
        ("$(i = [0:2]) (A[2 - 2*i])", A[2] + A[0]),
        ("$(i = [0:4]) 0.25", np.array(1.0)),
        ("$(i = [0:4]) 1", np.array(4.0)),
        ("A[0][0] >= 0 ? A : B", A if A[0, 0] >= 0 else B),
        ("-A[0][0] >= 0 ? A : B", A if A[0, 0] <= 0 else B),
        ("s - s >= 0 ? A : B", A),
        ("s - s > 0 ? A : B", B),
        ("s >= 0 ? 1.0 : 2.0", np.array(1.0)),
        ("s >= 0 ? s : g", S),
        ("0.0 >= 0 ? A : B", A),
        ("0 > 0 ? A : B", B),
        ("exp(0.0) + tanh(0.0) + sigmoid(0.0) + relu(-1.0) + relu6(7.0)", np.array(7.5)),
    ],
)
def test_value(expression: str, expected: np.ndarray) -> None:
    check(expression, np.asarray(expected))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A - B - A", A - B - A),
        ("A + B <*> A", A + B * A),
        ("A <*> B + A", A * B + A),
        ("A <*> B <+> v", (A * B) + V),
        ("A <+> v <*> B", (A + V) * B),
        ("-A[1] + A[0]", A[0] - A[1]),
        ("-A <*> -B", A * B),
        ("g * -A^T", -0.5 * A.T),
        ("A + $(i = [0:3]) A[i][0] + 1.0", A + (A[:, 0] + 1).sum()),
        ("A <*> (let q = B in q) + A", A * B + A),
        ("A + let q = 2.0 in q * B", A + 2 * B),
        ("s >= 0 ? A : s >= 0 ? B : A", A),
    ],
)
def test_precedence(expression: str, expected: np.ndarray) -> None:
    check(expression, expected)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (2, 2), (4,)])
def test_argmax_is_the_first_largest_place(shape: tuple[int, ...]) -> None:
    source = f"let X = ({', '.join(map(str, shape))}) in [0.0, 9.0] in argmax(X)"
    assert evaluate(source, X=[1, 7, 7, 2]) == 1
    assert compile_source(source).result_kind is ir.ResultKind.CLASS


@pytest.mark.parametrize(("number", "label"), [(0.5, 1), (0.0, 0), (-0.5, 0)])
def test_sgn_is_one_where_positive(number: float, label: int) -> None:
    source = "let X = (1, 1) in [-1.0, 1.0] in sgn(X)"
    assert evaluate(source, X=number) == label
    assert compile_source(source).result_kind is ir.ResultKind.CLASS


@pytest.mark.parametrize(
    ("filters", "stride", "padding", "dilation", "groups"),
    [
        ((1, 3, 3, 4, 2), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((1, 3, 3, 4, 2), (2, 1), (1, 2, 0, 1), (1, 1), 1),
        ((1, 1, 3, 4, 3), (1, 1), (0, 0, 2, 2), (1, 2), 1),
        ((2, 3, 1, 2, 3), (1, 2), (1, 1, 0, 0), (2, 1), 2),
        ((4, 1, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 4),
    ],
)
def test_conv2d(filters, stride, padding, dilation, groups) -> None:
    f = RANDOM.normal(size=filters)
    options = f"{{s {stride[0]} {stride[1]}}}, {{p {' '.join(map(str, padding))}}}, {{d {dilation[0]} {dilation[1]}}}, {{g {groups}}}"
    source = f"let X = (1, 5, 6, 4) in [0.0, 1.0] in let F = {filters} in [0.0, 1.0] in conv2d(X, F, {options})"
    expected = convolve(IMAGE, f, stride, padding, dilation)
    np.testing.assert_allclose(evaluate(source, X=IMAGE, F=f), expected, rtol=1e-12, strict=True)


def test_groups_order_the_output_channels() -> None:
    image = np.arange(1, 5.0).reshape(1, 1, 1, 4)
    filters = np.arange(1, 9.0).reshape(2, 1, 1, 2, 2)
    source = (
        "let X = (1, 1, 1, 4) in [0.0, 1.0] in let F = (2, 1, 1, 2, 2) in [0.0, 1.0] in "
        "conv2d(X, F, {s 1 1}, {p 0 0 0 0}, {d 1 1}, {g 2})"
    )
    first = image[0, 0, 0, :2] @ filters[0, 0, 0]
    second = image[0, 0, 0, 2:] @ filters[1, 0, 0]
    np.testing.assert_allclose(evaluate(source, X=image, F=filters)[0, 0, 0], [*first, *second])


def test_maxpool_pads_top_bottom_left_right() -> None:
    source = "let X = (1, 5, 6, 4) in [0.0, 1.0] in maxpool(X, {k 2 3}, {p 1 0 2 1}, {s 2 1})"
    expected = max_pool(IMAGE - 9, (2, 3), (2, 1), (1, 0, 2, 1))
    np.testing.assert_allclose(evaluate(source, X=IMAGE - 9), expected, strict=True)


def test_mbconv_adds_the_bias_before_it_scales() -> None:
    shapes = {"F1": (1, 1, 1, 4, 6), "W1": (6,), "B1": (6,), "F2": (6, 3, 3, 1, 1), "W2": (6,), "B2": (6,)}
    shapes |= {"F3": (1, 1, 1, 6, 5), "W3": (5,), "B3": (5,)}
    p = {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}
    lets = "".join(f"let {name} = ({', '.join(map(str, shape))}) in [-9.0, 9.0] in " for name, shape in shapes.items())
    call = "mbconv(X, [F1, W1, B1], [F2, W2, B2], [F3, W3, B3], {s 2 1}, {p 1 1 0 2})"
    source = f"let X = (1, 5, 6, 4) in [0.0, 1.0] in {lets} {call}"
    expand = np.clip((convolve(IMAGE, p["F1"]) + p["B1"]) * p["W1"], 0, 6)
    depthwise = np.clip((convolve(expand, p["F2"], (2, 1), (1, 1, 0, 2)) + p["B2"]) * p["W2"], 0, 6)
    expected = (convolve(depthwise, p["F3"]) + p["B3"]) * p["W3"]
    np.testing.assert_allclose(evaluate(source, X=IMAGE, **p), expected, rtol=1e-12, strict=True)


def test_views_move_no_data() -> None:
    """Transpose, reshape, slice, index and reverse alone need no operation."""
    source = (
        "let X = (4, 6) in [0.0, 1.0] in let a = reverse(X^T, 0)[1:+4][0:+4] in "
        "let b = reshape(a, (2, 2, 4), (1, 2)) in let c = reshape(b, (2, 4, 2), (1, 3, 2)) in c[1]"
    )
    program = compile_source(source)
    x = RANDOM.normal(size=(4, 6))
    assert program.body == ()
    expected = x.T[::-1][1:5].reshape(2, 2, 4).transpose(0, 2, 1)[1]
    np.testing.assert_array_equal(evaluate(source, X=x), expected, strict=True)
    assert program.result.variable == "X"


def test_constants_fold() -> None:
    program = compile_source("let X = (1, 2) in [0.0, 1.0] in let g = 0.25 in let h = -(g + 1) * 2.0 in h * X")
    (operation,) = program.body
    assert operation.a == ir.Literal(-2.5)


def test_scalar_times_matrix_is_no_matrix_product() -> None:
    """(n, 1) * (1, 1): rule T-M2S makes the second a scalar."""
    program = compile_source("let X = (3, 1) in [0.0, 1.0] in X * (X^T * X)")
    assert [type(operation) for operation in program.body] == [ir.MatMul, ir.Multiply]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A[argmax(v[0:+3])]", A[V[:3].argmax()]),
        (
            "let c = argmax(reshape(A, (12), (2, 1))) in reshape(B, (12), (2, 1))[c]",
            B.T.reshape(-1)[A.T.reshape(-1).argmax()],
        ),
        ("let c = argmax(A[0:+2][0:+2]) in M[c]", SQUARE[A[:2, :2].argmax()]),
        ("let c = argmax(v) in I[0:+1][0:+5][1:+2][c:+1]", IMAGE[:, :, 1:3, V.argmax()][..., None]),
        ("let c = sgn(v[0:+1]) in A[c]", A[int(V[0] > 0)]),
        ("let c = sgn(-v[0:+1]) in A[c:+2][1:+2]", A[int(V[0] <= 0) :, 1:3][:2]),
        ("let c = argmax(s) in A[c]", A[0]),
        ("$(i = [0:3]) (let c = argmax(A[i]) in M[c])", SQUARE[A.argmax(1)].sum(0)),
        ("let c = argmax(v) in $(i = [0:3]) A[i][c]", A[:, V.argmax()].sum()),
        ("let n = v[0] >= 0 ? 2 : 1 in A[n]", A[2 if V[0] >= 0 else 1]),
        ("let n = -v[0] >= 0 ? 2 : 1 in A[n] + n * B[0]", (A + (k := 2 if -V[0] >= 0 else 1) * B[0])[k]),
        ("let n = v[1] > 0 ? 1 : 0 in A[n:+1][2-n:+2]", A[(k := int(V[1] > 0)) : k + 1, 2 - k : 4 - k]),
        ("let n = v[0] > 0 ? 1 : 0 in let v[0:+1] = 0.0 - v[0:+1] in A[n]", A[int(V[0] > 0)]),
        ("let n = v[0] > 0 ? 1 : 0 in let n = 2 in A[n]", A[2]),
        ("let n = v[0] - v[0] >= 0 ? 2 : 1 in A[n]", A[2]),
        ("let n = v[0] - v[0] > 0 ? 2 : 1 in A[n]", A[1]),
        ("$(i = [0:3]) (let n = A[i][0] > 0 ? 3 : 0 in n * M[n])", 3 * SQUARE[3] * (A[:, 0] > 0).sum()),
    ],
)
def test_labels_choose_elements(expression: str, expected: np.ndarray) -> None:
    check(expression, np.asarray(expected))


@pytest.mark.parametrize("seed", range(6))
def test_a_tree_of_the_first_public_tool_walks_by_data(seed: int) -> None:
    """Bonsai as the tool of PLDI 2019 wrote it: the number of the next node is computed from the one before."""
    random = np.random.default_rng(seed)
    given = {name: random.normal(size=(7, 1, 5)) for name in "WVT"}
    x = random.normal(size=(5, 1))
    source = (
        "".join(f"let {name} = (7, 1, 5) in [-9.0, 9.0] in " for name in "WVT") + "let X = (5, 1) in [-9.0, 9.0] in "
    )
    source += "let node0 = 0 in let score0 = (W[node0] * X) <*> tanh(V[node0] * X) in "
    for depth in (1, 2):
        source += (
            f"let node{depth} = (T[node{depth - 1}] * X) >= 0 ? 2 * node{depth - 1} + 1 : 2 * node{depth - 1} + 2 in "
            f"let score{depth} = score{depth - 1} + (W[node{depth}] * X) <*> tanh(V[node{depth}] * X) in "
        )
    node, expected = 0, 0.0
    for _ in range(3):
        expected += (given["W"][node] @ x) * np.tanh(given["V"][node] @ x)
        node = 2 * node + (1 if given["T"][node] @ x >= 0 else 2)
    np.testing.assert_allclose(evaluate(f"{source} score2", X=x, **given), expected, rtol=1e-12)


def test_convolutions_and_pools_of_the_first_public_tool() -> None:
    filters = RANDOM.normal(size=(3, 5, 4, 2))
    source = "let F = (3, 5, 4, 2) in [0.0, 1.0] in let X = (1, 5, 6, 4) in [0.0, 1.0] in maxpool(X # F, 2)"
    convolved = convolve(IMAGE, filters[None], (1, 1), (1, 1, 2, 2), (1, 1))
    np.testing.assert_allclose(evaluate(source, X=IMAGE, F=filters), max_pool(convolved, (2, 2), (2, 2)), rtol=1e-12)
