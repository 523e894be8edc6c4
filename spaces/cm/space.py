"""The mapping problem: how often each layer is there, which core runs which stage, over which links, with what buffers.

The paper (cmnnc, Section 3.1) asks for any placement in which connected partitions are on linked cores. No residual network has
one on a ring or a mesh, so here streams take routes of several links, links have a width, and what counts is the ticks
from one image to the next. `strict` asks the paper's question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.graph import Graph
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    Procedure,
    Trial,
)
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.joint import first_paced, joint_annealing
from kilotune.spaces.cm.network import PartitionedNetwork
from kilotune.spaces.cm.procedure import paper_procedure, snake_candidate
from kilotune.spaces.cm.state import CmState


class CmSpace(CmCandidates):
    """Fewest ticks per image, or what else the objective names."""

    name = "cm"

    @classmethod
    def of(cls, graph: Graph, hardware: Hardware, strict: bool = False, objective: str = "ticks") -> CmSpace:
        """The mappings of a graph. ValueError, a sentence with what is short by how much, when it does not fit."""
        return cls(PartitionedNetwork(partition(graph), hardware), hardware, strict, objective)

    def start(self) -> CmState:
        """Nothing decided."""
        return CmState(self)

    def fallback(self) -> Assignment:
        """Every layer once, in snake order: measured sooner than anything else."""
        return snake_candidate(self, balanced=False)

    def short_search(self) -> Assignment | None:
        """A design with replicas for the fastest pace, annealed once, which a busy machine has long before an SMT solver ends; see
        `spaces.cm.joint`. None where stages share cores: replications take longer to choose there, and no solver is asked."""
        return first_paced(self) if self.hardware.stages_per_core == 1 else None

    def procedure(self) -> Procedure:
        """The baselines, then the paper's embedding by an SMT solver; see `spaces.cm.procedure`."""
        return paper_procedure(self)

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """Placement and routing as a CP-SAT model; see `spaces.cm.model`."""
        from kilotune.spaces.cm.model import MappingModel  # OR-tools takes a second to import

        return MappingModel(self, trials)

    def anneal(self, seed: int) -> Iterator[Assignment | None]:
        """Compiled annealing of placement and routing under a search of replications; see `spaces.cm.joint`."""
        return joint_annealing(self, seed)
