"""Lets, assignments and loops: storage is shared underneath, and no program can tell.

The second opinion is a walk over the syntax tree in which every binding owns a copy of its elements.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from float_interpreter import compile_source, evaluate, run
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.language import syntax as ast
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from tests.effort import effort

pytestmark = pytest.mark.slow

X = np.arange(1.0, 7.0).reshape(2, 3)
DECLARE = "let X = (2, 3) in [0.0, 9.0] in "


def names_of(program: ir.Program) -> list[str]:
    return [variable.name for variable in program.variables]


def test_temporaries_take_the_name_of_the_let_or_a_number() -> None:
    program = compile_source(DECLARE + "let y = (X + X) - X in let y = exp(y) in tanh(y) + (let t1 = -y in t1)")
    assert names_of(program) == ["X", "t2", "y", "y_2", "t3", "t1", "t4"]


def test_loop_indices_have_unique_names() -> None:
    program = compile_source(DECLARE + "($(i = [0:2]) X[i]) + ($(i = [0:2]) X[i])")
    loops = [statement.index for statement in program.body if isinstance(statement, ir.Loop)]
    assert loops == ["i", "i_2"]


def test_a_carried_variable_is_written_in_place() -> None:
    program = compile_source(DECLARE + "let H = init([2, 3], 0.0) in loop(i = [0:4], H) (let H = H <*> X + X in H)")
    fill, loop = program.body
    assert fill.out.variable == "H"
    assert [operation.out.variable for operation in loop.body] == ["t1", "H"]
    assert names_of(program) == ["X", "H", "t1"]
    h = np.zeros((2, 3))
    for _ in range(4):
        h = h * X + X
    np.testing.assert_allclose(run(program, {"X": X}), h)


def test_a_product_with_the_carried_variable_needs_a_copy() -> None:
    """Writing H while a matrix product still reads it would be wrong."""
    source = "let X = (1, 3) in [0.0, 1.0] in let U = (3, 3) in [0.0, 1.0] in loop(i = [0:3], X) (let X = X * U in X)"
    u = np.array([[0.0, 1, 2], [3, 0, 1], [1, 1, 0]])
    program = compile_source(source)
    body = program.body[-1].body
    assert [type(operation) for operation in body] == [ir.MatMul, ir.Copy]
    expected = np.array([[1.0, 2, 3]]) @ u @ u @ u
    np.testing.assert_allclose(run(program, {"X": [1, 2, 3], "U": u}), expected)


def test_a_carried_transpose_is_not_aligned() -> None:
    source = "let X = (2, 2) in [0.0, 1.0] in let H = X + 0.0 in loop(i = [0:3], H) (let H = H + H^T in H)"
    h = np.array([[1.0, 2], [5, 7]])
    result = evaluate(source, X=h)
    for _ in range(3):
        h = h + h.T
    np.testing.assert_allclose(result, h)


def test_the_value_of_a_loop_is_that_of_the_last_round() -> None:
    source = DECLARE + "let H = init([1, 1], 0.0) in loop(i = [0:2], H) (let H[0:+1][0:+1] = X[i:+1][0:+1] in X[i])"
    np.testing.assert_array_equal(evaluate(source, X=X), X[1])


def test_the_loop_index_reaches_reads_and_writes() -> None:
    source = DECLARE + (
        "let a = init([3, 2], 0.0) in let b = loop(i = [0:3], a) "
        "(let a[i:+1][0:+2] = (X^T)[2 - i:+1][0:+2] * 2.0 in a) in b"
    )
    np.testing.assert_array_equal(evaluate(source, X=X), 2 * X.T[::-1])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # The old value is read after the write.
        ("let a = X + 0.0 in let b = a in let a[0:+1][0:+3] = X[1:+1][0:+3] in a + b", [[5, 7, 9], [8, 10, 12]]),
        ("let a = X + 0.0 in let b = a^T in let a[0:+2][0:+3] = X + X in b", X.T),
        ("let a = X + 0.0 in let b = a in let b[0:+2][0:+3] = X + X in a", X),
        ("let a = X + 0.0 in a + (let a[0:+2][0:+3] = X + X in a)", 3 * X),
        ("let a = X + 0.0 in let b = a[0] in loop(i = [0:2], a) (let a = a + X in let q = b in q)", X[0]),
        # Rows that move over themselves.
        ("let a = X + 0.0 in let a[0:+2][0:+2] = a[0:+2][1:+2] in a", [[2, 3, 3], [5, 6, 6]]),
        ("let a = X + 0.0 in let a[0:+2][0:+3] = reverse(a, 1) in a", X[:, ::-1]),
        ("let a = X + 0.0 in let a[0:+2][0:+3] = a in a", X),
        # Parameters and the input are read-only; a write goes to a copy.
        ("let X[0:+1][0:+3] = X[1:+1][0:+3] in X", [[4, 5, 6], [4, 5, 6]]),
        ("let a = X in let a[0:+2][0:+3] = X + a in a - X", X),
        # Scalars that are written become storage.
        ("let h = 0.5 in loop(i = [0:3], h) (let h = h * 2.0 in h)", 4),
        ("let h = 1 in let r = loop(i = [0:3], h) (let h = h + h in h) in r + h", 16),
        # A let of the carried name inside of an inner loop is a write too.
        ("let h = 1.0 in loop(i = [0:2], h) (loop(j = [0:2], h) (let h = h * 3.0 in h))", 81),
        # Outside of its loop the name can be bound anew, with another shape.
        ("let h = 1.0 in let r = loop(i = [0:2], h) (let h = h * 3.0 in h) in let h = X in h + r", X + 9),
    ],
)
def test_writes_do_not_show_through_other_names(source: str, expected: object) -> None:
    expected = np.asarray(expected, dtype=float)
    np.testing.assert_array_equal(evaluate(DECLARE + source, X=X), expected, strict=True)


def test_disjoint_elements_of_one_variable_are_copied_directly() -> None:
    """The face detectors' way of repeating a border row needs no temporary."""
    program = compile_source(DECLARE + "let a = X + 0.0 in let a[1:+1][0:+3] = a[0:+1][0:+3] in a")
    assert [type(operation) for operation in program.body] == [ir.Add, ir.Copy]


def test_operations_write_slices_directly() -> None:
    program = compile_source(DECLARE + "let a = init([2, 3], 0.0) in let a[0:+1][0:+3] = exp(X[1:+1][0:+3]) in a")
    assert [type(operation) for operation in program.body] == [ir.Fill, ir.Exp]


def test_results_of_loops_are_not_copied() -> None:
    program = compile_source(DECLARE + "let h = X * 2.0 in let r = loop(i = [0:3], h) (let h = h + X in h) in r")
    assert [type(statement) for statement in program.body] == [ir.Multiply, ir.Loop]


def test_chains_of_a_thousand_lets() -> None:
    chain = "".join(f"let a{i + 1} = a{i} + X in " for i in range(1000))
    np.testing.assert_allclose(evaluate(DECLARE + "let a0 = X in " + chain + "a1000", X=X), 1001 * X)


# Random programs


class Owner:
    """Walks the syntax tree; each plain let copies, so that nothing can be shared."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = arrays

    def value(self, node: ast.Expression, scope: dict[str, list], carried: frozenset[str]) -> object:
        match node:
            case ast.LetExpression(value=ast.Declaration()):
                return self.value(node.body, {**scope, node.name: [self.arrays[node.name].copy()]}, carried)
            case ast.LetExpression():
                return self.let(node, scope, carried)
            case ast.Number():
                return int(node.value) if node.integer else np.asarray(node.value)
            case ast.Name():
                value = scope[node.name][0]
                return value if isinstance(value, int) else value.copy()
            case ast.BinaryExpression():
                left, right = self.value(node.left, scope, carried), self.value(node.right, scope, carried)
                return left * right if node.operator is ast.BinaryOperator.HADAMARD else left + right
            case ast.Reverse() | ast.Transpose() | ast.Reshape() | ast.Slice():
                return self.view(node, scope, carried).copy()
            case ast.SumExpression():
                rounds = range(node.start, node.stop)
                return sum(self.value(node.body, {**scope, node.index: [i]}, carried) for i in rounds)
            case ast.LoopExpression():
                for i in range(node.start, node.stop):
                    inner = {**scope, node.index: [i]}
                    result = self.value(node.body, inner, carried | {node.carried.name})
                return result
        raise AssertionError(node)

    def view(self, node: ast.Expression, scope: dict[str, list], carried: frozenset[str]) -> np.ndarray:
        operand = self.value(node.operand, scope, carried)
        match node:
            case ast.Reverse():
                return np.flip(operand, node.axis)
            case ast.Transpose():
                return operand.T
            case ast.Reshape():
                return operand.transpose([axis - 1 for axis in node.order]).reshape(node.shape)
        return operand[self.places(node.spans, scope, carried)]

    def let(self, node: ast.LetExpression, scope: dict[str, list], carried: frozenset[str]) -> object:
        value = self.value(node.value, scope, carried)
        if node.spans:
            scope[node.name][0][self.places(node.spans, scope, carried)] = value
        elif node.name in carried:
            scope[node.name][0] = value
        else:
            scope, carried = {**scope, node.name: [value]}, carried - {node.name}
        return self.value(node.body, scope, carried)

    def places(self, spans: tuple[ast.Span, ...], scope: dict[str, list], carried: frozenset[str]) -> tuple:
        starts = [self.value(span.start, scope, carried) for span in spans]
        return tuple(slice(start, start + span.length) for start, span in zip(starts, spans, strict=True))


NAMES = ("a", "b", "c")


@st.composite
def operands(draw: st.DrawFn, depth: int, index: str | None) -> str:
    """An expression of shape (2, 3)."""
    kind = draw(st.integers(0, 7 if depth else 0))
    name = draw(st.sampled_from(NAMES))
    if kind <= 1:
        return name
    inner = draw(operands(depth - 1, index))
    match kind:
        case 2:
            return f"reverse({inner}, {draw(st.integers(0, 1))})"
        case 3:
            return f"reshape({inner}, (2, 3), (2, 1))"
        case 4:
            return f"({inner} + {draw(operands(depth - 1, index))})"
        case 5:
            return f"({inner} <*> 0.5)"
        case 6:
            return f"$(k{depth} = [0:2]) ({inner})"
        case _:
            return f"(let {name} = {inner} in {draw(operands(depth - 1, index))})"


@st.composite
def bodies(draw: st.DrawFn, steps: int, level: int, index: str | None) -> str:
    """Lets, writes and loops, then an expression of shape (2, 3)."""
    if steps == 0:
        return "(a + b + c)" if draw(st.booleans()) else draw(st.sampled_from(NAMES))
    name, rest = draw(st.sampled_from(NAMES)), draw(bodies(steps - 1, level, index))
    value = draw(operands(2, index))
    match draw(st.integers(0, 3)):
        case 0:
            return f"let {name} = {value} in {rest}"
        case 1:
            start = draw(st.sampled_from(["0", "1"] if index is None else ["0", "1", index]))
            return f"let {name}[{start}:+1][0:+3] = ({value})[1:+1][0:+3] in {rest}"
        case 2 if level < 2:
            body = draw(bodies(draw(st.integers(1, 2)), level + 1, f"i{level}"))
            bound = draw(st.sampled_from(NAMES))
            return f"let {bound} = loop(i{level} = [0:2], {name}) ({body}) in {rest}"
        case _:
            return f"let {name} = {draw(st.sampled_from(NAMES))} in {rest}"


@settings(max_examples=effort(150, 400))
@given(bodies(5, 0, None))
def test_random_programs_behave_as_if_every_name_owned_its_elements(body: str) -> None:
    lets = "".join(f"let {name} = (2, 3) in [-9.0, 9.0] in " for name in NAMES)
    tree = parse(lets + body)
    arrays = {name: np.arange(6.0).reshape(2, 3) + 10.0 * place for place, name in enumerate(NAMES)}
    expected = Owner(arrays).value(tree, {}, frozenset())
    np.testing.assert_allclose(run(elaborate(tree, "random"), arrays), expected, rtol=1e-9)


@settings(max_examples=200)
@given(st.data())
def test_random_views_equal_numpy(data: st.DataObject) -> None:
    """Chains of transpose, reverse, slice, index and reshape, whether they end in a view or in a copy."""
    array = np.arange(48.0).reshape(2, 4, 6)
    source = "X"
    for _ in range(data.draw(st.integers(1, 5))):
        rank = array.ndim
        kind = data.draw(
            st.sampled_from(["reverse", "slice", "reshape", "index"] if rank > 1 else ["reverse", "reshape"])
        )
        if kind == "reverse":
            axis = data.draw(st.integers(0, rank - 1))
            source, array = f"reverse({source}, {axis})", np.flip(array, axis)
        elif kind == "slice":
            starts = [data.draw(st.integers(0, extent - 1)) for extent in array.shape]
            lengths = [
                data.draw(st.integers(1, extent - start)) for extent, start in zip(array.shape, starts, strict=True)
            ]
            source += "".join(f"[{start}:+{length}]" for start, length in zip(starts, lengths, strict=True))
            source = f"({source})"
            array = array[tuple(slice(s, s + n) for s, n in zip(starts, lengths, strict=True))]
        elif kind == "index":
            place = data.draw(st.integers(0, array.shape[0] - 1))
            source, array = f"{source}[{place}]", array[place]
        else:
            order = data.draw(st.permutations(range(rank)))
            turned = array.transpose(order)
            divisors = [d for d in range(1, turned.size + 1) if turned.size % d == 0]
            first = data.draw(st.sampled_from(divisors))
            shape = data.draw(
                st.sampled_from([turned.shape, (first, turned.size // first), (1, first, turned.size // first)])
            )
            axes = ", ".join(str(axis + 1) for axis in order)
            source = f"reshape({source}, ({', '.join(map(str, shape))}), ({axes}))"
            array = turned.reshape(shape)
    result = evaluate(f"let X = (2, 4, 6) in [0.0, 48.0] in {source}", X=np.arange(48.0))
    np.testing.assert_array_equal(result, array, strict=True)
