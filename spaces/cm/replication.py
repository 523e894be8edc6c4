"""How often a layer is there, along which axis its output is cut, and how its row blocks add up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from kilotune.codegen.cm.replicas import AXES, CHANNELS
from kilotune.codegen.ir.views import NOT_CONTENT

MOST_REPLICAS = 64
MOST_SHARING = 128
"""Where replicas need no core of their own."""


@dataclass(frozen=True)
class Replication:
    """`count` replicas, each of a block of output rows, columns or channels. chained: every row block adds its sums to those of the
    one before; otherwise all send theirs to the last one, whose links they share."""

    count: int = 1
    axis: str = "rows"
    chained: bool = False

    @property
    def option(self) -> str:
        """As a decision's option."""
        return ("1" if self.count == 1 else f"{self.count} {self.axis}") + (" chained" if self.chained else "")

    @classmethod
    def of(cls, option: object) -> Replication:
        """The inverse of `option`."""
        count, *words = str(option).split()
        return cls(int(count), next((word for word in words if word in AXES), "rows"), "chained" in words)


ONCE, CHAINED = Replication(), Replication(chained=True)


@dataclass(frozen=True)
class LayerShape:
    """A layer with `height` x `width` output pixels that takes `cores` cores a replica, `row_blocks` of them one below another. channels:
    that replicas may share, of a pooling into one pixel; 1 for all others. most: replicas."""

    name: str
    height: int
    width: int
    cores: int
    row_blocks: int = field(default=1, metadata=NOT_CONTENT)
    channels: int = field(default=1, metadata=NOT_CONTENT)
    most: int = field(default=MOST_REPLICAS, metadata=NOT_CONTENT)

    def iterations(self, replication: Replication) -> int:
        """Iterations per image of the largest replica."""
        if replication.axis == CHANNELS:
            return self.height * self.width
        if replication.axis == "rows":
            return -(-self.height // replication.count) * self.width
        return -(-self.width // replication.count) * self.height

    def replications(self, most: int = MOST_SHARING) -> tuple[Replication, ...]:
        """At most so many replicas, and never more than `self.most`, the fewest first: see `_replications`."""
        every = self._replications
        return every if most >= self.most else tuple(r for r in every if r.count <= most)

    @cached_property
    def _replications(self) -> tuple[Replication, ...]:
        """Those that make the largest replica smaller than fewer replicas do: 7 blocks of 8 rows are no faster than 4.
        Blocks of columns before as many of rows: their readers follow row by row, those of a lower block of rows wait for
        half an image and have to keep it. Of channels twice as many each time. Three row blocks and more may be chained; of as many
        replicas that comes first."""
        found = [ONCE]
        for axis, extent in (("rows", self.height), ("columns", self.width)):
            least = self.iterations(ONCE)
            for count in range(2, min(self.most, extent) + 1):
                replication = Replication(count, axis)
                if self.iterations(replication) < least:
                    least = self.iterations(replication)
                    found.append(replication)
        sharers = min(self.most, self.channels // self.cores)
        found += [Replication(1 << k, CHANNELS) for k in range(1, sharers.bit_length())]
        if self.row_blocks > 2:
            found += [replace(replication, chained=True) for replication in found]
        return tuple(sorted(found, key=lambda r: (r.count, not r.chained, r.axis != "columns")))
