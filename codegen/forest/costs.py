"""What a forest's program takes, known without a compiler: bytes of its arrays exactly, of its code and cycles about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.feature_quantiser import ranker_bytes
from kilotune.codegen.forest.integers import Branch, Given, fill_leaves
from kilotune.codegen.forest.plan import ForestPlan, Says
from kilotune.codegen.forest.records import size_of, stored_branches, widest_skip


@dataclass(frozen=True)
class CodeCosts:
    """Bytes and cycles, fitted to compiled programs (`benchmarks.forest_costs`). `entry`: of the function itself; `per_score`: of setting
    up and comparing one; `tree`: of a call; `comparison`: one of code; `leaf`: one of code; `branch`: the call of a walk; `wide`: what a
    comparison of 16 bits takes more. `walk`: the loop over records, cycles a level; `vote`, `entry_of_votes`: adding a whole vote, and one
    of several."""

    entry: tuple[float, float]
    per_score: tuple[float, float]
    tree: tuple[float, float]
    comparison: tuple[float, float]
    wide: tuple[float, float]
    leaf: tuple[float, float]
    branch: tuple[float, float]
    walk: tuple[float, float]
    vote: tuple[float, float]
    entry_of_votes: tuple[float, float]


COSTS: Mapping[str, CodeCosts] = MappingProxyType(
    {
        "avr": CodeCosts(
            (150, 130), (0, 19), (16, 22), (6.4, 4.6), (4, 3), (3.2, 2), (5, 6), (60, 23.5), (70, 26), (0, 26)
        ),
        "cortex": CodeCosts((80, 40), (0, 7), (10, 12), (6, 5), (0, 0), (4, 1), (8, 4), (50, 11), (50, 10), (0, 12)),
    }
)
"""By the family of processors: (bytes, cycles)."""


@dataclass(frozen=True)
class TreeShape:
    """A tree with so many levels as code. `comparisons`, `leaves`: of code; `branches`: walks that begin there; `coded`, `walked`:
    comparisons of a sample on average in either part."""

    comparisons: int
    leaves: int
    branches: int
    coded: float
    walked: float


def shape_of(tree: Branch, levels: int, depths: IntArray) -> TreeShape:
    """`depths` [samples]: how many comparisons each sample meets."""
    comparisons, leaves, branches = _counts(tree, levels)
    coded = np.minimum(depths, levels)
    return TreeShape(comparisons, leaves, branches, float(coded.mean()), float((depths - coded).mean()))


def _counts(tree: Branch, levels: int) -> tuple[int, int, int]:
    if isinstance(tree, int):
        return 0, 1, 0
    if levels == 0:
        return 0, 0, 1
    left, right = _counts(tree.left, levels - 1), _counts(tree.right, levels - 1)
    return 1 + left[0] + right[0], left[1] + right[1], left[2] + right[2]


def depths_of(tree: Branch, integers: IntArray) -> IntArray:
    """How many comparisons each sample meets [samples]."""
    depths = np.zeros(len(integers), dtype=np.int64)
    stack = [(tree, np.arange(len(integers)))]
    while stack:
        branch, samples = stack.pop()
        if isinstance(branch, int) or not len(samples):
            continue
        depths[samples] += 1
        goes_left = integers[samples, branch.feature] <= branch.threshold
        stack += [(branch.left, samples[goes_left]), (branch.right, samples[~goes_left])]
    return depths


@dataclass(frozen=True, eq=False)
class ForestCosts:
    """Costs of all programs of a forest in integers that differ in which levels are code. `plan`: one of them, with nothing as code;
    `integers`: samples as the program takes them, of which cycles are the average."""

    plan: ForestPlan
    integers: IntArray
    costs: CodeCosts
    _known: dict[tuple[int, int], tuple[TreeShape, int, int, int]] = field(default_factory=dict, repr=False)

    @cached_property
    def depths(self) -> tuple[IntArray, ...]:
        """By tree, the comparisons that each sample meets."""
        return tuple(depths_of(tree, self.integers) for tree in self.plan.trees)

    @cached_property
    def fixed(self) -> tuple[float, float]:
        """(bytes, cycles) of all that no levels change: the entry, the votes and their arrays, and ranks of features."""
        plan, costs, forest = self.plan, self.costs, self.plan.forest
        scores = 0 if plan.says is Says.LABEL else len(forest.base)
        flash, cycles = (costs.entry[i] + scores * costs.per_score[i] for i in (0, 1))
        if plan.says is Says.VOTES and plan.votes is not None:
            weight = plan.weight_bytes
            flash += costs.vote[0] + 2 * len(plan.votes.rows) + len(plan.votes.packed(weight))
            cycles += self._vote_cycles()
        elif plan.says is Says.NUMBER:
            cycles += 4.0 * len(plan.trees)
        if forest.features.given is Given.RANK:
            flash += ranker_bytes(forest.source.feature_count, forest.thresholds)
        return flash, cycles

    def _vote_cycles(self) -> float:
        """Cycles of adding the votes of all trees, on average."""
        votes, costs = self.plan.votes, self.costs
        assert votes is not None
        entries = np.array([0] * votes.classes + [len(row) for row in votes.rows])
        total = 0.0
        for tree in self.plan.trees:
            leaves = np.zeros(len(self.integers), dtype=np.int64)
            fill_leaves(tree, self.integers, np.arange(len(self.integers)), leaves)
            total += costs.vote[1] + costs.entry_of_votes[1] * float(entries[leaves].mean())
        return total

    def of(self, levels: Sequence[int]) -> tuple[float, float]:
        """(bytes of flash, cycles on average) with so many levels of each tree as code."""
        parts = [self._part(number, most) for number, most in enumerate(levels)]
        wide = any(reach >= 256 for _, reach, _, _ in parts)
        flash, cycles = self.fixed
        two = 1 if self.plan.forest.features.bits == 16 else 0
        stored = 0
        for shape, _, narrow_bytes, wide_bytes in parts:
            stored += wide_bytes if wide else narrow_bytes
            flash += self.costs.tree[0] + shape.leaves * self.costs.leaf[0] + shape.branches * self.costs.branch[0]
            flash += shape.comparisons * (self.costs.comparison[0] + two * self.costs.wide[0])
            cycles += self.costs.tree[1] + self.costs.leaf[1] + (self.costs.branch[1] if shape.walked else 0.0)
            cycles += (
                shape.coded * (self.costs.comparison[1] + two * self.costs.wide[1]) + shape.walked * self.costs.walk[1]
            )
        return flash + stored + (self.costs.walk[0] if stored else 0.0), cycles

    def _part(self, number: int, levels: int) -> tuple[TreeShape, int, int, int]:
        """A tree's shape, how far a right branch is behind at most, and the bytes of its records with short and with long ways."""
        key = (number, levels)
        if key not in self._known:
            tree, form = self.plan.trees[number], self.plan.narrow_form
            branches = stored_branches(tree, levels)
            sizes = [sum(size_of(branch, one) for branch in branches) for one in (form, replace(form, skip=2))]
            shape = shape_of(tree, levels, self.depths[number])
            self._known[key] = (shape, widest_skip(branches, form), sizes[0], sizes[1])
        return self._known[key]
