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
from kilotune.codegen.forest.plan import LOOPED, ForestPlan
from kilotune.codegen.forest.records import size_of, stored_branches, widest_skip

Counts = Mapping[str, float]
"""How often something is in a program, or happens in a run, by name."""


@dataclass(frozen=True)
class CodeCosts:
    """Bytes and cycles of what `ForestCosts.counts` counts, fitted to compiled programs."""

    flash: Counts
    cycles: Counts


COSTS: Mapping[str, CodeCosts] = MappingProxyType(
    {
        "avr": CodeCosts(
            MappingProxyType(
                {
                    "branches": 15.6,
                    "calls": 13.7,
                    "comparisons": 0.0,
                    "entry": 0.0,
                    "label": 130.9,
                    "leaves": 10.9,
                    "long scores": 0.0,
                    "long sums": 13.5,
                    "loop": 260.4,
                    "number": 0.0,
                    "votes": 150.9,
                    "walk": 71.0,
                    "wide comparisons": 0.0,
                    "wide leaves": 1.0,
                    "wide votes": 11.6,
                }
            ),
            MappingProxyType(
                {
                    "calls": 4.4,
                    "comparisons": 7.3,
                    "entries": 17.8,
                    "entry": 0.0,
                    "label": 0.1,
                    "long scores": 56.7,
                    "long sums": 1.5,
                    "loop": 18.7,
                    "number": 0.0,
                    "scores": 56.5,
                    "votes": 12.3,
                    "walked": 25.2,
                    "walks": 8.1,
                    "wide comparisons": 0.0,
                    "wide entries": 19.6,
                    "wide walked": 8.7,
                }
            ),
        ),
        "cortex": CodeCosts(
            MappingProxyType(
                {
                    "branches": 11.9,
                    "calls": 26.9,
                    "comparisons": 0.0,
                    "entry": 1139.3,
                    "label": 102.0,
                    "leaves": 9.2,
                    "long scores": 0.0,
                    "long sums": 1.0,
                    "loop": 185.1,
                    "number": 0.0,
                    "votes": 152.2,
                    "walk": 0.0,
                    "wide comparisons": 0.0,
                    "wide leaves": 1.9,
                    "wide votes": 13.7,
                }
            ),
            MappingProxyType(
                {
                    "calls": 0.0,
                    "comparisons": 6.3,
                    "entries": 14.1,
                    "entry": 14.4,
                    "label": 2.4,
                    "long scores": 1.0,
                    "long sums": 0.0,
                    "loop": 5.1,
                    "number": 4.9,
                    "scores": 23.7,
                    "votes": 19.4,
                    "walked": 19.5,
                    "walks": 10.1,
                    "wide comparisons": 0.0,
                    "wide entries": 0.6,
                    "wide walked": 2.8,
                }
            ),
        ),
    }
)
"""By the family of processors, of whole programs at -Os (of a Cortex-M4 with its start-up code): `benchmarks.forest_costs` fits them and
says how far off they are."""


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
    def array_bytes(self) -> int:
        """Bytes of arrays that no levels change: votes, and the thresholds of ranks."""
        votes, forest = self.plan.votes, self.plan.forest
        voted = (
            0 if votes is None or not votes.rows else 2 * len(votes.rows) + len(votes.packed(self.plan.weight_bytes))
        )
        ranks = (
            ranker_bytes(forest.source.feature_count, forest.thresholds) if forest.features.given is Given.RANK else 0
        )
        return voted + ranks

    @cached_property
    def mean_entries(self) -> float:
        """How many votes of several a sample meets, on average."""
        votes = self.plan.votes
        if votes is None:
            return 0.0
        entries, total = np.array([0] * votes.classes + [len(row) for row in votes.rows]), 0.0
        for tree in self.plan.trees:
            leaves = np.zeros(len(self.integers), dtype=np.int64)
            fill_leaves(tree, self.integers, np.arange(len(self.integers)), leaves)
            total += float(entries[leaves].mean())
        return total

    def counts(self, levels: Sequence[int]) -> tuple[Counts, Counts, int]:
        """(what takes bytes of code, what takes cycles, bytes of arrays) with so many levels of each tree as code."""
        parts = [self._part(number, most) for number, most in enumerate(levels)]
        shapes = [shape for shape, *_ in parts]
        stored = sum(part[3] if any(reach >= 256 for _, reach, _, _ in parts) else part[2] for part in parts)
        plan, trees = self.plan, len(shapes)
        whole = sum(most == 0 and shape.branches == 1 for most, shape in zip(levels, shapes, strict=True))
        looped = whole if whole >= LOOPED else 0
        two, pair = plan.forest.features.bits == 16, plan.leaf_bytes == 2
        says, leaves_of = plan.says.value, plan.forest.leaves
        wide, long = (kept and says != "label" for kept in (leaves_of.stored_bits == 16, leaves_of.score_bits == 32))
        compared, coded = (sum(getattr(shape, name) for shape in shapes) for name in ("comparisons", "coded"))
        walked, leaves = sum(shape.walked for shape in shapes), sum(shape.leaves for shape in shapes)
        flash = {"entry": 1, says: 1, "walk": bool(stored), "loop": bool(looped), "calls": trees - looped,
                 "comparisons": compared, "wide comparisons": compared * two, "leaves": leaves, "wide leaves": leaves * pair,
                 "branches": sum(shape.branches for shape in shapes) - looped,
                 "wide votes": wide, "long scores": long, "long sums": (trees - looped) * long * (says == "number")}  # fmt: skip
        cycles = {"entry": 1, says: trees, "scores": len(plan.forest.base) * (says != "label"), "loop": looped, "calls": trees - looped,
                  "comparisons": coded, "wide comparisons": coded * two, "walked": walked, "wide walked": walked * (two or pair),
                  "walks": sum(shape.walked > 0 for shape in shapes), "entries": self.mean_entries,
                  "wide entries": self.mean_entries * wide, "long scores": len(plan.forest.base) * long,
                  "long sums": (self.mean_entries if says == "votes" else trees) * long}  # fmt: skip
        return flash, cycles, self.array_bytes + stored + 2 * looped

    def of(self, levels: Sequence[int]) -> tuple[float, float]:
        """(bytes of flash, cycles on average) with so many levels of each tree as code."""
        flash, cycles, arrays = self.counts(levels)
        sums = [sum(costs[name] * count for name, count in counts.items()) for costs, counts in
                ((self.costs.flash, flash), (self.costs.cycles, cycles))]  # fmt: skip
        return arrays + sums[0], sums[1]

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
