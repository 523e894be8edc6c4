"""Faster designs, and the formats for which a board has room for them: hardware first, then widths.

Narrow formats make a design fast, and wide ones a result precise. So a design is made for formats that are narrower than the accuracy
allows (the knapsack, exact for them), and then of all formats for which the board has room for that design and its clock is fast enough
those are taken whose predicted error is least (`joint_formats.py`). They are measured; where the accuracy does not hold, this set is
forbidden and the next one taken, and where none holds, the design is made for wider formats. What holds gets the best hardware for itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kilotune.evaluators.constraint_solver import SolverClock
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Measurement, Option, SolveLimit, Trial
from kilotune.spaces.fpga.choices import PIPELINED, PORTS, PORTS_NAME
from kilotune.spaces.fpga.joint_candidates import Formats, JointCandidates
from kilotune.spaces.fpga.joint_formats import DesignFormats, Errors
from kilotune.spaces.fpga.model import KnapsackModel
from kilotune.spaces.shiftry.formats import parse_format

FORMATS_PER_DESIGN = 6
"""Sets of formats that are measured for one design at most."""

DEVIATION = 0.5
"""How far the logarithm of a random factor on each predicted error deviates, from the second search around a candidate on."""

OTHER_SCALE = 0.5
"""How often, then, the format that is offered of a width is any one that keeps the accuracy alone, not the one of least error."""

OTHER_TABLE = 0.25
"""How often designs are made with another number of ports, or pipelined where the best one is not."""


class FasterDesigns:
    """The search around the best candidate so far. `limit`: the work of each solve, and the seconds of all."""

    def __init__(self, space: JointCandidates, best: Trial, seed: int, limit: SolveLimit) -> None:
        self._space, self._best, self._seed, self._limit = space, best, seed, limit
        self._rng = np.random.default_rng(seed)
        self._goal = replace(space.goal, objective="latency")  # of a front the fastest end
        self._ends_s = limit.clock() + limit.seconds
        self._formats: Formats = space.formats_in(best.assignment)
        self._hardware = {decision.name: best.assignment[decision.name] for decision in space.choices.decisions}
        feasible = Ranking.of(space).rank(best.measurement)[0] == 0.0
        self._latency_us = best.measurement.metrics["latency_us"] if feasible else math.inf

    def run(self, noisy: bool) -> list[Assignment]:
        """Candidates that keep the accuracy, each faster than what is known; the last one is the best. `noisy`: errors are predicted
        with random factors."""
        errors = self._errors(noisy)
        offered = self._offered(errors, noisy)
        sets = list(self._ever_wider(offered, errors, noisy))
        found: list[Assignment] = []
        narrow, wide = 0, len(sets) - 1
        while narrow <= wide and not self._is_over:
            middle = (narrow + wide) // 2
            candidate = self._tried(sets[middle], offered, errors)
            if candidate is None:
                wide = middle - 1  # not even these give a faster design
            elif candidate:
                found.append(candidate)
                wide = middle - 1
            else:
                narrow = middle + 1
        if found:
            found.append(self._polished(found[-1]))
        return found

    @property
    def _is_over(self) -> bool:
        return self._limit.clock() >= self._ends_s

    def _tried(self, formats: Formats, offered: Mapping[str, Sequence[Option]], errors: Errors) -> Assignment | None:
        """A faster candidate by a design for these formats; empty where none of its formats keep the accuracy, None where there is no
        faster design."""
        hardware = self._design(formats)
        if hardware is None:
            return None
        known = DesignFormats(self._space, formats, offered, hardware)
        limit, forbidden = self._limit_of_one(), list[Formats]()
        clock = SolverClock(limit.work, limit.seconds, limit.clock)
        for _ in range(FORMATS_PER_DESIGN):
            chosen = known.cheapest(self._latency_us, errors, forbidden, clock)
            if chosen is None:
                return {}
            candidate = {**chosen, **hardware}
            measurement = self._space.evaluate([candidate])[0]
            if self._is_better(measurement):
                self._latency_us = measurement.metrics["latency_us"]
                return candidate
            changed = {name: option for name, option in chosen.items() if option != self._formats[name]}
            if not changed:
                return {}
            forbidden.append(changed)
        return {}

    def _is_better(self, measurement: Measurement) -> bool:
        violation, latency_us = Ranking.of(self._space).rank(measurement)[:2]
        return violation == 0.0 and latency_us < self._latency_us

    def _design(self, formats: Formats) -> Assignment | None:
        """The fastest hardware for these formats; None where it is no faster than what is known."""
        pipelined, ports = bool(self._hardware[PIPELINED]), int(self._hardware[PORTS_NAME])
        if self._rng.random() < OTHER_TABLE:
            pipelined, ports = bool(self._rng.random() < 2 / 3), int(self._rng.choice(PORTS))
        return self._fastest(formats, pipelined, ports)

    def _fastest(self, formats: Formats, pipelined: bool, ports: int) -> Assignment | None:
        try:
            alone = self._space.unrolling(formats, self._goal).narrowed(pipelined, ports)
        except ValueError:  # the board has no room
            return None
        known = [] if math.isinf(self._latency_us) else [self._best_known]
        found = KnapsackModel(alone, known).solve(1, [], self._seed, self._limit_of_one()).candidates
        return found[0] if found else None

    def _limit_of_one(self) -> SolveLimit:
        """What one solve may take: its work, and what is left of the seconds of all."""
        return replace(self._limit, seconds=max(0.01, self._ends_s - self._limit.clock()))

    @property
    def _best_known(self) -> Trial:
        return Trial(0, {}, Measurement({**self._best.measurement.metrics, "latency_us": self._latency_us}))

    def _polished(self, candidate: Assignment) -> Assignment:
        """The candidate with the best hardware for its formats, pipelined as it is and with its ports."""
        better = self._fastest(
            self._space.formats_in(candidate), bool(candidate[PIPELINED]), int(candidate[PORTS_NAME])
        )
        return candidate if better is None else {**candidate, **better}

    def _errors(self, noisy: bool) -> dict[str, dict[Option, float]]:
        """What every other format of a variable, alone, adds to the squared error of the result; +inf where it breaks the accuracy."""
        space, decisions = self._space.formats, self._space.formats.decisions
        singles = [(d.name, o) for d in decisions for o in d.options if o != self._formats[d.name]]
        measured = space.evaluate([self._formats, *({**self._formats, name: option} for name, option in singles)])
        metric, limits = space.error_metric, space.constraints
        here = measured[0].metrics[metric] ** 2
        result: dict[str, dict[Option, float]] = {d.name: {self._formats[d.name]: 0.0} for d in decisions}
        for (name, option), measurement in zip(singles, measured[1:], strict=True):
            holds = measurement.failure is None and all(c.violation(measurement.metrics) == 0.0 for c in limits)
            added = measurement.metrics[metric] ** 2 - here if holds else math.inf
            result[name][option] = added * float(np.exp(DEVIATION * self._rng.normal())) if noisy else added
        return result

    def _offered(self, errors: Errors, noisy: bool) -> dict[str, tuple[Option, ...]]:
        """The format that each variable has, and of each width the one of least error; where errors are noisy, also any one."""
        result = {}
        for name, by_option in errors.items():
            accurate: dict[int, list[Option]] = {}
            for option, error in by_option.items():
                if not math.isinf(error):
                    accurate.setdefault(parse_format(str(option)).bits, []).append(option)
            several = []
            for options in accurate.values():
                drawn = noisy and self._rng.random() < OTHER_SCALE
                place = int(self._rng.integers(len(options)))
                several.append(options[place] if drawn else min(options, key=by_option.__getitem__))
            result[name] = tuple(dict.fromkeys((self._formats[name], *several)))
        return result

    def _ever_wider(self, offered: Mapping[str, Sequence[Option]], errors: Errors, restless: bool) -> Iterator[Formats]:
        """Sets of formats: the narrowest of each variable, then ever more only as narrow as adds little error. `restless`: of one width,
        rather another format than the one that there is."""

        def narrowest(name: str, most: float) -> Option:
            options = [option for option in offered[name] if errors[name][option] <= most]
            stays = self._formats[name]
            return min(
                options,
                key=lambda o: (parse_format(str(o)).bits, restless and o == stays, errors[name][o]),
            )

        added = {errors[name][option] for name, options in offered.items() for option in options}
        seen: Formats | None = None
        for most in sorted((error for error in added if error >= 0.0), reverse=True):
            formats = {name: narrowest(name, most) for name in offered}
            if formats != seen:
                seen = formats
                yield formats
