"""Splits of sums into pairs that can be transformed into each other (AUKE Sections 2.2 and 3.1, Algorithm 1).

A state is a tuple of sums that a program has yet to compute. A split takes A = t(B) out of one of them and B out of the
same or of another one; A is forgotten, for it follows from B. What is left of the split sums is their remainders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from kilotune.codegen.scamp.sums import Cell, Sum

Sums = tuple[Sum, ...]

MOST_DOUBLINGS = 3
"""Pairs whose weights differ by a larger power of two are not looked for."""


@dataclass(frozen=True, order=True)
class Transformation:
    """Move by (east, north) cells, multiply by 2**doublings, change the sign (Definitions 5 to 7)."""

    east: int
    north: int
    doublings: int = 0
    negated: bool = False

    @property
    def length(self) -> int:
        """d(A, B) of Equation 22: instructions without the sign, which additions take in."""
        return abs(self.east) + abs(self.north) + abs(self.doublings)

    def apply(self, total: Sum) -> Sum:
        """A of B. InexactHalfError when a weight is not even often enough."""
        moved = total.shifted((self.east, self.north))
        for _ in range(-self.doublings):
            moved = moved.halved()
        return moved.scaled((-1 if self.negated else 1) << max(self.doublings, 0))

    def __str__(self) -> str:
        words = [f"({self.east},{self.north})"]
        if self.doublings:
            words.append(f"*2^{self.doublings}")
        if self.negated:
            words.append("negated")
        return " ".join(words)


@dataclass(frozen=True)
class Split:
    """A out of sum number `a_from`, B out of sum number `b_from`, A = transformation(B). Numbers count the state's sums.

    With `a_from == b_from` it is the first row of Table 2, else the last one.
    """

    a_from: int
    b_from: int
    transformation: Transformation
    b: Sum

    @property
    def a(self) -> Sum:
        """What need not be looked for any more."""
        return self.transformation.apply(self.b)

    def remainders(self, sums: Sums) -> Sums:
        """What is left of the sum that A (and B) come from, and where it is another one, of the sum that B comes from."""
        if self.a_from == self.b_from:
            return (sums[self.a_from] - self.a - self.b,)
        return sums[self.a_from] - self.a, sums[self.b_from] - self.b

    def additions(self, sums: Sums) -> int:
        """Instructions that put the split sums together again, when each adds two values."""
        left = sum(bool(remainder) for remainder in self.remainders(sums))
        return left + (self.a_from == self.b_from)

    def cost(self, sums: Sums) -> int:
        """Instructions before relaxation: the transformation and the additions."""
        return self.transformation.length + self.additions(sums)

    def is_paired(self, sums: Sums) -> bool:
        """Whether A and B are sub-multisets of what they are taken from: the paper knows no others."""
        if self.a_from == self.b_from:
            return is_part(self.a + self.b, sums[self.a_from]) and is_part(self.a, self.a + self.b)
        return is_part(self.a, sums[self.a_from]) and is_part(self.b, sums[self.b_from])


def start_sums(wanted: Sequence[Sum]) -> Sums:
    """The state that splitting starts from: the final sums, without zeros and repetitions."""
    return tuple(dict.fromkeys(total for total in wanted if total))


def is_part(part: Sum, whole: Sum) -> bool:
    """Sub-multiset: of every weight at most as much as the whole has, of the same sign."""
    weights = whole.weights()
    return all(0 < w <= weights.get(c, 0) or weights.get(c, 0) <= w < 0 for c, w in part)


def after_split(sums: Sums, split: Split) -> Sums:
    """newSOPVRs of Algorithm 1: the remainders in their sums' places, B at the end; equal sums are one."""
    kept = list(sums)
    remainders = split.remainders(sums)
    kept[split.a_from] = remainders[0]
    if split.a_from != split.b_from:
        kept[split.b_from] = remainders[1]
    return tuple(dict.fromkeys(total for total in (*kept, split.b) if total))


def from_image(sums: Sums, depth: int) -> Transformation | None:
    """The base case of Algorithm 1: how the initial sum becomes the only sum left; None when it cannot."""
    if len(sums) != 1 or len(sums[0].terms) != 1:
        return None
    ((east, north), weight) = sums[0].terms[0]
    power = abs(weight).bit_length() - 1
    if abs(weight) != 1 << power:
        return None
    return Transformation(east, north, power - depth, weight < 0)


def transformations(sums: Sums, a_from: int, b_from: int, both_ways: bool = False) -> Iterator[Transformation]:
    """All under which some PVR of one sum becomes one of the other. Within a sum a move and its inverse exchange A and B,
    which is the same plan once it is relaxed: there is one of the two, unless `both_ways` are asked for."""
    first, second = sums[a_from].terms, sums[b_from].terms
    seen: dict[Transformation, None] = {}
    for (to, w), (at, v) in product(first, second):
        for power in range(-MOST_DOUBLINGS, MOST_DOUBLINGS + 1):
            if abs(v) < 1 << max(-power, 0) or abs(w) < 1 << max(power, 0):
                continue
            seen[Transformation(to[0] - at[0], to[1] - at[1], power, (w > 0) != (v > 0))] = None
    for t in sorted(seen):
        if a_from != b_from:
            yield t
        elif (t.east, t.north) == (0, 0):
            if t.doublings > 0 and not t.negated:
                yield t
        elif t.doublings or both_ways or (t.east, t.north) > (0, 0):
            yield t


def largest_pair(sums: Sums, a_from: int, b_from: int, t: Transformation, backwards: bool = False) -> Sum:
    """B of the maximum size pair of a transformation: all PVRs that match (Section 3.1.4). It may be empty.

    Within one sum the PVRs form chains along the transformation; they are paired off from one end, or `backwards` from
    the other.
    """
    found: dict[Cell, int] = {}
    b_left = sums[b_from].weights()
    a_left = b_left if a_from == b_from else sums[a_from].weights()
    ahead = (t.east, t.north) >= (0, 0)
    for (x, y), _ in sorted(sums[b_from].terms, reverse=backwards == ahead):
        to = (x + t.east, y + t.north)
        share = largest_share(b_left[x, y], a_left.get(to, 0), t, to == (x, y) and a_from == b_from)
        if share:
            found[x, y] = share
            b_left[x, y] -= share
            a_left[to] -= _scaled(share, t)
    return Sum.of(found)


def divided(total: Sum, t: Transformation) -> Sum | None:
    """B with B + t(B) == total, whether or not it is a part of total: polynomial division. None when it leaves a rest.

    This is how factors and cancellations are found: [1 0 -1] is [1 1] minus [1 1] moved by one cell.
    """
    if (t.east, t.north) == (0, 0) or t.doublings < 0:
        return None
    left, found = total.weights(), dict[Cell, int]()
    step = (t.east, t.north)
    west, south, east, north = total.box
    factor = -(1 << t.doublings) if t.negated else 1 << t.doublings
    # Along the step no quotient reaches further than the dividend; the lowest cell along it has nothing to cancel with.
    cells = sorted(
        product(range(west, east + 1), range(south, north + 1)), key=lambda c: c[0] * step[0] + c[1] * step[1]
    )
    for x, y in cells:
        weight = left.pop((x, y), 0)
        if weight:
            found[x, y] = weight
            to = (x + step[0], y + step[1])
            left[to] = left.get(to, 0) - weight * factor
    return None if any(left.values()) else Sum.of(found)


def _scaled(weight: int, t: Transformation) -> int:
    size = abs(weight) << t.doublings if t.doublings >= 0 else abs(weight) >> -t.doublings
    return size if (weight > 0) != t.negated else -size


def largest_share(b: int, a: int, t: Transformation, same: bool) -> int:
    """How much of b (signed) at one cell is half of a pair with a at the cell that t leads to."""
    if not a or not b or ((a > 0) != (b > 0)) != t.negated:
        return 0
    up, down = 1 << max(t.doublings, 0), 1 << max(-t.doublings, 0)
    share = abs(b) // (1 + up) if same else min(abs(b) // down, abs(a) // up) * down
    return share if b > 0 else -share


_OPTION = re.compile(
    r"(\d+) from (\d+) by \((-?\d+),(-?\d+)\)(?: \*2\^(-?\d+))?( negated)?: (first|last|factor|.*\))", re.ASCII
)


def split_name(split: Split, how: str | None) -> str:
    """One line of text: `A's sum from B's sum by transformation: B`, B by rule (`how`) or by its cells and weights."""
    cells = " ".join(f"{w}*({x},{y})" for (x, y), w in split.b)
    return f"{split.a_from} from {split.b_from} by {split.transformation}: {how or cells}"


def named_split(sums: Sums, name: str) -> Split:
    """The split that a name stands for in a state. ValueError for a text that is no such name."""
    match = _OPTION.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no split")
    a_from, b_from = int(match[1]), int(match[2])
    t = Transformation(int(match[3]), int(match[4]), int(match[5] or 0), match[6] is not None)
    if not (a_from < len(sums) and b_from < len(sums)):
        raise ValueError(f"{name!r} splits a sum that is not there")
    how = match[7]
    if how == "factor":
        b = divided(sums[a_from], t)
    elif how in ("first", "last"):
        b = largest_pair(sums, a_from, b_from, t, how == "last")
    else:
        cells = re.findall(r"(-?\d+)\*\((-?\d+),(-?\d+)\)", how)
        b = Sum.of([((int(x), int(y)), int(w)) for w, x, y in cells])
    if not b:
        raise ValueError(f"{name!r} splits nothing")
    return Split(a_from, b_from, t, b)
