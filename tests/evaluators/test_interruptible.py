"""Long calls can be ended: by an exception of a signal handler, by a time, and by nothing else."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping

import pytest

from kilotune.evaluators import interruptible as interruptible_module
from kilotune.evaluators.interruptible import interruptible
from kilotune.search.abandoning import TICK_S, abandonable


class AlarmError(Exception):
    """Raised by the signal handler."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def handle(_signal: int, _frame: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, handle)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


def test_result_and_errors_are_the_call_s() -> None:
    assert interruptible(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, lambda: None)


def test_a_signal_ends_the_wait_and_stops_the_call(alarm: None) -> None:
    stopped, ended = threading.Event(), threading.Event()

    def call() -> None:
        stopped.wait(60)
        ended.set()

    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(AlarmError):
        interruptible(call, stopped.set)
    assert ended.is_set()


def test_a_call_whose_time_is_over_is_stopped_and_its_result_counts() -> None:
    stopped = threading.Event()

    def call() -> str:
        assert stopped.wait(60)
        return "so far"

    assert interruptible(call, stopped.set, lambda: 0.0) == "so far"


class Owned:
    """What compiled code has an address of."""


def test_what_callers_hold_is_kept_until_a_call_that_does_not_stop_has_ended(
    alarm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruptible_module, "GRACE_S", 0.05)
    released, threads = threading.Event(), list[threading.Thread]()
    kept: list[weakref.ref[Owned]] = []

    def call() -> None:
        threads.append(threading.current_thread())
        released.wait(60)

    def inner(holder: list[Owned]) -> None:
        own = Owned()
        kept.append(weakref.ref(own))
        interruptible(call, lambda: None)

    def outer() -> None:
        holder = [Owned()]
        kept.append(weakref.ref(holder[0]))
        inner(holder)

    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        outer()
    except AlarmError as error:
        traceback.clear_frames(error.__traceback__)  # as search.abandoning does
    gc.collect()
    assert [one() is not None for one in kept] == [True, True]
    released.set()
    threads[0].join()
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_a_process_does_not_end_under_a_call_that_it_has_left() -> None:
    """CP-SAT aborted it with status -6."""
    code = """
import contextlib, time
from kilotune.evaluators import interruptible as module

def over():
    raise KeyboardInterrupt

def call():
    time.sleep(0.5)
    print("came back")

module.GRACE_S = 0.0
with contextlib.suppress(KeyboardInterrupt):
    module.interruptible(call, lambda: None, over)
print("left")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split("\n")) == (0, ["left", "came back", ""]), done.stderr


def test_a_second_exception_while_the_call_ends_does_not_let_the_process_end_under_it() -> None:
    """A timer that abandons a step raises until the step has ended, also where the end of the call is waited for."""
    code = """
import contextlib, signal, time
from kilotune.evaluators.interruptible import interruptible
from kilotune.search.abandoning import TICK_S, abandonable

def handle(*_):
    raise KeyboardInterrupt

def call():
    time.sleep(0.8)
    print("came back")

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.2)
with contextlib.suppress(KeyboardInterrupt):
    interruptible(call, lambda: None)
signal.setitimer(signal.ITIMER_REAL, 0.0)
print("left")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split("\n")) == (0, ["left", "came back", ""]), done.stderr


def test_a_call_that_does_not_hear_the_first_time_is_asked_again(alarm: None) -> None:
    """CP-SAT forgets who asks it to stop before it has begun."""
    asked, ended = [0], threading.Event()

    def stop() -> None:
        asked[0] += 1

    def call() -> None:
        while asked[0] < 3:
            time.sleep(0.001)  # without Python's lock, or who asks has to wait for it
        ended.set()

    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(AlarmError):
        interruptible(call, stop)
    assert ended.is_set()


@pytest.mark.parametrize("runs", [True, False])
def test_an_exception_while_the_thread_begins(runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it is waited for there. A call that goes on is told to stop; one that has not begun is not made."""
    begun, stopped, begin = threading.Event(), threading.Event(), threading.Thread.start
    kept: list[weakref.ref[Owned]] = []
    late: list[threading.Thread] = []

    def interrupted_start(thread: threading.Thread) -> None:
        if runs:
            begin(thread)
            assert begun.wait(60)
        else:
            late.append(thread)
        raise AlarmError

    def call() -> None:
        begun.set()
        assert stopped.wait(60)

    def caller() -> None:
        own = Owned()
        kept.append(weakref.ref(own))
        interruptible(call, stopped.set)

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    with pytest.raises(AlarmError):
        caller()
    assert stopped.is_set() is runs
    monkeypatch.undo()
    for thread in late:
        begin(thread)
        thread.join()
    assert begun.is_set() is runs


def test_what_is_kept_and_told_is_not_torn_apart_by_the_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, threads = threading.Event(), list[threading.Thread]()
    variables_of = interruptible_module._variables_of_callers

    def slow() -> Iterator[Mapping[str, object]]:
        time.sleep(3 * TICK_S)
        return variables_of()

    def call() -> None:
        threads.append(threading.current_thread())
        assert stopped.wait(60)

    monkeypatch.setattr(interruptible_module, "_variables_of_callers", slow)
    with abandonable(lambda: bool(threads)) as stretch:
        interruptible(call, stopped.set)
    assert stretch.abandoned
    assert stopped.is_set()
    threads[0].join(60)
