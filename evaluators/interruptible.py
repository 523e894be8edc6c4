"""Calls into compiled code that may take long, made so that they can be ended: by Ctrl-C, by a budget, by a time of their own.

Python handles signals between two of its own instructions, so a call that stays in compiled code for ten seconds is deaf for
ten seconds. Here it is made in a thread of its own while this one waits: what a signal handler raises here ends the wait, and
the call is told to stop.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType
from typing import TypeVar

from kilotune.search.abandoning import uninterrupted

T = TypeVar("T")

POLL_S = 0.02
GRACE_S = 1.0
"""How long a call that was told to stop is waited for; it goes on by itself after that, and nobody sees its result."""

EXIT_S = 10.0
"""How long the process waits for such a call when it ends: C++ that returns into a Python that is gone aborts the process."""

THREAD_NAME = "compiled call"


class StopFlag:
    """A 32-bit integer that compiled code looks at now and then: 0, go on; 1, end soon."""

    def __init__(self) -> None:
        self._value = ctypes.c_int32(0)

    @property
    def address(self) -> int:
        """For a parameter `const volatile int32_t *`. It is valid as long as this object lives."""
        return ctypes.addressof(self._value)

    def set(self) -> None:
        """Ask the code to end."""
        self._value.value = 1


def interruptible(
    call: Callable[[], T], stop: Callable[[], object], seconds_left: Callable[[], float] = lambda: math.inf
) -> T:
    """What `call()` returns, or raises. It must release Python's lock, as functions of ctypes do. `stop` asks it to end soon, and is
    called again and again until it has ended: when `seconds_left()` is no more (then its result still counts), or when an exception is
    raised here meanwhile, which goes on. A call that has not ended by then may still read and write what its callers' variables hold:
    these are kept until it has."""
    results: list[T] = []
    errors: list[BaseException] = []
    held: list[Mapping[str, object]] = []
    ended = threading.Event()  # of a thread whose join was interrupted Python 3.11 says that it is dead
    first = threading.Lock()  # whoever has it decides whether the call is made at all

    def work() -> None:
        if not first.acquire(blocking=False):
            return
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()
            held.clear()

    stop_within = partial(_stop_within, stop, ended)
    try:
        threading.Thread(
            target=work, name=THREAD_NAME, daemon=True
        ).start()  # waits until it runs, and may be interrupted there
        while not ended.wait(POLL_S):
            if seconds_left() <= 0:
                stop()
    except BaseException:
        if first.acquire(blocking=False):
            raise
        with uninterrupted():  # the handler that raised may do so again soon
            held.extend(
                _variables_of_callers()
            )  # addresses are no references: arrays would be freed under code that has them
            atexit.register(stop_within, EXIT_S)
            stop()
        stop_within(GRACE_S)
        if ended.is_set():
            atexit.unregister(stop_within)
            held.clear()
        raise
    if errors:
        raise errors[0]
    return results[0]


def _stop_within(stop: Callable[[], object], ended: threading.Event, seconds: float) -> None:
    """CP-SAT does not hear who asks it before it has begun, so asking once would not do."""
    deadline_s = time.monotonic() + seconds
    stop()
    while not ended.wait(POLL_S) and time.monotonic() < deadline_s:
        stop()


def _variables_of_callers() -> Iterator[Mapping[str, object]]:
    """What the variables of all functions hold that are being called. The frames themselves would not do: whoever handles the exception may
    clear them, as `search.abandoning` does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield dict(frame.f_locals)
        frame = frame.f_back


def is_any_left() -> bool:
    """Whether a call that an exception has ended for its caller still goes on."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())
