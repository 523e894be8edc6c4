"""A network as the mapping space wants it: its layers are the partitions."""

from __future__ import annotations

from collections.abc import Mapping

from kilotune.codegen.cm.access import RememberedCounts
from kilotune.codegen.cm.hardware import Hardware, crossbar_of
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import PartitionGraph
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.replicas import shareable_channels
from kilotune.spaces.cm.replication import MOST_REPLICAS, MOST_SHARING, LayerShape, Replication


class PartitionedNetwork:
    """A network, with weights or without, that can be lowered with any replication of its layers for the crossbars of one
    accelerator."""

    def __init__(self, graph: PartitionGraph, hardware: Hardware) -> None:
        self.graph = graph
        self.crossbar = crossbar_of(hardware)
        self._most_replicas = MOST_SHARING if hardware.stages_per_core > 1 else MOST_REPLICAS
        self.by_columns = hardware.input_order == "column-major"
        self._counts_of = RememberedCounts()
        self._most_pooled = hardware.sram_bytes // (1 if hardware.charges_bits else hardware.element_bytes)

    @property
    def name(self) -> str:
        """The graph's."""
        return str(self.graph.graph.name)

    def shapes(self, once: Pipeline | None = None) -> tuple[LayerShape, ...]:
        """The partitions in topological order. once: the pipeline without replicas, from a caller who has it."""
        stages = (once or self.pipeline({})).stages
        members = {p.name: [stage for stage in stages if stage.layer == p.name] for p in self.graph.partitions}
        return tuple(
            LayerShape(
                p.name,
                p.height,
                p.width,
                len(own),
                1 + max(stage.row_block for stage in own),
                shareable_channels(p),
                self._most_replicas,
            )
            for p in self.graph.partitions
            for own in [members[p.name]]
        )

    def pipeline(self, replicas: Mapping[str, Replication]) -> Pipeline:
        """See `lowering.lower`."""
        return self.lower(replicas).pipeline

    def lower(self, replicas: Mapping[str, Replication]) -> LoweredNetwork:
        """With the programs of the stages."""
        chained = {name for name, replication in replicas.items() if replication.chained}
        return lower(self.graph, self.crossbar, replicas, self.by_columns, self._counts_of, chained, self._most_pooled)
