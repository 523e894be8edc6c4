"""How often a layer is there, and along which axis its output is cut."""

from __future__ import annotations

from dataclasses import dataclass

AXES = ("rows", "columns")
MOST_REPLICAS = 16


@dataclass(frozen=True)
class Replication:
    """`count` replicas, each of a block of output rows or columns."""

    count: int = 1
    axis: str = "rows"

    @property
    def option(self) -> str:
        """As a decision's option."""
        return "1" if self.count == 1 else f"{self.count} {self.axis}"

    @classmethod
    def of(cls, option: object) -> Replication:
        """The inverse of `option`."""
        count, _, axis = str(option).partition(" ")
        return cls(int(count), axis or "rows")


ONCE = Replication()


@dataclass(frozen=True)
class LayerShape:
    """A layer with `height` x `width` output pixels that takes `cores` cores a replica."""

    name: str
    height: int
    width: int
    cores: int

    def iterations(self, replication: Replication) -> int:
        """Iterations per image of the largest replica."""
        if replication.axis == "rows":
            return -(-self.height // replication.count) * self.width
        return -(-self.width // replication.count) * self.height

    def replications(self, most: int = MOST_REPLICAS) -> tuple[Replication, ...]:
        """Those that make the largest replica smaller than fewer replicas do: 7 blocks of 8 rows are no faster than 4.
        Blocks of columns before as many of rows: their readers follow row by row, those of a lower block of rows wait for
        half an image and have to keep it."""
        found = [ONCE]
        for axis, extent in (("rows", self.height), ("columns", self.width)):
            least = self.iterations(ONCE)
            for count in range(2, min(most, extent) + 1):
                replication = Replication(count, axis)
                if self.iterations(replication) < least:
                    least = self.iterations(replication)
                    found.append(replication)
        return tuple(sorted(found, key=lambda r: (r.count, r.axis != "columns")))
