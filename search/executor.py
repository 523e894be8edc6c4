"""Where evaluations run: the Executor protocol, and the one way in which a chunk of candidates is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from kilotune.search.racing import Hurdle, RacingSpace
from kilotune.search.space import Assignment, Measurement, Space


class ExecutorError(Exception):
    """No worker is left, and none can be had; the message says why. Finished trials are kept."""


@dataclass(frozen=True)
class Finished:
    """A chunk that has been measured: measurements in the chunk's order; `work_s` is what the worker spent on it."""

    ticket: int
    measurements: list[Measurement]
    work_s: float


class Executor(Protocol):
    """Runs chunks of candidates of one space. Nothing depends on the order in which chunks finish. `submit` and `results`
    raise ExecutorError when evaluations have become impossible."""

    @property
    def workers(self) -> int:
        """How many chunks run at the same time."""

    def submit(self, ticket: int, chunk: Sequence[Assignment], hurdle: Hurdle | None = None) -> None:
        """Take a chunk in; never waits. `ticket` names it until it comes back. `hurdle`: see `measure`."""

    def results(self, timeout_s: float) -> list[Finished]:
        """What has finished since the last call; waits at most about `timeout_s` for the first (an executor without
        workers of its own measures one chunk meanwhile, however long that takes)."""

    def cancel(self) -> None:
        """Drop every chunk that has not come back, also those that are being measured."""

    def close(self) -> None:
        """Cancel, and free all workers. Safe to call twice."""


@runtime_checkable
class Recalls(Protocol):
    """Ability of an executor: it may know measurements that earlier studies made."""

    def recall(self, candidates: Sequence[Assignment]) -> Mapping[int, Measurement]:
        """What is known of the candidates, by position."""


def measure(space: Space, chunk: Sequence[Assignment], hurdle: Hurdle | None = None) -> tuple[list[Measurement], float]:
    """The measurements of `chunk` and the seconds they took. With a `hurdle`, which only a `RacingSpace` is given, some may be censored.
    Whatever the space raises becomes a failure of the candidate that made it raise."""
    start = time.perf_counter()
    try:
        racing = cast(RacingSpace, space)
        measurements = list(space.evaluate(chunk) if hurdle is None else racing.evaluate_against(chunk, hurdle))
        if len(measurements) != len(chunk):
            raise ValueError(f"{len(measurements)} measurements came back for {len(chunk)} candidates")
    except Exception as error:
        if len(chunk) == 1:
            measurements = [Measurement(failure=f"The evaluation raised {type(error).__name__}: {error}")]
        else:
            measurements = [measure(space, [candidate], hurdle)[0][0] for candidate in chunk]
    return measurements, time.perf_counter() - start
