"""Programs that no microcontroller could hold or finish are refused at their place, before their loops are written out."""

from __future__ import annotations

import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from kilotune.codegen.language.sizes import MOST_ELEMENTS, MOST_PRODUCTS, MOST_STEPS, MOST_WRITTEN, check_work
from kilotune.experiments.models.catalogue import model_names, model_path

X = "let X = (4, 1) in [-1.0, 1.0] in "
H = X + "let H = X + 0.0 in "


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "let X = (100000000000000, 1) in [0.0, 1.0] in X",
            f"1:5: shape of X: expected at most {MOST_ELEMENTS} elements, found (100000000000000, 1), 100000000000000 elements",
        ),
        (
            X + "init([65536, 65536], 0.0)",
            f"expected at most {MOST_ELEMENTS} elements, found (65536, 65536), 4294967296",
        ),
        (H + "loop(i = [0:100000000000000], H) (let H = H + X in H)", f"at most {MOST_STEPS} operations in one run"),
        (X + "$(i = [0:1000]) ($(j = [0:9000]) (X + X))", f"expected at most {MOST_STEPS} operations in one run"),
        (
            "let X = (2048, 1) in [0.0, 1.0] in let W = (2048, 2048) in [0.0, 1.0] in "
            "let H = X + 0.0 in loop(i = [0:100], H) (let H = W * H in H)",
            f"expected at most {MOST_PRODUCTS} products in one run of the program, found {100 * 2048 * 2048} or more",
        ),
        (
            "let X = (16, 1) in [0.0, 1.0] in let I = reshape(X, (1, 4, 4, 1), (1, 2)) in let F = (1, 1, 1, 1, 1) in "
            "[0.0, 1.0] in conv2d(I, F, {s 1 1}, {p 90000 90000 90000 90000}, {d 1 1}, {g 1})",
            f"expected at most {MOST_ELEMENTS} elements, found (1, 180004, 180004, 1)",
        ),
    ],
)
def test_absurd_sizes(source: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        elaborate(parse(source, "model.sd"), "model")
    assert said in str(error.value)
    assert str(error.value).startswith("model.sd:1:")


def test_programs_that_are_too_long_and_numbers_of_too_many_digits() -> None:
    chain = "".join(f"let a{n + 1} = a{n} + X in " for n in range(MOST_WRITTEN + 1))
    tree = parse(f"{X}let a0 = X in {chain}a{MOST_WRITTEN + 1}", "model.sd")
    with pytest.raises(InputError, match=rf"at most {MOST_WRITTEN} operations, found more"):
        elaborate(tree, "model")
    with pytest.raises(InputError, match="number: expected at most 40 digits, found 5000"):
        parse(X + f"init([{'9' * 5000}, 1], 0.0)", "model.sd")


def test_what_is_counted() -> None:
    """By hand: a matrix product of 3 x 4 by 4 x 1 in five rounds, an addition of 3 elements in each."""
    source = (
        "let X = (4, 1) in [0.0, 1.0] in let W = (3, 4) in [0.0, 1.0] in let H = init([3, 1], 0.0) in "
        "loop(i = [0:5], H) (let H = H + (W * X) in H)"
    )
    program = elaborate(parse(source, "model.sd"), "model")
    assert check_work(program.body) == (1 + 5 * 2, 3 + 5 * (12 + 3))


@pytest.mark.parametrize("name", model_names())
def test_shipped_models_are_far_below(name: str) -> None:
    steps, products = check_work(load_bundle(model_path(name)).program.body)
    assert 100 * steps < MOST_STEPS
    assert 100 * products < MOST_PRODUCTS
