"""The host's compiler as an architecture. A cycle is an operation of the program."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.emit.targets import plain
from kilotune.codegen.emit.targets.target import ProjectTarget, make_runs
from kilotune.evaluators.architectures.architecture import Architecture, Tool
from kilotune.evaluators.device import Device
from kilotune.evaluators.simulated import Artefact, DeviceError, SimulatedRun, Sizes, Trace

HOOK = """\
#include <stddef.h>
#include <stdint.h>
void kt_hook(int32_t row, const void *ram, size_t bytes);
#define KT_AFTER(row) kt_hook((row), &kt_ram, sizeof kt_ram)
"""


@dataclass(frozen=True)
class NativeTarget:
    """The host's cc at an optimisation level."""

    level: str

    def __str__(self) -> str:
        return f"native, {self.level}"

    def run(self, artefact: Artefact, inputs: npt.NDArray[np.generic]) -> tuple[Sizes, SimulatedRun]:
        with tempfile.TemporaryDirectory() as scratch:
            self._execute(artefact, inputs, Path(scratch))
            each = np.dtype([("output", artefact.result_type, (artefact.results,)), ("operations", "<i8")])
            found = np.fromfile(Path(scratch) / "out.bin", dtype=each)
        kept = found["output"] if artefact.result_type.kind == "f" else found["output"].astype(np.int64)
        return Sizes(len(artefact.source), 0, artefact.input_bytes), SimulatedRun(kept, found["operations"], 0)

    def sizes(self, artefact: Artefact) -> Sizes:
        return Sizes(len(artefact.source), 0, artefact.input_bytes)

    def trace(self, artefact: Artefact, inputs: npt.NDArray[np.generic], most_events: int) -> Trace:
        assert artefact.offsets is not None
        with tempfile.TemporaryDirectory() as scratch:
            self._execute(artefact, inputs, Path(scratch), "trace.bin")
            written = np.fromfile(Path(scratch) / "trace.bin", dtype=np.uint8)
        records = written.reshape(most_events, -1)
        return Trace(np.ascontiguousarray(records[:, :4]).view("<i4")[:, 0], records[:, 4:])

    def _execute(self, artefact: Artefact, inputs: npt.NDArray[np.generic], folder: Path, *arguments: str) -> None:
        kinds = (artefact.input_type, artefact.result_type)
        names = ["float" if kind.kind == "f" else f"int{8 * kind.itemsize}_t" for kind in kinds]
        call = f"{artefact.function}((input), (output))"
        if artefact.kind is not ir.ResultKind.REAL:
            call = f"(output)[0] = ({names[1]}){artefact.function}((input))"
        (folder / "harness.h").write_text(
            f'#include "{artefact.name}.h"\n#define KT_INPUT_TYPE {names[0]}\n#define KT_RESULT_TYPE {names[1]}\n'
            f"#define KT_FEATURES {artefact.features}\n#define KT_RESULTS {artefact.results}\n"
            f"#define KT_INFER(input, output) {call}\n"
        )
        (folder / "hook.h").write_text(HOOK)
        (folder / f"{artefact.name}.h").write_text(artefact.header)
        (folder / f"{artefact.name}.c").write_text(artefact.source)
        shutil.copy(Path(__file__).with_name("main.c"), folder)
        (folder / "in.bin").write_bytes(np.ascontiguousarray(inputs, dtype=artefact.input_type).tobytes())
        command = ["cc", self.level, "-include", "hook.h", "-o", "program", "main.c", f"{artefact.name}.c", "-lm"]
        for step in (command, ["./program", *arguments]):
            done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise DeviceError(done.stderr)


ARCHITECTURE = Architecture(
    name="native",
    processors="native",
    has="native".__eq__,
    boards=(Device("bench", "the machine that this runs on", 1 << 30, 1 << 30, 1_000_000_000, "native"),),
    target=lambda processor, clock_hz, level: NativeTarget(level),
    tools=(Tool("cc", "gcc", "programs for this machine are built", lambda: shutil.which("cc")),),
    cost_table=lambda processor: "native",
    cost_tables=MappingProxyType({"native": Path(__file__).with_name("costs.json")}),
    projects=(
        ProjectTarget(
            "native", "for this machine", plain.TARGET.names, plain.TARGET.files, make_runs("check", "runs it")
        ),
    ),
)
