"""Votes of pairs of classes, as support vector machines tell more than two classes apart.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir import Affine, Literal, View
from kilotune.codegen.language.views import indexed, reshaped
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.model import TrainedNode


def ballot(builder: Builder, node: TrainedNode) -> None:
    """Votes of `classes` classes [1, classes], less those against them: of each pair of decisions [1, pairs] the first class has the
    vote where the decision is above 0, else the second one. Twice a class's votes, less a constant: which one has most is the same."""
    decisions, classes = builder.tensor(node.inputs[0]), node.integer("classes", 0)
    pairs = list(combinations(range(classes), 2))
    row = reshaped(builder.view(decisions), (len(pairs),))
    if row is None or decisions.view.size != len(pairs):
        raise ValueError(f"expected {len(pairs)} decisions, found {decisions.view.size}")
    won = _signs(builder, row, f"{node.output}_won")
    against = np.zeros((classes, len(pairs)))
    for place, (first, second) in enumerate(pairs):
        against[first, place], against[second, place] = 1.0, -1.0
    votes = builder.temporary((classes, 1), node.output)
    stored = builder.parameter(f"{node.output}_pairs", against)
    sparse = 2 * int(np.count_nonzero(against)) + classes < against.size
    builder.emit(ir.MatMul(votes, builder.location, stored, won, sparse=sparse))
    result = reshaped(votes, (1, classes))
    assert result is not None
    builder.bind(node.output, result)


def _signs(builder: Builder, row: View, name: str) -> View:
    """1 for every element above 0, else -1, as a column."""
    out = builder.temporary((row.size, 1), name)
    index = builder.emitter.claim("pair")
    builder.emitter.index_ranges[index] = (0, row.size - 1)
    place = Affine(0, ((index, 1),))
    with builder.emitter.open_body(index) as body:
        written = indexed(indexed(out, place), Affine())
        builder.emit(
            ir.Select(written, builder.location, indexed(row, place), Literal(1.0), Literal(-1.0), strict=True)
        )
    builder.emit(ir.Loop(index, 0, row.size, tuple(body), builder.location))
    return out
