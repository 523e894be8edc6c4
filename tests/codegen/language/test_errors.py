# ruff: noqa: E501  (tables of messages, one case a line)
"""Every static error: the place, what was expected and what was found."""

from __future__ import annotations

import pickle

import pytest
from float_interpreter import compile_source

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.language.parser import parse

DECLARE = """let X = (3, 4) in [0.0, 1.0] in
let I = (1, 5, 5, 4) in [0.0, 1.0] in
let F = (1, 3, 3, 4, 2) in [0.0, 1.0] in
let v = (4) in [0.0, 1.0] in
"""


def message_of(source: str) -> str:
    with pytest.raises(InputError) as caught:
        compile_source(source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "1:1: syntax: expected an expression, found the end of the file"),
        ("let x = 1.0 in", "1:15: syntax: expected an expression or '[', found the end of the file"),
        ("let x 3 in x", "1:7: syntax: expected '=' or '[', found '3'"),
        ("let 3 = x in x", "1:5: syntax: expected a name, found '3'"),
        ("let in = 1.0 in in", "1:5: syntax: expected a name, found 'in'"),
        ("1.0 +\n  * 2.0", "2:3: syntax: expected an expression, found '*'"),
        ("1.0 2.0", "1:5: syntax: expected an operator or the end of the program, found '2.0'"),
        ("(1.0", "1:5: syntax: expected ')', found the end of the file"),
        ("a ~ b", "1:3: syntax: expected names, numbers and operators of the language, found '~'"),
        ("$(i = [0:n]) i", "1:10: syntax: expected an integer, found 'n'"),
        ("loop(i = [0:3]) (1.0)", "1:15: syntax: expected ',', found ')'"),
        ("maxpool(x, {k 2}, {p 0 0 0 0}, {s 2 2})", "1:16: syntax: expected an integer, found '}'"),
        ("maxpool(x, {k 2 2}, {s 2 2})", "1:21: syntax: expected '{p', found '{s'"),
        ("reshape(x, 3, (1))", "1:12: syntax: expected '(', found '3'"),
        ("1.0 >= 2 ? 1.0 : 0.0", "1:8: condition '>=': expected a comparison with 0, found 2"),
        ("1.0 + (3, 4)", "1:8: shape: expected 'let name = (...) in [low, high] in' around it, found no declaration"),
        (
            "let x = 1.0 in [0.0, 1.0] in x",
            "1:9: declaration of x: expected a shape such as (10, 64), found an expression",
        ),
        ("let x[0:+1] = (3) in [0.0, 1.0] in x", "1:5: declaration of x: expected a name, found a slice"),
        ("1e999", "1:1: number: expected a finite number, found one too large for a double"),
    ],
)
def test_text(source: str, message: str) -> None:
    assert message_of(source) == f"model.sd:{message}"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("Y", "1: name: expected one that is bound here (F, I, X, v), found Y"),
        ("let a = 1.0 in b", "16: name: expected one that is bound here (F, I, X, a, v), found b"),
        ("(let a = 1.0 in a) + a", "22: name: expected one that is bound here (F, I, X, v), found a"),
        ("let y[0:+1] = X in y", "5: name: expected one that is bound here (F, I, X, v), found y"),
        ("X + X^T", "3: operands of '+': expected equal shapes, or a scalar on one side, found (3, 4) and (4, 3)"),
        ("X - v", "3: operands of '-': expected equal shapes, or a scalar on one side, found (3, 4) and (4)"),
        ("X <*> X[0]", "3: operands of '<*>': expected equal shapes, or a scalar on one side, found (3, 4) and (4)"),
        ("X * X", "3: operands of '*': expected matrices (p, q) and (q, r), found (3, 4) and (3, 4)"),
        ("X * v", "3: operands of '*': expected matrices (p, q) and (q, r), found (3, 4) and (4)"),
        ("X |*| X", "3: operands of '|*|': expected matrices (p, q) and (q, r), found (3, 4) and (3, 4)"),
        ("X^T <+> v", "5: operands of '<+>': expected a tensor and a vector of 3, found (4, 3) and (4)"),
        ("X <-> X", "3: operands of '<->': expected a tensor and a vector of 4, found (3, 4) and (3, 4)"),
        ("1.0 <+> v", "5: operands of '<+>': expected a tensor and a vector, found a scalar and (4)"),
        ("argmax(X) + 1.0", "11: operands of '+': expected a real value, found the label that argmax or sgn returns"),
        ("-sgn(X[0][0:+1])", "1: operand of '-': expected a real value, found the label that argmax or sgn returns"),
        ("$(i = [0:3]) (X * i)", "17: operands of '*': expected a real value, found an integer that changes with the loop"),
        ("$(i = [0:3]) i", "14: terms of '$': expected a real value, found an integer that changes with the loop"),
        ("I^T", "2: operand of '^T': expected a matrix, found shape (1, 5, 5, 4)"),
        ("v^T", "2: operand of '^T': expected a matrix, found shape (4)"),
        ("reverse(X, 2)", "1: axis of reverse: expected 0 to 1, found 2"),
        ("reverse(1.0, 0)", "1: argument of reverse: expected a tensor, found the number 1"),
        ("reshape(X, (5, 2), (1, 2))", "1: shape of reshape: expected 12 elements as in (3, 4), found (5, 2) with 10"),
        ("reshape(X, (12), (0, 1))", "1: order of reshape: expected each axis of (3, 4) once, counted from 1, found (0, 1)"),
        ("reshape(X, (12), (1))", "1: order of reshape: expected each axis of (3, 4) once, counted from 1, found (1)"),
        ("reshape(X, (12), (2, 2))", "1: order of reshape: expected each axis of (3, 4) once, counted from 1, found (2, 2)"),
        ("reshape(1.0, (1), (1))", "1: argument of reshape: expected a tensor, found the number 1"),
        ("X[3]", "2: axis 1 of (3, 4): expected places 0 to 2, found 3"),
        ("X[0][0][0]", "8: operand of '[ ]': expected a tensor, found a scalar"),
        ("X[1.0]", "2: index: expected an integer of constants and loop indices, found the number 1"),
        ("$(i = [0:4]) X[i]", "15: axis 1 of (3, 4): expected places 0 to 2, found 0 to 3"),
        ("$(i = [0:2]) X[i - 1]", "15: axis 1 of (3, 4): expected places 0 to 2, found -1 to 0"),
        ("X[0:+4][0:+4]", "2: axis 1 of (3, 4): expected places 0 to 2, found 0 to 3"),
        ("X[0:+3][2:+3]", "8: axis 2 of (3, 4): expected places 0 to 3, found 2 to 4"),
        ("X[0:+0][2:+1]", "2: length of a slice: expected at least 1, found 0"),
        ("X[0:+3]", "2: slice: expected 2 spans for (3, 4), found 1"),
        ("X[0:+1][0:+1][0:+1]", "2: slice: expected 2 spans for (3, 4), found 3"),
        ("$(i = [0:3]) X[0:+1][2*i:+1]", "21: axis 2 of (3, 4): expected places 0 to 3, found 0 to 4"),
        ("$(i = [0:3]) X[i * i]", "18: operands of '*': expected a constant on one side, found two integers that change with loops"),
        ("$(i = [0:3]) X[i <*> i]", "18: operands of '<*>': expected real values, found two integers"),
        ("let X[0:+1][0:+4] = v in X", "21: value for a slice of X: expected (1, 4), found (4)"),
        ("let X[0:+2][0:+4] = 1.0 in X", "21: value for a slice of X: expected (2, 4), found a scalar"),
        ("let X[2:+2][0:+4] = X in X", "6: axis 1 of (3, 4): expected places 0 to 2, found 2 to 3"),
        ("let X[0:+1] = X in X", "5: slice: expected 2 spans for (3, 4), found 1"),
        ("let g = 1.0 in let g[0:+1] = g in g", "20: operand of '[ :+ ]': expected a tensor, found a scalar"),
        ("$(i = [3:3]) X", "1: range of i: expected a stop greater than the start, found [3:3]"),
        ("loop(i = [2:1], X) (X)", "1: range of i: expected a stop greater than the start, found [2:1]"),
        ("loop(i = [0:1], Y) (Y)", "17: name: expected one that is bound here (F, I, X, v), found Y"),
        ("let c = argmax(v) in loop(i = [0:1], c) (X)", "38: what the loop carries: expected a tensor, found the label that argmax or sgn returns"),
        ("loop(i = [0:2], X) (let X = X^T in X)", "30: value for X: expected (3, 4), found (4, 3)"),
        ("let c = argmax(v) in X[c]", "23: axis 1 of (3, 4): expected places 0 to 2, found 0 to 3"),
        ("let c = argmax(X) in X[c:+1][c:+1]", "23: starts of a slice: expected at most one label, found 2"),
        ("let c = argmax(v + v) in $(i = [0:2]) v[c]", "40: label as an index: expected one of the same loop round, computed from elements that are still unchanged, found an older one"),
        ("let a = v + v in let c = argmax(a) in let a[0:+1] = v[1:+1] in v[c]", "65: label as an index: expected one of the same loop round, computed from elements that are still unchanged, found an older one"),
        ("let n = v[0] > 0 ? 1 : 3 in X[n]", "30: axis 1 of (3, 4): expected places 0 to 2, found 3"),
        ("let n = v[0] > 0 ? 1 : 2.0 in X[n]", "32: index: expected an integer of constants and loop indices, found a scalar"),
        ("let n = v[0] > 0 ? 1 : " + "9" * 400 + " in X[n]", "24: number: expected a finite number, found one too large for a double"),
        ("I # reshape(X, (2, 3, 1, 2))", "3: filters of '#': expected an odd height and width, found (2, 3, 1, 2)"),
        ("X >= 0 ? X : X", "3: condition: expected a scalar, found shape (3, 4)"),
        ("v[0] >= 0 ? X : v", "6: branches of '?': expected equal shapes, found (3, 4) and (4)"),
        ("v[0] >= 0 ? X : 0.0", "6: branches of '?': expected equal shapes, found (3, 4) and a scalar"),
        ("relu()", "1: arguments of relu: expected 1, found 0"),
        ("exp(X, X)", "1: arguments of exp: expected 1, found 2"),
        ("exp(1000.0)", "1: argument of exp: expected a finite result, found an overflow"),
        ("1e308 * 10.0", "7: operands of '*': expected a finite result, found an overflow"),
        ("argmax(1.0)", "1: argument of argmax: expected a tensor, found the number 1"),
        ("sgn(v)", "1: argument of sgn: expected a tensor of one element, found shape (4)"),
        ("normaliseL2(2.0)", "1: argument of normaliseL2: expected a tensor, found the number 2"),
        ("init([3, 0], 0.0)", "1: shape of init: expected extents of at least 1, found (3, 0)"),
        ("let w = (0) in [0.0, 1.0] in w", "10: shape of w: expected extents of at least 1, found (0)"),
        ("let w = (1) in [2.0, 1.0] in w", "10: range of w: expected the lower end first, found [2, 1]"),
        ("let X = (1) in [0.0, 1.0] in X", "5: declaration of X: expected one use of the name, found a second one"),
        ("conv2d(X, F, {s 1 1}, {p 0 0 0 0}, {d 1 1}, {g 1})", "1: image of conv2d: expected a tensor with 4 axes, found shape (3, 4)"),
        ("conv2d(I, I, {s 1 1}, {p 0 0 0 0}, {d 1 1}, {g 1})", "1: filters of conv2d: expected a tensor with 5 axes, found shape (1, 5, 5, 4)"),
        ("conv2d(I, F, {s 1 1}, {p 0 0 0 0}, {d 1 1}, {g 2})", "1: filters of conv2d: expected (2, kH, kW, 4 / 2, Cout / 2) for (1, 5, 5, 4), found (1, 3, 3, 4, 2)"),
        ("conv2d(I, F, {s 0 1}, {p 0 0 0 0}, {d 1 1}, {g 1})", "1: stride of conv2d: expected at least 1 in both directions, found (0, 1)"),
        ("conv2d(I, F, {s 1 1}, {p 0 0 0 0}, {d 3 1}, {g 1})", "1: filters of conv2d: expected at most the padded image (5, 5), found (7, 3)"),
        ("maxpool(I, {k 2 6}, {p 0 0 0 0}, {s 2 2})", "1: kernel of maxpool: expected at most the padded image (5, 5), found (2, 6)"),
        ("maxpool(I, {k 2 2}, {p 2 0 0 0}, {s 2 2})", "1: padding of maxpool: expected less than the kernel (2, 2), found (2, 0, 0, 0)"),
        ("mbconv(I, [F, v, v], [F, v, v], [F, v, v], {s 1 1}, {p 0 0 0 0})", "1: first filters of mbconv: expected (1, 1, 1, any, 2), found (1, 3, 3, 4, 2)"),
    ],
)  # fmt: skip
def test_meaning(expression: str, message: str) -> None:
    assert message_of(DECLARE + expression) == f"model.sd:5:{message}"


def test_an_unknown_function_is_answered_with_the_known_ones() -> None:
    said = message_of(DECLARE + "softmax(X)")
    assert said.startswith("model.sd:5:1: function: expected one of ")
    assert said.endswith(", found softmax")
    pointwise = {kind.function for kind in ir.POINTWISE if kind.function}
    known = set(said.partition("one of ")[2].removesuffix(", found softmax").split(", "))
    assert known == pointwise | {"exp", "tanh", "sigmoid", "argmax", "sgn", "normaliseL2"}
    assert {"relu", "relu6"} <= known


def test_errors_name_the_line_of_the_mistake() -> None:
    source = "// a comment\nlet X = (2, 3) in [0.0, 1.0] in\n\nlet y = X\n\t+ X^T in\ny\n"
    expected = "expected equal shapes, or a scalar on one side, found (2, 3) and (3, 2)"
    assert message_of(source) == f"model.sd:5:2: operands of '+': {expected}"


def test_errors_carry_their_parts_and_survive_pickling() -> None:
    with pytest.raises(InputError) as caught:
        parse("let x = in", "folder/model.sd")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.path, error.line, error.column) == ("folder/model.sd", 1, 9)
    assert (error.expected, error.found) == ("an expression", "'in'")
    assert str(error) == str(caught.value)


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    assert "nested at most some hundred deep" in message_of("exp(" * 3000 + "0.0" + ")" * 3000)
