"""From splits to a plan: in reverse order they are the additions of a program (AUKE Section 3.1.3)."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import DIRECTIONS, Sum
from kilotune.spaces.reverse_split.splits import Split, Sums, Transformation, after_split, from_image, start_sums


class UnfinishedSplitsError(ValueError):
    """Splits that do not lead back to the image; the message is a sentence."""


def plan_of_splits(wanted: Sequence[Sum], depth: int, splits: Sequence[Split], shared: bool = True) -> Plan:
    """The unrelaxed plan, in instructions of the `auke` set, in the order that the splits undo themselves.

    A value that is there already is not computed again when `shared`; otherwise no value but the sums of the states outlives
    its split, which takes fewer registers.

    UnfinishedSplitsError when more than one sum is left, or one that is no pixel.
    """
    states = [start_sums(wanted)]
    for split in splits:
        states.append(after_split(states[-1], split))
    writer = _SplitWriter(depth, shared)
    if states[-1]:
        first = from_image(states[-1], depth)
        if first is None:
            raise UnfinishedSplitsError("The splits end in sums that no single transformation makes of the image.")
        writer.values[states[-1][0]] = writer.negated(writer.transformed(0, first), first)
    for sums, split in zip(reversed(states[:-1]), reversed(splits), strict=True):
        writer.join(sums, split)
    results = tuple(writer.values[total] if total else writer.write("zero") for total in wanted)
    return Plan("auke", depth, tuple(writer.steps), results)


class _SplitWriter:
    """Steps so far, and the value of every sum that is there. A step that is there already is not written again."""

    def __init__(self, depth: int, shared: bool) -> None:
        self._shared = shared
        self.steps: list[PlanStep] = []
        self.values: dict[Sum, int] = {Sum.image(depth): 0}
        self._known: dict[PlanStep, int] = {}

    def write(self, op: str, *operands: int) -> int:
        step = PlanStep(op, operands)
        if step not in self._known or not self._shared:
            self.steps.append(step)
            self._known[step] = len(self.steps)
        return self._known[step]

    def transformed(self, value: int, t: Transformation) -> int:
        """All of a transformation but its sign."""
        for _ in range(-t.doublings):
            value = self.write("div2", value)
        x, y = t.east, t.north
        for direction, (dx, dy) in DIRECTIONS.items():
            for _ in range(max(x * dx + y * dy, 0)):
                value = self.write(direction, value)
        for _ in range(t.doublings):
            value = self.write("add", value, value)
        return value

    def negated(self, value: int, t: Transformation) -> int:
        return self.write("neg", value) if t.negated else value

    def join(self, sums: Sums, split: Split) -> None:
        """The split sums, from B and the remainders."""
        t = split.transformation
        b = self.values[split.b]
        a = self.transformed(b, t)
        remainders = split.remainders(sums)
        if split.a_from == split.b_from:
            whole = self.write("sub", b, a) if t.negated else self.write("add", b, a)
            if remainders[0]:
                whole = self.write("add", whole, self.values[remainders[0]])
            self.values[sums[split.a_from]] = whole
            return
        a_rest, b_rest = remainders
        if a_rest:
            rest = self.values[a_rest]
            whole = self.write("sub", rest, a) if t.negated else self.write("add", rest, a)
        else:
            whole = self.negated(a, t)
        self.values[sums[split.a_from]] = whole
        self.values[sums[split.b_from]] = self.write("add", b, self.values[b_rest]) if b_rest else b
