"""What the ports of GMEM carry when layers that read the image are replicated: the pixels at the seams go to several replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kilotune.codegen.cm.access import AccessPattern, pixels_read
from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.replicas import replica_rectangles
from kilotune.codegen.cm.streams import Stream
from kilotune.spaces.cm.replication import LayerShape, Replication

PortTicks = dict[Replication, float]
"""Ticks per image that what GMEM sends to a layer takes all its ports, by the replication of that layer."""


def port_ticks(
    once: LoweredNetwork, streams: Sequence[Stream], shapes: Sequence[LayerShape], hardware: Hardware
) -> Mapping[str, PortTicks]:
    """By layer that reads the image, what GMEM sends to it at least under each of its replications, whatever those of others are.

    A replica's stage is sent every pixel that one of its iterations reads, once, in packets of the elements that its row and column
    block reads, which are those of the layer's stages there once. Of accesses in several windows the one that reads most is
    counted, so that it may be more. once, streams: of the network without replicas.
    """
    found: dict[str, PortTicks] = {}
    width = sum(link.width for link in hardware.links if link.source == hardware.gmem)
    by_name = {shape.name: shape for shape in shapes}
    for stream in streams:
        if stream.writer != GMEM or stream.edge is None:
            continue
        shape, reading = by_name[once.pipeline.stages[stream.reader].layer], once.readings[stream.edge]
        ticks = found.setdefault(shape.name, {})
        for replication in shape.replications():
            pixels = 0
            for rectangle in replica_rectangles(shape.height, shape.width, replication.count, replication.axis):
                windows = (AccessPattern((window,), rectangle, reading.writer) for window in reading.windows)
                pixels += max(map(pixels_read, windows))
            ticks[replication] = ticks.get(replication, 0.0) + pixels * stream.load / width
    return found
