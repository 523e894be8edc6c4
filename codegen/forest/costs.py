"""What a forest's program takes, known without a compiler: in assembler exactly but for what likelihoods say of carries and branches, in C
bytes of its arrays exactly, of its code and cycles about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType

from kilotune.codegen.emit.feature_quantiser import ranker_bytes
from kilotune.codegen.forest.avr.program import Shared, assembled, shared, tree_part
from kilotune.codegen.forest.integers import Branch, Given
from kilotune.codegen.forest.plan import LOOPED, ForestPlan
from kilotune.codegen.forest.records import size_of, stored_branches, widest_skip

START_BYTES = 174
"""Bytes of a program on an ATmega328P besides the function: vectors, start-up code, and a main that calls it."""

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
                    "branches": 4.8,
                    "calls": 22.9,
                    "comparisons": 11.5,
                    "entry": 0.0,
                    "label": 94.1,
                    "leaves": 0.0,
                    "long scores": 0.0,
                    "long sums": 14.7,
                    "loop": 234.8,
                    "number": 0.0,
                    "votes": 253.3,
                    "walk": 99.1,
                    "wide comparisons": 0.0,
                    "wide leaves": 0.8,
                    "wide votes": 8.9,
                }
            ),
            MappingProxyType(
                {
                    "calls": 0.0,
                    "comparisons": 7.8,
                    "entries": 23.8,
                    "entry": 0.0,
                    "label": 0.0,
                    "long scores": 70.4,
                    "long sums": 0.3,
                    "loop": 15.7,
                    "number": 3.2,
                    "scores": 56.1,
                    "votes": 13.2,
                    "walked": 26.4,
                    "walks": 9.6,
                    "wide comparisons": 0.0,
                    "wide entries": 12.5,
                    "wide walked": 6.3,
                }
            ),
        ),
        "cortex": CodeCosts(
            MappingProxyType(
                {
                    "branches": 4.4,
                    "calls": 29.5,
                    "comparisons": 10.6,
                    "entry": 1103.1,
                    "label": 38.5,
                    "leaves": 0.0,
                    "long scores": 0.0,
                    "long sums": 3.6,
                    "loop": 127.0,
                    "number": 0.0,
                    "votes": 101.6,
                    "walk": 87.9,
                    "wide comparisons": 0.0,
                    "wide leaves": 1.0,
                    "wide votes": 35.1,
                }
            ),
            MappingProxyType(
                {
                    "calls": 0.0,
                    "comparisons": 6.2,
                    "entries": 13.6,
                    "entry": 16.4,
                    "label": 0.0,
                    "long scores": 1.2,
                    "long sums": 0.0,
                    "loop": 4.5,
                    "number": 4.7,
                    "scores": 25.0,
                    "votes": 20.2,
                    "walked": 19.3,
                    "walks": 12.6,
                    "wide comparisons": 0.0,
                    "wide entries": 0.6,
                    "wide walked": 2.2,
                }
            ),
        ),
    }
)
"""By the family of processors, of whole programs at -Os (of a Cortex-M4 with its start-up code): `benchmarks.forest_costs` fits them and
says how far off they are."""


@dataclass(frozen=True)
class TreeShape:
    """A tree of which a part is code. `comparisons`, `leaves`: of code; `branches`: walks that begin there; `coded`, `walked`: how many
    samples meet comparisons in either part, each as often as it does; `walks`: of samples."""

    comparisons: int = 0
    leaves: int = 0
    branches: int = 0
    coded: int = 0
    walked: int = 0
    walks: int = 0

    def __add__(self, other: TreeShape) -> TreeShape:
        return TreeShape(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def shape_of(tree: Branch, least: float) -> TreeShape:
    """With comparisons as code that at least so many samples meet, of a tree at which samples were counted."""
    if isinstance(tree, int):
        return TreeShape(leaves=1)
    if tree.samples < least:
        return TreeShape(branches=1, walks=tree.samples, walked=met(tree))
    return TreeShape(comparisons=1, coded=tree.samples) + shape_of(tree.left, least) + shape_of(tree.right, least)


def met(branch: Branch) -> int:
    """How many comparisons the samples that come there meet, together."""
    return 0 if isinstance(branch, int) else branch.samples + met(branch.left) + met(branch.right)


@dataclass(frozen=True)
class TreeBytes:
    """Bytes of the records of a tree with short and with long ways to right branches; the farthest of these."""

    short: int
    long: int
    reach: int


@dataclass(frozen=True, eq=False)
class ForestCosts:
    """Costs of all programs of a forest in integers that differ in which comparisons are code. `plan`: one of them, with samples counted;
    cycles are the average of those. `assembles`: the processor is an AVR that runs assembler where `avr.program` has it, whose bytes and
    cycles are known; others are what `costs` make of counts."""

    plan: ForestPlan
    costs: CodeCosts
    assembles: bool = False
    _shapes: dict[tuple[int, float], tuple[TreeShape, TreeBytes]] = field(default_factory=dict, repr=False)
    _parts: dict[tuple[int, float], tuple[int, float]] = field(default_factory=dict, repr=False)

    @cached_property
    def array_bytes(self) -> int:
        """Bytes of arrays of C that no decision about comparisons changes: votes, and the thresholds of ranks."""
        votes = self.plan.votes
        voted = (
            0 if votes is None or not votes.rows else 2 * len(votes.rows) + len(votes.packed(self.plan.weight_bytes))
        )
        return voted + self.rank_bytes

    @cached_property
    def rank_bytes(self) -> int:
        """Bytes of what makes ranks of features."""
        forest = self.plan.forest
        return (
            ranker_bytes(forest.source.feature_count, forest.thresholds) if forest.features.given is Given.RANK else 0
        )

    @cached_property
    def mean_entries(self) -> float:
        """How many votes of several a sample meets, on average."""
        votes = self.plan.votes
        if votes is None:
            return 0.0
        entries = [0] * votes.classes + [len(row) for row in votes.rows]
        return (
            sum(entries[leaf] * samples for tree in self.plan.trees for leaf, samples in self._leaves(tree))
            / self._samples
        )

    @property
    def _samples(self) -> int:
        return max(1, self.plan.samples)

    def _leaves(self, branch: Branch, samples: int | None = None) -> Iterator[tuple[int, int]]:
        if isinstance(branch, int):
            yield branch, self.plan.samples if samples is None else samples
        else:
            yield from self._leaves(branch.left, branch.left_samples)
            yield from self._leaves(branch.right, branch.samples - branch.left_samples)

    def counts(self, least: Sequence[float]) -> tuple[Counts, Counts, int]:
        """(what takes bytes of code, what takes cycles, bytes of arrays) of a program in C with comparisons of each tree as code that at
        least so many samples meet."""
        parts = [self._shape(number, most) for number, most in enumerate(least)]
        shape = sum((shape for shape, _ in parts), TreeShape())
        long = any(octets.reach >= 256 for _, octets in parts)
        stored = sum(octets.long if long else octets.short for _, octets in parts)
        plan, trees, samples = self.plan, len(parts), self._samples
        whole = sum(shape.comparisons == 0 and shape.branches == 1 for shape, _ in parts)
        looped = whole if whole >= LOOPED else 0
        two, pair = plan.forest.features.bits == 16, plan.leaf_bytes == 2
        says, leaves_of = plan.says.value, plan.forest.leaves
        wide, long_sums = (
            kept and says != "label" for kept in (leaves_of.stored_bits == 16, leaves_of.score_bits == 32)
        )
        coded, walked, scores = shape.coded / samples, shape.walked / samples, len(plan.forest.base)
        flash = {"entry": 1, says: 1, "walk": bool(stored), "loop": bool(looped), "calls": trees - looped,
                 "comparisons": shape.comparisons, "wide comparisons": shape.comparisons * two,
                 "leaves": shape.leaves, "wide leaves": shape.leaves * pair, "branches": shape.branches - looped,
                 "wide votes": wide, "long scores": long_sums, "long sums": (trees - looped) * long_sums * (says == "number")}  # fmt: skip
        cycles = {"entry": 1, says: trees, "scores": scores * (says != "label"), "loop": looped, "calls": trees - looped,
                  "comparisons": coded, "wide comparisons": coded * two, "walked": walked, "wide walked": walked * (two or pair),
                  "walks": shape.walks / samples, "entries": self.mean_entries, "wide entries": self.mean_entries * wide,
                  "long scores": scores * long_sums,
                  "long sums": (self.mean_entries if says == "votes" else trees) * long_sums}  # fmt: skip
        return flash, cycles, self.array_bytes + stored + 2 * looped

    def of(self, least: Sequence[float]) -> tuple[float, float]:
        """(bytes of flash, cycles on average) with comparisons of each tree as code that at least so many samples meet."""
        if self.in_assembler:
            return self._assembled(least)
        flash, cycles, arrays = self.counts(least)
        sums = [sum(costs[name] * count for name, count in counts.items()) for costs, counts in
                ((self.costs.flash, flash), (self.costs.cycles, cycles))]  # fmt: skip
        return arrays + sums[0], sums[1]

    @cached_property
    def in_assembler(self) -> bool:
        """Whether these programs are assembler on this processor."""
        return self.assembles and assembled(self.plan)

    @cached_property
    def _shared(self) -> Shared:
        return shared(self.plan)

    def _assembled(self, least: Sequence[float]) -> tuple[float, float]:
        parts = [self._part(number, most) for number, most in enumerate(least)]
        octets, cycles = self._shared.size([words for words, _ in parts])
        return START_BYTES + octets + self.rank_bytes, cycles + sum(spent for _, spent in parts) / self._samples

    def _part(self, number: int, least: float) -> tuple[int, float]:
        """Words of a tree in assembler, and its cycles of all samples."""
        key = (number, least)
        if key not in self._parts:
            part = tree_part(self.plan, number, least)
            self._parts[key] = (part.end, part.cycles)
        return self._parts[key]

    def _shape(self, number: int, least: float) -> tuple[TreeShape, TreeBytes]:
        key = (number, least)
        if key not in self._shapes:
            tree, form = self.plan.trees[number], self.plan.narrow_form
            branches = stored_branches(tree, least)
            short, long = (sum(size_of(branch, one) for branch in branches) for one in (form, replace(form, skip=2)))
            self._shapes[key] = (shape_of(tree, least), TreeBytes(short, long, widest_skip(branches, form)))
        return self._shapes[key]
