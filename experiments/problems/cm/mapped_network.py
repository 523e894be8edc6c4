"""A network with its mapping space: what a candidate becomes when it is lowered, timed and executed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.quantise import QuantisedGraph, random_images
from kilotune.evaluators.cm.activation_widths import NarrowedNetwork
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.verification import Verification, verify
from kilotune.experiments.problems.cm.image_data import ImageData
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment
from kilotune.spaces.cm.space import CmSpace

VERIFIED_IMAGES = 2
MOST_VERIFIED_ITERATIONS = 150_000
"""Some ten seconds of integer execution."""


@dataclass(frozen=True, eq=False)
class MappedNetwork:
    """A mapping space and the request that it comes from. quantised, floats: the integer network and the one that it was made
    from; None for a weightless network, which nothing executes. data: real images, where there are any. narrowed: how
    the integer network's activations came to have fewer bits; None: they have 8."""

    request: TuneRequest
    space: CmSpace
    quantised: QuantisedGraph | None
    floats: Graph | None = None
    data: ImageData | None = None
    narrowed: NarrowedNetwork | None = None

    def lowered(self, assignment: Assignment) -> LoweredNetwork:
        """The candidate's stages with their programs."""
        return self.space.network.lower(self.space.replicas(assignment))

    def setting(self, assignment: Assignment) -> Setting:
        """What the timing evaluator runs."""
        space = self.space
        return space.setting(space.lowered(space.replicas(assignment)), space.mapping(assignment))

    def verify(self, assignment: Assignment) -> Verification | None:
        """Execute the candidate on its trial images, as many iterations as `MOST_VERIFIED_ITERATIONS`; None without weights."""
        if self.quantised is None:
            return None
        images = self.trial_images(self.quantised)[: self.execution(assignment)[0]]
        return verify(self.lowered(assignment), self.setting(assignment), images, MOST_VERIFIED_ITERATIONS)

    def execution(self, assignment: Assignment) -> tuple[int, float]:
        """How many trial images `verify` executes, one at least, and the share of their iterations, 1.0 but for a part of one."""
        iterations = self._image_iterations(assignment)
        images = min(VERIFIED_IMAGES, max(1, MOST_VERIFIED_ITERATIONS // iterations))
        return images, min(1.0, MOST_VERIFIED_ITERATIONS / (images * iterations))

    def execution_sentence(self, assignment: Assignment) -> str | None:
        """How much of a candidate is executed when it is exported, where that is less than all trial images."""
        images, share = self.execution(assignment)
        if self.quantised is None or images == VERIFIED_IMAGES:
            return None
        part = "one image" if share == 1 else f"at most the first {math.floor(100 * share)} % of one image"
        iterations = self._image_iterations(assignment)
        return (
            f"An export executes {part}: it takes {iterations} iterations of its stages, and {MOST_VERIFIED_ITERATIONS} are "
            f"executed at most."
        )

    def _image_iterations(self, assignment: Assignment) -> int:
        stages = self.space.lowered(self.space.replicas(assignment)).pipeline.stages
        return sum(stage.iterations for stage in stages)

    def trial_images(self, quantised: QuantisedGraph) -> list[NDArray[np.int64]]:
        """What a candidate is executed on, as integers: real images that calibration has not seen, or seeded ones."""
        shape = quantised.graph.shapes[quantised.graph.input]
        seeded = random_images(shape, VERIFIED_IMAGES, self.request.seed + 1)
        images = seeded if self.data is None else list(self.data.unseen[0][:VERIFIED_IMAGES])
        return [quantised.image(image) for image in images]
