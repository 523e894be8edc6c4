"""What the search of mappings works out, asked of the space's memory first: placements, buffers that are too full, measured designs."""

from __future__ import annotations

from collections.abc import Callable

from kilotune.search.work_memory import WorkMemory
from kilotune.spaces.cm.annealing import AnnealedPlacement
from kilotune.spaces.cm.designs import Design


class WorkedOut:
    """The work of one walk, known by its seed, in one space, known by its fingerprint."""

    def __init__(self, memory: WorkMemory, fingerprint: str, seed: int) -> None:
        self._memory, self._walk = memory, (fingerprint, seed)

    def arrangement(self, design: Design, run: int, work: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
        """Cores by stage. design: where the walk begins; run: which of the walk's."""
        found = self._memory.recalled(["arranged", *self._walk, run, *_content(design)], work)
        return tuple(found)

    def placement(
        self, design: Design, run: int, moves: int, work: Callable[[], AnnealedPlacement]
    ) -> AnnealedPlacement:
        """After so many moves from the design's."""

        def made() -> tuple[tuple[int, ...], tuple[int, ...], int]:
            placement = work()
            return placement.cores, placement.shapes, placement.ticks

        cores, shapes, ticks = self._memory.recalled(["annealed", *self._walk, run, moves, *_content(design)], made)
        return AnnealedPlacement(tuple(cores), tuple(shapes), ticks)

    def crowds(self, design: Design, work: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Layers whose buffers are too full."""
        return dict(self._memory.recalled(["crowded", *self._walk, *_content(design)], work))

    def objective(self, design: Design, work: Callable[[], float]) -> float:
        """The leading objective as measured."""
        return float(self._memory.recalled(["measured", *self._walk, *_content(design)], work))


def _content(design: Design) -> tuple[object, ...]:
    """A design by its replications and its placement."""
    placement = design.placement
    options = [(name, one.option) for name, one in design.replicas.items()]
    return options, placement.cores, placement.shapes, placement.ticks
