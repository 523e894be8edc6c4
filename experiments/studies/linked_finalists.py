"""Finalists of a search with a limit on the flash of whole programs, linked: the best of those that keep it.

A search goes by an estimate of what code takes (`kilotune.evaluators.code_size`), which is some per cent of the whole off. So the best by
estimate are linked, one after the other, until one keeps the limit; those that the estimate lets through only since it is off, as it is
for those that were linked, are passed over at first, and where none has kept it, linked from the smallest on. Where the estimate lets
nothing through, those are linked that it alone refuses, by a little. Where none of all these keeps the limit, there is a search within
a stricter one (`kilotune.experiments.studies.stricter_search`), or bytes are given up from the smallest on, until a program does
(`kilotune.experiments.studies.linked_descent`). Where time is up before any has kept it, two more are linked whatever the time: an
estimate alone keeps no limit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.problem import LimitsLinkedFlash, Problem
from kilotune.experiments.studies.command_time import AFTER_INTERRUPT_S, unheard
from kilotune.experiments.studies.finished_finalists import record_new
from kilotune.experiments.studies.linked_descent import LinkedDescent
from kilotune.experiments.studies.linked_programs import BEYOND_DEVICE, ESTIMATE, Linking, without_estimate
from kilotune.experiments.studies.measured_finalists import (
    MeasuredFinalists,
    apart,
    keep_finalist,
    kept_finalist,
    with_best,
)
from kilotune.experiments.studies.stricter_search import stricter_finalist
from kilotune.search.front import Ranking
from kilotune.search.result import Result
from kilotune.search.space import Measurement, Trial, asks_for_front
from kilotune.search.study import Study

MOST_LINKED = 24
"""Finalists that are linked, a fifth of a second each: first such that are likely to keep the limit, then as many that are small."""

DOUBT = 0.05
"""By which share of the limit a program may be beyond it, when it is estimated as those that were linked, and yet is linked first.
Each that is linked in vain lowers that, down to as much below the limit: finalists lie at the limit of their estimates, and may all be
larger by chance (of LeNet's the first 24 were, so that the smallest of all was delivered, at 11 points of accuracy)."""

REFUSED = 0.15
"""By which share of the limit an estimate may be beyond it, and the program is yet linked, where no estimate is within it."""

IN_VAIN = "linked_in_vain"
"""Where a study's stored request holds bytes of the finalists that were linked, where none keeps the limit."""

CUT_SHORT = (
    "No time was left for more: a larger budget links further programs, of which better ones may keep the limit."
)

MOST_CONSIDERED = 1000
"""Those of them that are looked at, whatever their estimates are."""


@dataclass(frozen=True)
class Chosen:
    """A trial that links within the limit, and what is said of it."""

    trial: Trial
    said: str


def linked_finalist(
    problem: Problem, study: Study, result: Result, is_over: Callable[[], bool], tell: Callable[[str], None] = unheard
) -> MeasuredFinalists | None:
    """Link finalists and keep with the study the first that keeps the limit: of a front the most precise one. None without such a limit,
    and where no candidate keeps the other limits. Where `is_over` says that there is no time, what an earlier run has kept; without that
    a finalist or two are linked all the same, until Ctrl-C.
    """
    limit = problem.linked_limit_bytes if isinstance(problem, LimitsLinkedFlash) else None
    if limit is None or result.best is None:
        return None
    assert isinstance(problem, LimitsLinkedFlash)
    whole = asks_for_front(problem.space)
    in_order = list(reversed(result.front)) if whole else _ranked(study, result.best)
    if not result.feasible and not (in_order := _refused(study, limit)):
        return None
    linking, kept = Linking(problem, study, limit, is_over, tell), kept_finalist(problem, study, result)
    chosen = _first_within(linking, in_order)
    if chosen is None and kept is not result:
        return MeasuredFinalists(kept, CUT_SHORT if linking.is_over() else None)
    if not whole:
        chosen = _smaller(linking) if chosen is None else _improved(linking, chosen, kept.best or chosen.trial)
    chosen = chosen or _whatever_the_time(linking, in_order)
    if chosen is None:
        _keep_in_vain(linking)
        said = none_within(limit, linking.sizes, result.best)
        return MeasuredFinalists(result, f"{said} {CUT_SHORT}" if linking.sizes and is_over() else said, kept=False)
    keep_finalist(study, chosen.trial, study.result().best or result.best)
    return MeasuredFinalists(with_best(result, chosen.trial, problem.space.objectives[0]), chosen.said)


def _first_within(linking: Linking, in_order: Sequence[Trial]) -> Chosen | None:
    """The first finalist that keeps the limit; None where none does, in time."""
    sizes, limit = linking.sizes, linking.limit
    for trial in _likely(in_order, sizes, limit):
        linking.tell(f"linking finalists, {len(sizes) + 1} so far")
        found = linking.bytes_of(trial)
        if found is None:
            return None
        if found <= limit:
            first = in_order[0].number
            said = (
                f"Trial {trial.number} links to {found} bytes, the best of {len(sizes)} that were linked within {limit}"
            )
            said += "." if trial.number == first else f": trial {first}, the best by estimate, takes {sizes[first]}."
            return Chosen(trial, said)
    return None


def _whatever_the_time(linking: Linking, in_order: Sequence[Trial]) -> Chosen | None:
    """Where time is up before a finalist has kept the limit, one that does of those that most likely do; None where none of these does,
    and after Ctrl-C."""
    if not linking.is_over():
        return None
    study = linking.study
    urgent = replace(linking, is_over=lambda: study.stopped_for_s() >= AFTER_INTERRUPT_S)
    for trial in _surest(in_order, linking.sizes, linking.limit):
        linking.tell("linking a finalist, although time is up")
        found = urgent.bytes_of(trial)
        if found is None:
            return None
        if found <= linking.limit:
            return Chosen(trial, f"Trial {trial.number} links to {found} bytes, within {linking.limit}. {CUT_SHORT}")
    return None


def _keep_in_vain(linking: Linking) -> None:
    """Keep with the study what was linked, and none of which keeps the limit."""
    if linking.sizes:
        linking.study.keep_in_request(IN_VAIN, {str(number): size for number, size in linking.sizes.items()})


def linked_in_vain(study: Study) -> dict[int, int]:
    """Bytes of trials, by their numbers, that the last run linked that found none within the limit; empty where none did."""
    return {int(number): size for number, size in study.stored_request().get(IN_VAIN, {}).items()}


def none_within(limit: int, linked: Mapping[int, int], best: Trial) -> str:
    """The sentence about so many finalists, none of which keeps the limit, and the best, which is shown."""
    if linked and min(linked.values()) >= BEYOND_DEVICE:
        return f"None of {len(linked)} finalists can be linked: the device has no room for any."
    least = f"the smallest of {len(linked)} takes {min(linked.values())}" if linked else "Ctrl-C came before that"
    size = linked.get(best.number)
    shown = f"trial {best.number}, which is shown, {'may take more, too' if size is None else f'takes {size}'}"
    return f"No finalist was linked within {limit} bytes: {least}; {shown}."


def linked_as_built(problem: Problem, finalists: MeasuredFinalists, check: DeviceCheck | None) -> MeasuredFinalists:
    """The finalists once the best of them has been built for its device, which is linked there: where none was linked, since the
    study was interrupted before, or few, that tells whether it keeps the limit."""
    limit = problem.linked_limit_bytes if isinstance(problem, LimitsLinkedFlash) else None
    best, built = finalists.result.best, None if check is None else check.measured
    if finalists.kept or limit is None or best is None or built is None or built.sizes.flash_bytes > limit:
        return finalists
    size = built.sizes.flash_bytes
    said = f"Trial {best.number} links to {size} bytes as it is built for the device, within {limit}."
    return replace(finalists, said=said, kept=True)


def _improved(linking: Linking, found: Chosen, earlier: Trial) -> Chosen:
    """What a descent from a finalist within the limit comes to in time, one of the study's trials from now on. `earlier`: what was kept
    before, which stays where nothing is better."""
    descent = LinkedDescent(linking, found.trial)
    descent.offer(earlier)
    ended = linking.in_time(descent.run)
    best = found
    if descent.best.number != found.trial.number:
        best = _recorded(linking, descent, f"{found.said} A descent from there")
    return best if ended else replace(best, said=f"{best.said} {CUT_SHORT}")


def _smaller(linking: Linking) -> Chosen | None:
    """Where no finalist keeps the limit: the better of what a descent from the smallest reaches and of what another search finds within a
    stricter limit, one of the study's trials from now on; None where neither keeps it, in time."""
    sizes = linking.sizes
    if not sizes or linking.is_over():
        return None
    least = min(sizes, key=lambda number: (sizes[number], number))
    said = f"None of {len(sizes)} finalists linked within {linking.limit} bytes, the smallest to {sizes[least]}."
    smallest = linking.study.book.numbered(least)
    assert smallest is not None
    descent = LinkedDescent(linking, smallest)
    linking.in_time(descent.reached)  # which takes seconds, so that there is a program
    found = stricter_finalist(linking)
    if found is not None:
        said += f" Trial {found.number}, of a search within a stricter limit, links to {sizes[found.number]}."
        return _improved(linking, Chosen(found, said), descent.best if descent.is_within else found)
    if not descent.is_within:
        return None
    ended = linking.in_time(descent.run)
    best = _recorded(linking, descent, f"{said} A descent from it")
    return best if ended else replace(best, said=f"{best.said} {CUT_SHORT}")


def _recorded(linking: Linking, descent: LinkedDescent, said: str) -> Chosen:
    """What a descent has come to, as one of the study's trials; `said`: of where from."""
    record_new(linking.study, [descent.best])
    best = linking.study.book.trial_of(descent.best.assignment) or descent.best
    said += f", which linked {descent.linked}, comes to trial {best.number}, of {descent.bytes_of_best} bytes."
    return Chosen(best, said)


def _refused(study: Study, limit: int) -> list[Trial]:
    """Those that no other limit than that of linked flash refuses, and by a little, the best first."""
    ranking = without_estimate(Ranking.of(study.space))

    def is_near(measurement: Measurement) -> bool:
        return measurement.metrics.get(ESTIMATE, math.inf) <= (1.0 + REFUSED) * limit

    return apart(study.book.best_first(ranking, is_near), MOST_CONSIDERED)


def _ranked(study: Study, best: Trial) -> list[Trial]:
    """Those within the limits by estimate, the best first."""
    return apart(study.book.best_first(Ranking.of(study.space)), MOST_CONSIDERED, best)


def _likely(in_order: Sequence[Trial], linked: Mapping[int, int], limit: int) -> Iterator[Trial]:
    """Those that keep the limit by their estimate, as far as it is off for those that were linked so far; then the smallest."""
    estimates = _estimates(in_order)
    for trial in in_order:
        off = _off(estimates, linked)
        doubt = DOUBT * (1.0 - 2.0 * len(linked) / MOST_LINKED)
        if len(linked) < MOST_LINKED and estimates[trial.number] + off <= (1.0 + doubt) * limit:
            yield trial
    others = [trial for trial in in_order if trial.number not in linked]
    yield from sorted(others, key=lambda trial: estimates[trial.number])[:MOST_LINKED]


def _surest(in_order: Sequence[Trial], linked: Mapping[int, int], limit: int) -> list[Trial]:
    """The best of those not linked yet that is estimated so far below the limit that it most likely keeps it, and the smallest of them."""
    estimates = _estimates(in_order)
    most = (1.0 - DOUBT) * limit - _off(estimates, linked)
    others = [trial for trial in in_order if trial.number not in linked]
    sure = [trial for trial in others if estimates[trial.number] <= most][:1]
    smallest = sorted(others, key=lambda trial: estimates[trial.number])[:1]
    return sure if sure == smallest else [*sure, *smallest]


def _estimates(trials: Sequence[Trial]) -> dict[int, float]:
    return {trial.number: trial.metrics.get(ESTIMATE, 0.0) for trial in trials}


def _off(estimates: Mapping[int, float], linked: Mapping[int, int]) -> float:
    """By how much those of them that were linked are larger than their estimates."""
    off = [size - estimates[number] for number, size in linked.items() if number in estimates]
    return statistics.median(off) if off else 0.0
