"""What a search ends with, synthesised, placed and routed: measurements beside predictions, and what a board has no room for after all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kilotune.evaluators.fpga.boards import GATE_KINDS, Gates
from kilotune.evaluators.fpga.synthesis import Implementation, NoRoomError, TooFewPinsError
from kilotune.evaluators.fpga.tools import MissingToolError, ToolError
from kilotune.search.space import Assignment, Metrics, Trial
from kilotune.search.study import Study

PLACED = "placed"
"""Where a study's stored request holds what was found."""


@dataclass(frozen=True)
class PlacedTrial:
    """`made`: what the tools found, or None; `reason`: why the trial cannot be used, a sentence, or None; `no_room`: whether the board
    has none for it by synthesis or by the placer; `no_pins`: whether its package has too few pins."""

    trial: Trial
    made: Implementation | None
    reason: str | None
    no_room: bool = False
    no_pins: bool = False

    def metrics(self) -> Metrics:
        """What was measured, by the names of what was predicted; empty where nothing was."""
        if self.made is None:
            return {}
        found: Metrics = {kind: float(count) for kind, count in asdict(self.made.gates).items()}
        clock, cycles = self.made.clock_mhz, self.trial.measurement.metrics["hardware_cycles"]
        return {
            **found,
            "hardware_cycles": cycles,
            **({} if clock is None else {"clock_mhz": clock, "latency_us": cycles / clock}),
        }


@dataclass(frozen=True)
class FinalistPlacing:
    """The finalists that were tried on a board, in order, up to the first that can be used. `unplaced`: why no more were tried, a sentence,
    or None; `interrupted`: whether that was Ctrl-C."""

    board: str
    tried: tuple[PlacedTrial, ...]
    unplaced: str | None = None
    interrupted: bool = False

    @property
    def held(self) -> PlacedTrial | None:
        """The one that can be used."""
        return next((placed for placed in self.tried if placed.reason is None), None)

    def made(self, candidate: Assignment) -> Implementation | None:
        """What the tools have made of a candidate; None where they have made nothing of it."""
        same = (placed for placed in self.tried if placed.trial.assignment == candidate and not placed.no_room)
        return next((placed.made for placed in same if placed.made is not None), None)

    def sentences(self) -> list[str]:
        """What was found of each, and why no more were tried."""
        said = [f"Trial {placed.trial.number}: {placed.reason}" for placed in self.tried if placed.reason is not None]
        held = self.held
        if held is not None and held.made is not None:
            predicted, found = held.trial.measurement.metrics, held.metrics()
            gates = f"{found['luts']:.0f} LUTs ({predicted['luts']:.0f} were predicted)"
            if held.made.clock_mhz is None:
                said.append(f"Synthesised for {self.board}, trial {held.trial.number} takes {gates}.")
            else:
                said.append(
                    f"Placed and routed on {self.board}, trial {held.trial.number} takes {gates} and {found['latency_us']:.4g} us "
                    f"({predicted['latency_us']:.4g}), at {found['clock_mhz']:.1f} MHz ({predicted['clock_mhz']:.1f})."
                )
        elif self.tried:
            none = "The candidate" if len(self.tried) == 1 else f"None of the {len(self.tried)} candidates"
            can = "cannot" if len(self.tried) == 1 else "can"
            said.append(f"{none} tried {can} be used on {self.board}.")
        return [*said, *([] if self.unplaced is None else [self.unplaced])]

    @staticmethod
    def from_json(stored: Mapping[str, Any], numbered: Callable[[int], Trial | None]) -> FinalistPlacing:
        """What `as_json` has written, of a study whose trials are had by number. Older ones lack `no_room`, `no_pins` or `options`."""
        tried = [
            PlacedTrial(
                trial,
                _implementation(found["measured"], found.get("options", ())),
                found["reason"],
                found.get("no_room", False),
                found.get("no_pins", False),
            )
            for found in stored["tried"]
            if (trial := numbered(found["trial"])) is not None
        ]
        return FinalistPlacing(stored["board"], tuple(tried), stored["reason"])

    def as_json(self) -> dict[str, Any]:
        """For the result file."""
        return {
            "board": self.board,
            "tried": [
                {
                    "trial": placed.trial.number,
                    "measured": placed.metrics() or None,
                    "options": [] if placed.made is None else list(placed.made.options),
                    "reason": placed.reason,
                    "no_room": placed.no_room,
                    "no_pins": placed.no_pins,
                }
                for placed in self.tried
            ],
            "held": None if self.held is None else self.held.trial.number,
            "reason": self.unplaced,
        }


def kept_placing(study: Study) -> FinalistPlacing | None:
    """What an earlier run of the study has found on the board; None where it has placed nothing."""
    stored: Any = study.stored_request().get(PLACED)
    return None if stored is None else FinalistPlacing.from_json(stored, study.book.numbered)


def _implementation(measured: Metrics | None, options: Iterable[str]) -> Implementation | None:
    """What was measured of a trial as the tools have said it; None where nothing was."""
    if measured is None:
        return None
    gates = Gates(**{kind: int(measured[kind]) for kind in GATE_KINDS})
    return Implementation(gates, measured.get("clock_mhz"), tuple(options))


Following = Callable[[Sequence[PlacedTrial]], Trial | None]
"""Which trial is next after those that were tried; None where there is none."""


def in_order(trials: Iterable[Trial]) -> Following:
    """One after the other, whatever is found of them."""
    remaining = iter(trials)
    return lambda _: next(remaining, None)


def placed_in_turn(
    following: Following,
    board: str,
    implement: Callable[[Trial], Implementation],
    broken: Callable[[Metrics], str | None],
) -> Iterator[FinalistPlacing]:
    """Try trials until one can be used: what has been found, before the first and after each of them. `implement` raises ToolError;
    `broken` says which limit measurements break, a sentence or None. A missing tool ends the attempts."""
    tried: list[PlacedTrial] = []
    yield FinalistPlacing(board, ())
    while (trial := following(tried)) is not None:
        try:
            tried.append(_attempt(trial, implement(trial), broken))
        except MissingToolError as error:
            yield FinalistPlacing(board, tuple(tried), f"Nothing is placed: {error}")
            return
        except NoRoomError as error:
            counted = None if error.least is None else Implementation(error.least, None)
            tried.append(PlacedTrial(trial, counted, str(error), no_room=True))
        except ToolError as error:
            tried.append(PlacedTrial(trial, None, str(error), no_pins=isinstance(error, TooFewPinsError)))
        yield FinalistPlacing(board, tuple(tried))
        if tried[-1].reason is None:
            return


def _attempt(trial: Trial, made: Implementation, broken: Callable[[Metrics], str | None]) -> PlacedTrial:
    """A trial that was made, with the limit that it breaks."""
    placed = PlacedTrial(trial, made, None)
    return replace(placed, reason=broken(placed.metrics()))
