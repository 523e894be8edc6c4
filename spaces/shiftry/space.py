"""The Shiftry decision problem: a bitwidth and a scale for every variable of a program (Shiftry Section 6).

One decision a variable. Its options are formats: the 16-bit one at the data-driven scale of Algorithm 10, and 8-bit
ones at that scale less 8, and up to two more (Algorithm 13). The input X, whose extremes may be outliers, also chooses
its 16-bit scale freely in 0..15 (Algorithm 12), and its 8-bit one among nine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from kilotune.evaluators.fixed_point.measuring import MARGIN_ERROR
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatState
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    Direction,
    Metrics,
    Objective,
    Option,
    Procedure,
    Trial,
)
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.front_search import search_front
from kilotune.spaces.shiftry.known_candidates import FrontQuestion
from kilotune.spaces.shiftry.least_search import search_least
from kilotune.spaces.shiftry.limited_search import search_within_limits
from kilotune.spaces.shiftry.procedure import perform_search
from kilotune.spaces.shiftry.within_limits import first_within

SEMANTICS, NARROW_SEMANTICS = 2, 11
"""Versions of what the decisions mean, part of the fingerprint: of plain widths, and where parameters may have few bits. The latter
count the code that unpacks them as flash, since 10 with what filters have in common. Since 2 and 11 parameters of all widths are clipped
at scales finer than they fit, as before those of fewer than 8 bits; others wrapped around."""

TOLD_APART = 2
"""Added to either where candidates that are expected to flip nothing are told apart by the errors of their margins."""

TABLES_AS_STORED = 4
"""Added for programs with exponentials, since flash counts their tables as they are stored: without the ends that are one number."""

STATES_WITH_ROOM = 8
"""Added for programs with a state that nearly reaches a power of two, which has room beyond it."""


ROOM_BEYOND = 16
"""Added for numerical models, all of whose variables have room for values beyond those of the training samples."""

WIDE_ROOM = 32
"""Added for classifiers with few training samples, whose temporaries of 16 and 32 bits have such room."""


class ShiftrySpace(ShiftryCandidates):
    """The bitwidth and the scale of every variable: flat decisions, the best guess of each first."""

    name = "shiftry"

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """Precision first under limits, so that all that fits is used for it, and of classifiers that are expected to flip nothing the
        one whose margins are least off; else memory, or another objective that is asked for, and then precision; of equals, the faster one.

        Without a cost table that is the one with more 8-bit variables. Of a front its quantities, and precision.
        """
        if self.options.front:
            return (*map(Objective, self.options.fronted), Objective(self.precision_metric))
        if not self.options.asks_for_memory:
            return (Objective(self.options.minimized), Objective(self.precision_metric), Objective("memory_bytes"))
        ordered = [Objective(self.precision_metric), Objective("memory_bytes")]
        if not self.options.limited:
            ordered.reverse()
        elif self._tells_apart:
            ordered.insert(1, Objective(MARGIN_ERROR))
        last = Objective("demoted", Direction.MAXIMIZE) if self.options.timing is None else Objective("cycles")
        return (*ordered, last)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the task and the options."""
        semantics = NARROW_SEMANTICS if self.options.narrow or self.options.codebook else SEMANTICS
        semantics += TOLD_APART if self._tells_apart else 0
        semantics += TABLES_AS_STORED if self.profile.exponents else 0
        if self.meets_new_numbers:
            semantics += ROOM_BEYOND
        elif self.meets_surer_scores:
            semantics += WIDE_ROOM
        elif any(map(self.has_room, self.task.program.variables)):
            semantics += STATES_WITH_ROOM
        return fingerprint(self.name, semantics, self.task.fingerprint, self.options)

    @property
    def _tells_apart(self) -> bool:
        return self.options.precision_leads and self.evaluator.shows_margin_errors

    def size(self) -> int:
        """Number of candidates."""
        return math.prod(len(d.options) for d in self.decisions)

    @cached_property
    def reference_point(self) -> tuple[float, ...] | None:
        """Where a front ends: what the candidate of 16 bits everywhere costs, and where precision is no longer worth having."""
        if not self.options.front:
            return None
        costs = self._costs_of_first
        return (*(max(costs[metric], 1.0) for metric in self.options.fronted), max(self.most_imprecise, 1e-9))

    def start(self) -> FlatState:
        """Nothing decided."""
        return FlatState(self.decisions, self.least_loss)

    def fallback(self) -> Assignment | None:
        """Under limits on costs a candidate within them, to which the procedure comes after some eighty, if at all; None where the widest
        one is within them, or none is found."""
        if not self.constraints or not self.limits_are_costs:
            return None
        return next(iter(first_within(self)), None)

    def procedure(self) -> Procedure:
        """Algorithms 10-14; see `spaces.shiftry.procedure`."""
        return perform_search(self)

    def core(self) -> dict[str, list[Option]] | None:
        """The paper's formats, where others are offered besides and no opening is better begun with all."""
        if not self._offers_more or self._seeks_least:
            return None
        papers = {d.name: self.papers_formats(d.name) for d in self.format_decisions}
        return {d.name: papers.get(d.name, list(d.options)) for d in self.decisions}

    @property
    def error_metric(self) -> str:
        """The metric whose squares add up over variables whose errors do not depend on one another."""
        return self.evaluator.additive_error

    def front_search(self, seed: int) -> Procedure:
        """Sensitivities, a knapsack, and what they miss; see `spaces.shiftry.front_search`."""
        return search_front(self, FrontQuestion.whole(self.objectives, self.reference_point), seed)

    def opening(self, seed: int) -> Procedure | None:
        """Where more is offered than the paper's formats: the search for a front, at the limits under limits, and closing in on the least
        cost where that is asked for within a permitted loss."""
        if self._seeks_least:
            return search_least(self, seed)
        if not self.options.precision_leads or not self._offers_more or not self.limits_are_costs:
            return None
        return search_within_limits(self, seed)

    @cached_property
    def _offers_more(self) -> bool:
        return any(len(self.papers_formats(d.name)) < len(d.options) for d in self.format_decisions)

    @cached_property
    def _seeks_least(self) -> bool:
        """Whether a cost that is known without a run is to be the least, with formats that take less than the paper's. With more of every
        variable besides (32 bits, or more scales) the first front takes longer than a search that begins with the paper's."""
        takes_less = (self.options.narrow or self.options.codebook) and not (self.options.wide or self.options.offsets)
        if self.options.front or self.options.precision_leads or not (takes_less and self._offers_more):
            return False
        first, second = self.objectives[:2]
        return second.metric == self.precision_metric and first.metric in self._costs_of_first

    @property
    def worst_precision(self) -> float:
        """From where on nothing keeps the permitted loss: all samples in another class, or ten times the permitted loss of values."""
        return float(len(self.task.features)) if self.classifies else max(10.0 * self.options.permitted_loss, 1e-9)

    @property
    def _costs_of_first(self) -> Metrics:
        return self.costs([{decision.name: decision.options[0] for decision in self.decisions}])[0]

    def narrowings(self) -> list[Assignment]:
        """Candidates of which each has all variables at the same width, as far as they are offered it, each in the first format of it that
        is offered: from the widest to the narrowest."""
        widths = sorted({bits for offered in self._widths for bits in offered.values()}, reverse=True)
        formats = [(d.name, offered) for d, offered in zip(self.format_decisions, self._widths, strict=True)]
        others = {decision.name: decision.options[0] for decision in self.decisions}
        return [others | {name: _of_width(offered, width) for name, offered in formats} for width in widths]

    @property
    def limits_are_costs(self) -> bool:
        """Whether all limits are on what is known of candidates without running them."""
        known = self._costs_of_first
        return all(limit.metric in known for limit in self.constraints)

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """Bitwidths and scales as a CP-SAT model; see `spaces.shiftry.model`."""
        from kilotune.spaces.shiftry.model import ShiftryModel  # OR-tools takes a second to import

        return ShiftryModel(self, trials)


def _of_width(offered: Mapping[Option, int], width: int) -> Option:
    """The first option of the most bits that are no more than that; of the fewest, where all have more."""
    most = max((bits for bits in offered.values() if bits <= width), default=min(offered.values()))
    return next(option for option, bits in offered.items() if bits == most)
