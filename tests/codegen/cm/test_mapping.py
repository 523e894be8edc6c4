"""What the checker of mappings admits on a core that stages share, and what it refuses, in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import Hardware, Link
from kilotune.codegen.cm.mapping import Mapping, check_mapping, stages_by_core
from kilotune.codegen.cm.pipeline import GMEM, Edge, Pipeline, Stage
from kilotune.codegen.cm.streams import streams_of

STEPS = np.arange(1, 5, dtype=np.int32)
PIPELINE = Pipeline(
    "three",
    tuple(Stage(name, name, 4, rows, 8, 1, 10) for name, rows in (("a", 30), ("b", 34), ("c", 1))),
    (Edge(GMEM, 0, STEPS, STEPS, 10), Edge(0, 1, STEPS, STEPS, 10), Edge(1, 2, STEPS, STEPS, 10)),
    4,
    10,
    (2,),
)
TWO_CORES = Hardware(
    "two",
    2,
    (Link(0, 1, 8, 1), Link(1, 0, 8, 1), Link(2, 0, 8, 1), Link(1, 2, 8, 1)),
    32,
    8,
    2,
    50,
    1,
    stages_per_core=2,
)
TOGETHER = Mapping((0, 0, 1), ((2,), (), (0,), (3,)), (2, 3, 4, 0))
"""a and b on core 0: 64 rows of 64, 20 and 30 bytes of 50."""


def refused(hardware: Hardware, mapping: Mapping, pipeline: Pipeline = PIPELINE) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+\.$") as caught:
        check_mapping(pipeline, streams_of(pipeline, hardware), hardware, mapping)
    return str(caught.value)


def test_stages_share_a_core_as_far_as_number_rows_and_memory_go() -> None:
    streams = streams_of(PIPELINE, TWO_CORES)
    check_mapping(PIPELINE, streams, TWO_CORES, TOGETHER)
    assert stages_by_core(TOGETHER.cores) == {0: [0, 1], 1: [2]}
    assert refused(replace(TWO_CORES, stages_per_core=1), TOGETHER) == "Stages a and b are on core 0, where 1 may be."
    more = replace(TOGETHER, capacities=(2, 4, 4, 0))
    assert refused(TWO_CORES, more) == "The buffers of a and b take 60 bytes of core 0's 50: 10 too many."
    a, b, c = PIPELINE.stages
    higher = replace(PIPELINE, stages=(a, replace(b, crossbar_rows=35), c))
    assert refused(TWO_CORES, TOGETHER, higher) == (
        "The matrices of a and b, one below another, take 65 rows of crossbars; core 0 has 64."
    )


def test_a_stream_between_stages_of_one_core_takes_no_link() -> None:
    around = replace(TOGETHER, routes=((2,), (0, 1), (0,), (3,)))
    check_mapping(PIPELINE, streams_of(PIPELINE, TWO_CORES), TWO_CORES, around)  # a way round is a way
    apart = replace(TOGETHER, cores=(0, 1, 1))
    assert refused(TWO_CORES, apart) == "The route of a -> b does not lead to its reader."
    assert refused(TWO_CORES, replace(TOGETHER, cores=(0, 0, 2))) == "Stage c is on core 2 of 2."
