"""Checks of what a space may be able to do besides."""

from __future__ import annotations

import itertools
import math

import numpy as np

from kilotune.search.candidates import random_draw
from kilotune.search.encoding import encoding_of
from kilotune.search.front import Ranking
from kilotune.search.space import (
    Assignment,
    FlatSpace,
    HasAnnealing,
    HasCore,
    HasExactSearch,
    HasFallback,
    HasFinish,
    HasFlatView,
    HasFlatViews,
    HasOpening,
    HasProcedure,
    HasShortSearch,
    Procedure,
    Trial,
)
from kilotune.testing.probe import Probe

MOST_BATCHES = 200
"""The most candidates of a procedure that are measured; a long one is not followed to its end."""

MOST_STEPS = 20
"""The most steps of a search of the space's own that are looked at."""

SECONDS = 2.0
"""That an exact search is told it has left."""


def check_flat_view(probe: Probe) -> None:
    """A flat view has the space's objectives and constraints, and its candidates are the space's and measure the same."""
    space = probe.space
    if not isinstance(space, HasFlatView):
        return
    view = space.flat_view()
    if not isinstance(view, FlatSpace):
        raise probe.error("flat view", expected="a space with `decisions`", found=type(view).__name__)
    for member in ("objectives", "constraints"):
        if getattr(view, member) != getattr(space, member):
            raise probe.error("flat view", expected=f"the {member} of the space", found=repr(getattr(view, member)))
    draw, rng = random_draw(view), np.random.default_rng(probe.seed)
    candidates = [draw(rng) for _ in range(min(probe.samples, 8))]
    for candidate, seen, whole in zip(
        candidates, probe.evaluate(candidates, view), probe.evaluate(candidates), strict=True
    ):
        if seen != whole:
            raise probe.error(
                "flat view", expected=f"{whole}, as the space measures it", found=str(seen), candidate=candidate
            )
        _require_candidate(probe, "flat view", candidate)
        violation, loss, *_ = Ranking.of(space).rank(seen)
        for bound in (space.start().bound(), view.start().bound()):
            if violation == 0.0 and bound > loss:
                raise probe.error(
                    "flat view", expected=f"a bound of at most {loss}", found=str(bound), candidate=candidate
                )


def check_flat_views(probe: Probe) -> None:
    """The flat view of a candidate offers its answers; its candidates are the space's, measure the same, and have the same view."""
    space = probe.space
    if not isinstance(space, HasFlatViews):
        return
    rng = np.random.default_rng(probe.seed)
    for first in (random_draw(space)(rng) for _ in range(min(probe.samples, 4))):
        view = space.flat_view_of(first)
        if not isinstance(view, FlatSpace):
            raise probe.error("flat views", expected="a space with `decisions`", found=type(view).__name__)
        offered = {decision.name: decision.options for decision in view.decisions}
        if not all(first.get(name) in options for name, options in offered.items()):
            raise probe.error(
                "flat views", expected="its own answers among those", found=repr(offered), candidate=first
            )
        candidate = random_draw(view)(rng)
        _require_candidate(probe, "flat views", candidate)
        seen, whole = probe.evaluate([candidate], view), probe.evaluate([candidate])
        if seen != whole:
            raise probe.error(
                "flat views", expected=f"{whole[0]}, as measured", found=str(seen[0]), candidate=candidate
            )
        again = space.flat_view_of(candidate)
        if not isinstance(again, FlatSpace) or again.decisions != view.decisions:
            raise probe.error("flat views", expected="the same view again", found="another", candidate=candidate)


def check_procedure(probe: Probe) -> None:
    """A procedure yields batches of candidates, the same ones for the same trials."""
    space = probe.space
    if isinstance(space, HasProcedure):
        _require_same(probe, "procedure", space.procedure(), space.procedure())


def check_opening(probe: Probe) -> None:
    """An opening yields batches of candidates, the same ones for the same seed and trials."""
    if not isinstance(probe.space, HasOpening):
        return
    once, again = (probe.space.opening(probe.seed) for _ in range(2))
    if once is not None and again is not None:
        _require_same(probe, "opening", once, again)


def check_core(probe: Probe) -> None:
    """A core has one option at least of every decision, and none that the decision does not offer."""
    space = probe.space
    core = space.core() if isinstance(space, HasCore) else None
    if core is None or not isinstance(space, FlatSpace):
        return
    for decision in space.decisions:
        options = core.get(decision.name, ())
        if not options or not set(options) <= set(decision.options):
            expected = f"some of {', '.join(map(repr, decision.options))} for {decision.name}"
            raise probe.error("core", expected=expected, found=", ".join(map(repr, options)) or "nothing")


def check_finish(probe: Probe) -> None:
    """What is finished is a candidate of the space, and the same one each time."""
    space = probe.space
    if not isinstance(space, HasFinish):
        return
    view = space.flat_view()
    candidate = random_draw(view)(np.random.default_rng(probe.seed))
    measurement = probe.evaluate([candidate], view)[0]
    finished = space.finished(candidate, measurement)
    if finished is None:
        return
    _require_candidate(probe, "finish", finished)
    if space.finished(candidate, measurement) != finished:
        raise probe.error("finish", expected="the same candidate again", found="another", candidate=candidate)
    probe.evaluate([finished])


def check_fallback(probe: Probe) -> None:
    """A fallback is a candidate, always the same."""
    if not isinstance(probe.space, HasFallback):
        return
    fallback = probe.space.fallback()
    if fallback is None:
        return
    _require_candidate(probe, "fallback", fallback)
    if probe.space.fallback() != fallback:
        raise probe.error("fallback", expected="the same candidate again", found="another", candidate=fallback)


def check_short_search(probe: Probe) -> None:
    """A short search finds a candidate, always the same."""
    if not isinstance(probe.space, HasShortSearch):
        return
    found = probe.space.short_search()
    if found is None:
        return
    _require_candidate(probe, "short search", found)
    if probe.space.short_search() != found:
        raise probe.error("short search", expected="the same candidate again", found="another", candidate=found)


def check_exact_search(probe: Probe) -> None:
    """An exact search yields candidates, and bounds that no feasible candidate is below."""
    if not isinstance(probe.space, HasExactSearch):
        return
    steps = itertools.islice(probe.space.exact_search(probe.seed, lambda: SECONDS), MOST_STEPS)
    least, bound = min(probe.feasible_losses.values(), default=math.inf), -math.inf
    for step in steps:
        if step.candidate is not None:
            _require_candidate(probe, "exact search", step.candidate)
            violation, loss, *_ = Ranking.of(probe.space).rank(probe.evaluate([step.candidate])[0])
            least = min(least, loss) if violation == 0.0 else least
        bound = max(bound, step.bound)
        if math.isnan(step.bound) or bound > least:
            raise probe.error(
                "exact search",
                expected=f"a bound of at most {least}, which a feasible candidate reaches",
                found=str(step.bound),
                candidate=step.candidate,
            )


def check_annealing(probe: Probe) -> None:
    """Annealing yields candidates, or None while it has nothing new."""
    if not isinstance(probe.space, HasAnnealing):
        return
    for candidate in itertools.islice(probe.space.anneal(probe.seed), MOST_STEPS):
        if candidate is not None:
            _require_candidate(probe, "annealing", candidate)


def _require_same(probe: Probe, check: str, once: Procedure, again: Procedure) -> None:
    """Raise when two runs of search code do not propose the same candidates."""
    if _proposed(probe, check, once) != _proposed(probe, check, again):
        raise probe.error(check, expected="the same candidates when it runs again", found="others")


def _proposed(probe: Probe, check: str, procedure: Procedure) -> list[Assignment]:
    """What it yields in its first batches."""
    found = list[Assignment]()
    try:
        batch = next(procedure)
        for _ in range(MOST_BATCHES):
            for candidate in batch:
                _require_candidate(probe, check, candidate)
            measured = zip(batch, probe.evaluate(batch) if batch else [], strict=True)
            trials = [Trial(len(found) + i, c, m) for i, (c, m) in enumerate(measured)]
            found += batch
            batch = procedure.send(trials)
    except StopIteration:
        pass
    return found


def _require_candidate(probe: Probe, check: str, candidate: Assignment) -> None:
    """Raise when a study could not store it, or would not read it back as it is."""
    try:
        encoding = encoding_of(probe.space)
        restored = encoding.candidate(encoding.key(candidate))
    except (ValueError, KeyError) as error:
        raise probe.error(check, expected="a candidate of the space", found=str(error), candidate=candidate) from error
    if dict(restored) != dict(candidate):
        raise probe.error(
            check, expected="a candidate of the space", found=f"one read as {restored}", candidate=candidate
        )
