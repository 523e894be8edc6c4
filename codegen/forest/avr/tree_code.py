"""A tree as instructions of an AVR: what many samples come by is a load, a comparison and a branch each; the rest is stored where it is
called for, in three bytes a comparison.

A call leaves the address behind it on the stack, which is where the routine finds what is stored. Conditional branches reach 64 words,
so of two ways the shorter one follows at once, and a leaf that stands near is branched to again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilotune.codegen.forest.avr.leaves import VotingLeaves
from kilotune.codegen.forest.integers import Branch, Threshold

BRANCH_REACH = 63
"""Words that a conditional branch reaches, counted from the one behind it."""

LONGEST_SKIP = 255
"""Bytes that a right branch may be behind the left one."""

LEFT, RIGHT = "brlt", "brge"
"""After a comparison of the feature with the least integer that goes right."""

LEFT_CYCLES, RIGHT_CYCLES, ARRIVAL_CYCLES, CALL_CYCLES = 19.0, 22.0, 6.0, 9.0
"""What a walk takes through what is stored: a comparison that goes left, or right; finding a leaf; getting there."""


@dataclass(frozen=True)
class TreeLine:
    """What stands at word `at` of a tree. `target`: the word that its `@` stands for."""

    at: int
    text: str
    target: int | None = None


@dataclass(frozen=True)
class TreePart:
    """Instructions up to the word `end`; `cycles` of all samples together. `leaves`: where leaves stand last, by number."""

    lines: tuple[TreeLine, ...]
    end: int
    cycles: float
    leaves: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredPart:
    """Bytes, and cycles of all samples together from where each meets the first of them."""

    octets: bytes
    cycles: float


@dataclass(frozen=True)
class TreeWriter:
    """Writes trees. Comparisons that at least `least` samples meet are instructions, and those that cannot be stored."""

    leaves: VotingLeaves
    least: float

    def whole(self, tree: Branch, samples: int) -> TreePart:
        """A tree, which ends by a return."""
        return self._branch(tree, samples, 0, {})

    def _branch(self, branch: Branch, samples: int, at: int, known: Mapping[int, int]) -> TreePart:
        if isinstance(branch, int):
            return self._leaf(branch, samples, at, known)
        stored = self._stored(branch) if branch.samples < self.least else None
        if stored is None:
            return self._comparison(branch, at, known)
        return self._called("walk", stored.octets, at, samples * CALL_CYCLES + stored.cycles, known)

    def _leaf(self, leaf: int, samples: int, at: int, known: Mapping[int, int]) -> TreePart:
        called = self.leaves.called(leaf)
        here = {**known, leaf: at}
        if called.behind:
            return self._called(called.routine, called.behind, at, samples * (3 + called.cycles), here)
        return TreePart((TreeLine(at, f"rjmp @{called.routine}"),), at + 1, samples * (2 + called.cycles), here)

    def _called(self, routine: str, behind: bytes, at: int, cycles: float, known: Mapping[int, int]) -> TreePart:
        padded = behind + bytes(len(behind) % 2)
        data = TreeLine(at + 1, f".byte {', '.join(map(str, padded))}")
        return TreePart((TreeLine(at, f"rcall @{routine}"), data), at + 1 + len(padded) // 2, cycles, known)

    def _comparison(self, branch: Threshold, at: int, known: Mapping[int, int]) -> TreePart:
        lines = (TreeLine(at, f"ldd r24, Y+{branch.feature}"), TreeLine(at + 1, f"cpi r24, {branch.threshold + 1}"))
        left, right = branch.left_samples, branch.samples - branch.left_samples
        ways = [(LEFT, branch.left, left), (RIGHT, branch.right, right)]
        ways.sort(key=lambda way: self._nearness(way[1], at + 2, known))
        (taken, aside, many), (other, following, rest) = ways
        cycles = 3.0 * branch.samples
        if isinstance(aside, int) and self._reached(aside, at + 2, known):
            part = self._branch(following, rest, at + 3, known)
            jumped = self._at_leaf(aside, many)
            return TreePart((*lines, TreeLine(at + 2, f"{taken} @", known[aside]), *part.lines), part.end,
                        cycles + 2 * many + rest + jumped + part.cycles, part.leaves)  # fmt: skip
        return self._both(lines, cycles, (other, following, rest), (aside, many), at + 2, known)

    def _at_leaf(self, leaf: int, samples: int) -> float:
        return self._leaf(leaf, samples, 0, {}).cycles

    def _reached(self, leaf: int, at: int, known: Mapping[int, int]) -> bool:
        return leaf in known and at - known[leaf] <= BRANCH_REACH

    def _nearness(self, branch: Branch, at: int, known: Mapping[int, int]) -> float:
        """What is branched to first: a leaf that is near, then what is smallest."""
        if isinstance(branch, int):
            return 0.0 if self._reached(branch, at, known) else 1.0
        return 2.0 + branch.samples

    def _both(
        self,
        lines: tuple[TreeLine, ...],
        cycles: float,
        behind: tuple[str, Branch, int],
        near: tuple[Branch, int],
        at: int,
        known: Mapping[int, int],
    ) -> TreePart:
        """A branch at `at` to the way `behind` the one that is near."""
        condition, far_branch, far_samples = behind
        near_branch, near_samples = near
        first = self._branch(near_branch, near_samples, at + 1, known)
        words = first.end - (at + 1)
        if words <= BRANCH_REACH:
            jumps: tuple[TreeLine, ...] = (TreeLine(at, f"{condition} @", first.end),)
            cycles += near_samples + 2 * far_samples
        else:
            first = self._branch(near_branch, near_samples, at + 2, known)
            opposite = LEFT if condition == RIGHT else RIGHT
            jumps = (TreeLine(at, f"{opposite} @", at + 2), TreeLine(at + 1, "rjmp @", first.end))
            cycles += 2 * near_samples + 3 * far_samples
        second = self._branch(far_branch, far_samples, first.end, first.leaves)
        return TreePart((*lines, *jumps, *first.lines, *second.lines), second.end,
                    cycles + first.cycles + second.cycles, second.leaves)  # fmt: skip

    def _stored(self, branch: Branch, samples: int = 0) -> StoredPart | None:
        """[feature][least integer that goes right][bytes of the left branch][left][right]; None where a byte is not enough for them."""
        if isinstance(branch, int):
            octets, cycles = self.leaves.stored(branch)
            return StoredPart(octets, samples * (ARRIVAL_CYCLES + cycles))
        many, rest = branch.left_samples, branch.samples - branch.left_samples
        left, right = self._stored(branch.left, many), self._stored(branch.right, rest)
        if left is None or right is None or len(left.octets) > LONGEST_SKIP:
            return None
        head = bytes([branch.feature, (branch.threshold + 1) & 0xFF, len(left.octets)])
        cycles = left.cycles + right.cycles + many * LEFT_CYCLES + rest * RIGHT_CYCLES
        return StoredPart(head + left.octets + right.octets, cycles)


def walk() -> list[str]:
    """The routine that goes through what is stored behind the call of it."""
    return [
        *("@walk:", "pop r31", "pop r30", "lsl r30", "rol r31"),
        *("@node:", "lpm r26, Z+", "sbrc r26, 7", "rjmp @leaf"),
        *("add r26, r28", "mov r27, r29", "adc r27, r1", "ld r24, X"),
        *("lpm r25, Z+", "cp r24, r25", "lpm r0, Z+", "brlt @node"),
        *("add r30, r0", "adc r31, r1", "rjmp @node"),
    ]


def tree_lines(part: TreePart, name: str) -> list[str]:
    """The text of a tree, from the label of its name on."""
    targets = {line.target for line in part.lines if line.target is not None}
    lines = [f"@{name}:"]
    for line in part.lines:
        lines += [f"@{name}_{line.at}:"] if line.at in targets else []
        lines.append(line.text if line.target is None else f"{line.text}{name}_{line.target}")
    return lines
