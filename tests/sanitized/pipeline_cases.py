"""Questions about pipelines on accelerators of computational memory: placements, routes, and streams of images through both."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from kilotune.codegen.cm.streams import streams_of
from kilotune.evaluators.cm.followed_stream import FollowedStream
from kilotune.evaluators.cm.timing import simulate
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer
from kilotune.spaces.cm.arrangement import arranged
from kilotune.spaces.cm.sharing import StageNeeds
from tests.spaces.cm.random_pipelines import random_pipeline, random_setting, small_hardware


def timing_case(random: Random) -> None:
    setting = random_setting(random.randrange(1 << 30))
    pace = random.choice((setting.pace_ticks, 0, 1, 5_000))
    setting, images = replace(setting, pace_ticks=pace), random.choice((1, 3, 12))
    simulate(setting, images, record_starts=random.random() < 0.5, settle=random.random() < 0.5)


def followed_stream_case(random: Random) -> None:
    setting, images = random_setting(random.randrange(1 << 30)), random.randint(1, 12)
    stream = FollowedStream.of(setting, images, random.randint(1, images))
    if stream is not None:
        if random.random() < 0.8:
            stream.held(random.randint(1, images))
        stream.all()


def placement_case(random: Random) -> None:
    """Where stages may share cores, rows and bytes may be scarce."""
    rng = np.random.default_rng(random.getrandbits(30))
    pipeline, hardware = random_pipeline(rng, random.randint(1, 6)), small_hardware(rng)
    streams, stages = streams_of(pipeline), len(pipeline.stages)
    shared = random.choice((1, 1, 2, 5))
    hardware = replace(hardware, stages_per_core=shared, sram_bytes=random.choice((1, 50, 1 << 20)))
    counts = [tuple(random.randint(0, most) for _ in range(stages)) for most in (1, 60, 60)]
    needs = StageNeeds(*counts) if shared > 1 else StageNeeds.unshared(stages)
    cores = random.sample(range(hardware.cores), stages)
    cores = list(arranged(streams, needs, hardware, cores, random.getrandbits(60), random.choice((0, 1 << 30))))
    annealer = Annealer(streams, needs, hardware, strict=random.random() < 0.3)
    start = AnnealedPlacement(tuple(cores), tuple(random.randrange(8) for _ in streams), 1 << 40)
    annealer.run(start, 1 << 40, random.choice((0, 1, 3_000)), random.choice((1, 50)), 1, random.getrandbits(60))


CASES = (timing_case, followed_stream_case, placement_case)
