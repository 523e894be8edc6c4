"""simavr in this process: a shim in C, compiled once, that runs a sample a call."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.evaluators.architectures.avr.firmware import DATA_SPACE, Firmware
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.marks import MarkedRun, averaged, read_marks
from kilotune.evaluators.simulated import DeviceError, SimulatedRun, Trace

MOST_CYCLES = 2_000_000_000
"""An inference that takes longer is taken for an endless loop: two minutes at 16 MHz."""

_WHY = {
    1: "did not end within {most} cycles",
    2: "made the processor stop (an invalid instruction or address)",
    3: "has inputs or outputs outside the RAM of this processor",
}
_NO_ROOM = 4


@cache
def load_shim() -> ctypes.CDLL | None:
    """The compiled shim; None without a C compiler or without libsimavr's headers."""
    loaded = load_library(Path(__file__).parent / "shim.c", libraries=("simavr",))
    if loaded is None:
        return None
    library = loaded.library
    library.kilotune_avr_open.restype = ctypes.c_void_p
    library.kilotune_avr_marks.restype = ctypes.c_uint64
    library.kilotune_avr_events.restype = ctypes.c_int64
    library.kilotune_avr_peak_stack_bytes.restype = ctypes.c_uint32
    return library


class AvrMachine:
    """One simulated processor with its firmware. A context manager; not to be used by two threads at once."""

    def __init__(self, firmware: Firmware, clock_hz: int = 16_000_000, *, corrects_skips: bool = True) -> None:
        library = load_shim()
        if library is None:
            raise DeviceError("simavr was not found: install simavr, libsimavr-dev and gcc (`kilotune doctor`).")
        self._library, self._firmware = library, firmware
        image, end = firmware.elf.flash, self._address("_end")
        sizes = ctypes.c_uint32(len(image)), ctypes.c_uint32(end)
        handle = library.kilotune_avr_open(firmware.mcu.encode(), clock_hz, image, *sizes, int(corrects_skips))
        if not handle:
            raise DeviceError(f"{firmware.mcu} has too little flash for {len(image)} bytes, or is unknown to simavr.")
        self._handle = ctypes.c_void_p(handle)

    def __enter__(self) -> AvrMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.kilotune_avr_close(self._handle)

    def run(self, inputs: npt.NDArray[np.generic], most_cycles: int = MOST_CYCLES) -> SimulatedRun:
        """Inferences on quantised `inputs` [samples, features]. DeviceError when one does not end, or the stack meets variables."""
        artefact = self._firmware.artefact
        samples = inputs.shape[0]
        given = np.ascontiguousarray(inputs, dtype=artefact.input_type)
        outputs = np.zeros((samples, artefact.results), dtype=artefact.result_type)
        cycles = np.zeros(samples, dtype=np.uint64)
        for sample in range(
            samples
        ):  # one a call, between which a run can be abandoned: a large program takes a second for each
            status = self._library.kilotune_avr_run(
                self._handle,
                ctypes.c_uint32(self._input_address() if artefact.features else 0),
                ctypes.c_uint32(artefact.input_bytes if artefact.features else 0),
                given[sample].ctypes.data_as(ctypes.c_void_p),
                ctypes.c_uint32(self._address("kt_output")),
                ctypes.c_uint32(artefact.output_bytes),
                outputs[sample].ctypes.data_as(ctypes.c_void_p),
                cycles[sample:].ctypes.data_as(ctypes.c_void_p),
                ctypes.c_uint64(most_cycles),
            )
            self._check(status, sample, most_cycles)
        kept = outputs.astype(np.int64) if outputs.dtype.kind == "i" else outputs.astype(np.float32)
        return SimulatedRun(kept, cycles.astype(np.int64), self.peak_stack_bytes)

    def _check(self, status: int, sample: int, most_cycles: int) -> None:
        held, mcu = self._firmware.sizes.static_ram_bytes, self._firmware.mcu
        if status == _NO_ROOM:
            raise DeviceError(
                f"The program needs more RAM than {mcu} has: its stack reaches into its variables, of {held} bytes."
            )
        if status:
            raise DeviceError(f"On {mcu} the inference of sample {sample} {_WHY[status].format(most=most_cycles)}.")

    def trace(self, inputs: npt.NDArray[np.generic], most_events: int) -> Trace:
        """The inference of the only sample on a traced firmware, as far as it got."""
        artefact = self._firmware.artefact
        place = self._firmware.elf.symbols.get(artefact.array)
        size = place.size_bytes if place else 0
        address = place.address - DATA_SPACE if place else 0
        snapshots = np.zeros((most_events, size), dtype=np.uint8)
        rows = np.zeros(most_events, dtype=np.int32)
        watch = self._library.kilotune_avr_trace
        places = [array.ctypes.data_as(ctypes.c_void_p) for array in (snapshots, rows)]
        watch(self._handle, ctypes.c_uint32(address), ctypes.c_uint32(size), *places, ctypes.c_int64(most_events))
        with suppress(DeviceError):  # what ran before it hung says where
            self.run(inputs)
        events = min(int(self._library.kilotune_avr_events(self._handle)), most_events)
        watch(self._handle, ctypes.c_uint32(0), ctypes.c_uint32(0), None, None, ctypes.c_int64(0))
        return Trace(rows[:events], snapshots[:events])

    def profile(self, inputs: npt.NDArray[np.generic], operations: int) -> MarkedRun:
        """Inferences on a marked firmware, with the cycles of each operation. DeviceError as `run`."""
        marks, cycles = read_marks(self._firmware.elf.marks), np.zeros(operations + 1, dtype=np.uint64)
        given = (marks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(marks)), ctypes.c_int32(operations))
        if self._library.kilotune_avr_profile(self._handle, *given, cycles.ctypes.data_as(ctypes.c_void_p)):
            raise DeviceError(f"The marks of a program for {self._firmware.mcu} are outside its flash.")
        run = self.run(inputs)
        met = float(self._library.kilotune_avr_marks(self._handle))
        return averaged(self._firmware.sizes, self._firmware.artefact, run, cycles.astype(np.float64), met)

    @property
    def peak_stack_bytes(self) -> int:
        """The most that the stack ever held."""
        return int(self._library.kilotune_avr_peak_stack_bytes(self._handle))

    def _input_address(self) -> int:
        artefact = self._firmware.artefact
        return (
            self._address("kt_input") if artefact.asks_at is None else self._address(artefact.array) + artefact.asks_at
        )

    def _address(self, symbol: str) -> int:
        return self._firmware.elf.symbols[symbol].address - DATA_SPACE
