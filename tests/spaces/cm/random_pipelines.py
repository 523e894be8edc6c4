"""Small pipelines, accelerators and mappings at random, with everything that slows a stream down."""

from __future__ import annotations

import numpy as np

from kilotune.codegen.cm.hardware import Hardware, Link
from kilotune.codegen.cm.pipeline import GMEM, Edge, Pipeline, Stage
from kilotune.codegen.cm.routing import route_tables
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.cm.topologies import mesh, ring
from kilotune.evaluators.cm.stream import Setting


def random_edge(rng: np.random.Generator, writer: int, reader: int, written: int, read: int, elements: int) -> Edge:
    """Any staircases that a reader can have: needed never falls, what is released has been needed or is never read."""
    sent = rng.random(written) < rng.choice([0.6, 1.0])
    sent[rng.integers(written)] = True
    first = np.sort(rng.integers(0, written + 1, read))
    # What is needed last has been sent: nothing needs what it does not read.
    last_sent = np.concatenate(([0], np.maximum.accumulate(np.where(sent, np.arange(1, written + 1), 0))))
    needed = np.maximum.accumulate(last_sent[first])
    lag = rng.integers(0, written + 1, read)
    released = np.maximum.accumulate(np.maximum(needed - lag, 0))
    released[-1] = written
    return Edge(writer, reader, needed.astype(np.int32), released.astype(np.int32), elements, 0, sent)


def random_pipeline(rng: np.random.Generator, stages: int) -> Pipeline:
    """Every stage reads GMEM or some earlier stages; what nobody reads is an output."""
    pixels = int(rng.integers(1, 12))
    made, edges, read_by_some = [], [], set()
    for s in range(stages):
        iterations = int(rng.integers(1, 12))
        made.append(Stage(f"s{s}", f"l{s}", iterations, 1, 1, int(rng.integers(1, 4)), int(rng.integers(1, 7))))
        writers = {int(w) for w in rng.integers(GMEM, s, int(rng.integers(1, 4)))} if s else {GMEM}
        for writer in sorted(writers):
            written = pixels if writer == GMEM else made[writer].iterations
            elements = int(rng.integers(1, 7)) if writer == GMEM else made[writer].output_elements
            edges.append(random_edge(rng, writer, s, written, iterations, elements))
            read_by_some.add(writer)
    outputs = tuple(s for s in range(stages) if s not in read_by_some)
    return Pipeline("random", tuple(made), tuple(edges), pixels, 3, outputs)


def small_hardware(rng: np.random.Generator) -> Hardware:
    """A ring or a mesh of few, narrow, differently slow links."""
    pairs, cores = (ring(6), 6) if rng.random() < 0.5 else (mesh(2, 3), 6)
    pairs = [*pairs, (cores, 0), (cores - 1, cores)]
    links = [Link(a, b, int(rng.integers(1, 6)), int(rng.integers(1, 4))) for a, b in pairs]
    return Hardware("small", cores, tuple(links), 1, 1, 1, 1 << 20, 2, 1, "row-major", 3)


def random_setting(seed: int) -> Setting:
    """Mapped or not, bounded or not, paced or not; of every third seed two or three stages share a core."""
    rng = np.random.default_rng(seed)
    pipeline = random_pipeline(rng, int(rng.integers(1, 6)))
    hardware = small_hardware(rng)
    streams = streams_of(pipeline)
    ticks = tuple(hardware.iteration_ticks(s) for s in pipeline.stages)
    sharing = 2 + seed % 2 if seed % 3 == 0 else 1
    cores = (rng.permutation(hardware.cores)[: len(pipeline.stages)] // sharing).tolist()
    tables = route_tables(hardware)
    nodes = [*cores, hardware.gmem]  # GMEM, -1, is the last one
    mapped = rng.random() < 0.8
    routes = tuple(
        tables.route(nodes[s.writer], nodes[s.reader], int(rng.integers(8))) if mapped else () for s in streams
    )
    bounded = rng.random() < 0.7
    capacities = tuple(
        max(1, s.minimum_capacity + int(rng.choice([-1, 0, 0, 1, 2]))) if bounded and s.reader != GMEM else 0
        for s in streams
    )
    pace = int(rng.integers(0, 40)) if rng.random() < 0.5 else 0
    return Setting(pipeline, streams, ticks, routes, capacities, hardware.links, pace, tuple(cores))
