"""Calls into compiled code that may take long, made so that they can be ended: by Ctrl-C, by a budget, by a time of their own.

Python handles signals between two of its own instructions, so a call that stays in compiled code for ten seconds is deaf for
ten seconds. Here it is made in a thread of its own while this one waits: what a signal handler raises here ends the wait, and
the call is told to stop.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.02
GRACE_S = 1.0
"""How long a call that was told to stop is waited for; it goes on by itself after that, and nobody sees its result."""

EXIT_S = 10.0
"""How long the process waits for such a call when it ends: C++ that returns into a Python that is gone aborts the process."""


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
    """What `call()` returns, or raises. It must release Python's lock, as functions of ctypes do, and own all that it
    touches. `stop` asks it to end soon: when `seconds_left()` is no more (then its result still counts), or when an exception
    is raised here meanwhile, which goes on."""
    results: list[T] = []
    errors: list[BaseException] = []
    running = (
        threading.Lock()
    )  # joining the thread would not do: Python 3.11 takes one for dead whose join was interrupted
    running.acquire()

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            running.release()

    threading.Thread(target=work, name="compiled call", daemon=True).start()
    stopped = False
    try:
        while not running.acquire(timeout=POLL_S):
            if not stopped and seconds_left() <= 0:
                stop()
                stopped = True
    except BaseException:
        stop()
        if not running.acquire(timeout=GRACE_S):
            atexit.register(running.acquire, timeout=EXIT_S)
        raise
    if errors:
        raise errors[0]
    return results[0]
