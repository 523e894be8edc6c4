"""Fidelity B: a stream of images through a mapped pipeline, with contended links and finite buffers. Exact, in ticks.

An iteration that starts at tick T holds its core for `ticks` ticks; its packet asks for the first link of its route in the
last of them. A link moves `width` elements (or bits) a tick, first come first served, of packets that ask in the same
tick the one of the lower stream number first; a packet is at the next link `hop_ticks` after its last element has gone.
Without a route it can be read at tick T + ticks. A stage starts an iteration when its core is free, all packets that the
iteration needs are there, and every bounded buffer that it writes to has room; room is free from the tick on in which the
reader has finished with it. GMEM sends the pixels of the image in order, image after image, each at its pace.

`reference_timing` says the same tick by tick, and `docs/cm-timing.md` in words; tests hold this one to both.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

from kilotune.codegen.cm.pipeline import GMEM
from kilotune.evaluators.cm.deadlock import PipelineState, find_deadlock
from kilotune.evaluators.cm.reference_timing import simulate_reference
from kilotune.evaluators.cm.stream import Setting, StreamTiming
from kilotune.evaluators.cm.ticks import TickArray
from kilotune.evaluators.cm.timing_arrays import OutcomeArrays, StreamOutcome, StreamProblem, stream_problem
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible

DEADLOCK = 1
"""Status of a simulation in which nothing could go on."""

MORE_IMAGES = (1, 2, 4, 8, 16, 32, 64, 128)
"""How many follow those of which all iterations are wanted, until they have taken place: mostly one."""

PACKETS_AT_ONCE = 200_000
"""Some hundredths of a second; more are simulated so that a signal ends it."""


def simulate(
    setting: Setting, images: int, record_starts: bool = False, settle: bool = False, wanted: int | None = None
) -> StreamTiming:
    """Run it: compiled, or tick by tick where there is no C compiler. `settle`: no further than to where the state of
    everything has come back, relative to the image that is through; the ticks of the images that follow are known then. They
    are those of an endless stream: the last images of a stream, behind which links are free, may finish sooner. `wanted`: no
    further than to where so many images are through; what is told of those behind them may be nothing, or anything."""
    kernel = load_timing()
    if kernel is None:
        return simulate_reference(setting, images)
    return _compiled(kernel, setting, images, record_starts, settle, images if wanted is None else wanted)


def simulate_whole(setting: Setting, images: int) -> tuple[TickArray, tuple[TickArray, ...]]:
    """By image, when its last result is out; by stage, the start ticks of all iterations of these images, [images * iterations].

    A simulation ends with the last result, and stages that no result of the last image hangs on may be behind then, by
    several images where none does: as many further images follow as it takes. ValueError for a deadlock.
    """
    wanted = [images * stage.iterations for stage in setting.pipeline.stages]
    for further in MORE_IMAGES:
        timing = simulate(setting, images + further, record_starts=True)
        if timing.deadlock is not None:
            raise ValueError(timing.deadlock.sentence)
        if timing.starts is not None and all(map(int.__ge__, timing.started, wanted)):
            starts = tuple(ticks[:count] for ticks, count in zip(timing.starts, wanted, strict=True))
            return timing.finish_ticks[:images], starts
    late = next(s.name for s, done, n in zip(setting.pipeline.stages, timing.started, wanted, strict=True) if done < n)
    raise ValueError(f"{late} has not run all iterations of {images} images when {images + further} are through")


@cache
def load_timing() -> ctypes.CDLL | None:
    """The compiled tick simulation; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("timing.c"))
    if loaded is None:
        return None
    library, run, status = loaded.library, ctypes.c_void_p, ctypes.c_int
    problem, outcome = ctypes.POINTER(StreamProblem), ctypes.POINTER(StreamOutcome)
    for name, given, returned in (
        ("", [problem, outcome], status),
        ("_open", [problem, outcome], run),
        ("_run", [run, ctypes.c_int32], status),
        ("_alone", [run, problem, outcome], status),
        ("_close", [run], None),
    ):
        function = getattr(library, f"kilotune_stream{name}")
        function.argtypes, function.restype = given, returned
    return library


def _compiled(
    kernel: ctypes.CDLL, setting: Setting, images: int, record_starts: bool, settle: bool, wanted: int
) -> StreamTiming:
    flag = StopFlag()
    problem, keep = stream_problem(setting, images, flag.address, settle and not record_starts, wanted)
    found = OutcomeArrays.of(setting, images, record_starts)
    outcome = found.structure(keep)

    def call() -> int:
        return int(kernel.kilotune_stream(ctypes.byref(problem), ctypes.byref(outcome)))

    status = simulated(setting, images, call, flag)
    return timing_of(setting, found, outcome, stopped=status == DEADLOCK)


def simulated(setting: Setting, images: int, call: Callable[[], int], flag: StopFlag) -> int:
    """The status of a call that simulates at most so many images; long ones can be interrupted. MemoryError."""
    packets = images * sum(stream.packets for stream in setting.streams)
    status = call() if packets < PACKETS_AT_ONCE else interruptible(call, flag.set)
    if status < 0:
        raise MemoryError("The pipeline simulator ran out of memory.")
    return status


def timing_of(setting: Setting, found: OutcomeArrays, outcome: ctypes.Structure, *, stopped: bool) -> StreamTiming:
    """What the arrays say; `stopped`: nothing could go on before all images were through."""
    finish, images = found.finish, len(found.finish)
    progress = PipelineState(
        *(counts.tolist() for counts in (found.started, found.delivered, found.issued, found.freed))
    )
    deadlock = find_deadlock(setting.pipeline, setting.streams, setting.capacities, progress) if stopped else None
    if outcome.settled_at:
        for image in range(outcome.settled_at, images):
            finish[image] = finish[image - outcome.period_images] + outcome.period_ticks
    else:
        for number, stream in enumerate(setting.streams):
            if stream.reader == GMEM:
                finish[found.delivered[number] // stream.packets :] = 0  # some of an image's results are no image
    held = None if outcome.was_full else tuple(found.most_held.tolist())
    starts = None if found.starts is None else tuple(found.starts)
    return StreamTiming(finish, starts, deadlock, tuple(found.started.tolist()), held)
