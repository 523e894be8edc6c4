"""Parameters beyond what the compiler of an AVR allows one array, and beyond what its code can read."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.constant_arrays import NEAR_FLASH_BYTES
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.architectures.avr.firmware import MOST_ARRAY_BYTES, build_firmware
from kilotune.evaluators.architectures.registry import boards
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.simulated import DeviceError, of_emitted
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.largest_arrays import flash_limit, limit_on_arrays
from kilotune.experiments.problems.fixed_point.model import ModelOptions
from kilotune.experiments.problems.fixed_point.options import read_options
from kilotune.experiments.requests.request import stored_fields
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.fixed.programs import HERE, variable

ROWS = 7
HAS_COMPILER = shutil.which("avr-gcc") is not None


def product(values: int, matrices: int = 1) -> Task:
    """The sum of so many matrices, each of so many values, times X."""
    rng, columns = np.random.default_rng(0), values // ROWS
    parameters = {f"W{i}": rng.uniform(-1, 1, (ROWS, columns)) for i in range(matrices)}
    names = [f"p{i}" for i in range(matrices)] + [f"s{i}" for i in range(1, matrices)]
    variables = [variable("X", (columns, 1), ir.Role.INPUT), *(variable(name, (ROWS, 1)) for name in names)]
    variables += [variable(name, w.shape, ir.Role.PARAMETER) for name, w in parameters.items()]
    v = {x.name: ir.whole(x) for x in variables}
    body: list[ir.Statement] = [ir.MatMul(v[f"p{i}"], HERE, v[f"W{i}"], v["X"]) for i in range(matrices)]
    last = "p0"
    for i in range(1, matrices):
        body.append(ir.Add(v[f"s{i}"], HERE, v[last], v[f"p{i}"]))
        last = f"s{i}"
    program = ir.Program("product", tuple(variables), tuple(body), v[last], ir.ResultKind.REAL)
    return Task(program, parameters, rng.uniform(-1, 1, (3, columns)), None)


def options(board: str | None, **given: object) -> ModelOptions:
    device = next((one.as_json() for one in boards() if one.name == board), None)
    return stored_fields(ModelOptions, read_options("shiftry", CommandOptions(given, device=device)), "test")


def emitted(task: Task, bits: int) -> CSource:
    names = [v.name for v in task.program.variables]
    batch = ShiftryLowering(task.program, {}).lower([[bits] * len(names)], [[bits - 1] * len(names)])
    return emit_c(batch, task.parameters)


def test_a_limit_is_there_only_where_some_format_breaks_it() -> None:
    widest = MOST_ARRAY_BYTES // 4 // ROWS * ROWS  # in 32 bits
    assert limit_on_arrays(product(widest), options("mega")) is None
    assert limit_on_arrays(product(widest + ROWS), options("mega")) == MOST_ARRAY_BYTES
    assert limit_on_arrays(product(MOST_ARRAY_BYTES), options("mega")) == MOST_ARRAY_BYTES  # 7 * 4681 in 8 bits
    assert limit_on_arrays(product(40000), options("mega", narrow=True)) == MOST_ARRAY_BYTES
    assert limit_on_arrays(product(40000), options("nano33")) is None
    assert limit_on_arrays(product(40000), options(None)) is None


def test_a_parameter_that_no_format_makes_small_enough_is_refused_with_a_sentence() -> None:
    with pytest.raises(InputError) as refused:
        limit_on_arrays(product(MOST_ARRAY_BYTES + ROWS), options("mega"))
    said = str(refused.value)
    assert said.startswith(
        "parameter W0: expected at most 32767 bytes, since the compiler of mega (atmega2560) allows no larger array, found 32774 values, "
        "which take 32774 bytes in 8 bits: try "
    )


def test_no_space_offers_what_the_compiler_refuses() -> None:
    task, most = product(20020), MOST_ARRAY_BYTES
    space = ShiftrySpace(task, ShiftryOptions(narrow=True, most_array_bytes=most))
    (decision,) = (one for one in space.decisions if one.name == "W0")
    assert {parse_format(str(option)).bits for option in decision.options} == {8, 6, 4, 3, 2, 1}
    assert {parse_format(str(option)).bits for option in space.papers_formats("W0")} == {8}
    assert any(parse_format(str(option)).bits == 16 for option in space.decisions[0].options)
    assert SeeDotSpace(task, SeeDotOptions(most_array_bytes=most)).start().decision.options == (8,)  # type: ignore[union-attr]
    free = ShiftrySpace(task, ShiftryOptions(narrow=True))
    assert free.fingerprint != space.fingerprint
    assert {parse_format(str(option)).bits for option in free.papers_formats("W0")} == {16, 8}


def test_constants_that_the_code_could_not_read_are_beyond_the_limit_on_flash() -> None:
    small, large = product(NEAR_FLASH_BYTES // 4 // ROWS * ROWS), product(14000, 2)
    assert flash_limit(small, options("mega")) == options("mega").flash_limit_bytes
    assert flash_limit(large, options("mega")) == NEAR_FLASH_BYTES
    assert flash_limit(large, options("nano33")) == options("nano33").flash_limit_bytes


@pytest.mark.skipif(not HAS_COMPILER, reason="needs avr-gcc")
@pytest.mark.parametrize("more", [0, 1])
def test_the_compiler_allows_exactly_so_many_bytes(tmp_path: Path, more: int) -> None:
    (tmp_path / "a.c").write_text(f"const char a[{MOST_ARRAY_BYTES + more}] = {{1}};\n")
    command = ["avr-gcc", "-mmcu=atmega2560", "-c", "a.c"]
    assert bool(subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode) == bool(more)


@pytest.mark.skipif(not HAS_COMPILER, reason="needs avr-gcc")
@pytest.mark.parametrize(
    ("task", "bits", "said"),
    [
        (product(20020), 16, r"The array W0 has more than the 32767 bytes that avr-gcc allows one for atmega2560\."),
        (
            product(22400, 3),
            8,
            r"It is not built for atmega2560: constants of \d+ bytes: expected at most 64512, since .+\.",
        ),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(task: Task, bits: int, said: str) -> None:
    with pytest.raises(DeviceError) as refused:
        build_firmware(of_emitted(emitted(task, bits)), "atmega2560")
    assert re.fullmatch(said, str(refused.value))
