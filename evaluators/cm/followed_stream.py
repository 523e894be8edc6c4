"""A stream of images that is simulated as far as is asked for: what its first images hold, and then what comes of all of them.

Until something of image n happens, a stream of n images and one of more are the same, tick for tick. So they are simulated together as far
as that, and then each by itself.
"""

from __future__ import annotations

import ctypes
import weakref

from kilotune.evaluators.cm.stream import Setting, StreamTiming
from kilotune.evaluators.cm.timing import DEADLOCK, load_timing, simulate, simulated, timing_of
from kilotune.evaluators.cm.timing_arrays import OutcomeArrays, StreamProblem, stream_problem
from kilotune.evaluators.interruptible import StopFlag

CAME_BACK = 2
"""Status of a simulation whose state has come back, relative to the image that is through."""

AHEAD = 4
"""Status of a simulation that has come to the image before which it was to stop."""


class FollowedStream:
    """A stream of `images` images, no further than to where `wanted` are through or the state comes back, as `timing.simulate` with
    `settle`. To be asked for its first images, if at all, before it is asked for all; for nothing any more after an exception."""

    def __init__(self, kernel: ctypes.CDLL, setting: Setting, images: int, wanted: int) -> None:
        self._kernel, self._setting, self._images, self._flag = kernel, setting, images, StopFlag()
        self._problem, self._keep = stream_problem(setting, images, self._flag.address, settle=True, wanted=wanted)
        self._found = OutcomeArrays.of(setting, images, record_starts=False)
        self._outcome = self._found.structure(self._keep)
        self._run = kernel.kilotune_stream_open(ctypes.byref(self._problem), ctypes.byref(self._outcome))
        if not self._run:
            raise MemoryError("The pipeline simulator ran out of memory.")
        weakref.finalize(self, kernel.kilotune_stream_close, self._run)
        self._status = AHEAD

    @classmethod
    def of(cls, setting: Setting, images: int, wanted: int) -> FollowedStream | None:
        """Before its first tick. None: no C compiler."""
        kernel = load_timing()
        return None if kernel is None else cls(kernel, setting, images, wanted)

    def held(self, images: int) -> tuple[int, ...] | None:
        """The most packets that each stream ever holds, by stream: of an endless stream of images where the state comes back before
        something of that image happens; else of so many images alone, until all of them are through. None: something waited for room."""
        self._go_on(images)
        if self._status == CAME_BACK:  # all that ever happens has happened once
            return self._timing().held
        if self._status != AHEAD:
            return simulate(self._setting, images).held
        problem = StreamProblem.from_buffer_copy(self._problem)
        problem.images, problem.wanted, problem.settle = images, images, False
        found = OutcomeArrays.of(self._setting, images, record_starts=False)
        outcome = found.structure(self._keep)

        def call() -> int:
            return int(self._kernel.kilotune_stream_alone(self._run, ctypes.byref(problem), ctypes.byref(outcome)))

        status = simulated(self._setting, images, call, self._flag)
        return timing_of(self._setting, found, outcome, stopped=status == DEADLOCK).held

    def all(self) -> StreamTiming:
        """What comes of all of them."""
        self._go_on(0)
        return self._timing()

    def _timing(self) -> StreamTiming:
        return timing_of(self._setting, self._found, self._outcome, stopped=self._status == DEADLOCK)

    def _go_on(self, before: int) -> None:
        """To where it comes to an image, 0: to the end."""

        def call() -> int:  # it may go on by itself after an exception, and keeps this object then
            return int(self._kernel.kilotune_stream_run(self._run, before))

        if self._status == AHEAD:
            self._status = simulated(self._setting, self._images, call, self._flag)
