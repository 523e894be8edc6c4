"""Fidelity B as it is defined: one tick after another, queues of packets at the links. Slow; `timing` is the fast one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen.cm.pipeline import GMEM
from kilotune.evaluators.cm.deadlock import PipelineState, find_deadlock
from kilotune.evaluators.cm.stream import Setting, StreamTiming


@dataclass
class _Packet:
    """On its way: `hop` links are behind it, `left` elements still have to cross the one it stands at."""

    stream: int
    hop: int = 0
    left: int = 0


@dataclass
class _TimingState:
    """Everything that changes."""

    tick: int = 0
    on_the_way: dict[int, list[_Packet]] = field(default_factory=dict)  # by the tick at which they arrive
    queues: list[deque[_Packet]] = field(default_factory=list)  # by link
    started: list[list[int]] = field(default_factory=list)  # by stage: start ticks
    finished: list[int] = field(default_factory=list)  # by stage: iterations
    issued: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    image_position: list[int] = field(default_factory=list)  # by stream
    reads: list[list[int]] = field(default_factory=list)  # by stage: its streams, which never change
    writes: list[list[int]] = field(default_factory=list)
    together: list[list[int]] = field(default_factory=list)  # by stage: all stages of its core


def simulate_reference(setting: Setting, images: int) -> StreamTiming:
    """As `timing.simulate`."""
    streams, stages = setting.streams, setting.pipeline.stages
    world = _TimingState()
    world.queues = [deque() for _ in setting.links]
    world.started, world.finished = [[] for _ in stages], [0] * len(stages)
    world.issued, world.delivered, world.freed, world.image_position = ([0] * len(streams) for _ in range(4))
    world.reads = [[n for n, stream in enumerate(streams) if stream.reader == stage] for stage in range(len(stages))]
    world.writes = [[n for n, stream in enumerate(streams) if stream.writer == stage] for stage in range(len(stages))]
    on_core = {stage: stages for stages in setting.sharing for stage in stages}
    world.together = [on_core[stage] for stage in range(len(stages))]
    finish = np.zeros(images, dtype=np.int64)
    outputs = [n for n, stream in enumerate(streams) if stream.reader == GMEM]
    deadlock = None
    while True:
        asking = _arrivals(setting, world)
        _finish_iterations(setting, world)
        asking += _from_gmem(setting, world, images)
        # Of the stages of a core that may start, the one with the earliest image does, of those the last one.
        images_at = [len(ticks) // stage.iterations for ticks, stage in zip(world.started, stages, strict=True)]
        for stage in sorted(range(len(stages)), key=lambda stage: (images_at[stage], -stage)):
            if _may_start(setting, world, stage, images):
                world.started[stage].append(world.tick)
        asking += _from_stages(setting, world)
        for packet in sorted(asking, key=lambda packet: packet.stream):
            packet.left = streams[packet.stream].load
            world.queues[setting.routes[packet.stream][packet.hop]].append(packet)
        _move(setting, world)
        for image in range(images):
            if not finish[image] and all(world.delivered[n] >= (image + 1) * streams[n].packets for n in outputs):
                finish[image] = world.tick
        if finish[-1]:
            break
        if not _alive(setting, world, images):
            started = [len(ticks) for ticks in world.started]
            progress = PipelineState(started, world.delivered, world.issued, world.freed)
            deadlock = find_deadlock(setting.pipeline, streams, setting.capacities, progress)
            break
        world.tick += 1
    starts = []
    for description, ticks in zip(stages, world.started, strict=True):
        starts.append(np.zeros(images * description.iterations, dtype=np.int64))
        starts[-1][: len(ticks)] = ticks
    return StreamTiming(finish, tuple(starts), deadlock, tuple(map(len, world.started)))


def _arrivals(setting: Setting, world: _TimingState) -> list[_Packet]:
    """Deliver what has come to its end; return what has come to its next link."""
    asking = []
    for packet in world.on_the_way.pop(world.tick, []):
        if packet.hop == len(setting.routes[packet.stream]):
            world.delivered[packet.stream] += 1
        else:
            asking.append(packet)
    return asking


def _finish_iterations(setting: Setting, world: _TimingState) -> None:
    for stage, description in enumerate(setting.pipeline.stages):
        done = world.finished[stage]
        if done == len(world.started[stage]) or world.started[stage][done] + setting.ticks[stage] != world.tick:
            continue
        world.finished[stage] += 1
        image, j = divmod(done, description.iterations)
        for number in world.reads[stage]:
            stream = setting.streams[number]
            freed = image * stream.packets + int(stream.released[j])
            world.freed[number] = max(world.freed[number], freed)


def _has_room(setting: Setting, world: _TimingState, stream: int) -> bool:
    capacity = setting.capacities[stream]
    return capacity == 0 or world.issued[stream] - world.freed[stream] < capacity


def _from_gmem(setting: Setting, world: _TimingState, images: int) -> list[_Packet]:
    asking = []
    for number, stream in enumerate(setting.streams):
        pixels = len(stream.sends)
        while stream.writer == GMEM and world.image_position[number] < images * pixels:
            position = world.image_position[number]
            if setting.pace_ticks and position * setting.pace_ticks // pixels > world.tick:
                break
            if stream.sends[position % pixels]:
                if not _has_room(setting, world, number):
                    break
                world.issued[number] += 1
                if setting.routes[number]:
                    asking.append(_Packet(number))
                else:
                    world.delivered[number] += 1
            world.image_position[number] += 1
    return asking


def _may_start(setting: Setting, world: _TimingState, stage: int, images: int) -> bool:
    iterations = setting.pipeline.stages[stage].iterations
    started = world.started[stage]
    busy = any(world.started[s] and world.started[s][-1] + setting.ticks[s] > world.tick for s in world.together[stage])
    if busy or len(started) == images * iterations:
        return False
    image, j = divmod(len(started), iterations)
    for number in world.reads[stage]:
        stream = setting.streams[number]
        there = world.delivered[number] - image * stream.packets
        if stream.needed[j] and there < stream.needed[j]:
            return False
    return all(_has_room(setting, world, number) for number in world.writes[stage] if setting.streams[number].sends[j])


def _from_stages(setting: Setting, world: _TimingState) -> list[_Packet]:
    """Packets of iterations that are in their last tick, and room taken by those that began in this one."""
    asking = []
    for stage, (started, ticks) in enumerate(zip(world.started, setting.ticks, strict=True)):
        begins = bool(started) and started[-1] == world.tick
        ends = bool(started) and started[-1] + ticks - 1 == world.tick
        if not (begins or ends):
            continue
        for number in world.writes[stage]:
            stream = setting.streams[number]
            if not stream.sends[(len(started) - 1) % len(stream.sends)]:
                continue
            world.issued[number] += begins
            if ends and setting.routes[number]:
                asking.append(_Packet(number))
            elif ends:
                world.on_the_way.setdefault(world.tick + 1, []).append(_Packet(number))
    return asking


def _move(setting: Setting, world: _TimingState) -> None:
    """Every link moves as many elements as it is wide."""
    for link, queue in zip(setting.links, world.queues, strict=True):
        if not queue:
            continue
        width = link.width
        while queue and width:
            packet = queue[0]
            moved = min(width, packet.left)
            width, packet.left = width - moved, packet.left - moved
            if not packet.left:
                queue.popleft()
                packet.hop += 1
                world.on_the_way.setdefault(world.tick + link.hop_ticks, []).append(packet)


def _alive(setting: Setting, world: _TimingState, images: int) -> bool:
    """Whether anything can still happen: a packet or an iteration is under way, or GMEM has something to send."""
    if world.on_the_way or any(world.queues):
        return True
    for stage, started in enumerate(world.started):
        if world.finished[stage] < len(started):
            return True
    return any(
        stream.writer == GMEM
        and world.image_position[number] < images * len(stream.sends)
        and _has_room(setting, world, number)
        for number, stream in enumerate(setting.streams)
    )
