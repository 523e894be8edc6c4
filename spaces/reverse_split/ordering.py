"""In which order splits are tried (AUKE Section 3.1.4): Equation 22, then what makes the next splits easier."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from kilotune.spaces.reverse_split.pairs import NamedSplit
from kilotune.spaces.reverse_split.splits import Sums

NEXT_TO_NOTHING = 0.25
"""Added to distances, for A and B may be the same."""


@dataclass(frozen=True)
class OrderWeights:
    """The score of a split is card ** card_power / distance ** distance_power (Equation 22 with both powers 1), as a
    logarithm, less a penalty a remainder that is left, more a bonus for a move along one axis (aligned), less the size
    of B's box (proximity). `noise` is the width of a random addition."""

    card_power: float = 1.0
    distance_power: float = 1.0
    remainder_penalty: float = 0.5
    aligned_bonus: float = 0.25
    near_power: float = 0.125
    noise: float = 0.0

    def values(self) -> tuple[float, ...]:
        """As the compiled search takes them."""
        return astuple(self)


def score(sums: Sums, named: NamedSplit, weights: OrderWeights) -> float:
    """The larger the earlier; without the noise."""
    split = named.split
    t = split.transformation
    card = split.a.cardinality
    west, south, east, north = split.b.box
    value = weights.card_power * math.log(card) - weights.distance_power * math.log(t.length + NEXT_TO_NOTHING)
    left = [total for total in split.remainders(sums) if total]
    expected = len(sums) - (1 if split.a_from == split.b_from else 2) + len(left) + 1
    value -= weights.remainder_penalty * (len(left) - (expected - len(named.after)))
    value += weights.aligned_bonus * (not t.east or not t.north)
    return value - weights.near_power * math.log(1 + east - west + north - south)


def ordered(sums: Sums, splits: list[NamedSplit], weights: OrderWeights) -> list[NamedSplit]:
    """Best first; equal ones stay in their order."""
    return sorted(splits, key=lambda named: -score(sums, named, weights))
