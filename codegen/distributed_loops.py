"""Loops split into loops of fewer steps, as far as their rounds permit it.

Candidates of a search share the steps in which they come to the same (`evaluators/fixed_point/step_groups.py`), and
each of them begins a loop anew. So a loop becomes several, one after the other ("loop distribution", Allen and Kennedy, TOPLAS 1987):
what a round computes for itself gets a copy for each round and is kept between them. A step that is then alone in its loop runs all
rounds at once. What each element becomes does not change, since no two steps that need one another change places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.looped_steps import Body, ElementMoves, LoopedSteps, RepeatedSteps, Step, variables_in
from kilotune.codegen.rounds_at_once import all_rounds

MOST_COPIED = 320
"""How many elements all copies that a loop gets may have: of a block of 64 samples 40 KB, as much as is near to a processor."""

MOST_AT_ONCE = 1 << 16
"""How many elements a step that does the work of all rounds may write, or read."""


def distributed(steps: LoopedSteps, read_at_the_end: Collection[str] = ()) -> LoopedSteps:
    """The steps of a program with the outermost loops split, where their bodies have no loops. The result and variables that are
    `read_at_the_end` get no copies."""
    kept = {steps.program.result.variable, *read_at_the_end}
    made: list[Step | RepeatedSteps] = []
    copies = dict(steps.copies)
    for part in steps.body:
        if isinstance(part, Step) or part.count < 2 or not all(isinstance(inner, Step) for inner in part.body):
            made.append(part)
            continue
        outside = variables_in(tuple(other for other in steps.body if other is not part))
        loop = _Loop(steps, part, [inner for inner in part.body if isinstance(inner, Step)], outside | kept)
        made += loop.split(copies)
    return LoopedSteps(steps.program, _later_fills(made), copies)


def _later_fills(body: Sequence[Step | RepeatedSteps]) -> Body:
    """Variables are filled right before something touches them: what stands between begins without them."""
    waiting: list[Step] = []
    made: list[Step | RepeatedSteps] = []
    for part in body:
        if isinstance(part, Step) and isinstance(part.first.operation, ir.Fill):
            waiting.append(part)
            continue
        names = variables_in((part,))
        made += [fill for fill in waiting if _written(fill) in names]
        waiting = [fill for fill in waiting if _written(fill) not in names]
        made.append(part)
    return (*made, *waiting)


@dataclass(frozen=True)
class _Loop:
    """A loop of steps. `shared`: variables that something else touches, too."""

    steps: LoopedSteps
    loop: RepeatedSteps
    body: Sequence[Step]
    shared: AbstractSet[str]

    def split(self, copies: dict[str, int]) -> Iterator[Step | RepeatedSteps]:
        """The loops that it becomes; what gets copies is put down in `copies`."""
        own = set(self._own())
        groups, between = self._groups(own), list[str]()
        while between := sorted(self._between(groups, own), key=lambda name: (self.steps.size(name), name)):
            if sum(map(self.steps.size, between)) * self.loop.count <= MOST_COPIED:
                break
            own.remove(between[-1])
            groups = self._groups(own)
        strides = {name: self.steps.size(name) for name in between}
        for group in groups:
            parts = tuple(_with_copies(self.body[k], self.loop.index, strides) for k in group)
            at_once = self._at_once(parts[0]) if len(parts) == 1 else None
            yield RepeatedSteps(self.loop.index, self.loop.count, parts) if at_once is None else at_once
        for name in between:
            copies[name] = copies.get(name, 1) * self.loop.count

    def _at_once(self, step: Step) -> Step | None:
        """All rounds of a step that is alone in its loop; None where it needs its earlier rounds, or is large."""
        sources = step.first.sources
        most = max(step.first.out.size, *(source.elements.size for source in sources), 1)
        if most * self.loop.count > MOST_AT_ONCE or any(source.variable == _written(step) for source in sources):
            return None
        return all_rounds(step, {self.loop.index: self.loop.count})

    def _between(self, groups: Sequence[Sequence[int]], own: AbstractSet[str]) -> Iterator[str]:
        """What is written in one loop and read in another, round by round."""
        for name in own:
            if sum(any(name in _names(self.body[k]) for k in group) for group in groups) > 1:
                yield name

    def _own(self) -> Iterator[str]:
        """Variables that each round writes, and all of them, before it reads any."""
        for name in sorted({_written(step) for step in self.body} - self.shared):
            first = next(step for step in self.body if name in _names(step))
            whole = not first.out_moves and len(set(first.first.out.reshape(-1).tolist())) == self.steps.size(name)
            if whole and _written(first) == name and not any(s.variable == name for s in first.first.sources):
                yield name

    def _groups(self, own: AbstractSet[str]) -> list[list[int]]:
        """Numbers of steps that must stay in one loop, in an order in which the loops may run. Rounds are independent but for
        variables that are written and are not their `own`."""
        count = len(self.body)
        needs = np.zeros((count, count), dtype=bool)  # [later, earlier]
        for name in {_written(step) for step in self.body}:
            concerned = [k for k, step in enumerate(self.body) if name in _names(step)]
            for later in concerned:
                for earlier in concerned:
                    needs[later, earlier] |= earlier < later or name not in own
        np.fill_diagonal(needs, True)
        for through in range(count):  # Warshall, Journal of the ACM 1962
            needs |= needs[:, through, None] & needs[through]
        together = needs & needs.T
        groups = {tuple(np.flatnonzero(row).tolist()) for row in together}
        # Who needs more of the others runs later.
        return [list(group) for group in sorted(groups, key=lambda group: (int(needs[group[0]].sum()), group))]


def _with_copies(step: Step, index: str, strides: Mapping[str, int]) -> Step:
    """The step with what it touches moved to the copy of each round."""

    def further(moves: ElementMoves, variable: str | None) -> ElementMoves:
        if variable is None or variable not in strides:
            return moves
        factors = dict(moves)
        return tuple((factors | {index: factors.get(index, 0) + strides[variable]}).items())

    named = zip(step.first.sources, step.moves, strict=True)
    moves = tuple(further(m, source.variable) for source, m in named)
    return replace(step, out_moves=further(step.out_moves, _written(step)), moves=moves)


def _written(step: Step) -> str:
    return step.first.operation.out.variable


def _names(step: Step) -> set[str]:
    return variables_in((step,))
