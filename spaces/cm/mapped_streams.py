"""What happens to streams of images through placements of a network on one accelerator, and what is remembered of that: no more than of the
last placement, for a search has each measured with several kinds of buffers, one after the other."""

from __future__ import annotations

import math
from dataclasses import replace

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping as CoreMapping
from kilotune.evaluators.cm.bound import core_ticks, link_loads, link_ticks
from kilotune.evaluators.cm.followed_stream import FollowedStream
from kilotune.evaluators.cm.occupancy import held_packets, held_with_room
from kilotune.evaluators.cm.stream import Setting, StreamTiming, steady_ticks
from kilotune.evaluators.cm.timing import simulate
from kilotune.spaces.cm.buffers import HELD_IMAGES, occupied_buffers
from kilotune.spaces.cm.known_placement import KnownPlacement, SimulatedStream, UnboundedStream
from kilotune.spaces.cm.lowered import LoweredPipeline

SETTLED_IMAGES, MOST_WARM_IMAGES = 8, 24


class MappedStreams:
    """Streams of images at the pace that a placement promises."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self._known: KnownPlacement | None = None

    def promised_ticks(self, lowered: LoweredPipeline, mapping: CoreMapping) -> int:
        """Fidelity A: the busiest core or link."""
        loads = link_loads(lowered.streams, mapping.routes, self.hardware.links)
        return max(core_ticks(lowered.image_ticks, mapping.cores), link_ticks(loads, self.hardware.links))

    def setting(self, lowered: LoweredPipeline, mapping: CoreMapping) -> Setting:
        """What the timing evaluator runs: GMEM sends at the promised pace."""
        pace, links = self.promised_ticks(lowered, mapping), self.hardware.links
        streams, ticks, capacities = lowered.streams, lowered.ticks, mapping.capacities
        return Setting(lowered.pipeline, streams, ticks, mapping.routes, capacities, links, pace, mapping.cores)

    def simulate(
        self,
        lowered: LoweredPipeline,
        mapping: CoreMapping,
        images: int,
        record_starts: bool = False,
        settle: bool = False,
        wanted: int | None = None,
    ) -> StreamTiming:
        """Fidelity B, GMEM sending at the promised pace; see `evaluators.cm.timing.simulate`."""
        setting = self.setting(lowered, mapping)
        return simulate(setting, images, record_starts, settle, wanted)

    def held(
        self, lowered: LoweredPipeline, cores: tuple[int, ...], routes: tuple[tuple[int, ...], ...]
    ) -> tuple[int, ...]:
        """The most packets that each stream ever holds when no buffer is bounded, of a stream of images at the promised pace over
        contended links. Those of the last placement are kept, for a search asks for them before it has it measured; and so is the
        stream, which a measurement goes on with where it finds that buffers hold as much."""
        known = self._known_of(lowered, cores, routes)
        if known.held is None:
            self._known = known = self._with_held(known)
        assert known.held is not None
        return known.held

    def steady_timing(self, lowered: LoweredPipeline, mapping: CoreMapping) -> tuple[StreamTiming, float]:
        """Fidelity B over a stream of images, and the ticks from one to the next once it has settled. The first images meet
        empty links, and the last ones have nobody behind them: neither counts. Not simulated where a stream through the same placement is
        known in which no buffer was ever as full as this mapping's are large."""
        known = self._known_of(lowered, mapping.cores, mapping.routes)
        before = known.streamed(tuple(mapping.capacities)) or self._as_unbounded(lowered, known, mapping)
        if before is not None:
            return before.timing, before.ticks
        first = self.simulate(lowered, mapping, 1)
        if first.deadlock is not None:
            return first, math.inf
        _, wanted, images = self._images(lowered, mapping, first)
        timing = self.simulate(lowered, mapping, images, settle=True, wanted=wanted)
        if timing.deadlock is not None:
            return timing, math.inf
        stream = self.settled(lowered, mapping, first, timing)
        return stream.timing, stream.ticks

    def settled(
        self, lowered: LoweredPipeline, mapping: CoreMapping, first: StreamTiming, timing: StreamTiming
    ) -> SimulatedStream:
        """What is known of a stream of `_images`, now that it is simulated, and is kept of its placement."""
        known = self._known_of(lowered, mapping.cores, mapping.routes)
        warm, wanted, _ = self._images(lowered, mapping, first)
        # Images that catch up after a jam make a few short steps; nothing goes on faster than what is busy all the time.
        ticks = max(steady_ticks(timing.finish_ticks[warm:wanted]), float(self.promised_ticks(lowered, mapping)))
        stream = SimulatedStream.of(tuple(mapping.capacities), first, timing, ticks)
        self._known = replace(known, streams=(*known.streams, stream))
        return stream

    def _known_of(
        self, lowered: LoweredPipeline, cores: tuple[int, ...], routes: tuple[tuple[int, ...], ...]
    ) -> KnownPlacement:
        """What is known of the last placement is kept: one that a search looks at is measured with several kinds of buffers."""
        if self._known is None or not self._known.is_of(lowered, cores, routes):
            occupied = occupied_buffers(lowered, cores, routes, self.hardware)
            self._known = KnownPlacement(lowered, tuple(cores), tuple(routes), occupied)
        return self._known

    def _with_held(self, known: KnownPlacement) -> KnownPlacement:
        """By a compiled simulation, or tick by tick where there is no C compiler."""
        lowered, unbounded = known.lowered, CoreMapping(known.cores, known.routes, (0,) * len(known.routes))
        first = self.simulate(lowered, unbounded, 1)
        _, wanted, images = self._images(lowered, unbounded, first)
        followed = FollowedStream.of(self.setting(lowered, unbounded), images, wanted)
        if followed is None:
            starts, pace = self.simulate(lowered, unbounded, HELD_IMAGES).starts, known.occupied.pace
            assert starts is not None
            return replace(known, held=held_packets(lowered.pipeline, lowered.streams, lowered.ticks, starts, pace))
        held = followed.held(HELD_IMAGES)
        assert held is not None  # nothing waits for room
        packets = held_with_room(lowered.streams, held)
        return replace(known, held=packets, unbounded=UnboundedStream(first, followed))

    def _as_unbounded(
        self, lowered: LoweredPipeline, known: KnownPlacement, mapping: CoreMapping
    ) -> SimulatedStream | None:
        """The stream of a mapping whose buffers hinder nothing, from the one whose beginning has said what is held; None: they hinder
        something, or nobody has asked what is held."""
        capacities = tuple(mapping.capacities)
        waiting = known.waiting(capacities)
        if waiting is None:
            return None
        self._known = replace(known, unbounded=None)
        unbounded = CoreMapping(mapping.cores, mapping.routes, (0,) * len(mapping.routes))
        stream = self.settled(lowered, unbounded, waiting.first, waiting.followed.all())
        return stream if stream.is_that_of(capacities) else None

    def _images(self, lowered: LoweredPipeline, mapping: CoreMapping, first: StreamTiming) -> tuple[int, int, int]:
        """How many images a stream needs whose ticks are to be known: those that meet links emptier than the ones behind them, those that
        must be through, and all. first: the timing of a single one."""
        under_way = math.ceil(int(first.finish_ticks[0]) / self.promised_ticks(lowered, mapping))
        warm = min(3 * under_way + 2, MOST_WARM_IMAGES)
        wanted = warm + SETTLED_IMAGES + 1
        return warm, wanted, wanted + under_way + 1
