"""Mappings of PIMCOMP-NN's kind, searched by its own latency (`pimcomp_latency`).

Global memory is what is short there: so a core holds as many replicas of one layer as it can, whose windows lie side by side and share most
of their input, and replicas may be cut between rows of their kernel, so that more of them share. All layers take about as many
steps, since every step waits for the memory as long as others do. The walk begins with mappings that say for all layers how many steps
they take at most, what a core may do, and what loading counts beside cores; it goes on from the fastest, a layer that ends late in fewer
steps or other parts, one that ends early in more. Cores are filled with one layer first, what is left over goes where it fits best,
and the whole is judged by its latency.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kilotune.experiments.benchmarks.pimcomp_latency import MOST_NS, PeerLatency, PeerLayer, RowBlockCores, peer_latency

CROSSBARS, PRODUCT_NS, STEP_NS, MEMORY = 64, 200, 600, 32
"""What a core has; from one product to the next; what a step takes beyond its products; elements that global memory hands out in a
nanosecond."""

EVENLY, STARTING = 0.85, 0.25
"""How much of the most steps a layer takes at least; and what part of the time goes into beginnings."""

MOST_PARTS, BLOCK = 6, 128
MOST_STEPS, ROOM, LOADING = (8, 40), (1.02, 2.0), (0.03, 30.0)
"""Between what the first numbers lie: steps; what a core may do beside what it did if all did the same; and how much loading for as long
as an image takes counts beside all cores."""


@dataclass(frozen=True)
class LayerLayout:
    """A way to lay a layer out: its replicas, each of whose row blocks are in parts (how many there are in each), as many replicas of
    a part side by side on a core, and how many steps that takes. cores: how many of them it fills; loading_ns: of global memory."""

    parts: tuple[int, ...]
    replicas: int
    together: int
    steps: int
    cores: float
    loading_ns: float


class LayerLayouts:
    """All ways to lay one layer out."""

    def __init__(self, layer: PeerLayer) -> None:
        self.layer = layer
        self._loaded: dict[tuple[tuple[int, ...], int], int] = {}

    @cached_property
    def partings(self) -> list[tuple[int, ...]]:
        """How a replica's row blocks may be parted: evenly, and between rows of the kernel."""
        blocks, found = self.layer.row_blocks, dict[tuple[int, ...], None]()
        for count in range(1, min(blocks, MOST_PARTS) + 1):
            found[tuple(blocks // count + (k < blocks % count) for k in range(count))] = None
        height = self.layer.kernel[0]
        ends = [min(blocks, round(self.layer.rows / height * k / BLOCK)) for k in range(1, height)]
        parts = tuple(int(size) for size in np.diff([0, *ends, blocks]) if size)
        found[parts] = None
        return [parts for parts in found if max(parts) * self.layer.crossbars <= CROSSBARS]

    def layouts(self, most_steps: int, most_ns: float) -> list[LayerLayout]:
        """With at most so many steps, and no core that does more than `most_ns`."""
        found = []
        windows = self.layer.windows
        for parts in self.partings:
            size = max(parts)
            most = min(windows, most_steps)
            for steps in range(math.ceil(EVENLY * most), most + 1):
                count = -(-windows // steps)
                together = min(
                    CROSSBARS // (size * self.layer.crossbars),
                    int((most_ns - STEP_NS * steps) // (PRODUCT_NS * size * steps)),
                    count,
                )
                if together < 1 or -(-windows // count) != steps:
                    continue
                cores = sum(count * part / size for part in parts) / together
                loading = windows / together * self._loaded_together(parts, together) / MEMORY
                found.append(LayerLayout(parts, count, together, steps, cores, loading))
        return found

    @property
    def least_loading_ns(self) -> float:
        """How long global memory takes for an image's loads at least, of all partings, with as many of a part on a core as it holds."""
        windows, crossbars = self.layer.windows, self.layer.crossbars
        most = {parts: min(windows, CROSSBARS // (max(parts) * crossbars)) for parts in self.partings}
        return min(windows / count * self._loaded_together(parts, count) / MEMORY for parts, count in most.items())

    def near(self, layout: LayerLayout, direction: int, most_ns: float) -> list[LayerLayout]:
        """Ways of a few steps fewer (direction -1) or more (1), or of as many in other parts or fewer together."""
        layouts = self.layouts(layout.steps + max(1, layout.steps // 8) * (direction > 0), most_ns)
        if layout.together > 1:
            layouts.append(
                replace(
                    layout, together=layout.together - 1, cores=layout.cores * layout.together / (layout.together - 1)
                )
            )
        return [other for other in layouts if other != layout and (other.steps - layout.steps) * direction >= 0]

    def _loaded_together(self, parts: tuple[int, ...], together: int) -> int:
        """Elements that cores with so many windows side by side load a step, for all parts."""
        known = self._loaded.get((parts, together))
        if known is None:
            begins = np.cumsum([0, *parts])
            known = sum(self._loaded_part(int(low), int(high), together) for low, high in itertools.pairwise(begins))
            self._loaded[parts, together] = known
        return known

    def _loaded_part(self, low: int, high: int, together: int) -> int:
        layer = self.layer
        if layer.dense:
            return together * (min(layer.rows, high * BLOCK) - low * BLOCK)
        seen = set[tuple[int, int, int, int]]()
        for block in range(low, high):
            begin, end = block * BLOCK, min(layer.rows, block * BLOCK + BLOCK)
            for tap in range(begin // layer.channels, -(-end // layer.channels)):
                first, last = max(begin, tap * layer.channels), min(end, (tap + 1) * layer.channels)
                y, x = divmod(tap, layer.kernel[1])
                seen |= {(y, x + k * layer.stride[1], first % layer.channels, last - first) for k in range(together)}
        return sum(length for *_, length in seen)


@dataclass(frozen=True)
class _Mapping:
    """A layout for each layer, what a core may do, and what came of it."""

    chosen: tuple[LayerLayout, ...]
    most_ns: float
    placement: RowBlockCores
    latency: PeerLatency


class PeerWalk:
    """The walk over mappings of one network."""

    def __init__(self, layers: Sequence[PeerLayer], cores: int, seed: int = 0) -> None:
        self._layers, self._cores = layers, cores
        self._layouts = [LayerLayouts(layer) for layer in layers]
        self._rng = np.random.default_rng(seed)
        self._even_ns = sum(layer.windows * layer.row_blocks for layer in layers) * PRODUCT_NS / cores
        self._seen = set[tuple[tuple[LayerLayout, ...], float]]()
        self.best: _Mapping | None = None

    def walked(self, seconds: float) -> RowBlockCores | None:
        """The fastest mapping found in so many CPU seconds; `us` says how fast it is. None: none was found."""
        begun = time.process_time()
        while time.process_time() - begun < seconds:
            starting = time.process_time() - begun < STARTING * seconds
            tried = self._begun() if self.best is None or starting else self._changed(self.best)
            mapping = None if tried is None else self._mapped(*tried)
            if mapping is not None and mapping.latency.us <= self.us:
                self.best = mapping
        return None if self.best is None else self.best.placement

    @property
    def us(self) -> float:
        """How fast the fastest mapping is; infinity before there is one."""
        return math.inf if self.best is None else self.best.latency.us

    def _mapped(self, chosen: tuple[LayerLayout, ...], most_ns: float) -> _Mapping | None:
        """None: known, too much for the cores, or slower than the fastest."""
        if (chosen, most_ns) in self._seen or sum(layout.cores for layout in chosen) > self._cores:
            return None
        self._seen.add((chosen, most_ns))
        placement = packed(self._layers, chosen, self._cores, most_ns)
        most = MOST_NS if self.best is None else int(1000 * self.us) + 1
        latency = None if placement is None else peer_latency(self._layers, placement, self._cores, most)
        return None if latency is None or placement is None else _Mapping(chosen, most_ns, placement, latency)

    def _begun(self) -> tuple[tuple[LayerLayout, ...], float] | None:
        """About as many steps for each layer, in the way that takes least of cores and memory."""
        rng = self._rng
        least, most = MOST_STEPS
        if self.best is None:  # a network for which that is too few has to begin somewhere
            most = max(most, *(layer.windows for layer in self._layers))
        most_steps = round(math.exp(rng.uniform(math.log(least), math.log(most))))
        most_ns = rng.uniform(*ROOM) * self._even_ns + STEP_NS * most_steps
        loading = math.exp(rng.uniform(math.log(LOADING[0]), math.log(LOADING[1])))
        found = []
        for of_layer in self._layouts:
            layouts = of_layer.layouts(most_steps, most_ns)
            if not layouts:
                return None
            found.append(
                min(
                    layouts, key=lambda layout: layout.cores / self._cores + loading * layout.loading_ns / self._even_ns
                )
            )
        return tuple(found), most_ns

    def _changed(self, here: _Mapping) -> tuple[tuple[LayerLayout, ...], float]:
        """A layer that ends late in fewer steps or in other parts, one that ends early in more steps, or another room."""
        rng, chosen = self._rng, list(here.chosen)
        until = here.latency.cores_us
        ends = np.asarray(
            [max(until[core] for row_blocks in placed for core in row_blocks) for placed in here.placement]
        )
        order = np.argsort(-ends + rng.normal(0, 0.03 * here.latency.us, len(ends)))
        kind = rng.random()
        if kind < 0.15:
            return here.chosen, here.most_ns * math.exp(rng.normal(0, 0.05))
        for layer, direction in ((order[0], -1), (order[-1], 1))[: 1 if kind < 0.5 else 2]:
            layouts = self._layouts[layer].near(chosen[layer], direction, here.most_ns)
            if layouts:
                chosen[layer] = layouts[int(rng.integers(len(layouts)))]
        return tuple(chosen), here.most_ns


def packed(
    layers: Sequence[PeerLayer], chosen: Sequence[LayerLayout], cores: int, most_ns: float
) -> RowBlockCores | None:
    """Whole cores of one layer first, then what is left over, the most work first, each where most of it fits, and then where it leaves
    least. None: not all finds room."""
    filling = _Filling(cores, most_ns)
    placed = [np.full((layout.replicas, len(layout.parts)), -1) for layout in chosen]
    rest = []
    for number, (layer, layout) in enumerate(zip(layers, chosen, strict=True)):
        for part, size in enumerate(layout.parts):
            load = _Load(size * layout.steps * PRODUCT_NS, layout.steps, size * layer.crossbars)
            full = layout.replicas // layout.together * layout.together
            for first in range(0, full, layout.together):
                core = filling.empty()
                if core is None:
                    return None
                filling.put(core, load, layout.together)
                placed[number][first : first + layout.together, part] = core
            if full < layout.replicas:
                rest.append((load, layout.replicas - full, number, part, full))
    for load, left, number, part, begun in sorted(rest, key=lambda one: -one[0].ns * one[1]):
        while left:
            core, count = filling.best(load, left)
            if not count:
                return None
            filling.put(core, load, count)
            placed[number][begun : begun + count, part] = core
            begun, left = begun + count, left - count
    return [
        [
            [int(core) for core, size in zip(replica, layout.parts, strict=True) for _ in range(size)]
            for replica in cores_of
        ]
        for layout, cores_of in zip(chosen, placed, strict=True)
    ]


@dataclass(frozen=True)
class _Load:
    """What a part of a replica asks of its core: nanoseconds of products, steps, crossbars."""

    ns: float
    steps: int
    crossbars: int


class _Filling:
    """What cores hold so far."""

    def __init__(self, cores: int, most_ns: float) -> None:
        self._most = most_ns
        self._ns, self._steps, self._crossbars = (np.zeros(cores) for _ in range(3))

    def empty(self) -> int | None:
        """A core with nothing on it."""
        free = np.flatnonzero(self._crossbars == 0)
        return int(free[0]) if free.size else None

    def put(self, core: int, load: _Load, count: int) -> None:
        """So many of them on that core."""
        self._ns[core] += count * load.ns
        self._steps[core] = max(self._steps[core], load.steps)
        self._crossbars[core] += count * load.crossbars

    def best(self, load: _Load, most: int) -> tuple[int, int]:
        """The core for as many of them as can be together, and their number, 0 for none."""
        step_ns = STEP_NS * np.maximum(self._steps, load.steps)
        by_time = (self._most - self._ns - step_ns) // load.ns
        counts = np.minimum(np.minimum(by_time, (CROSSBARS - self._crossbars) // load.crossbars), most)
        filled = self._ns + counts * load.ns + STEP_NS * np.minimum(self._steps, load.steps)
        core = int(np.lexsort((-filled, -counts))[0])
        return core, max(0, int(counts[core]))
