"""A simulated Cortex-M: programs are built for it, run and traced; instructions are counted, cycles estimated."""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.evaluators.architectures.cortex.firmware import TRACE, CortexFirmware, build_cortex_firmware
from kilotune.evaluators.compiled_library import build_library
from kilotune.evaluators.marks import HEADER, MarkedRun, averaged, read_marks
from kilotune.evaluators.simulated import Artefact, DeviceError, SimulatedRun, Sizes, Trace

SECONDS = 120
PATIENCE = 30
"""How many seconds a processor of its own may have to be waited for, by the second of its time."""


def qemu() -> str | None:
    """The emulator's path; None when it is not installed."""
    return shutil.which("qemu-system-arm")


def load_plugin() -> Path | None:
    """The compiled plugin that counts instructions; None without a C compiler."""
    return build_library(Path(__file__).parent / "plugin.c")


@dataclass(frozen=True)
class CortexTarget:
    """A processor (`cortex-m0plus`, `cortex-m4`, `cortex-m55`) and how programs are built for it. `seconds` of QEMU's
    processor time, so that a machine with other work gives it no less; inferences that take longer are taken for an endless loop."""

    processor: str
    level: str = "-Os"
    seconds: float = SECONDS

    def __str__(self) -> str:
        return f"{self.processor}, {self.level}"

    def run(self, artefact: Artefact, inputs: npt.NDArray[np.generic]) -> tuple[Sizes, SimulatedRun]:
        """Sizes, and the inferences of `inputs` [samples, features], as the program takes them: instructions are exact, cycles
        approximate. DeviceError when that fails."""
        firmware = build_cortex_firmware(artefact, self.processor, level=self.level)
        with tempfile.TemporaryDirectory(prefix="kilotune-qemu-") as scratch:
            folder = Path(scratch)
            _execute(firmware, inputs, folder, self.seconds)
            return firmware.sizes, _results(artefact, inputs.shape[0], folder)

    def sizes(self, artefact: Artefact) -> Sizes:
        """Sizes. DeviceError when the program cannot be built."""
        return build_cortex_firmware(artefact, self.processor, level=self.level).sizes

    def trace(self, artefact: Artefact, inputs: npt.NDArray[np.generic], most_events: int) -> Trace:
        """The inference of the only sample, its first `most_events` operations. DeviceError when that fails."""
        firmware = build_cortex_firmware(artefact, self.processor, level=self.level, header=TRACE)
        with tempfile.TemporaryDirectory(prefix="kilotune-qemu-") as scratch:
            _execute(firmware, inputs, Path(scratch), self.seconds)
            return _read_trace(Path(scratch), firmware, most_events)

    def profile(self, artefact: Artefact, inputs: npt.NDArray[np.generic], operations: int) -> MarkedRun:
        """The inferences of a marked build; cycles are approximate. DeviceError when that fails."""
        firmware = build_cortex_firmware(artefact, self.processor, level=self.level, header=HEADER)
        with tempfile.TemporaryDirectory(prefix="kilotune-qemu-") as scratch:
            folder = Path(scratch)
            np.savetxt(folder / "marks.txt", read_marks(firmware.elf.marks), fmt="%d")
            _execute(firmware, inputs, folder, self.seconds)
            run = _results(artefact, inputs.shape[0], folder)
            met = np.loadtxt(folder / "marked.txt", dtype=np.int64, ndmin=2)
        cycles = np.bincount(met[:, 0], met[:, 2], minlength=operations)
        marks = float(met[:, 1].sum())
        rest = run.cycles.sum() - marks - cycles.sum()
        return averaged(firmware.sizes, artefact, run, np.append(cycles, rest), marks)


def _execute(firmware: CortexFirmware, inputs: npt.NDArray[np.generic], folder: Path, seconds: float) -> None:
    emulator, plugin = qemu(), load_plugin()
    if emulator is None:
        raise DeviceError("qemu-system-arm was not found: install qemu-system-arm.")
    if plugin is None:
        raise DeviceError("The plugin that counts instructions could not be built: install gcc.")
    given = np.ascontiguousarray(inputs, dtype=firmware.artefact.input_type)
    (folder / "firmware.elf").write_bytes(firmware.image)
    (folder / "in.bin").write_bytes(len(given).to_bytes(4, "little") + given.tobytes())
    start, end = (firmware.elf.symbols[name].address & ~1 for name in ("kt_start", "kt_end"))
    core = firmware.processor.removeprefix("cortex-")
    command = [
        emulator,
        "-M",
        firmware.machine,
        "-nographic",
        "-monitor",
        "none",
        "-serial",
        "none",
    ]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", "firmware.elf"]
    command += ["-plugin", f"{plugin},start={start},end={end},core={core},counts=counts.txt"]
    limited = ["sh", "-c", 'ulimit -t "$0" && exec "$@"', str(math.ceil(seconds)), *command]
    late = f"On {firmware.processor} the inferences did not end within {seconds:g} seconds."
    try:
        done = subprocess.run(
            limited, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE * seconds
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(late) from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise DeviceError(late)
    if done.returncode:
        raise DeviceError(f"On {firmware.processor} the program stopped with a fault. {done.stderr.strip()[-200:]}")


def _results(artefact: Artefact, samples: int, folder: Path) -> SimulatedRun:
    written = (folder / "out.bin").read_bytes()
    size = samples * artefact.output_bytes
    if len(written) != size + 4:
        raise DeviceError(f"The device wrote {len(written)} bytes of results, {size + 4} were expected.")
    outputs = np.frombuffer(written[:size], dtype=artefact.result_type).reshape(samples, artefact.results)
    counts = np.loadtxt(folder / "counts.txt", dtype=np.int64, ndmin=2)
    kept = outputs.astype(np.int64) if outputs.dtype.kind == "i" else outputs.astype(np.float32)
    peak = int.from_bytes(written[size:], "little")
    return SimulatedRun(kept, counts[:, 1], peak, counts[:, 0])


def _read_trace(folder: Path, firmware: CortexFirmware, most_events: int) -> Trace:
    place = firmware.elf.symbols.get(firmware.artefact.array)
    size = place.size_bytes if place else 0
    path = folder / "trace.bin"
    written = np.frombuffer(path.read_bytes() if path.exists() else b"", dtype=np.uint8)
    records = written[: len(written) // (4 + size) * (4 + size)].reshape(-1, 4 + size)[:most_events]
    return Trace(np.ascontiguousarray(records[:, :4]).view("<i4")[:, 0], records[:, 4:])
