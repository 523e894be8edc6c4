"""C of quantised programs: equal to their definition in every shape of code, on the host and on simulated processors."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.feature_quantiser import feature_function
from kilotune.codegen.emit.floats import emit_float_c
from kilotune.codegen.emit.requantising import SCALED, SCALED_EVEN, SCALED_WIDE, SHORTENED
from kilotune.codegen.emit.scaled_sums import check_scaled_sums
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.quantisation_grid import QuantisationGrid
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.integer_functions import softmax_powers
from kilotune.codegen.trained.tflite_models import read_tflite
from kilotune.evaluators.architectures.avr.machine import load_shim
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.on_device import measure_checked, missing_tools
from tests.codegen.emit.compiled import COMPILERS, compile_sources, needs_compiler
from tests.codegen.emit.tied_products import tied_cases
from tests.codegen.trained.qdq_networks import QdqNetwork, kept_program, random_qdq_network
from tests.codegen.trained.quantised_files import QuantisedNetwork, QuantisedTensor, RandomNetworks

pytestmark = pytest.mark.slow

SMALL_WORDS = "-D__ARM_ARCH_6M__"
"""Has the products of 64 bits taken by halves, as on processors without such an instruction."""


def random_programs(seed: int, count: int) -> list[tuple[Converted, IntArray]]:
    """Quantised programs, each with samples [samples, features]: of TensorFlow Lite and of ONNX in turns."""
    found: list[tuple[Converted, IntArray]] = []
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        while len(found) < count:
            if len(found) % 2:
                made = kept_program(random_qdq_network(random), Path(folder))
                if made is not None:
                    found.append((made, random.integers(-128, 128, (8, made.program.input.size))))
                continue
            network = RandomNetworks(random).network(int(random.integers(1, 5)))
            path = network.write(Path(folder) / "made.tflite")
            scores = network.operators[-1][0] in ("FULLY_CONNECTED", "SOFTMAX")
            returns = Returns.CLASS if scores and random.random() < 0.5 else Returns.VALUE
            made = convert(read_tflite(path, keep_quantisation=True), "made", returns)
            if ir.is_quantised(made.program):
                samples = random.integers(-128, 128, (8, int(np.prod(network.tensors[0].shape))))
                found.append((made, samples))
    return found


def expected(made: Converted, samples: IntArray) -> IntArray:
    return run_reference(lower_quantised(made.program), made.parameters, samples.astype(np.float64))[0]


def emitted(made: Converted, shape: str, number: int = 0) -> CSource:
    batch = lower_quantised(made.program)
    return emit_c(batch, made.parameters, shape=SHAPES[shape], name=f"m{number}", function=f"predict{number}")


@needs_compiler
@pytest.mark.parametrize("flags", [("-O1",), ("-O0", SMALL_WORDS)])
@given(seed=st.integers(0, 1 << 32))
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=6)
def test_every_shape_of_code_computes_the_definition(flags: Sequence[str], seed: int) -> None:
    programs = [(made, samples, shape) for made, samples in random_programs(seed, 3) for shape in SHAPES]
    sources = [emitted(made, shape, number) for number, (made, _, shape) in enumerate(programs)]
    sanitised = (*flags, "-fsanitize=undefined", "-fno-sanitize-recover")
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources(sources, Path(folder), sanitised)
        for number, (made, samples, shape) in enumerate(programs):
            wanted = expected(made, samples)
            np.testing.assert_array_equal(compiled.run_integers(number, samples), wanted, err_msg=shape)


@needs_compiler
@pytest.mark.parametrize(("inner", "outer"), [(4, 6), (6, 4), (5, 5)])
def test_products_of_many_rows_may_lie_over_their_operands(inner: int, outer: int, tmp_path: Path) -> None:
    """A dense layer at each of many places: whatever the shape of code, a row is written when it has been read."""
    random = np.random.default_rng(4)
    net = QdqNetwork(random, np.int8, (1, 20, 6), [1, 20, 6])
    net.close("x", 0.05)
    for shape in ((6, inner), (inner, outer), (outer, 3)):
        weights, scales = net.weights(shape, 1, each=False)
        net.close(net.node("MatMul", net.last, weights), float(net.scale) * float(scales) * 150)
    made = kept_program(net, tmp_path)
    assert made is not None
    samples = random.integers(-128, 128, (5, 120))
    compiled = compile_sources([emitted(made, shape, number) for number, shape in enumerate(SHAPES)], tmp_path)
    for number, shape in enumerate(SHAPES):
        np.testing.assert_array_equal(compiled.run_integers(number, samples), expected(made, samples), err_msg=shape)


@given(seed=st.integers(0, 1 << 32))
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=20)
def test_flash_is_what_the_footprint_counts(seed: int) -> None:
    for made, _ in random_programs(seed, 2):
        batch = lower_quantised(made.program)
        footprint = Footprint(made.program, made.parameters)
        counted = footprint.flash_bytes(batch.stored_bits, footprint.table_bytes(batch))
        assert emitted(made, "plain").flash_bytes == int(counted[0])


@needs_compiler
@pytest.mark.parametrize(
    "grid",
    [
        QuantisationGrid(0.5, 3), QuantisationGrid(0.5, 3, even=True), QuantisationGrid(0.0078431377, -1),
        QuantisationGrid(0.0078431377, -1, even=True), QuantisationGrid(3.0, -128),
    ],
)  # fmt: skip
def test_the_header_makes_the_integers_of_features(grid: QuantisationGrid, tmp_path: Path) -> None:
    made, _ = random_programs(5, 1)[0]
    source = emit_c(lower_quantised(made.program), made.parameters, scaling=grid, name="m")
    reals = np.float32(np.concatenate([np.arange(-300, 300) * grid.step / 2, [1e30, -1e30, 0.49999997, 0.3, -7.7]]))
    numbers = ", ".join(
        f"{value:.9g}f" if "." in f"{value:.9g}" or "e" in f"{value:.9g}" else f"{value:.9g}.0f" for value in reals
    )
    (tmp_path / "m.h").write_text(source.header)
    (tmp_path / "main.c").write_text(
        f'#include <stdio.h>\n#include "m.h"\nstatic const float given[] = {{{numbers}}};\nint main(void)\n{{\n'
        f'    for (unsigned i = 0; i < sizeof given / sizeof *given; i++) printf("%d\\n", {feature_function("m")}(0, given[i]));\n}}\n'
    )
    subprocess.run(
        [COMPILERS[0], "-std=c99", "-Wall", "-Werror", "-o", tmp_path / "main", tmp_path / "main.c"], check=True
    )
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == grid.apply(np.float64(reals)).tolist()


@pytest.mark.parametrize(
    ("board", "shape"),
    [("uno", "plain"), ("uno", "unrolled8"), ("mkr1000", "plain"), ("nano33", "rows4"), ("mps3", "vectors4")],
)
def test_simulated_processors_compute_the_definition(board: str, shape: str) -> None:
    device = find_device(board)
    if missing_tools(device) is not None or (
        board == "uno" and (shutil.which("avr-gcc") is None or load_shim() is None)
    ):
        pytest.skip("needs the compiler and the simulator of the board")
    for made, samples in random_programs(11, 4):
        batch, wanted = lower_quantised(made.program), expected(made, samples)
        measured = measure_checked(
            device, emitted(made, shape), batch, made.parameters, samples.astype(np.float64), wanted, "-Os"
        )
        assert measured.cycles > 0


def scaling_cases() -> tuple[IntArray, IntArray, IntArray]:
    """Values, mantissas and shifts: random ones, and those whose product is halfway between two integers, or just beside."""
    random = np.random.default_rng(8)
    values = random.integers(-(2**30) + 1, 2**30, 4000)
    mantissas = random.integers(2**30, 2**31, 4000)
    mantissas[:1500] = 2**30 + (random.integers(0, 2**14, 1500) << 16)
    mantissas[:500] = 2**30
    values[::3] >>= random.integers(0, 28, len(values[::3]))
    values[:1500] = (values[:1500] >> 16 << 16) + random.choice([0, 1, -1, 1 << 14, 1 << 15], 1500)
    return np.clip(values, -(2**30) + 1, 2**30 - 1), mantissas, random.integers(0, 31, 4000)


def scaled(values: IntArray, mantissas: IntArray, shifts: IntArray) -> list[int]:
    cases = zip(values.tolist(), mantissas.tolist(), shifts.tolist(), strict=True)
    return [int(ir.FixedMultiplier(m, -n).integer(np.array([v]))[0]) for v, m, n in cases]


@needs_compiler
@pytest.mark.parametrize("flags", [(), (SMALL_WORDS,)])
@pytest.mark.parametrize("function", [SCALED, SCALED_WIDE])
def test_products_with_a_fixed_multiplier_round_as_defined(
    function: tuple[str, str], flags: Sequence[str], tmp_path: Path
) -> None:
    name, definition = function
    prelude = "#include <stdint.h>\n#define KT_INLINE static inline\n#define KT_NOINLINE static\n"
    call = f"int32_t called(int32_t v, int32_t m, int n) {{ return {name}(v, m, (uint8_t)n); }}\n"
    (tmp_path / "scaled.c").write_text(f"{prelude}{definition}\n{call}")
    command = [
        COMPILERS[0],
        "-std=c99",
        "-O1",
        *flags,
        "-fsanitize=undefined",
        "-fno-sanitize-recover",
        "-shared",
        "-fPIC",
    ]
    subprocess.run([*command, "-o", tmp_path / "scaled.so", tmp_path / "scaled.c"], check=True)
    called = ctypes.CDLL(str(tmp_path / "scaled.so")).called
    values, mantissas, shifts = scaling_cases()
    if function is SCALED_WIDE:  # up to where all bits are taken, also where half of the divisor is added
        values[::2] = values[::2] * 2 + np.sign(values[::2])
        values[:50], mantissas[:50] = (2**31 - 1) * np.resize([1, -1], 50), 2**31 - 1
    found = [called(*map(int, case)) for case in zip(values, mantissas, shifts, strict=True)]
    assert found == scaled(values, mantissas, shifts)


@needs_compiler
def test_products_round_as_floats_do(tmp_path: Path) -> None:
    prelude = "#include <stdint.h>\n#define KT_INLINE static inline\n#define KT_NOINLINE static\n"
    call = "int32_t called(int32_t v, int32_t m, int n) { return kt_scaled_even(kt_shortened(v), m, (uint8_t)n); }\n"
    (tmp_path / "scaled.c").write_text(f"{prelude}{SHORTENED[1]}\n{SCALED_EVEN[1]}\n{call}")
    command = [COMPILERS[0], "-std=c99", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", tmp_path / "scaled.so", tmp_path / "scaled.c"], check=True)
    called = ctypes.CDLL(str(tmp_path / "scaled.so")).called
    for value, mantissa, shift in tied_cases():
        wanted = int(ir.EvenMultiplier(mantissa, -shift).integer(np.array([value]))[0])
        assert called(value, mantissa, shift) == wanted, (value, mantissa, shift)
    for value in (3, 200, 70001, 10**6, 2**29 + 64):  # ratios of scales that take all of 32 bits, and more
        for shift in range(24):
            for one in (value, -value):
                wanted = int(ir.EvenMultiplier(0xABCDEF, -shift).integer(np.array([one]))[0])
                assert np.clip(called(one, 0xABCDEF, shift), -300, 300) == np.clip(wanted, -300, 300), (one, shift)


@needs_compiler
@pytest.mark.parametrize("length", [511, 512, 1001])
def test_many_equal_shares_are_small(length: int, tmp_path: Path) -> None:
    here, powers = ir.Location("shares.sd", 1, 1), softmax_powers(QuantisationGrid(0.05, 0), 1.0)
    x = ir.Variable("x", (1, length), ir.Role.INPUT, here)
    y = ir.Variable("y", (1, length), ir.Role.TEMPORARY, here)
    body = (ir.QuantisedSoftmax(ir.whole(y), here, ir.whole(x), powers),)
    batch = lower_quantised(ir.Program("shares", (x, y), body, ir.whole(y), ir.ResultKind.REAL))
    samples = np.zeros((2, length), dtype=np.int64)
    samples[1, 3] = 100
    wanted = run_reference(batch, {}, samples.astype(np.float64))[0]
    assert wanted[0].max() < -126 < wanted[1].max()
    compiled = compile_sources([emit_c(batch, {})], tmp_path, ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover"))
    np.testing.assert_array_equal(compiled.run_integers(0, samples), wanted)


def test_a_quantised_program_has_no_floats() -> None:
    made, _ = random_programs(7, 1)[0]
    with pytest.raises(ValueError, match="a quantised program has no floats"):
        emit_float_c(made.program, made.parameters)


def too_large(path: Path, ratio: float, bias: int, made: float) -> Converted:
    """A layer with weights at the scale `ratio` and a bias, then its squares, and their sums with it, at the scale `made`."""
    network = QuantisedNetwork()
    last = network.tensor(QuantisedTensor((1, 4), scales=(1.0,), zeros=(0,)))
    weights = network.tensor(QuantisedTensor((4, 4), data=np.full((4, 4), 127), scales=(ratio,)))
    biases = network.tensor(QuantisedTensor((4,), "int32", np.array([0, bias, 0, 0])))
    read, options = (last, weights, biases), "FullyConnectedOptions"
    first = network.operator("FULLY_CONNECTED", read, QuantisedTensor((1, 4), scales=(1.0,), zeros=(-3,)), options)
    result = QuantisedTensor((1, 4), scales=(made,), zeros=(2,))
    squares = network.operator("MUL", (first, first), result, "MulOptions")
    network.operator("ADD", (first, squares), result, "AddOptions")
    return convert(read_tflite(network.write(path), keep_quantisation=True), "made", Returns.VALUE)


@given(st.floats(-12, 22), st.integers(0, 31), st.integers(-29, 22))
def test_sums_are_refused_where_a_file_is_read_if_they_are_where_code_is_written(
    ratio: float, bias: int, made: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        network = too_large(Path(folder) / "made.tflite", 2.0**ratio, (1 << bias) - 1, 2.0**made)
    refused = _refuses(lambda: check_scaled_sums(network.program, network.parameters))
    assert refused == _refuses(lambda: emitted(network, "plain"))


def _refuses(asked: Callable[[], object]) -> bool:
    try:
        asked()
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("ratio", "bias", "made", "said"),
    [
        (2.0**20, 0, 1.0, "operator 0 (FULLY_CONNECTED that writes 't3')"),
        (0.01, 2**31 - 1, 1.0, "operator 0 (FULLY_CONNECTED that writes 't3')"),
        (0.01, 0, 2.0**-15, "operator 1 (MUL that writes 't4')"),
        (0.01, 0, 2.0**-23, "operator 1 (MUL that writes 't4')"),
    ],
)
def test_sums_that_may_not_fit_are_refused_in_a_sentence(
    ratio: float, bias: int, made: float, said: str, tmp_path: Path
) -> None:
    network = too_large(tmp_path / "made.tflite", ratio, bias, made)
    with pytest.raises(InputError, match=r"expected sums.*found ones of up to") as refused:
        check_scaled_sums(network.program, network.parameters)
    assert f"made.tflite: {said}: " in str(refused.value)
    assert ("besides: operator 2 (ADD" in str(refused.value)) == (made < 2.0**-20)


def softmax_of(scores: int, folder: Path) -> Converted:
    """A kept Softmax over so many scores in halves."""
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, scores), scales=(0.5,), zeros=(0,)))
    shares = QuantisedTensor((1, scores), scales=(1 / 256,), zeros=(-128,))
    network.operator("SOFTMAX", (first,), shares, "SoftmaxOptions", Beta=1.0)
    return convert(read_tflite(network.write(folder / "made.tflite"), keep_quantisation=True), "made", Returns.VALUE)


@needs_compiler
@pytest.mark.parametrize(
    ("samples", "shares"),
    [
        (
            [[7, 7, 7, 7], [-128, -128, -128, -128], [127, -128, -128, -128], [1, 1, -90, -90]],
            [[-64] * 4, [-64] * 4, [127, -128, -128, -128], [0, 0, -128, -128]],
        ),
        ([[7], [-128], [127]], [[127]] * 3),
    ],
    ids=["four", "one"],
)
def test_equal_scores_share_equally(samples: list[list[int]], shares: list[list[int]], tmp_path: Path) -> None:
    """One over the sum of their powers is as large a fraction as there is, and rounding it must not wrap. Of one score there are no loops
    (found by a reader: a name stood twice in one scope)."""
    made, given = softmax_of(len(samples[0]), tmp_path), np.array(samples)
    compiled = compile_sources(
        [emitted(made, "plain")], tmp_path, ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover")
    )
    found = compiled.run_integers(0, given)
    assert found.tolist() == shares
    np.testing.assert_array_equal(found, expected(made, given))
