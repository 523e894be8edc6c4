"""The program of a forest in the assembler of an AVR: one function that has the scores in registers and calls for tree after tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.forest.avr.arrangement import Group, arrange, largest_tree, overhead
from kilotune.codegen.forest.avr.leaves import MOST_SCORES, VotingLeaves, score_register
from kilotune.codegen.forest.avr.tree_code import TreePart, TreeWriter, tree_lines, walk
from kilotune.codegen.forest.plan import CODE, ForestPlan

_AVR = (
    "defined(__AVR_HAVE_LPMX__) && defined(__AVR_HAVE_MOVW__) && !defined(__AVR_HAVE_ELPM__) && !defined(__AVR_XMEGA__) "
    "&& !defined(__AVR_3_BYTE_PC__)"
)

MOST_FEATURES = 64
"""Bytes that a load reaches from where a pointer points to."""

ENTRY_CYCLES, BEST_CYCLES = 3.0, 4.3
"""What the function takes besides what is counted; about what comparing a score with the best so far takes."""


def assembled(plan: ForestPlan) -> bool:
    """Whether there is a program in assembler: classes told by at most 10 scores of 16 bits to which every tree adds rows of votes,
    at most 64 features of 8 bits, and no tree that relative jumps could not cross."""
    forest, votes = plan.forest, plan.votes
    leaves = forest.leaves
    if votes is None or forest.source.class_count is None or not 2 <= len(forest.base) <= MOST_SCORES:
        return False
    if leaves.score_bits != 16 or (plan.weight_bytes == 1 and leaves.signed) or votes.whole >= 1 << 15:
        return False
    if forest.features.bits != 8 or forest.source.feature_count > MOST_FEATURES:
        return False
    common = shared(plan)
    room = largest_tree(common.function_words + 2 * len(plan.trees) + 1, common.routine_words)
    return all(tree_part(plan, number, CODE).end <= room for number in range(len(plan.trees)))


def condition(lines: Sequence[str]) -> str:
    """What the preprocessor asks for: an AVR of at most 64 KB of flash, registers in its data space, and all these instructions."""
    long = " && defined(__AVR_HAVE_JMP_CALL__)" if any(line.startswith("call") for line in lines) else ""
    return f"{_AVR}{long}"


def leaves_of(plan: ForestPlan) -> VotingLeaves:
    """What the leaves of an assembled plan do."""
    assert plan.votes is not None
    return VotingLeaves(plan.votes, plan.weight_bytes)


def tree_part(plan: ForestPlan, number: int, least: float) -> TreePart:
    """A tree with comparisons that at least `least` samples meet as instructions."""
    return TreeWriter(leaves_of(plan), least).whole(plan.trees[number], plan.samples)


@dataclass(frozen=True)
class Shared:
    """What all programs of an assembled forest have in common: words of the function without its calls for trees, and of what trees call;
    mean cycles of the function."""

    function_words: int
    routine_words: int
    cycles: float

    def groups(self, tree_words: Sequence[int]) -> tuple[Group, ...]:
        """Where trees of so many words stand."""
        return arrange(tree_words, self.function_words + 2 * len(tree_words) + 1, self.routine_words)

    def size(self, tree_words: Sequence[int]) -> tuple[int, float]:
        """(bytes of the program with trees of so many words, its cycles outside of the trees)."""
        more = overhead(self.groups(tree_words), self.routine_words)
        words = self.function_words + self.routine_words + more.words + sum(tree_words)
        return 2 * words, self.cycles + more.cycles


def shared(plan: ForestPlan) -> Shared:
    """What an assembled plan has besides its trees."""
    before, after = _before(plan), _after(plan)
    straight = sum(_cycles(line) for line in [*before, *_restored(plan)])
    best = BEST_CYCLES * (len(plan.forest.base) - 1) + 2
    return Shared(_words([*before, *after]), _words(_routines(plan)), straight + best + ENTRY_CYCLES)


def _words(lines: Sequence[str]) -> int:
    """How many words instructions take; none of them is data."""
    return sum(0 if line.endswith(":") else 2 if line.startswith(("jmp", "call")) else 1 for line in lines)


def _cycles(line: str) -> int:
    return 0 if line.endswith(":") else 2 if line.startswith(("push", "pop")) else 4 if line == "ret" else 1


def program_lines(plan: ForestPlan) -> list[str]:
    """The whole function of an assembled plan, from its first instruction on; `@` begins labels."""
    parts = [tree_part(plan, number, plan.least[number]) for number in range(len(plan.trees))]
    groups = shared(plan).groups([part.end for part in parts])
    near = groups[0].trees
    asked = [f"{'rcall' if number in near else 'call'} @tree{number}" for number in range(len(parts))]
    lines = ["rjmp @start"] if groups[0].ahead else []
    for place, group in enumerate(groups):
        function = ["@start:", *_before(plan), *asked, *_after(plan)] if place == 0 else []
        ahead, behind = (
            [line for n in ns for line in tree_lines(parts[n], f"tree{n}")] for ns in (group.ahead, group.behind)
        )
        of_group = [*ahead, *function, *_routines(plan), *behind]
        lines += [line.replace("@", f"@{place}_") if _of_group(line) else line for line in of_group]
    return lines


def _of_group(line: str) -> bool:
    """Whether a label is of the routines, which every group has."""
    return "@" in line and not line.split("@")[1].startswith(("tree", "start", "below"))


def _saved(plan: ForestPlan) -> list[int]:
    """Registers that a function may change only if it restores them."""
    lowest = score_register(len(plan.forest.base) - 1)
    return [*range(lowest, 18), 28, 29]


def _before(plan: ForestPlan) -> list[str]:
    votes = plan.votes
    assert votes is not None
    lines = [f"push r{register}" for register in _saved(plan)] + ["movw r28, r24"]
    for score, base in enumerate(plan.forest.base.tolist()):
        for register, value in zip((at := score_register(score), at + 1), (base & 0xFF, base >> 8 & 0xFF), strict=True):
            lines += [f"clr r{register}"] if value == 0 else [f"ldi r24, {value}", f"mov r{register}, r24"]
    return [*lines, f"ldi r22, {votes.whole & 0xFF}", f"ldi r23, {votes.whole >> 8}"]


def _after(plan: ForestPlan) -> list[str]:
    """The first of the largest scores is the class."""
    lines = [f"movw r24, r{score_register(0)}", "ldi r22, 0"]
    for score in range(1, len(plan.forest.base)):
        at = score_register(score)
        lines += [
            f"cp r24, r{at}",
            f"cpc r25, r{at + 1}",
            f"brge @below{score}",
            f"movw r24, r{at}",
            f"ldi r22, {score}",
        ]
        lines += [f"@below{score}:"]
    return [*lines, *_restored(plan)]


def _restored(plan: ForestPlan) -> list[str]:
    return ["mov r24, r22", "clr r25", *(f"pop r{register}" for register in reversed(_saved(plan))), "ret"]


def _routines(plan: ForestPlan) -> list[str]:
    leaves = leaves_of(plan)
    return [*walk(), *leaves.of_stored(), *leaves.routines()]
