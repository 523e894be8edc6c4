"""What the emitted C looks like and how many bytes it places."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.constant_arrays import sparse_format
from kilotune.codegen.emit.names import c_identifiers
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.arithmetic import quantise
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.small_network import classifier


def test_bytes_are_those_of_the_footprint() -> None:
    """Flash and RAM are what the search counted."""
    model, batch = classifier()
    source = emit_c(batch, model.parameters)
    footprint = Footprint(model.program, model.parameters, in_place=True)
    tables = footprint.table_bytes(batch)
    assert source.flash_bytes == int(footprint.flash_bytes(batch.bits.astype(np.int64), tables)[0])
    assert source.scratch_bytes == 0
    assert source.ram_bytes == int(footprint.ram_bytes(batch.bits.astype(np.int64))[0])


def test_sparse_format() -> None:
    """Row by row the columns of the non-zeros from 1, each list closed by 0."""
    lists = sparse_format(
        np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 1.0], [-0.25, 0.0, 0.001]]), lambda v: quantise(v, 8, 6)
    )
    assert lists.values == (32, 64, -16, 0)
    assert lists.columns == (1, 0, 3, 0, 1, 3, 0)


def test_loops_stay_loops_and_places_are_named() -> None:
    model, batch = classifier()
    source = emit_c(batch, model.parameters).source
    assert "/* net.sd:1:1: hidden = MatMul(W, X) */" in source
    assert "/somewhere" not in source
    assert re.search(r"sum = kt_dot_flash16_ram16_32\(sum, .*, 8\);", source)
    assert source.count("\n") < 400


def test_header_says_what_a_caller_needs() -> None:
    model, batch = classifier()
    header = emit_c(batch, model.parameters).header
    for line in ("#define MODEL_FEATURES 12", "#define MODEL_CLASSES 5", "int predict(const int16_t *x);"):
        assert line in header


def test_identifiers_are_c() -> None:
    names = c_identifiers(["int", "a.b", "a_b", "2x", "kt_ram", "i0", "x", "W"])
    assert len(set(names.values())) == len(names)
    assert all(re.fullmatch(r"[A-Za-z]\w*", name) for name in names.values())
    assert names["W"] == "W"
    assert names["int"] != "int"


@needs_compiler
def test_long_tree_sum_needs_few_places(tmp_path: Path) -> None:
    model, _ = classifier(result_kind=ir.ResultKind.REAL)
    magnitudes = {v.name: 2.0 for v in model.program.variables}
    batch = SeeDotLowering(model.program, magnitudes).lower(SeeDotParameters(16, 8), {})
    source = emit_c(batch, model.parameters)
    assert source.scratch_bytes == 4 * 2  # 8 terms: one waiting sum for each level of the tree
    compiled = compile_sources([source], tmp_path)
    np.testing.assert_array_equal(
        compiled.run(0, model.features), run_reference(batch, model.parameters, model.features)[0]
    )


@needs_compiler
def test_a_given_placement_is_kept(tmp_path: Path) -> None:
    model, batch = classifier()
    source = emit_c(batch, model.parameters, {"hidden": 64, "sum": 96, "act": 128, "scores": 160})
    assert source.offsets["sum"] == 96
    compiled = compile_sources([source], tmp_path)
    np.testing.assert_array_equal(
        compiled.run(0, model.features), run_reference(batch, model.parameters, model.features)[0]
    )


def test_a_wrong_placement_is_refused() -> None:
    model, batch = classifier()
    with pytest.raises(ValueError, match="live at the same time"):
        emit_c(batch, model.parameters, {"hidden": 0, "sum": 2})
    with pytest.raises(ValueError, match="multiple of 2"):
        emit_c(batch, model.parameters, {"hidden": 1})


def test_reading_what_was_overwritten_is_refused() -> None:
    """`act` reversed into itself would read elements that are new already."""
    model, batch = classifier(result_kind=ir.ResultKind.REAL)
    act = next(o.out for o in model.program.body if isinstance(o, ir.Tanh))
    backwards = dataclasses.replace(act, strides=(-1, 1), offset=ir.Affine(7))
    location = ir.Location("net.sd", 9, 2)
    body = (*model.program.body, ir.Copy(act, location, backwards))
    program = dataclasses.replace(model.program, body=body)
    rows = np.concatenate([batch.rows, batch.rows[:, -1:]], axis=1)
    with pytest.raises(ValueError, match=r"net.sd:9:2: act is written and read"):
        emit_c(dataclasses.replace(batch, program=program, rows=rows), model.parameters)


@needs_compiler
@pytest.mark.parametrize("traced", [True, False])
def test_a_label_alone_needs_no_temporaries(traced: bool, tmp_path: Path) -> None:
    """Compact code returns the label from a variable of its own: what holds all others would be declared and never read."""
    here = ir.Location("label.sd", 1, 1)
    x, label = ir.Variable("X", (6,), ir.Role.INPUT, here), ir.Variable("label", (), ir.Role.TEMPORARY, here)
    program = ir.Program(
        "label", (x, label), (ir.ArgMax(ir.whole(label), here, ir.whole(x)),), ir.whole(label), ir.ResultKind.CLASS
    )
    source = emit_c(ShiftryLowering(program, {}).lower([[8, 16]], [[4, 0]]), {}, shape=SHAPES["compact"])
    assert "kt_ram" in source.source
    text = ("#define KT_TRACED\n" if traced else "") + source.source
    compiled = compile_sources([dataclasses.replace(source, source=text)], tmp_path)
    assert compiled.run_integers(0, np.array([[1, 5, -7, 5, 0, 2], [0, 0, 0, 0, 0, 1]])).tolist() == [[1], [5]]
