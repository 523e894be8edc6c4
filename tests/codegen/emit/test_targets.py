"""Exported folders build with the compilers of their devices, without a warning, and check themselves where they run."""

from __future__ import annotations

import configparser
import itertools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.project import project_files, project_names
from kilotune.codegen.emit.targets.recording import Recording
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.registry import project_target, project_targets
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.random_programs import RandomModel
from tests.codegen.emit.serial_port import load_serial_port, read_serial
from tests.codegen.emit.small_network import classifier, recurrent
from tests.codegen.emit.written import write_project
from tests.evaluators.devices.candidates import bundled

pytestmark = pytest.mark.slow

CORE = Path("/usr/share/arduino/hardware/arduino/avr")
needs_avr = pytest.mark.skipif(
    shutil.which("avr-gcc") is None, reason="avr-gcc is not installed (apt install gcc-avr avr-libc)"
)
needs_core = pytest.mark.skipif(
    not (CORE / "cores/arduino/main.cpp").exists(), reason="no Arduino core (apt install arduino-core-avr)"
)
needs_simavr = pytest.mark.skipif(load_serial_port() is None, reason="no libsimavr (apt install libsimavr-dev gcc)")
needs_arm = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="needs gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
STRICT = ("-Wall", "-Wextra", "-Werror")


def recorded(kind: ir.ResultKind) -> tuple[CSource, Recording]:
    return recording_of(*classifier(result_kind=kind))


def recording_of(model: RandomModel, batch: FixedBatch) -> tuple[CSource, Recording]:
    source = emit_c(batch, model.parameters)
    inputs = quantise_features(model.features, source.interface.input_bits, source.interface.input_scale)
    return source, Recording(inputs, run_reference(batch, model.parameters, model.features)[0])


def run(command: Sequence[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", project_targets())
def test_every_folder_says_what_comes_next(target: str, tmp_path: Path) -> None:
    write_project(tmp_path / "digits", *recording_of(*recurrent()), {}, target, "O2")
    readme = (tmp_path / "digits" / "README.md").read_text()
    assert "Next: " in readme
    assert '"optimisation": "O2"' in (tmp_path / "digits" / "decisions.json").read_text()


@pytest.mark.parametrize("target", project_targets())
def test_the_names_are_known_before_there_is_a_program(target: str) -> None:
    """What is in the way is found before the search."""
    made = project_files("digits", *recording_of(*recurrent()), {}, project_target(target))
    assert sorted(project_names(project_target(target), "digits")) == sorted(made)


@needs_avr
@pytest.mark.parametrize("level", ["Os", "O3"])
def test_plain_project_compiles_for_an_avr(level: str, tmp_path: Path) -> None:
    write_project(tmp_path / "out", *recorded(ir.ResultKind.CLASS), {}, "c", level)
    assert "text" in run(["make", "avr"], tmp_path / "out")


MACHINE = ("-mmcu=atmega328p", "-DF_CPU=16000000L", "-DARDUINO=10819", "-DARDUINO_AVR_UNO", "-DARDUINO_ARCH_AVR")
COMMON = (*MACHINE, "-Os", "-ffunction-sections", "-fdata-sections")
INCLUDES = ("-I", CORE / "cores/arduino", "-I", CORE / "variants/standard")
CPP = ("-std=gnu++11", "-fno-exceptions", "-fno-threadsafe-statics")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The object files of Debian's core, compiled once for all sketches."""
    into = tmp_path_factory.mktemp("core")
    used = ("main", "wiring", "hooks", "Print", "Stream", "HardwareSerial", "HardwareSerial0", "WString", "abi", "new")
    objects = []
    sources = sorted((CORE / "cores/arduino").iterdir())
    for path in (p for p in sources if p.suffix in (".c", ".cpp") and p.stem in used):
        language = CPP if path.suffix == ".cpp" else ("-std=gnu11",)
        compiler = "avr-g++" if path.suffix == ".cpp" else "avr-gcc"
        objects.append(into / f"{path.stem}.o")
        run([compiler, *COMMON, *language, *INCLUDES, "-w", "-DDECIMAL_DIG=9", "-c", "-o", objects[-1], path], into)
    return objects


def build_sketch(core: list[Path], folder: Path, into: Path, prepended: str = "Arduino.h") -> Path:
    """Compile a sketch as the IDE does, with the core; warnings in the exported files are errors."""
    into.mkdir()
    sketch = folder / f"{folder.name}.ino"
    objects = [*core, into / "sketch.o", into / "model.o"]
    run(
        [
            "avr-g++",
            *COMMON,
            *CPP,
            *INCLUDES,
            *STRICT,
            "-x",
            "c++",
            "-include",
            prepended,
            "-c",
            "-o",
            objects[-2],
            sketch,
        ],
        into,
    )
    run(["avr-gcc", *COMMON, "-std=gnu11", *INCLUDES, *STRICT, "-c", "-o", objects[-1], folder / "model.c"], into)
    run(["avr-gcc", *MACHINE, "-Os", "-Wl,--gc-sections", "-o", "sketch.elf", *objects, "-lm"], into)
    return into / "sketch.elf"


def amid_units(integers: IntArray, scale: int) -> FloatArray:
    """Numbers that become these integers, toward zero, also where they are read with an error in the last place."""
    return (integers + 0.5 * np.sign(integers)) / 2.0**scale


@needs_avr
@needs_core
@needs_simavr
@pytest.mark.parametrize(("kind", "level"), [(ir.ResultKind.CLASS, "Os"), (ir.ResultKind.REAL, "O2")])
def test_arduino_sketch_runs(kind: ir.ResultKind, level: str, tmp_path: Path, core: list[Path]) -> None:
    """On a simulated Uno every recorded sample gives what the simulator of the search said, and so does a typed one, in any notation."""
    source, recording = recorded(kind)
    write_project(tmp_path / "digits", source, recording, {}, "arduino", level)
    elf = build_sketch(core, tmp_path / "digits", tmp_path / "build")
    numbers = amid_units(recording.inputs[3], source.interface.input_scale)
    notations = itertools.cycle(("{:.8f} ", "{:+.17e}, ", "{:.12f}\t", "{:.8E};"))
    typed = "".join(notation.format(number) for notation, number in zip(notations, numbers, strict=False))
    typed = typed.rstrip(";, \t") + "\n"  # a line that begins after the answer is waited for
    lines = read_serial(elf, "on average", typed)
    samples = [line for line in lines if line.startswith("sample ")]
    assert len(samples) == len(recording)
    assert all(", equal, " in line for line in samples)
    if kind is ir.ResultKind.CLASS:
        assert [int(line.split("label ")[1].split(",")[0]) for line in samples] == recording.outputs[:, 0].tolist()
        assert lines[-1].strip() == f"label {recording.outputs[3, 0]}"
    else:
        said = [float(number) for number in lines[-1].split()[1:]]
        np.testing.assert_allclose(said, recording.outputs[3] / 2.0**source.interface.result_scale, atol=1e-6)
    assert any(f"{len(recording)} of {len(recording)} outputs equal" in line for line in lines)


@needs_avr
@needs_core
@needs_simavr
def test_arduino_sketch_sees_a_wrong_output(tmp_path: Path, core: list[Path]) -> None:
    source, recording = recorded(ir.ResultKind.CLASS)
    outputs = recording.outputs.copy()
    outputs[5] = (outputs[5] + 1) % 5
    write_project(tmp_path / "digits", source, Recording(recording.inputs, outputs), {}, "arduino")
    lines = read_serial(build_sketch(core, tmp_path / "digits", tmp_path / "build"), "on average")
    assert [line.split(":")[0] for line in lines if "DIFFERENT" in line] == ["sample 5"]
    assert any("19 of 20 outputs equal" in line for line in lines)


@needs_avr
@needs_core
@needs_simavr
@pytest.mark.parametrize(("frames", "each"), [(8, 8), (4, 3)])
def test_arduino_sketch_is_called_with_each_frame(frames: int, each: int, tmp_path: Path, core: list[Path]) -> None:
    """A recurrent network keeps its state between frames, recorded and typed ones; a wrong output is seen. RAM holds one frame."""
    source, recording = recorded_frames() if frames == 8 else recording_of(*recurrent())
    recording.outputs[1, 0] ^= 1
    write_project(tmp_path / "digits", source, recording, {}, "arduino-steps")
    assert f"#define MODEL_FRAMES {frames}\n" in (tmp_path / "digits" / "model.h").read_text()
    elf = build_sketch(core, tmp_path / "digits", tmp_path / "build")
    numbers = amid_units(recording.inputs[2], source.interface.input_scale)
    typed = " ".join(f"{number:.8f}" for number in numbers) + "\n"
    lines = read_serial(elf, "on average", typed)
    compared = [line.split(", ")[1] for line in lines if line.startswith("sample ")]
    assert compared == ["equal", "DIFFERENT"] + ["equal"] * (len(recording) - 2)
    values = recording.outputs[2]
    if source.interface.kind is ir.ResultKind.CLASS:
        assert lines[-1].strip() == f"label {values[0]}"
    else:
        said = [float(number) for number in lines[-1].split()[1:]]
        np.testing.assert_allclose(said, values / 2.0**source.interface.result_scale, atol=1e-6)
    symbols = [line.split() for line in run(["avr-nm", "-S", elf], tmp_path).splitlines()]
    (frame,) = [int(s[1], 16) for s in symbols if s[-1] in ("x", "_ZL1x")]
    assert frame == each * source.interface.input_bits // 8


def recorded_frames() -> tuple[CSource, Recording]:
    """Four samples of 8 frames for a recurrent network."""
    candidate = bundled("fastgrnn16-digits", samples=4)
    face = candidate.source.interface
    inputs = quantise_features(candidate.features, face.input_bits, face.input_scale)
    return candidate.source, Recording(inputs, candidate.expected.copy())


HOST = ("cc", "-std=c99", "-Wall", "-Wextra", "-Werror")


def test_a_folder_that_is_no_sketch_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no name for a sketch"):
        write_project(tmp_path / "my model", *recorded(ir.ResultKind.CLASS), {}, "arduino")
    assert not list(tmp_path.iterdir())


def test_platformio_project_is_complete(tmp_path: Path) -> None:
    write_project(tmp_path / "out", *recorded(ir.ResultKind.CLASS), {}, "platformio", "O2")
    ini = configparser.ConfigParser()
    ini.read(tmp_path / "out" / "platformio.ini")
    boards = {name.split(":")[1]: dict(ini[name]) for name in ini.sections() if name.startswith("env:")}
    assert set(boards) == {"uno", "mega", "mkr1000", "nano33"}
    assert all(set(board) == {"platform", "board"} for board in boards.values())
    assert "-O2" in ini["env"]["build_flags"]
    assert ini["env"]["build_unflags"] == "-Os"
    for name in ("src/main.cpp", "include/samples.h", "lib/model/model.c", "lib/model/model.h"):
        assert (tmp_path / "out" / name).exists()


@pytest.mark.skipif(shutil.which("pio") is None, reason="PlatformIO is not installed (pip install platformio)")
def test_platformio_reads_its_configuration(tmp_path: Path) -> None:
    write_project(tmp_path / "out", *recorded(ir.ResultKind.CLASS), {}, "platformio")
    said = run(["pio", "project", "config", "--lint"], tmp_path / "out")
    assert "error" not in said.lower()


def test_zephyr_application_has_what_west_reads(tmp_path: Path) -> None:
    """Its main is C for any host, so the recorded samples run here too."""
    out = tmp_path / "out"
    write_project(out, *recorded(ir.ResultKind.CLASS), {}, "zephyr", "O2")
    cmake = (out / "CMakeLists.txt").read_text()
    assert "find_package(Zephyr REQUIRED" in cmake
    assert "target_sources(app PRIVATE src/main.c src/model.c)" in cmake
    assert 'COMPILE_OPTIONS "-O2;-fwrapv"' in cmake
    assert "CONFIG_MAIN_STACK_SIZE=4096" in (out / "prj.conf").read_text()
    assert "20 of 20 outputs equal" in (out / "sample.yaml").read_text()
    run([*HOST, "-o", "check", "src/main.c", "src/model.c"], out)
    assert "20 of 20 outputs equal" in run(["./check"], out)


def test_pack_describes_files_that_are_there(tmp_path: Path) -> None:
    out = tmp_path / "2nd out"
    write_project(out, *recorded(ir.ResultKind.REAL), {}, "cmsis-pack")
    package = ElementTree.parse(out / "kilotune.model.pdsc").getroot()
    assert [child.tag for child in package] == [
        "vendor",
        "name",
        "description",
        "url",
        "releases",
        "keywords",
        "components",
    ]
    (component,) = package.iter("component")
    assert (component.get("Cclass"), component.get("Cgroup")) == ("Machine Learning", "2nd_out")
    files = {entry.get("name"): entry.get("category") for entry in component.iter("file")}
    assert files == {"model/model.h": "header", "model/model.c": "source", "check/main.c": "source", "README.md": "doc"}
    assert all((out / name).is_file() for name in files if name)
    run([*HOST, "-Imodel", "-o", "check.out", "check/main.c", "model/model.c"], out)
    assert "20 of 20 outputs equal" in run(["./check.out"], out)


@needs_arm
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("kind", list(ir.ResultKind))
def test_cortex_project_runs(kind: ir.ResultKind, target: str, tmp_path: Path) -> None:
    write_project(tmp_path / "out", *recorded(kind), {}, target)
    assert "20 of 20 outputs equal" in run(["make", "run"], tmp_path / "out")


@needs_arm
def test_cortex_project_sees_a_wrong_output(tmp_path: Path) -> None:
    source, recording = recorded(ir.ResultKind.REAL)
    outputs = recording.outputs.copy()
    outputs[3, 1] += 1
    write_project(tmp_path / "out", source, Recording(recording.inputs, outputs), {}, "cortex-m4")
    done = subprocess.run(
        ["make", "run"], cwd=tmp_path / "out", capture_output=True, text=True, check=False, timeout=300
    )
    assert "19 of 20 outputs equal" in done.stdout
    assert done.returncode != 0
