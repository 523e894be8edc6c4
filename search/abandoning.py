"""Stretches of work that may be abandoned: a proposal, an evaluation, a procedure, the reading of an input.

Between two of its steps the engine looks at its clock; how long a step takes it cannot know. So a `Watch` has a timer signal
ask every TICK_S whether time is over, and if so raises `Abandoned` wherever the main thread happens to be inside a stretch, again
and again until the stretch has ended: code that swallows an exception delays that by a tick and no more.

What this cannot do: off the main thread, and where there is no such signal (Windows), nothing is interrupted, and the engine's
look at its clock between two steps is all there is. Compiled code is left only when it returns, so its calls must be short.
What must not be torn apart (a write, a transaction) is outside all stretches, or `uninterrupted`.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

from kilotune.search.importing import is_importing

TICK_S = 0.1


class Abandoned(BaseException):
    """The time of a stretch is over. Not an Exception, so that no handler takes it for a failed candidate."""


class Watch:
    """Inside `with` the timer runs; `is_over` is asked in a signal handler, so it only compares numbers. Nothing is abandoned but in
    stretches. A watch inside a stretch of another one ends with that. `meanwhile` is called every TICK_S of a stretch that goes on, that
    of a watch inside it too, in the middle of whatever the main thread does there: it must touch nothing that the stretch works with."""

    def __init__(self, is_over: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        self.is_over = is_over
        self._meanwhile = meanwhile
        self.inside = False  # a stretch
        self._held = 0
        self._missed = False  # a tick that came while it was held
        self._outer: Watch | None = None
        self._handler_before: Any = None
        self._timer_before = (0.0, 0.0)
        self._hook_before: Any = None
        self._entered_s = 0.0
        self._armed = False
        self._stretch = Stretch(self)

    def __enter__(self) -> Watch:
        if _can_interrupt():
            self._handler_before, self._hook_before = signal.getsignal(signal.SIGALRM), sys.unraisablehook
            self._outer, self._entered_s = _watch_of(self._handler_before), time.monotonic()
            signal.signal(signal.SIGALRM, self._tick)
            self._armed = True
            self._timer_before = signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._armed:
            return
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._handler_before)
        sys.unraisablehook = self._hook_before
        left_s, interval_s = self._timer_before
        if left_s > 0.0:  # ours of a watch around this one, or somebody else's
            spent_s = 0.0 if self._outer else time.monotonic() - self._entered_s
            signal.setitimer(signal.ITIMER_REAL, max(left_s - spent_s, 1e-3), interval_s)

    def stretch(self) -> Stretch:
        """For `with`: work that may be abandoned. One at a time."""
        return self._stretch

    def only_stretch(self) -> Stretch:
        """For `with`: work that may be abandoned, with the timer running only as long as this stretch lasts."""
        self._stretch = OnlyStretch(self)
        return self._stretch

    def ends_with_outer(self) -> bool:
        """Whether the time of a watch around this one is over as well, so that `Abandoned` is meant for it."""
        return self._outer is not None and (self._outer.is_over() or self._outer.ends_with_outer())

    def begin(self) -> None:
        """The stretch."""
        self._missed = False
        self.inside = True

    def release(self) -> None:
        """The end of `hold`."""
        self._held -= 1

    def catch_up(self) -> None:
        """Abandoned: the time of the stretch was over while it was held."""
        if self._missed and not self._held:
            self._abandon()

    def hold(self) -> None:
        """Abandon nothing until `release`."""
        self._held += 1

    def _tick(self, _signal: int, frame: FrameType | None) -> None:
        if not self.inside or _must_go_on(frame):
            return
        if not (self.is_over() or self.ends_with_outer()):
            if not self._held:
                self.hold()  # it is done whole; no tick that comes meanwhile begins it again
                try:
                    self._do_meanwhile()
                finally:
                    self.release()
            return
        self._missed = True
        if not self._held:
            self._abandon()

    def _do_meanwhile(self) -> None:
        """That of the watches around this one, too: their stretches go on as long as this one's."""
        watch: Watch | None = self
        while watch is not None:
            watch._meanwhile()
            watch = watch._outer

    def _abandon(self) -> None:
        watch: Watch | None = self
        while watch is not None:
            if watch is self or watch.is_over() or watch.ends_with_outer():
                watch._stretch.abandoned = True
            watch = watch._outer
        self._missed = False
        sys.unraisablehook = _silent_about_abandoning(self._hook_before)
        raise Abandoned


class Stretch:
    """See `Watch.stretch`. `abandoned`, afterwards: its time was over before its work was done. Then nothing of its work may be
    used, though the work swallowed the exception and came to some end."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.abandoned = False

    def __enter__(self) -> Stretch:
        self.abandoned = False
        self._watch.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._watch.inside = False
        # On its way through other people's code it may have become another exception, as in a conversion of ctypes.
        ended = isinstance(error, Abandoned) or (self.abandoned and isinstance(error, Exception))
        if ended:
            traceback.clear_frames(trace)  # what was left half made is finalised now, while nobody speaks of it
        return ended and not self._watch.ends_with_outer()


class OnlyStretch(Stretch):
    """A watch's only one, which takes it along."""

    def __enter__(self) -> Stretch:
        self._watch.__enter__()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        ended = super().__exit__(kind, error, trace)
        self._watch.__exit__()
        return ended


def abandonable(is_over: Callable[[], bool]) -> Stretch:
    """For `with`: work that is done once and abandoned when `is_over` says so."""
    return Watch(is_over).only_stretch()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Inside a stretch: what must be done whole or not at all, and is short."""
    watch = _watch_of(signal.getsignal(signal.SIGALRM)) if _can_interrupt() else None
    if watch is None:
        yield
        return
    watch.hold()
    try:
        yield
    finally:
        watch.release()
    watch.catch_up()  # unless an exception is on its way already


def _can_interrupt() -> bool:
    """Python handles signals in its main thread; Windows has no timer that sends any."""
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


def _watch_of(handler: Any) -> Watch | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, Watch) else None


def _must_go_on(frame: FrameType | None) -> bool:
    """Inside an import, which a module written in C survives only whole, and on the way into or out of a stretch."""
    if is_importing(frame):
        return True
    while frame is not None:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("__enter__", "__exit__"):
            return True
        frame = frame.f_back
    return False


def _silent_about_abandoning(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    """Where Python cannot pass an exception on (a finaliser, a callback from C) it prints it. The next tick raises another."""

    def quiet(unraisable: Any) -> None:
        error = unraisable.exc_value
        # Raised while ctypes converts an argument it becomes an ArgumentError, of which only the name is left.
        converted = isinstance(error, ctypes.ArgumentError) and Abandoned.__name__ in str(error)
        # An object that was left while it was made has not all that its finaliser reads.
        in_finaliser = str(getattr(unraisable.object, "__qualname__", "")).endswith(".__del__")
        half_made = isinstance(error, AttributeError) and in_finaliser
        if not (isinstance(error, Abandoned) or converted or half_made):
            hook(unraisable)

    return quiet
