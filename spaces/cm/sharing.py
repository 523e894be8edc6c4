"""What stages that share cores ask of them, how few cores hold them, and a first placement of them.

A core has room for so many stages, so many rows of crossbars and so many bytes of buffers, and does one iteration at a time: what
its stages do an image adds up. Which stages lie together is decided with where they lie; here is only whether they have room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen.cm.hardware import Hardware
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.kept_arrays import KeptArrays

(_Rooms,) = structures(Path(__file__).with_name("core_sharing.h"), "Rooms")


@dataclass(frozen=True)
class StageNeeds:
    """By stage: rows of crossbars, bytes of buffers, ticks an image."""

    rows: tuple[int, ...]
    sram_bytes: tuple[int, ...]
    ticks: tuple[int, ...]

    @classmethod
    def unshared(cls, stages: int) -> StageNeeds:
        """Stages with a core each, of which nothing is asked."""
        return cls(*((0,) * stages for _ in range(3)))

    @property
    def stages(self) -> int:
        return len(self.rows)

    def rooms(self, hardware: Hardware, tick_room: int, keep: KeptArrays) -> int:
        """The address of what the compiled walks know of cores. tick_room: of a core, an image."""
        rooms = _Rooms(
            slots=min(hardware.stages_per_core, max(self.stages, 2)),  # each core has a list of so many
            row_room=min(hardware.core_rows, (1 << 31) - 1),
            byte_room=hardware.sram_bytes,
            tick_room=tick_room,
            rows=keep.ints(self.rows),
            bytes=keep.pointer(np.array(self.sram_bytes, dtype=np.int64)),
            ticks=keep.pointer(np.array(self.ticks, dtype=np.int64)),
        )
        return keep.pointer(np.frombuffer(bytes(rooms), dtype=np.uint8))


class CoreFilling:
    """How full cores are; changes as stages are put onto them. With a core a stage nothing but that counts."""

    def __init__(self, hardware: Hardware, needs: StageNeeds) -> None:
        self.hardware, self.needs = hardware, needs
        self.stages, self.rows, self.sram_bytes, self.ticks = ([0] * hardware.cores for _ in range(4))

    def put(self, stage: int, core: int, sign: int = 1) -> None:
        """A stage onto a core; with -1 away from it."""
        self.stages[core] += sign
        self.rows[core] += sign * self.needs.rows[stage]
        self.sram_bytes[core] += sign * self.needs.sram_bytes[stage]
        self.ticks[core] += sign * self.needs.ticks[stage]

    def has_room(self, stage: int, core: int, *, sram: bool = True) -> bool:
        """Whether it may come there. A stage alone may be larger than the memory: that is seen elsewhere."""
        hardware, needs = self.hardware, self.needs
        if not self.stages[core]:
            return True
        if self.stages[core] == hardware.stages_per_core or self.rows[core] + needs.rows[stage] > hardware.core_rows:
            return False
        return not sram or self.sram_bytes[core] + needs.sram_bytes[stage] <= hardware.sram_bytes

    def with_room(self, stage: int) -> Iterator[int]:
        """Cores with room for a stage."""
        return (core for core in range(self.hardware.cores) if self.has_room(stage, core))


@dataclass(frozen=True)
class Cores:
    """How many there are, and how many stages with how many rows of crossbars together each has room for."""

    count: int
    stages_each: int = 1
    rows_each: int = 1 << 60

    @classmethod
    def of(cls, hardware: Hardware) -> Cores:
        """All of an accelerator's."""
        return cls(hardware.cores, hardware.stages_per_core, hardware.core_rows)

    def least(self, rows: Counter[int]) -> int:
        """No fewer of them hold so many stages. rows: how many stages there are of so many rows."""
        together = sum(size * count for size, count in rows.items())
        return max(-(-rows.total() // self.stages_each), -(-together // self.rows_each))

    def first_fit(self, rows: Counter[int]) -> int:
        """So many hold them: those of most rows first, each on the first core with room."""
        if self.stages_each == 1:
            return rows.total()
        cores: list[list[int]] = []  # rows and stages that there is room for yet
        for size, count in sorted(rows.items(), reverse=True):
            left = count
            for core in cores:
                here = min(left, core[1], core[0] // size if size else left)
                core[0] -= here * size
                core[1] -= here
                left -= here
            most = min(self.stages_each, self.rows_each // size if size else self.stages_each)
            while left > 0:
                here = min(left, most)
                cores.append([self.rows_each - here * size, self.stages_each - here])
                left -= here
        return len(cores)


def packed(hardware: Hardware, needs: StageNeeds, taken: Sequence[int] = ()) -> tuple[int, ...] | None:
    """Cores by stage: those of the first stages are given, the others go where they fit first, those of most rows at first. The memory
    is not looked at. None: they do not fit this way."""
    filling = CoreFilling(hardware, needs)
    cores = dict(enumerate(taken))
    for stage, core in cores.items():
        if not filling.has_room(stage, core, sram=False):
            return None
        filling.put(stage, core)
    rest = sorted(range(len(taken), needs.stages), key=lambda stage: -needs.rows[stage])
    last, begin = -1, 0
    for stage in rest:
        begin = begin if needs.rows[stage] == last else 0
        last = needs.rows[stage]
        at = next((c for c in range(begin, hardware.cores) if filling.has_room(stage, c, sram=False)), None)
        if at is None:
            return None
        begin = at
        filling.put(stage, at)
        cores[stage] = at
    return tuple(cores[stage] for stage in range(needs.stages))


def balanced(hardware: Hardware, needs: StageNeeds) -> tuple[int, ...] | None:
    """Cores by stage: the stages that take the largest part of a core's time or crossbars at first, each on the core with room that has
    done least till then; where that ends without room, as `packed` has it. None: that has none either."""
    filling, cores = CoreFilling(hardware, needs), [0] * needs.stages
    share = max(sum(needs.ticks) / hardware.cores, 1.0)
    part = [max(ticks / share, rows / hardware.core_rows) for ticks, rows in zip(needs.ticks, needs.rows, strict=True)]
    for stage in sorted(range(needs.stages), key=lambda stage: -part[stage]):
        core = min(filling.with_room(stage), key=lambda c: filling.ticks[c], default=None)
        if core is None:
            return packed(hardware, needs)
        filling.put(stage, core)
        cores[stage] = core
    return tuple(cores)


def filled_up(
    hardware: Hardware, needs: StageNeeds, kept: Sequence[int | None], order: Sequence[int]
) -> tuple[int, ...]:
    """Cores by stage: those that are kept, and for the others cores with room, idle ones before busy ones, as ordered where they are alike.
    All anew where these find no room; ValueError where that has none either."""
    filling = CoreFilling(hardware, needs)
    cores: list[int] = [-1] * needs.stages
    for stage, kept_core in enumerate(kept):
        if kept_core is not None:
            cores[stage] = kept_core
            filling.put(stage, kept_core)
    rank = {core: number for number, core in enumerate(order)}
    for stage in (stage for stage, core in enumerate(cores) if core < 0):
        core = min(filling.with_room(stage), key=lambda c: (filling.ticks[c], rank[c]), default=None)
        if core is None:
            anew = balanced(hardware, needs)
            if anew is None:
                raise ValueError(f"{needs.stages} stages do not fit onto {hardware.cores} cores.")
            return anew
        filling.put(stage, core)
        cores[stage] = core
    return tuple(cores)
