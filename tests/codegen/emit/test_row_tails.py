"""Calls for all rows of weights go on to what becomes of their sums: the same integers as the definition's, stored once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.finished_products import finished_products

NAMES = ("places2", "rows4", "unrolled8", "vectors1")


@needs_compiler
def test_random_networks_agree(tmp_path: Path) -> None:
    """In every shape made for speed, under the undefined-behaviour sanitizer; most store fewer variables than as plain code."""
    made = [finished_products(seed) for seed in range(16)]
    sources = [
        emit_c(
            batch, model.parameters, shape=SHAPES[NAMES[seed % len(NAMES)]], name=f"m{seed}", function=f"predict{seed}"
        )
        for seed, (model, batch) in enumerate(made)
    ]
    library = compile_sources(sources, tmp_path, ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"))
    for seed, (model, batch) in enumerate(made):
        expected = run_reference(batch, model.parameters, model.features)[0]
        np.testing.assert_array_equal(library.run(seed, model.features), expected, err_msg=f"seed {seed}")
    assert sum("kt_tail0(" in source.source for source in sources) >= 4
    assert sum(bool(source.unstored) for source in sources) >= 12
