"""Fewer buffers, from who follows whom: where one block ends and one begins, they lie at the same place.

Whatever fills a memory and is cut from edge to edge betrays its cuts by its lives, whatever the sizes: blocks of equal lives lay on one
another, and at a point where a single block ends and a single one begins, the second one took the place of the first. Both are glued,
to a rectangle as high as the higher one, and this goes on upwards. Before them come wheels of five that turn around one of them
(`loose_wheels.py`), and after them pairs that together live exactly as long as another block, which then lay on or below them; of these
only such that leave their points balanced (`balance.py`), and none where mates are missing. Where as many end as begin at a point by
chance, pairs come next without which not all would have a mate of about their size; then pairs of nearly the same size as no other one
there. Of them all, those are glued first whose rectangle leaves the least unused.

Of a program with gaps, pairs of which something between or beside is missing (`missing_mates.py`) come before, between and after those, the
fewer they are to choose from the earlier.

What a rectangle leaves unused counts as live from then on, so a limit on the live sum says which pairs must not be glued: with a low one
more blocks are left, with a high one no placement of them may be low enough.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.balance import GluedGroup, exclusive, leaves_balance
from kilotune.spaces.memory.gluing import MOST_LEFT, BlocksLeft, GluedBlock, GluedBuffers
from kilotune.spaces.memory.loose_wheels import around_wheel, loose_wheels
from kilotune.spaces.memory.missing_mates import pairs_with_missing_mates

MATCHED_SHARE = 0.25
"""The share of the pairs in matchings that are glued, the best ones, before all are looked at again."""

ALIKE_SHARE = 0.02
"""The share of the pairs that are only alike; one at least."""

WHEEL_DIFFERENCES, LAST_WHEEL_DIFFERENCE = (0.02, 0.05, 0.1, 0.15), 0.25
"""How much of the higher one the lower one may lack of what lies beside each other in a wheel: one after the other, the last one where
nothing is surer."""

WHEELS_SHARE = 0.25
"""The share of the wheels that are glued before all are looked at again."""

CONFIRMED_DIFFERENCE = 0.15
"""How much of the higher one the lower one of a pair may lack that another block's life confirms."""

CONFIRMED_SHARE, LEAST_CONFIRMED_SHARE = 0.25, 0.1
"""The share of the pairs that another block's life confirms; the second one, of those that have blocks in common."""

MOST_COMPARED = 900
"""Pairs at one point above which none are confirmed."""

GAPS_SHARE = 0.2
"""The share of all pairs where mates may be missing."""

BESIDE_ONE, BESIDE_TWO = 1, 2
"""How many others begin with a block without a mate: of a thinned tiling nine of ten such pairs with one other are right, two of three with
two, and few with more."""

MOST_DOUBTFUL = 2000
"""Blocks above which no pairs are looked for where several begin: they take a few at a time, and each time all blocks are looked at."""

ALIKE = 0.3
"""The part of the difference between pairs in matchings that may lie between those."""


@dataclass(frozen=True)
class SuccessionRule:
    """Which blocks are glued that follow one another. `most_bytes`: what the live sum may rise to. `difference`: how much of the higher
    one's bytes the lower one of a pair may lack where several begin; 0: no such pairs. `noise`: its spread on the logarithms of what pairs
    leave unused. `gaps`: mates may be missing."""

    most_bytes: float = math.inf
    difference: float = 0.0
    noise: float = 0.0
    gaps: bool = False


def glued_by_succession(
    buffers: BufferArrays, rule: SuccessionRule, random: np.random.Generator
) -> GluedBuffers | None:
    """None when hardly any follow one another."""
    blocks = BlocksLeft(buffers)
    joining = _Joining(blocks, buffers, rule, random)
    # Wheels first: blocks of equal lives need not have lain on each other, but sizes say what belongs to a wheel.
    while joining.close_wheels() or blocks.stack() or joining.join():
        pass
    return blocks.result() if len(blocks.left) <= MOST_LEFT * len(buffers) else None


_Pair = tuple[GluedBlock, GluedBlock]


class _Joining:
    """Joins blocks that follow one another, as long as the live sums allow it."""

    def __init__(
        self, blocks: BlocksLeft, buffers: BufferArrays, rule: SuccessionRule, random: np.random.Generator
    ) -> None:
        self._blocks, self._rule, self._random = blocks, rule, random
        self._refused: set[tuple[int, ...]] = set()  # identities: blocks live as long as those that they are part of
        points = np.unique(np.concatenate([buffers.lower, buffers.upper]))
        self._place = {point: index for index, point in enumerate(points.tolist())}
        change = np.zeros(len(points), dtype=np.int64)
        np.add.at(change, np.searchsorted(points, buffers.lower), buffers.size)
        np.subtract.at(change, np.searchsorted(points, buffers.upper), buffers.size)
        self._live = np.cumsum(change)

    def close_wheels(self) -> bool:
        """Glue the best wheels that leave their points balanced and have no block in common; whether there were any to look at."""
        if self._rule.gaps:
            return False
        ending, beginning = self._ends_and_begins()
        for difference in WHEEL_DIFFERENCES:
            wheels = self._allowed(loose_wheels(ending, beginning, difference))
            wheels = exclusive([wheel for wheel in wheels if leaves_balance(wheel, ending, beginning)])
            if self._glue(wheels, WHEELS_SHARE):
                return True
        return False

    def join(self) -> bool:
        """Glue the best pairs or wheels of the surest kind that there is; whether there were any to look at."""
        return self._glue(*self._groups())

    def _glue(self, groups: list[GluedGroup], share: float) -> bool:
        """Glue that share of them, the best ones; whether there were any."""
        if not groups:
            return False
        wholes = [_around(group) for group in groups]
        unused = np.log([self._unused(whole) + 1.0 for whole in wholes])
        if self._rule.noise:
            unused += self._rule.noise * self._random.standard_normal(len(groups))
        used: set[int] = set()
        for index in np.argsort(unused, kind="stable")[: math.ceil(share * len(groups))]:
            members = _identities(groups[index])
            if used & set(members):
                continue
            if not self._takes_place(wholes[index]):
                self._refused.add(members)
                continue
            used |= set(members)
            self._blocks.left.append(wholes[index])
        self._blocks.left = [block for block in self._blocks.left if id(block) not in used]
        return True

    def _groups(self) -> tuple[list[GluedGroup], float]:
        """What lay beside one another, of the surest kind that there is, and the share of it to be glued."""
        return next((found for found in self._kinds() if found[0]), ([], 1.0))

    def _kinds(self) -> Iterator[tuple[list[GluedGroup], float]]:
        """The surest ones first."""
        ending, beginning = self._ends_and_begins()
        meetings = [(ending[point], seconds) for point, seconds in beginning.items() if point in ending]
        difference, gaps = self._rule.difference, self._rule.gaps
        alone = self._allowed(
            [(firsts[0], seconds[0]) for firsts, seconds in meetings if len(firsts) == len(seconds) == 1]
        )

        def lacking(most_beside: int) -> tuple[list[GluedGroup], float]:
            found = pairs_with_missing_mates(ending, beginning, most_beside) if gaps else []
            return self._allowed(found), GAPS_SHARE

        def balanced(groups: Sequence[GluedGroup]) -> list[GluedGroup]:
            return [group for group in self._allowed(groups) if gaps or leaves_balance(group, ending, beginning)]

        yield alone + lacking(BESIDE_ONE)[0], GAPS_SHARE if gaps else 1.0
        confirmed = [] if gaps else balanced(self._confirmed(meetings))
        yield exclusive(confirmed), CONFIRMED_SHARE
        yield [] if gaps else balanced(loose_wheels(ending, beginning, LAST_WHEEL_DIFFERENCE)), WHEELS_SHARE
        yield confirmed, LEAST_CONFIRMED_SHARE
        doubtful = difference and len(self._blocks.left) <= MOST_DOUBTFUL
        if doubtful:
            yield (
                self._allowed([pair for meeting in meetings for pair in _matched(*meeting, difference)]),
                MATCHED_SHARE,
            )
        yield lacking(BESIDE_TWO)
        if doubtful:
            alike = [pair for meeting in meetings for pair in _alike(*meeting, ALIKE * difference)]
            yield balanced(alike), ALIKE_SHARE
        yield lacking(len(self._blocks.left))

    def _confirmed(self, meetings: list[tuple[list[GluedBlock], list[GluedBlock]]]) -> list[_Pair]:
        """Pairs of nearly equal sizes that together live exactly as long as another block, on which, or below which, they lay."""
        lives = {(block.lower, block.upper) for block in self._blocks.left}
        return [
            (first, second)
            for firsts, seconds in meetings
            if len(firsts) * len(seconds) <= MOST_COMPARED
            for first, second in _within(firsts, seconds, CONFIRMED_DIFFERENCE)
            if (first.lower, second.upper) in lives
        ]

    def _ends_and_begins(self) -> tuple[dict[int, list[GluedBlock]], dict[int, list[GluedBlock]]]:
        """The blocks that end, and those that begin, at each point."""
        ending: dict[int, list[GluedBlock]] = defaultdict(list)
        beginning: dict[int, list[GluedBlock]] = defaultdict(list)
        for block in self._blocks.left:
            ending[block.upper].append(block)
            beginning[block.lower].append(block)
        return dict(ending), dict(beginning)

    def _allowed(self, groups: Sequence[GluedGroup]) -> list[GluedGroup]:
        """Those that were not refused, and of which the larger alignment is a multiple of the others."""
        return [
            group
            for group in groups
            if _identities(group) not in self._refused
            and not any(max(block.alignment for block in group) % block.alignment for block in group)
        ]

    def _unused(self, whole: GluedBlock) -> float:
        """What the rectangle of a pair leaves unused, bytes times points; without gaps, as if the lower one were as long as both."""
        if not self._rule.gaps and len(whole.parts) == 2:
            (first, _), (second, _) = whole.parts
            return abs(first.size - second.size) * (whole.upper - whole.lower)
        return _area(whole) - sum(_area(part) for part, _ in whole.parts)

    def _takes_place(self, whole: GluedBlock) -> bool:
        """Whether the live sums allow the rectangle of a pair; they rise then."""
        begin, end = self._place[whole.lower], self._place[whole.upper]
        raised = np.full(end - begin, whole.size, dtype=np.int64)
        for part, _ in whole.parts:
            raised[self._place[part.lower] - begin : self._place[part.upper] - begin] -= part.size
        live = self._live[begin:end]
        if int(np.where(raised > 0, live + raised, 0).max()) > self._rule.most_bytes:
            return False
        live += raised
        return True


def _matched(firsts: list[GluedBlock], seconds: list[GluedBlock], difference: float) -> list[_Pair]:
    """Where as many end as begin: pairs that are in every matching of all within the difference, as far as single mates show them."""
    pairs = _within(firsts, seconds, difference) if len(firsts) == len(seconds) else []
    forced: list[_Pair] = []
    while pairs:
        mates = Counter(id(block) for pair in pairs for block in pair)
        if len(mates) < 2 * (len(firsts) - len(forced)):
            return []  # somebody has no mate
        single = next((pair for pair in pairs if min(mates[id(block)] for block in pair) == 1), None)
        if single is None:
            return forced
        forced.append(single)
        pairs = [pair for pair in pairs if pair[0] is not single[0] and pair[1] is not single[1]]
    return forced if len(forced) == len(firsts) else []


def _alike(firsts: list[GluedBlock], seconds: list[GluedBlock], difference: float) -> list[_Pair]:
    """Those within the difference of which neither is within it of another one."""
    pairs = _within(firsts, seconds, difference)
    mates = Counter(id(block) for pair in pairs for block in pair)
    return [pair for pair in pairs if mates[id(pair[0])] == mates[id(pair[1])] == 1]


def _within(firsts: list[GluedBlock], seconds: list[GluedBlock], difference: float) -> list[_Pair]:
    return [
        (first, second)
        for first in firsts
        for second in seconds
        if abs(first.size - second.size) <= difference * max(first.size, second.size)
    ]


def _identities(group: GluedGroup) -> tuple[int, ...]:
    return tuple(id(block) for block in group)


def _around(group: GluedGroup) -> GluedBlock:
    if len(group) == 2:
        return rectangle_around(*group)
    early, late, over, left, middle = group
    return around_wheel((early, late, over, left, middle))


def _area(block: GluedBlock) -> int:
    return block.size * (block.upper - block.lower)


def rectangle_around(first: GluedBlock, second: GluedBlock) -> GluedBlock:
    """Both at one place, one after the other; on each other where they are live together."""
    size, alignment = max(first.size, second.size), max(first.alignment, second.alignment)
    lower, upper, above = min(first.lower, second.lower), max(first.upper, second.upper), 0
    if first.lower < second.upper and second.lower < first.upper:
        size, above = first.size + second.size, first.size
    return GluedBlock(lower, upper, size, alignment, ((first, 0), (second, above)))
