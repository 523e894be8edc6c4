"""`tune --space cm` as a user meets it: files in, files out, and one sentence for what cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.onnx.quantise import random_images
from kilotune.evaluators.cm.cells import DataHazardError
from kilotune.evaluators.cm.functional import ScheduleParameters, replay
from kilotune.evaluators.cm.timing import simulate
from kilotune.evaluators.cm.verification import route_delays
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.experiments.cli import main
from kilotune.experiments.models.onnx_networks import lenet5
from kilotune.experiments.problems.cm import narrowing
from kilotune.experiments.problems.cm.problem import build_problem, read_options, resolve_input
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.terminal import live_display
from tests.codegen.cm.digits import digits_images, digits_network
from tests.codegen.cm.networks import model, single

pytestmark = pytest.mark.slow


def tune(tmp_path: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as status:
        main(["--space", "cm", "--storage", str(tmp_path / "studies.db"), "--quiet", *arguments])
    return int(status.value.code or 0)


def executed_alone(folder: Path, *options: str) -> str:
    """What runner.py says where kilotune cannot be imported."""
    script = "import runpy, sys; sys.modules['kilotune'] = None; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-I", "-c", script, str(folder / "runner.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


FOUR_CORES = {
    "name": "four-shared",
    "topology": {"kind": "mesh", "rows": 2, "columns": 2},
    "link": {"bits_per_tick": 256, "hop_ticks": 1},
    "crossbar": {"rows": 128, "columns": 64, "per_core": 8, "inputs_per_tick": 128},
    "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 256, "stages": 8},
    "gmem": {"input_ports": [0], "output_ports": [3], "bits_per_tick": 256, "hop_ticks": 1, "order": "row-major"},
}
"""Room for 8 stages each: LeNet-5 has 7 and more."""


def test_a_mapping_that_the_search_puts_several_layers_of_on_a_core_runs_from_its_files(tmp_path: Path) -> None:
    hardware, folder = tmp_path / "four.json", tmp_path / "out"
    hardware.write_text(json.dumps(FOUR_CORES))
    asked = ("--input", "lenet5", "--hardware", str(hardware), "--budget", "20s,4trials", "--output", str(folder))
    assert tune(tmp_path, *asked) == 0
    stages = json.loads((folder / "program.json").read_text())["stages"]
    assert len(stages) > 7 > 4 >= len({stage["core"] for stage in stages})
    for order in ((), ("--schedule",)):
        assert executed_alone(folder, "--onnxruntime", *order).endswith(" 0 different")


def test_a_mapping_is_executed_before_it_is_exported(tmp_path: Path) -> None:
    path, result = tmp_path / "lenet.onnx", tmp_path / "result.json"
    onnx.save(lenet5(), str(path))
    status = tune(
        tmp_path,
        *("--input", str(path), "--budget", "20s,40trials", "--output", str(tmp_path / "out"), "--json", str(result)),
    )
    assert status == 0
    best = json.loads(result.read_text())["best"]
    bundle = {"program", "numbers", "runner", "integers"}
    assert set(best["artifacts"]) == {"mapping", "picture", "gantt", "lcu"} | bundle
    for option in ([], ["--schedule"], ["--onnxruntime"]):
        assert executed_alone(tmp_path / "out", *option) == "2 images, 20 elements, 0 different"
    mapping = json.loads((tmp_path / "out" / "mapping.json").read_text())
    iterations = 2 * sum(stage["iterations"] for stage in mapping["stages"])
    assert mapping["executed"] == {
        "images": 2,
        "elements": 20,
        "different": 0,
        "iterations": iterations,
        "of_iterations": iterations,
    }
    assert len({stage["core"] for stage in mapping["stages"]}) == len(mapping["stages"]) == best["metrics"]["cores"]
    machines: dict[str, Any] = {}
    exec((tmp_path / "out" / "lcu.py").read_text(), machines)
    loop, arrays = machines["STAGES"]["fc3"]
    assert list(loop.iterations()) == [(0, 0)]
    assert [(writer, machine.written(0, 0)) for writer, machine in arrays] == [("fc2", (0, 0))]


def test_a_study_of_a_file_is_named_by_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keyword.v2.onnx"
    network = lenet5()
    network.graph.name = "main_graph"  # what PyTorch calls every network
    onnx.save(network, str(path))
    problem = build_problem(TuneRequest("cm", str(path), "anneal", 0, {}))
    assert problem.name.startswith("keyword.v2 (")
    assert problem.space.network.name == "keyword.v2"
    assert build_problem(TuneRequest("cm", "lenet5", "anneal", 0, {})).name.startswith("lenet5 (")


def test_a_mapping_on_contended_links_is_executed_with_its_own_schedule(tmp_path: Path) -> None:
    """Verification must see what it verifies: the buffers of the mapping, and the starts of the timing evaluator."""
    hardware = tmp_path / "narrow.json"
    hardware.write_text(json.dumps(described(link={"elements_per_tick": 2})))
    problem = build_problem(TuneRequest("cm", "lenet5", "anneal", 0, {"hardware": str(hardware)}))
    candidate = problem.space.candidate({}, range(10, 18))
    assert problem.space.measure(candidate).metrics["ticks_per_image"] > 784, "links are the bottleneck"
    found = problem.verify(candidate)
    assert found is not None
    assert (found.images, found.elements, found.different) == (2, 20, 0)
    lowered, setting = problem.lowered(candidate), problem.setting(candidate)
    graph = lowered.network.graph
    assert problem.quantised is not None
    images = [problem.quantised.image(image) for image in random_images(graph.shapes[graph.input], 2, 3)]
    timing = simulate(setting, 3, record_starts=True)
    assert timing.starts is not None
    starts = [t[: 2 * s.iterations] for t, s in zip(timing.starts, setting.pipeline.stages, strict=True)]
    edges = len(setting.pipeline.edges)
    for number, stream in enumerate(setting.streams[:edges]):
        if stream.minimum_capacity > 1:
            short = tuple(stream.minimum_capacity - 1 if n == number else c for n, c in enumerate(setting.capacities))
            machine = ScheduleParameters(
                setting.ticks, route_delays(setting)[:edges], short[:edges], setting.pace_ticks
            )
            with pytest.raises(DataHazardError):
                replay(lowered, images, starts, machine)


def test_every_stage_of_the_state_machines_file_covers_its_pixels(tmp_path: Path) -> None:
    from kilotune.experiments.problems.cm.artefacts import lcu_source

    problem = build_problem(TuneRequest("cm", "lenet5", "anneal", 0, {"hardware": None}))
    lowered = problem.space.network.lower({})
    machines: dict[str, Any] = {}
    exec(lcu_source(lowered), machines)
    for stage in lowered.pipeline.stages:
        assert len(list(machines["STAGES"][stage.name][0].iterations())) == stage.iterations


def described(name: str = "mesh-8x8", **changes: Any) -> dict[str, Any]:
    from kilotune.codegen.cm import hardware

    path = Path(hardware.__file__).parent / "hardware_files" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text())
    for key, value in changes.items():
        found[key] = {**found[key], **value} if isinstance(value, dict) else value
    return found


def test_what_the_integers_cost_is_told_with_images_and_without(tmp_path: Path) -> None:
    """By default 64 images calibrate, and the integers are compared on the others."""
    images, labels = digits_images(16)
    onnx.save(digits_network(16), str(tmp_path / "digits.onnx"))
    np.savez(tmp_path / "images.npz", images=images, labels=labels)
    common = ("--input", str(tmp_path / "digits.onnx"), "--budget", "20s,2trials", "--json", str(tmp_path / "r.json"))
    assert tune(tmp_path, *common, "--data", str(tmp_path / "images.npz"), "--output", str(tmp_path / "out")) == 0
    result = json.loads((tmp_path / "r.json").read_text())
    found = result["approximation"]
    assert (found["calibration_images"], found["images"]) == (64, len(images) - 64)
    assert found["float_accuracy"] - found["accuracy"] <= 0.005
    assert (
        f"{100 * found['accuracy']:.2f} % right, {100 * found['float_accuracy']:.2f} % in floats" in found["sentence"]
    )
    assert json.loads((tmp_path / "out" / "mapping.json").read_text())["executed"]["different"] == 0
    page = tmp_path / "report.html"
    with pytest.raises(SystemExit):
        main(["report", result["study"], "--storage", str(tmp_path / "studies.db"), "--output", str(page)])
    assert found["sentence"] in page.read_text()
    assert tune(tmp_path, *common) == 0
    without = json.loads((tmp_path / "r.json").read_text())["approximation"]
    assert without["images"] == 0
    assert "for want of --data" in without["sentence"]
    np.savez(tmp_path / "beyond.npz", images=images, labels=labels + 50)
    assert tune(tmp_path, *common, "--data", str(tmp_path / "beyond.npz")) == 4


def test_activations_are_narrowed_told_and_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the files run on their own, by the widths that are told, as onnxruntime does; a resumed study chooses the same ones."""
    images, labels = digits_images(16)
    onnx.save(digits_network(16), str(tmp_path / "digits.onnx"))
    np.savez(tmp_path / "images.npz", images=images, labels=labels)
    monkeypatch.setattr(narrowing, "EvaluationCache", lambda: EvaluationCache(tmp_path / "cache.db"))
    common = ("--input", str(tmp_path / "digits.onnx"), "--data", str(tmp_path / "images.npz"), "--drop", "2")
    out, told = tmp_path / "out", tmp_path / "r.json"
    asked = ("--hardware", "mesh-8x8-bits", "--budget", "20s,2trials", "--json", str(told), "--output", str(out))
    assert tune(tmp_path, *common, *asked) == 0
    result = json.loads(told.read_text())
    widths = result["approximation"]["widths"]
    bits = widths["activation_bits"]
    assert widths["changed"] <= 0.02 * 64
    assert widths["image_bits"] < widths["image_bits_with_8_bits"]
    assert "pool1 " + str(bits["pool1"]) in result["approximation"]["sentence"]
    program = json.loads((out / "program.json").read_text())
    assert (program["image"]["low"], program["image"]["high"]) == (0, 2 ** bits["x"] - 1)
    assert {edge["bits"] for edge in program["edges"] if edge["writer"] == -1} == {bits["x"]}
    assert executed_alone(out, "--onnxruntime") == "2 images, 20 elements, 0 different"
    # what has been found is not looked for again
    monkeypatch.setattr(narrowing, "narrowed", pytest.fail)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "resume",
                result["study"],
                "--storage",
                str(tmp_path / "studies.db"),
                "--budget",
                "4trials",
                "--json",
                str(told),
            ]
        )
    assert ended.value.code == 0
    assert json.loads(told.read_text())["approximation"]["widths"] == widths


def test_narrowing_shows_how_far_it_has_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first network on, where a line is due at once; nothing with --quiet."""
    images, _ = digits_images(16)
    onnx.save(digits_network(16), str(tmp_path / "digits.onnx"))
    np.savez(tmp_path / "images.npz", images=images[:100])
    monkeypatch.setattr(live_display, "FIRST_PLAIN_LINE_S", 0.0)
    arguments = ["--space", "cm", "--input", str(tmp_path / "digits.onnx"), "--data", str(tmp_path / "images.npz")]
    arguments += ["--hardware", "mesh-8x8-bits", "--storage", str(tmp_path / "s.db"), "--budget", "20s,1trials"]
    for number, quiet in enumerate(((), ("--quiet",))):
        monkeypatch.setattr(narrowing, "EvaluationCache", lambda n=number: EvaluationCache(tmp_path / f"{n}.db"))
        with pytest.raises(SystemExit):
            main([*arguments, "--no-output", "--drop", "2", *quiet])
        said = "--drop: 2 of at most 25 networks tried, 2176 bits an image"
        assert (said in capsys.readouterr().err) == (not quiet)


def test_narrowing_is_refused_where_bits_do_not_count_or_it_would_take_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image has 3456 + 10 368 + 480 products, and four tensors may be narrowed six times each: 25 networks."""
    images, _ = digits_images(16)
    onnx.save(digits_network(16), str(tmp_path / "digits.onnx"))
    np.savez(tmp_path / "images.npz", images=images)
    common = ("--input", str(tmp_path / "digits.onnx"), "--data", str(tmp_path / "images.npz"), "--drop", "2")
    assert tune(tmp_path, *common, "--budget", "1s") == 4
    assert "found mesh-8x8, which has neither" in capsys.readouterr().err
    monkeypatch.setattr("kilotune.experiments.problems.cm.narrowing.MOST_OPERATIONS", 10_000_000)
    assert tune(tmp_path, *common, "--hardware", "mesh-8x8-bits", "--budget", "1s") == 4
    assert "expected at most 27 images for calibration (--calibration), found 64" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "lenet5", "--data", "none.npz"), "none.npz: expected a file of images, found none"),
        (("--input", "lenet5", "--calibration", "3"), "--calibration counts images of --data"),
        (("--input", "lenet5", "--noise", "60"), "--noise is seen on images of --data"),
        (("--input", "lenet5", "--data", __file__, "--converter-bits", "6"), "--converter-bits is for --noise"),
        (("--input", "lenet5", "--drop", "1"), "--drop is counted on images of --data"),
        (("--input", "resnet20", "--data", __file__), "--data is for ONNX files; resnet20 has no weights"),
        (("--input", "lenet5", "--data", __file__), "test_front_door.py: expected arrays by name"),
    ],
)
def test_data_that_cannot_be_used(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path, *arguments, "--budget", "1s") == 4
    assert message in capsys.readouterr().err


BAD = {
    "operator": (single("Sin", [1, 2, 3, 3]), {}, "node 0 'only' (Sin that writes 'y')"),
    "dynamic": (model([helper.make_node("Relu", ["x"], ["y"])], [1, 3, "h", "w"], {}), {}, "dynamic shape 1x3xhxw"),
    "cores": (
        single("Conv", [1, 600, 8, 8], [np.ones((600, 600, 3, 3), np.float32)]),
        {},
        "needs 66 cores and mesh-8x8 has 64: 2 too few",
    ),
    "sram": (None, {"core": {"sram_bytes": 0}}, "core.sram_bytes: expected a whole number from 1"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto, changes, message = BAD[what]
    path, hardware = tmp_path / "net.onnx", tmp_path / "hardware.json"
    onnx.save(proto or lenet5(), str(path))
    hardware.write_text(json.dumps(described(**changes)))
    out = tmp_path / "out"
    status = tune(tmp_path, "--input", str(path), "--hardware", str(hardware), "--budget", "1s", "--output", str(out))
    assert status == 4
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_truncated_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(lenet5().SerializeToString()[:5000])
    assert tune(tmp_path, "--input", str(path), "--budget", "1s") == 4
    assert "cut short" in capsys.readouterr().err


def test_an_image_may_have_another_size_and_come_column_by_column(tmp_path: Path) -> None:
    path, hardware = tmp_path / "net.onnx", tmp_path / "hardware.json"
    onnx.save(model([helper.make_node("Relu", ["x"], ["y"])], [1, 3, "h", "w"], {}), str(path))
    hardware.write_text(json.dumps(described(gmem={"order": "column-major"})))
    options = read_options("cm", CommandOptions({"image_shape": "3x4x6", "hardware": str(hardware)}))
    problem = build_problem(TuneRequest("cm", str(resolve_input(str(path))), "anneal", 0, options))
    assert load_hardware(str(hardware)).input_order == "column-major"
    edge = problem.space.network.pipeline({}).edges[0]
    assert edge.needed.tolist()[:6] == [1, 5, 9, 13, 17, 21]


@pytest.mark.parametrize("text", ["3x0x4", "3,4,5", "x", "1x2x3x4"])
def test_image_shapes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected channels, height and width"):
        read_options("cm", CommandOptions({"image_shape": text}))
