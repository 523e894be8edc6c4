"""What leaves do in the assembler of an AVR: the votes of a row are added to scores in registers.

The registers of a classic AVR are the first 32 bytes of its data space, so a score that is known only from flash is reached through a
pointer, and one that is known when the program is written by the register's name. Throughout, r1 is zero, Y (r29:r28) points to the
features, r23:r22 is a whole vote. In texts of instructions `@name` is a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.forest.plan import Votes

MOST_SCORES = 10
"""Scores of 16 bits that there are registers for."""

LEAF = 0x80
"""In the first byte of what is stored: a leaf, and no comparison."""

WHOLE = 0x40
"""Beside it: a whole vote for the register whose number is in the other bits, and nothing follows."""

LAST = 0x80
"""In the first byte of an entry that is not the first: no other follows."""

RETURN = 4
"""Cycles of `ret`."""


def score_register(score: int) -> int:
    """The lower one of a score's two registers; those that a function may change without saving them come first."""
    return 20 - 2 * score


@dataclass(frozen=True)
class Called:
    """A leaf among instructions: the `routine` that it goes on with, by a jump, or by a call where `behind` are bytes that the routine
    reads behind it; `cycles` there, up to its return."""

    routine: str
    behind: bytes
    cycles: float


@dataclass(frozen=True)
class VotingLeaves:
    """Leaves are numbers of `votes`; a weight takes `weight_bytes` in flash (a single one has no sign)."""

    votes: Votes
    weight_bytes: int

    def called(self, leaf: int) -> Called:
        """A leaf among instructions."""
        if leaf < self.votes.classes:
            return Called(f"vote{leaf}", b"", 2.0 + RETURN)
        row = self.votes.rows[leaf - self.votes.classes]
        return Called("row", self._entries(row, marked=False), 7 + 3 + self._row_cycles(row))

    def stored(self, leaf: int) -> tuple[bytes, float]:
        """(bytes of a leaf below comparisons that are stored, cycles from where the first of them is known to be one)."""
        if leaf < self.votes.classes:
            return bytes([LEAF | WHOLE | score_register(leaf)]), 1.0 + 2 + 1 + 10 + RETURN
        row = self.votes.rows[leaf - self.votes.classes]
        if len(row) == 1:  # the first entry has no room for the mark of the last one
            row = (*row, (row[0][0], 0))
        return self._entries(row, marked=True), 1 + 1 + 2 + 1 + 2 + self._row_cycles(row)

    def _entries(self, row: Sequence[tuple[int, int]], marked: bool) -> bytes:
        mask, found = (1 << 8 * self.weight_bytes) - 1, bytearray()
        for place, (score, weight) in enumerate(row):
            mark = LEAF if marked and place == 0 else LAST if place == len(row) - 1 else 0
            found += bytes([score_register(score) // 2 | mark])
            found += (weight & mask).to_bytes(self.weight_bytes, "little")
        return bytes(found)

    def _row_cycles(self, row: Sequence[tuple[int, int]]) -> float:
        """From `known` to the return. That the sum of lower bytes has a carry is taken to be as likely as the weight is large."""
        weight_cycles = 3 * self.weight_bytes
        last = 1 + 2 + weight_cycles + 10 + RETURN
        if self.weight_bytes == 2:
            return float((len(row) - 1) * (1 + 1 + weight_cycles + 10 + 2 + 3) + last)
        carries = sum(weight / 256 for _, weight in row[:-1])
        return (len(row) - 1) * (1 + 1 + weight_cycles + 5 + 2 + 3) + carries * 6 + last

    def routines(self) -> list[str]:
        """What leaves among instructions go on with."""
        lines = list[str]()
        for leaf in range(self.votes.classes) if self.votes.whole else ():
            at = score_register(leaf)
            lines += [f"@vote{leaf}:", f"add r{at}, r22", f"adc r{at + 1}, r23", "ret"]
        weight = [f"lpm r{24 + byte}, Z+" for byte in range(self.weight_bytes)]
        wide = self.weight_bytes == 2
        added = _added("r24", "r25" if wide else "r1")
        body = (
            [*added, "rjmp @entry"]
            if wide
            else [*added[:3], "brcc @entry", "ld r0, X", "inc r0", "st X, r0", "rjmp @entry"]
        )
        return [
            *lines,
            *("@row:", "pop r31", "pop r30", "lsl r30", "rol r31", "clr r27"),
            *("@entry:", "lpm r26, Z+", "@known:", "lsl r26", "brcs @last"),
            *(*weight, *body),
            *("@last:", *weight, *added, "ret"),
        ]

    def of_stored(self) -> list[str]:
        """Where a walk goes on that has found the first byte of a leaf, in r26; the others are at Z."""
        whole = ["@whole:", "andi r26, 0x1f", *_added("r22", "r23"), "ret"]
        return [
            "@leaf:",
            "clr r27",
            "sbrs r26, 6",
            "rjmp @first",
            *whole[1:],
            "@first:",
            "andi r26, 0x7f",
            "rjmp @known",
        ]


def _added(low: str, high: str) -> list[str]:
    """The score at X gets more by two registers."""
    return ["ld r0, X", f"add r0, {low}", "st X+, r0", "ld r0, X", f"adc r0, {high}", "st X, r0"]
