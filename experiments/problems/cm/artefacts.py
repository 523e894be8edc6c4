"""The files of a mapping: where everything runs (mapping.json, pictures) and the state machines of the control units (lcu.py)."""

from __future__ import annotations

import dataclasses
import json
from types import MappingProxyType
from typing import Any

from kilotune.codegen.cm.lcu import loop_nest, state_machine
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.streams import stream_name
from kilotune.evaluators.cm.timing import simulate_whole
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.cm.executable import executable
from kilotune.experiments.problems.cm.mapped_network import MappedNetwork
from kilotune.experiments.problems.cm.mesh import mesh_of
from kilotune.experiments.problems.cm.mesh_svg import mapping_svg
from kilotune.experiments.problems.cm.pipeline_bars import DRAWN_IMAGES, pipeline_chart
from kilotune.experiments.problems.cm.pipeline_svg import gantt_svg
from kilotune.experiments.problems.cm.utilisation import usage_of
from kilotune.search.space import Trial

NAMES = MappingProxyType(
    {
        "mapping": "mapping.json",
        "picture": "mapping.svg",
        "gantt": "gantt.svg",
        "lcu": "lcu.py",
        "program": "program.json",
        "numbers": "program.npz",
        "runner": "runner.py",
        "integers": "integers.onnx",
    }
)
"""The names of the files, by what they are."""


def artefacts(problem: MappedNetwork, trial: Trial) -> dict[str, str | bytes]:
    """The contents that there are, by what they are. ValueError when execution contradicts the mapping."""
    verification = problem.verify(trial.assignment)
    if verification is not None and verification.different:
        executed = f"{verification.iterations} of {verification.of_iterations} iterations"
        wrong = f"{verification.different} of {verification.elements} elements"
        raise ValueError(f"{wrong} are wrong in {executed}: not exported")
    description = describe(problem, trial)
    description["executed"] = None if verification is None else dataclasses.asdict(verification)
    texts: dict[str, str | bytes] = {"mapping": json.dumps(description, indent=1) + "\n", **_pictures(problem, trial)}
    texts["lcu"] = lcu_source(problem.lowered(trial.assignment))
    return {**texts, **executable(problem, trial)}


def _pictures(problem: MappedNetwork, trial: Trial) -> dict[str, str]:
    """The mapping, and when which core works."""
    space = problem.space
    lowered, mapping = space.lowered(space.replicas(trial.assignment)), space.mapping(trial.assignment)
    ticks = trial.measurement.metrics["ticks_per_image"]
    usage = usage_of(lowered, space.hardware, mapping, ticks)
    name = f"{space.network.name} on {space.hardware.name}"
    title = f"{name}: {len(usage.cores)} of {counted(space.hardware.cores, 'core')}, {ticks:g} ticks per image"
    drawn = {"picture": mapping_svg(mesh_of(lowered, space.hardware, usage), title)}
    _, starts = simulate_whole(space.setting(lowered, mapping), DRAWN_IMAGES)
    drawn["gantt"] = gantt_svg(pipeline_chart(lowered, starts), f"{name}: the first {DRAWN_IMAGES} images")
    return drawn


def describe(problem: MappedNetwork, trial: Trial) -> dict[str, Any]:
    """The mapping as JSON: stages on cores, streams on routes with their buffers."""
    space = problem.space
    lowered, mapping = space.lowered(space.replicas(trial.assignment)), space.mapping(trial.assignment)
    pipeline, hardware = lowered.pipeline, space.hardware
    stages = [
        {
            "name": stage.name,
            "layer": stage.layer,
            "replica": stage.replica,
            "row_block": stage.row_block,
            "column_block": stage.column_block,
            "core": core,
            "iterations": stage.iterations,
            "matrix": [stage.crossbar_rows, stage.crossbar_columns],
        }
        for stage, core in zip(pipeline.stages, mapping.cores, strict=True)
    ]
    streams = []
    for stream, route, capacity in zip(lowered.streams, mapping.routes, mapping.capacities, strict=True):
        nodes = [hardware.links[route[0]].source, *(hardware.links[n].target for n in route)] if route else []
        streams.append(
            {
                "name": stream_name(pipeline, stream),
                "route": ["GMEM" if node == hardware.gmem else node for node in nodes],
                "elements": stream.elements,
                "bits": stream.cell_bits,
                "packets": stream.packets,
                "buffer_packets": capacity,
            }
        )
    energy = space.energy_nj(lowered, mapping, trial.measurement.metrics.get("ticks_per_image", 0.0))
    return {
        "network": space.network.name,
        "hardware": hardware.name,
        "metrics": dict(trial.measurement.metrics),
        **({} if energy is None else {"energy_nj": energy}),
        "stages": stages,
        "streams": streams,
    }


def lcu_source(lowered: LoweredNetwork) -> str:
    """A Python module: a class for every different state machine, and which stage watches which array with which."""
    pipeline = lowered.pipeline
    machines: dict[str, str] = {}
    loops: dict[str, str] = {}
    rows = []
    sources = {reading: state_machine(reading).source for reading in dict.fromkeys(lowered.readings)}
    for number, (stage, program) in enumerate(zip(pipeline.stages, lowered.programs, strict=True)):
        loop = loops.setdefault(loop_nest(program.rectangle)[0], f"Loop{len(loops)}")
        arrays = []
        for edge, reading in zip(pipeline.edges, lowered.readings, strict=True):
            if edge.reader == number:
                machine = machines.setdefault(sources[reading], f"Machine{len(machines)}")
                writer = "GMEM" if edge.writer == GMEM else pipeline.stages[edge.writer].name
                arrays.append(f"({writer!r}, {machine})")
        rows.append(f"    {stage.name!r}: ({loop}, [{', '.join(arrays)}]),")
    image = _image_loop(lowered)
    parts = [LCU_TEXT]
    parts += [
        f"class {name}:\n{_methods(source)}" for source, name in (*loops.items(), *machines.items(), (image, "GMEM"))
    ]
    parts.append("STAGES = {\n" + "\n".join(rows) + "\n}\n")
    return "\n\n".join(parts)


def _image_loop(lowered: LoweredNetwork) -> str:
    """The text of `iterations()` of the global memory: the image's pixels in the order in which it sends them."""
    graph = lowered.network.graph
    _, high, wide = graph.shapes[graph.input]
    loops = [f"for h in range({high}):", f"for w in range({wide}):"]
    outer, inner = loops[::-1] if lowered.by_columns else loops
    return f"def iterations():\n    {outer}\n        {inner}\n            yield h, w\n"


LCU_TEXT = '''"""State machines of the control units. A core runs the iterations of its loop in order.

Of every array it reads: `initial` is the last iteration that may run before any write, `written` the last that may run
once a pixel is written (None: no more than before), `keeps` the first pixel still needed after an iteration (None: none).
An iteration may start when all of the core's arrays allow it. The loop of GMEM is the order in which it sends the image's pixels.
"""
'''


def _methods(source: str) -> str:
    lines = []
    for line in source.rstrip("\n").split("\n"):
        if line.startswith("def "):
            lines.append("    @staticmethod")
        lines.append("    " + line if line else "")
    return "\n".join(lines) + "\n"
