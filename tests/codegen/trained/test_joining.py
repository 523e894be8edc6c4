"""Parts of rows that are taken, put together and multiplied: joined as far as they can be, they are what onnxruntime makes of them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import read_trained
from kilotune.codegen.trained.joining import with_joined_parts
from kilotune.codegen.trained.onnx_models import read_onnx
from tests.codegen.trained.cases import draw, numbers
from tests.codegen.trained.onnx_files import Case, float_results, reference


@st.composite
def rows(pick: st.DrawFn) -> Case:
    """Operators on rows [1, columns], and all that none of them reads, put together."""
    widths, nodes, constants = {"x": 6}, [], {}
    for number in range(pick(st.integers(3, 9))):
        name = f"v{number}"
        read = {part for _, parts, _, _ in nodes for part in parts}
        unread = [one for one in widths if one not in read] or ["x"]
        source = pick(
            st.sampled_from([*unread, *unread, *unread, *widths])
        )  # mostly what nobody reads yet: it may be joined
        kind = pick(st.sampled_from(["Gemm", "Gemm", "Sigmoid", "Relu", "Slice", "Gather", "Concat", "Concat", "Add"]))
        width = widths[source]
        if kind == "Gemm":
            outputs = pick(st.integers(1, 3))
            constants |= {f"{name}w": draw(width, outputs), f"{name}b": draw(outputs) + np.float32(number)}
            nodes.append(
                (kind, [source, f"{name}w", f"{name}b"], [name], {"alpha": pick(st.sampled_from([1.0, -0.5]))})
            )
            width = outputs
        elif kind == "Slice":
            start, step = pick(st.integers(0, width - 1)), pick(st.sampled_from([1, 1, 2]))
            end = pick(st.integers(start + 1, width))
            constants |= {f"{name}{k}": numbers(value) for k, value in enumerate((start, end, -1, step))}
            nodes.append((kind, [source, *(f"{name}{k}" for k in range(4))], [name], {}))
            width = len(range(start, end, step))
        elif kind == "Gather":
            places = pick(st.lists(st.integers(-width, width - 1), min_size=1, max_size=3))
            constants[f"{name}p"] = numbers(*places)
            nodes.append((kind, [source, f"{name}p"], [name], {"axis": 1}))
            width = len(places)
        elif kind == "Concat":
            parts = pick(st.lists(st.sampled_from([*unread, *unread, *widths]), min_size=1, max_size=3, unique=True))
            nodes.append((kind, parts, [name], {"axis": pick(st.sampled_from([1, -1]))}))
            width = sum(widths[part] for part in parts)
        else:
            constants |= {f"{name}c": draw(width)} if kind == "Add" else {}
            nodes.append((kind, [source, *([f"{name}c"] if kind == "Add" else [])], [name], {}))
        widths[name] = width
    read = {part for _, parts, _, _ in nodes for part in parts}
    ends = [name for name in widths if name not in read]
    return Case("rows", (1, 6), [*nodes, ("Concat", ends, ["y"], {"axis": 1})], constants)


@settings(max_examples=60)
@given(rows())
def test_joined_parts_are_what_the_file_computes(case: Case) -> None:
    with TemporaryDirectory() as folder:
        path = case.write(Path(folder))
        found = float_results(convert(read_trained(path), case.name, Returns.VALUE), case.features)
        np.testing.assert_allclose(found, reference(path, case.features), rtol=1e-4, atol=1e-4)


TAKEN = [("Gemm", ["x", "w", "b"], ["g"], {}), ("Gather", ["g", "i"], ["t"], {"axis": 1})]
WEIGHTS = {"w": draw(6, 4), "b": draw(4), "v": draw(6, 2), "i": numbers(2, 0)}


@pytest.mark.parametrize(
    ("nodes", "products"),
    [
        ([*TAKEN, ("MatMul", ["x", "v"], ["h"], {}), ("Concat", ["t", "h"], ["y"], {"axis": 1})], 1),
        ([*TAKEN, ("MatMul", ["t", "u"], ["h"], {}), ("Concat", ["t", "h"], ["y"], {"axis": 1})], 2),
        ([*TAKEN, ("Concat", ["t", "g"], ["y"], {"axis": 1})], 1),
    ],
    ids=["of one source", "of each other", "read twice"],
)
def test_products_are_joined_where_nothing_is_computed_twice(nodes: list, products: int, tmp_path: Path) -> None:  # type: ignore[type-arg]
    graph = with_joined_parts(read_onnx(Case("few", (1, 6), nodes, {**WEIGHTS, "u": draw(2, 2)}).write(tmp_path)))
    found = [node for node in graph.nodes if node.kind in ("Gemm", "MatMul")]
    assert len(found) == products
    assert sum(graph.constants[node.inputs[1]].shape[1] for node in found) == 4


SQUASHED = [("Gemm", ["x", "w", "b"], ["g"], {}), ("Sigmoid", ["g"], ["s"], {})]


@pytest.mark.parametrize(
    ("nodes", "functions"),
    [
        ([*SQUASHED, ("Gather", ["s", "i"], ["t"], {"axis": 1}), ("Relu", ["s"], ["r"], {})], 2),
        ([*SQUASHED, ("Sigmoid", ["x"], ["q"], {}), ("Concat", ["s", "q"], ["t"], {"axis": 1}), ("Relu", ["s"], ["r"], {})], 3),
        ([*SQUASHED, ("Sigmoid", ["x"], ["q"], {}), ("Concat", ["s", "q"], ["t"], {"axis": 1}), ("Relu", ["x"], ["r"], {})], 2),
    ],
    ids=["taken of", "put together", "read once"],
)  # fmt: skip
def test_a_function_that_somebody_else_reads_stays_what_it_is(nodes: list, functions: int, tmp_path: Path) -> None:  # type: ignore[type-arg]
    case = Case("few", (1, 6), [*nodes, ("Concat", ["t", "r"], ["y"], {"axis": 1})], WEIGHTS)
    graph = with_joined_parts(read_onnx(case.write(tmp_path)))
    assert sum(node.kind in ("Sigmoid", "Relu") for node in graph.nodes) == functions
