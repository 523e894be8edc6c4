"""What the ports of GMEM carry when the layers at its ends are replicated: the pixels at the seams go to several replicas, and every
stream goes through one port."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kilotune.codegen.cm.access import AccessPattern, Rectangle, pixels_read
from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.replicas import CHANNELS, replica_rectangles
from kilotune.codegen.cm.streams import Stream
from kilotune.spaces.cm.replication import LayerShape, Replication


@dataclass(frozen=True)
class PortTicks:
    """Ticks per image that a layer takes GMEM's links at least, by its replication. shared: to send it the image, if all links shared
    that evenly, to which what other layers are sent is added, without rounding; empty where it reads no image. whole: of the busiest link,
    when each stream to or from GMEM takes one of them; of layers at an end of the network."""

    shared: Mapping[Replication, Fraction] = field(default_factory=dict)
    whole: Mapping[Replication, float] = field(default_factory=dict)


def port_ticks(
    once: LoweredNetwork, streams: Sequence[Stream], shapes: Sequence[LayerShape], hardware: Hardware
) -> Mapping[str, PortTicks]:
    """By layer that reads the image or writes an output, whatever the replications of other layers are.

    A replica's stage is sent every pixel that one of its iterations reads, once, in packets of the elements that its row and column
    block reads, which are those of the layer's stages there once. Of accesses in several windows the one that reads most is
    counted, so that it may be more; more on some streams never makes the busiest link less. Replicas of channels share out what a
    stream carries in ways that are not looked at here: of them `whole` says nothing. once, streams: of the network without replicas.
    """
    sending = [link.width for link in hardware.links if link.source == hardware.gmem]
    receiving = [link.width for link in hardware.links if link.target == hardware.gmem]
    of_layer: dict[str, list[Stream]] = {}
    for stream in streams:
        if GMEM in (stream.writer, stream.reader):
            end = stream.reader if stream.writer == GMEM else stream.writer
            of_layer.setdefault(once.pipeline.stages[end].layer, []).append(stream)
    found: dict[str, PortTicks] = {}
    for shape in shapes:
        into = [stream for stream in of_layer.get(shape.name, ()) if stream.writer == GMEM]
        out = [stream for stream in of_layer.get(shape.name, ()) if stream.reader == GMEM]
        shared, whole = dict[Replication, Fraction](), dict[Replication, float]()
        for replication in shape.replications() if into or out else ():
            cut = replica_rectangles(shape.height, shape.width, replication.count, replication.axis)
            sent = [load for stream in into for load in _sent_loads(once, stream, cut)]
            got = [stream.load * rectangle.size for stream in out for rectangle in cut]
            if into:
                shared[replication] = Fraction(sum(sent), sum(sending))
            if replication.axis != CHANNELS:
                ways = ((sent, sending), (got, receiving))
                whole[replication] = max(busiest_load(loads, len(widths)) / max(widths) for loads, widths in ways)
        if into or out:
            found[shape.name] = PortTicks(shared, whole)
    return found


def _sent_loads(once: LoweredNetwork, stream: Stream, replicas: Sequence[Rectangle]) -> list[int]:
    """What GMEM sends an image to each replica of a stage that it sends a stream to when the stage is there once."""
    if stream.edge is None:
        raise ValueError("A stream from GMEM is an edge of the pipeline.")
    reading = once.readings[stream.edge]
    return [
        stream.load
        * max(pixels_read(AccessPattern((window,), rectangle, reading.writer)) for window in reading.windows)
        for rectangle in replicas
    ]


def busiest_load(loads: Sequence[int], links: int) -> int:
    """What the busiest of so many links carries at least, whichever of them each load goes over as a whole. loads: in elements or bits.

    Three arguments, of which the strongest counts (the first and the last are those for identical parallel machines, Graham 1969,
    and Dell'Amico and Martello 1995): all loads together over the links, where every link carries a multiple of what all loads are
    multiples of; the largest load; and of the q * links + 1 largest loads some link has q + 1 or more, none of which is less than
    the smallest of these.
    """
    falling = sorted((load for load in loads if load), reverse=True)
    if not falling:
        return 0
    unit = math.gcd(*falling)
    least = max(falling[0], -(-sum(falling) // (unit * links)) * unit)
    for together in range(1, (len(falling) - 1) // links + 1):
        last = together * links + 1
        least = max(least, sum(falling[last - together - 1 : last]))
    return least
