"""Products of many rows in one call, on simulated devices: instructions on pairs give the integers of single products."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.pairs import MACRO, blocks_for, row_sums
from kilotune.codegen.emit.row_results import UNCHANGED, result_kinds
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.emit.vectors import MACRO as VECTORS
from kilotune.codegen.fixed.arithmetic import Accumulator
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.architectures.architecture import Target
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.divergence import run_checked
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.simulated import Artefact, of_emitted, quantised
from tests.codegen.emit.finished_products import finished_products
from tests.codegen.emit.random_programs import RandomModel
from tests.codegen.emit.single_products import matrix_times_input, single_products
from tests.evaluators.devices.candidates import bundled
from tests.evaluators.devices.toolchains import needs_avr, needs_cortex

pytestmark = [needs_cortex, pytest.mark.slow]
SUMS = result_kinds([UNCHANGED])
SIZES = [(n, rows) for n in (1, 2, 3, 4, 5, 8, 11, 54) for rows in (1, 2, 3, 4, 6, 7)]


def every_size(
    wide: int, bits: int, most: int, operands: int, *, interleaved: bool = False, vectors: bool = False
) -> tuple[Artefact, np.ndarray]:
    """A program that sums rows of all sizes, from words that are aligned and from others; and its results."""
    random = np.random.default_rng(wide + bits + most)
    weights = random.integers(-(1 << (wide - 1)), 1 << (wide - 1), 54 * 7 + 3)
    operand = random.integers(-(1 << (bits - 1)), 1 << (bits - 1), 54 * operands + 3)
    weights[:9], operand[:9] = -(1 << (wide - 1)), -(1 << (bits - 1))
    blocks = blocks_for(most, SIZES, operands, interleaved=interleaved, vectors=vectors)
    function = row_sums("sums", (wide, f"int{wide}_t", "*w++"), (bits, f"int{bits}_t", "*"), blocks, SUMS)
    lines, expected, matrices = [], [], []
    for at in (0, 1):
        for n, rows in SIZES:
            to = ", ".join(["result", f"result + {rows}"][:operands])
            begun = sum(map(len, matrices)) + at
            lines.append(f"sums({to}, W + {begun}, X + {at}, {n}, {rows}); result += {rows * operands};")
            matrix = weights[at : at + n * rows].reshape(rows, n)
            matrices.append([0] * at + [int(v) for row in matrix for v in (turned(row) if interleaved else row)])
            expected += [matrix @ operand[at + n * k : at + n * (k + 1)] for k in range(operands)]
    arrays = "\n".join(
        f"static const int{width}_t {name}[] __attribute__((aligned(4))) = {{{', '.join(map(str, values))}}};"
        for name, width, values in (("W", wide, itertools.chain(*matrices)), ("X", bits, operand))
    )
    total = np.concatenate(expected)
    source = (
        '#include "sizes.h"\n#define KT_INLINE static inline\n#define KT_NOINLINE static __attribute__((noinline))\n'
        f"typedef int32_t kt_int32;\n{MACRO}\n{VECTORS}\n{arrays}\n{function}\nvoid predict(int32_t *result)\n{{\n"
        + "\n".join(lines)
        + "\n}\n"
    )
    header = "#include <stdint.h>\nvoid predict(int32_t *result);\n"
    kinds = np.dtype("<i1"), np.dtype("<i4")
    return Artefact("sizes", header, source, "predict", ir.ResultKind.REAL, 0, kinds[0], len(total), kinds[1]), total


def turned(row: np.ndarray) -> list[int]:
    """A row in which, of each whole four, the two in the middle have changed places."""
    found = [int(v) for v in row]
    for first in range(0, len(found) - 3, 4):
        found[first + 1], found[first + 2] = found[first + 2], found[first + 1]
    return found


@pytest.mark.parametrize(("most", "operands"), [(1, 1), (2, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("wide", [8, 16])
def test_pairs_of_every_size(wide: int, bits: int, most: int, operands: int) -> None:
    artefact, expected = every_size(wide, bits, most, operands)
    outputs = CortexTarget("cortex-m4").run(artefact, np.zeros((1, 0), dtype=np.int8))[1].outputs
    wrapped = (expected + (1 << 31)) % (1 << 32) - (1 << 31)
    np.testing.assert_array_equal(outputs[0], wrapped)


@pytest.mark.parametrize("level", ["-Os", "-O0"])
@pytest.mark.parametrize(("most", "operands"), [(4, 1), (2, 2)])
def test_interleaved_rows_of_every_size(most: int, operands: int, level: str) -> None:
    """Also by plain C, which is what there is without optimisation."""
    artefact, expected = every_size(8, 16, most, operands, interleaved=True)
    outputs = CortexTarget("cortex-m4", level).run(artefact, np.zeros((1, 0), dtype=np.int8))[1].outputs
    wrapped = (expected + (1 << 31)) % (1 << 32) - (1 << 31)
    np.testing.assert_array_equal(outputs[0], wrapped)


@pytest.mark.parametrize("level", ["-Os", "-O0"])
@pytest.mark.parametrize(("most", "operands"), [(1, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize(("wide", "bits"), [(8, 8), (8, 16), (16, 8), (16, 16)])
def test_vectors_of_every_size(wide: int, bits: int, most: int, operands: int, level: str) -> None:
    """Whole vectors, those that a row ends within, and rows shorter than one; sums that wrap around."""
    artefact, expected = every_size(wide, bits, most, operands, vectors=True)
    outputs = CortexTarget("cortex-m55", level).run(artefact, np.zeros((1, 0), dtype=np.int8))[1].outputs
    wrapped = (expected + (1 << 31)) % (1 << 32) - (1 << 31)
    np.testing.assert_array_equal(outputs[0], wrapped)


TARGETS: dict[str, Target] = {
    "cortex-m55": CortexTarget("cortex-m55"),
    "cortex-m55 -O3": CortexTarget("cortex-m55", "-O3"),
    "cortex-m4": CortexTarget("cortex-m4"),
    "cortex-m4 -O3": CortexTarget("cortex-m4", "-O3"),
    "cortex-m4 -O0": CortexTarget("cortex-m4", "-O0"),
    "cortex-m0plus": CortexTarget("cortex-m0plus"),
    "avr": AvrTarget("atmega328p"),
}


@needs_avr
@given(target=st.sampled_from(sorted(TARGETS)), shape=st.sampled_from(sorted(SHAPES)), made=single_products())
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=18)
def test_products_are_exact(target: str, shape: str, made: tuple[RandomModel, FixedBatch]) -> None:
    model, batch = made
    expected = run_reference(batch, model.parameters, model.features)[0]
    source = emit_c(batch, model.parameters, shape=SHAPES[shape])
    run_checked(source, batch, model.parameters, model.features, expected, TARGETS[target])


@needs_avr
@pytest.mark.parametrize("terms", [5, 16, 31])
@pytest.mark.parametrize(
    ("widths", "accumulator", "sum_bits"),
    [
        ((8, 8), Accumulator.DOUBLE, 16),
        ((8, 8), Accumulator.WIDE, 32),
        ((16, 8), Accumulator.DOUBLE, 32),
        ((8, 16), Accumulator.DOUBLE, 32),
        ((16, 16), Accumulator.DOUBLE, 32),
        ((16, 8), Accumulator.NARROW, 16),
    ],
)
def test_steps_of_every_width_on_an_avr(
    widths: tuple[int, int], accumulator: Accumulator, sum_bits: int, terms: int
) -> None:
    model, batch = matrix_times_input(widths, terms, accumulator)
    source = emit_c(batch, model.parameters, shape=SHAPES["unrolled16"])
    assert f"KT_NOINLINE uint{sum_bits}_t kt_dot_" in source.source
    expected = run_reference(batch, model.parameters, model.features)[0]
    run_checked(source, batch, model.parameters, model.features, expected, TARGETS["avr"])


@needs_avr
def test_steps_of_shifted_products_on_an_avr() -> None:
    """Assembler adds whole products; these are divided first."""
    model, batch = matrix_times_input((16, 8), 31, Accumulator.DOUBLE)
    rows = batch.rows.copy()
    rows[:, :, Column.SHIFT_TERM] = 3
    shifted = dataclasses.replace(batch, rows=rows)
    expected = run_reference(shifted, model.parameters, model.features)[0]
    assert not np.array_equal(expected, run_reference(batch, model.parameters, model.features)[0])
    source = emit_c(shifted, model.parameters, shape=SHAPES["unrolled16"])
    run_checked(source, shifted, model.parameters, model.features, expected, TARGETS["avr"])


@needs_avr
@pytest.mark.parametrize(
    ("name", "shape", "target", "share"),
    [
        ("lenet-digits", "rows4", "cortex-m4", 0.7),
        ("lenet-digits", "places2", "cortex-m4", 0.65),
        ("mlp-diabetes", "rows4", "cortex-m4", 0.7),
        ("lenet-digits", "vectors4", "cortex-m55", 0.35),
        ("mlp-digits", "vectors4", "cortex-m55", 0.25),
        ("lenet-digits", "unrolled8", "avr", 0.9),
    ],
)
def test_a_network_takes_a_share_of_the_plain_cycles(name: str, shape: str, target: str, share: float) -> None:
    made = bundled(name, samples=3, seed=3)
    cycles = []
    for each in ("plain", shape):
        source = emit_c(made.batch, made.parameters, shape=SHAPES[each])
        run = run_checked(source, made.batch, made.parameters, made.features, made.expected, TARGETS[target])[1]
        cycles.append(float(run.cycles.mean()))
    assert cycles[1] < share * cycles[0]


@pytest.mark.parametrize(
    ("target", "shape", "seeds"),
    [
        (CortexTarget("cortex-m4"), "places2", (0, 8, 12)),
        (CortexTarget("cortex-m0plus"), "rows4", (1, 4)),
        pytest.param(AvrTarget("atmega328p"), "unrolled8", (2, 10), marks=needs_avr),
    ],
)
def test_sums_are_finished_in_registers(target: Target, shape: str, seeds: tuple[int, ...]) -> None:
    """Random networks with biases and activations behind their products: the definition's integers, stored once."""
    for number in seeds:
        model, batch = finished_products(number)
        source = emit_c(batch, model.parameters, shape=SHAPES[shape])
        assert source.unstored
        _, run = target.run(of_emitted(source), quantised(source, model.features))
        expected = run_reference(batch, model.parameters, model.features)[0]
        np.testing.assert_array_equal(run.outputs, expected, err_msg=f"seed {number}")
