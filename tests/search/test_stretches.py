"""Stretches of work one by one: when they are abandoned, what is whole or silent in them, and what is done meanwhile."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from collections.abc import Callable

import pytest

from kilotune.search.abandoning import TICK_S, Watch, abandonable, uninterrupted
from tests.search.endless_work import LONG_S, Clock, tick

pytestmark = pytest.mark.slow


def test_work_that_ends_in_time_is_left_alone() -> None:
    asked: list[bool] = []

    def is_over() -> bool:
        asked.append(True)
        return False

    with abandonable(is_over) as stretch:
        tick()
        done = True
    assert (stretch.abandoned, done) == (False, True)
    assert asked


def test_nothing_is_abandoned_between_two_stretches() -> None:
    with Watch(lambda: True) as watch:
        tick()
        with watch.stretch() as stretch:
            Clock().work_for_ever()
        tick()
    assert stretch.abandoned


def test_the_timer_ticks_by_itself_and_again_after_what_was_swallowed() -> None:
    clock = Clock()
    with abandonable(clock.is_over) as stretch:
        clock.swallow_for_ever()
    assert stretch.abandoned


def test_a_write_inside_a_stretch_is_whole() -> None:
    written: list[int] = []
    clock = Clock()
    with abandonable(clock.is_over) as stretch, uninterrupted():
        written += [0]
        clock.now_s = LONG_S
        tick()
        written += [1]
    assert stretch.abandoned
    assert written == [0, 1]


def test_an_inner_stretch_ends_with_the_outer_one() -> None:
    reached, clock = False, Clock()
    with abandonable(clock.is_over) as outer:
        with abandonable(lambda: False):
            clock.work_for_ever()
        reached = True
    assert outer.abandoned
    assert not reached


def test_an_outer_stretch_goes_on_after_an_inner_one_was_abandoned() -> None:
    long, short = Clock(), Clock()
    with abandonable(long.is_over) as outer:
        with abandonable(short.is_over) as inner:
            short.work_for_ever()
        assert inner.abandoned
        assert not outer.abandoned
        long.work_for_ever()
    assert outer.abandoned


def test_other_exceptions_and_the_timer_of_others_are_left_as_they_were() -> None:
    """Theirs rings in an hour, less what has passed; a stretch that is abandoned lasts a tick at least."""
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 3600.0)
        with pytest.raises(KeyError), abandonable(lambda: False):
            raise KeyError
        clock = Clock()
        with abandonable(clock.is_over):
            clock.work_for_ever()
        left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, 0.0)
        assert (0.0 < left_s < 3600.0 - TICK_S / 2, interval_s) == (True, 0.0)
        assert not rung
        tick()
        assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def convert_an_argument() -> None:
    """Time is over while ctypes converts one, as in finalisers of Z3."""
    argument = type("Argument", (), {"_as_parameter_": property(lambda _: tick())})()
    ctypes.pythonapi.Py_IncRef(argument)


@pytest.mark.parametrize("finalise", [tick, convert_an_argument])
def test_a_finaliser_that_swallows_it_is_silent(monkeypatch: pytest.MonkeyPatch, finalise: Callable[[], None]) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    class Finalised:
        def __del__(self) -> None:
            finalise()

    with abandonable(lambda: True) as stretch:
        thing = Finalised()
        del thing
        Clock().work_for_ever()
    assert stretch.abandoned
    assert not said


def test_the_finaliser_of_what_was_left_half_made_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    class HalfMade:
        def __init__(self) -> None:
            Clock().work_for_ever()
            self.held = 1

        def __del__(self) -> None:
            assert self.held

    with abandonable(lambda: True) as stretch:
        HalfMade()
    assert stretch.abandoned
    assert not said


def test_an_exception_that_it_became_on_its_way_ends_the_stretch_too() -> None:
    """ctypes makes an ArgumentError of what is raised while it converts an argument; it ended the command."""
    with abandonable(lambda: True) as stretch:
        try:
            Clock().work_for_ever()
        except BaseException as error:
            raise ValueError("converted") from error
    assert stretch.abandoned
    with pytest.raises(ValueError, match="its own"), abandonable(lambda: False):
        raise ValueError("its own")


def test_what_is_done_meanwhile_is_done_whole_and_once_at_a_time() -> None:
    """It writes to the store: torn apart behind its transaction it would write the same rows again."""
    over, begun, ended = False, 0, 0

    def meanwhile() -> None:
        nonlocal over, begun, ended
        begun += 1
        over = True  # as if the budget ended now
        time.sleep(3 * TICK_S)
        ended += 1

    with Watch(lambda: over, meanwhile) as watch, watch.stretch() as stretch:
        while True:
            time.sleep(TICK_S)
    assert stretch.abandoned
    assert begun == ended == 1


def test_an_inner_stretch_lets_the_outer_one_do_what_is_due_meanwhile() -> None:
    """A thought of the paper's procedure has a time of its own, and trials are written during it."""
    clock, done = Clock(), list[bool]()
    with Watch(lambda: False, lambda: done.append(True)) as watch, watch.stretch():
        with abandonable(lambda: bool(done)) as inner:
            clock.work_for_ever()
        assert inner.abandoned
    assert done
