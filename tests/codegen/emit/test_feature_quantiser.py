"""The header's function makes of features what searches and recordings take for them, beyond the range of the input too."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.emit.feature_quantiser import feature_function, quantiser
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.fixed.arithmetic import quantise, quantise_features
from tests.codegen.emit.compiled import COMPILERS, needs_compiler

SCALING = FeatureScaling((3, -2), (101325.0, float(np.float32(-0.3))))
"""With offsets, whose differences are rounded in floats of 32 bits."""


@needs_compiler
@pytest.mark.parametrize(
    ("bits", "scale", "scaling"),
    [
        *itertools.product((8,), (3, 12, -2), (None, SCALING)),
        *itertools.product((16,), (13, 0), (None, SCALING)),
        *itertools.product((32,), (20, -3), (None, SCALING)),
        *((bits, scale, None) for bits, scale in ((16, 127), (16, 140), (32, 170))),  # of tiny features
    ],
)
def test_a_header_makes_the_features_of_the_search(
    bits: int, scale: int, scaling: FeatureScaling | None, tmp_path: Path
) -> None:
    ends = 2.0 ** (bits - 1 - scale) * np.array([-3, -1.001, -1, -0.999, -0.5, 0, 0.3, 0.999, 1, 1.001, 7, 1e9])
    reals = np.concatenate([ends, np.random.default_rng(bits + scale).normal(0, np.abs(ends[2]), 60)])
    features = np.stack([reals, reals], axis=1).astype(np.float32)
    numbers = ", ".join(f"{value:.9e}f" for value in features[:, 0])
    (tmp_path / "main.c").write_text(
        f"#include <stdint.h>\n#include <stdio.h>\n{quantiser('m', bits, scale, scaling)}\n"
        f"static const float given[] = {{{numbers}}};\nint main(void)\n{{\n"
        "    for (unsigned i = 0; i < sizeof given / sizeof *given; i++)\n"
        f'        printf("%ld %ld\\n", (long){feature_function("m")}(0, given[i]), (long){feature_function("m")}(1, given[i]));\n}}\n'
    )
    command = [COMPILERS[0], "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run([*command, "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    found = [[int(text) for text in line.split()] for line in done.stdout.splitlines()]
    wanted = features.astype(np.float64) if scaling is None else scaling.apply(features.astype(np.float64))
    assert found == quantise_features(wanted, bits, scale).tolist()


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_features_within_the_range_are_as_parameters_are(bits: int) -> None:
    values = np.random.default_rng(bits).uniform(-1, 1, 500)
    np.testing.assert_array_equal(quantise_features(values, bits, bits - 1), quantise(values, bits, bits - 1))
