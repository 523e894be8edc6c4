"""A scaler before a recurrent operator is part of its weights: nothing is left in front of the loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case, converted, float_results, reference

STEPS, FEATURES, UNITS = 5, 3, 4
SCALER = [("Sub", ["x", "m"], ["a"], {}), ("Mul", ["a", "d"], ["s"], {})]


def _case(kind: str, gates: int, shape: tuple[int, ...], *, bias: bool, both: bool = False) -> Case:
    directions = 2 if both else 1
    constants = {
        "m": draw(FEATURES),
        "d": draw(1, 1, FEATURES) + 2,
        "w": draw(directions, gates * UNITS, FEATURES),
        "r": draw(directions, gates * UNITS, UNITS),
    }
    constants |= {"b": draw(directions, 2 * gates * UNITS)} if bias else {}
    turned = [("Transpose", ["s"], ["t"], {"perm": [1, 0, 2]})] if shape[0] == 1 else []
    reads = ["t" if turned else "s", "w", "r", *(["b"] if bias else [])]
    direction = "bidirectional" if both else "forward"
    last = (kind, reads, ["", "y"], {"hidden_size": UNITS, "direction": direction})
    return Case(kind.lower(), shape, [*SCALER, *turned, last], constants)


@pytest.mark.parametrize(("kind", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
@pytest.mark.parametrize("shape", [(1, STEPS, FEATURES), (STEPS, 1, FEATURES)])
@pytest.mark.parametrize(("bias", "both"), [(False, False), (True, False), (True, True)])
def test_a_scaler_is_part_of_the_weights(
    kind: str, gates: int, shape: tuple[int, ...], bias: bool, both: bool, tmp_path: Path
) -> None:
    case = _case(kind, gates, shape, bias=bias, both=both)
    path = case.write(tmp_path)
    made = converted(path)
    np.testing.assert_allclose(float_results(made, case.features), reference(path, case.features), rtol=1e-5, atol=1e-5)
    outside = [statement for statement in made.program.body if not isinstance(statement, ir.Loop)]
    assert all(isinstance(statement, ir.Fill | ir.Copy) for statement in outside)


def test_factors_of_steps_stay_before_the_loop(tmp_path: Path) -> None:
    case = _case("GRU", 3, (STEPS, 1, FEATURES), bias=True)
    case = Case("steps", case.shape, case.nodes, {**case.constants, "d": draw(STEPS, 1, 1) + 2})
    path = case.write(tmp_path)
    made = converted(path)
    np.testing.assert_allclose(float_results(made, case.features), reference(path, case.features), rtol=1e-5, atol=1e-5)
    assert any(isinstance(statement, ir.Multiply) for statement in made.program.body)


def test_two_operators_without_biases_keep_their_own(tmp_path: Path) -> None:
    """Both write only their last states, of which the operators' last outputs are none, and get biases from their scalers' offsets."""
    nodes, constants = list[tuple[str, list[str], list[str], dict[str, object]]](), dict[str, np.ndarray]()
    for k in "ab":
        constants |= {
            f"m{k}": draw(FEATURES) + (k == "b"),
            f"w{k}": draw(1, 4 * UNITS, FEATURES),
            f"r{k}": draw(1, 4 * UNITS, UNITS),
        }
        nodes += [
            ("Sub", ["x", f"m{k}"], [f"s{k}"], {}),
            ("LSTM", [f"s{k}", f"w{k}", f"r{k}"], ["", f"h{k}", ""], {"hidden_size": UNITS}),
        ]
    case = Case("two", (STEPS, 1, FEATURES), [*nodes, ("Add", ["ha", "hb"], ["y"], {})], constants)
    path = case.write(tmp_path)
    np.testing.assert_allclose(
        float_results(converted(path), case.features), reference(path, case.features), rtol=1e-5, atol=1e-5
    )
