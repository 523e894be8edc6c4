"""The loop of the fuzzer: kinds in turn, cases by number, findings stored small."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.finding_files import save_finding
from kilotune.experiments.fuzz.kind import Kind, MutationRecipe, made_corpus, make, recipe_of
from kilotune.experiments.fuzz.sandbox import Ran, run_case
from kilotune.experiments.fuzz.shrinking import shrink
from kilotune.experiments.fuzz.verdict import Finding, judge
from kilotune.experiments.fuzz.warming import warm_up


@dataclass
class Tally:
    """What a kind's cases came to."""

    cases: int = 0
    accepted: int = 0  # as their kind sees it
    refused: int = 0  # exit 4, for the input
    findings: dict[str, int] = field(default_factory=dict)  # cases by signature
    slowest_s: float = 0.0
    largest_bytes: int = 0

    def add(self, ran: Ran, finding: Finding | None, accepted: bool) -> bool:
        """Count a case; whether it is the first of its finding."""
        self.cases += 1
        self.accepted += accepted
        self.refused += ran.status == 4 and not accepted
        self.slowest_s = max(self.slowest_s, ran.cpu_s)
        self.largest_bytes = max(self.largest_bytes, ran.peak_bytes)
        if finding is None:
            return False
        self.findings[finding.signature] = self.findings.get(finding.signature, 0) + 1
        return self.findings[finding.signature] == 1


@dataclass(frozen=True)
class Extent:
    """How far a campaign goes: until a time is up or each kind has had its cases, whichever is first."""

    seconds: float
    cases: int  # of all kinds together
    first: int = 0  # number of the first case of each kind
    attempts: int = 60  # runs that are spent on making one finding small


def one_of_each_command(kinds: Sequence[Kind]) -> list[FuzzCase]:
    """A case of the corpora for every kind and command line: all that the commands import and load."""
    return list({(kind.name, case.arguments): case for kind in kinds for case in made_corpus(kind)}.values())


def run_campaign(
    kinds: Sequence[Kind],
    seed: int,
    extent: Extent,
    scratch: Path,
    findings: Path,
    tell: Callable[[Kind, Finding, Path], None],
    on_case: Callable[[dict[str, Tally]], None],
) -> dict[str, Tally]:
    """Run cases of all kinds in turn and store the first case of every finding, made small. Ctrl-C ends it. Tallies by kind."""
    tallies = {kind.name: Tally() for kind in kinds}
    warm_up(one_of_each_command(kinds), scratch)
    started, number = time.monotonic(), extent.first
    try:
        while True:
            for kind in kinds:
                done = sum(tally.cases for tally in tallies.values())
                if done >= extent.cases or time.monotonic() - started >= extent.seconds:
                    return tallies
                recipe = recipe_of(kind, seed, number)
                case = make(kind, recipe)
                ran = run_case(case, scratch)
                finding = judge(kind, case, ran)
                accepted = kind.took(ran.status, ran.stderr)
                if tallies[kind.name].add(ran, finding, accepted) and finding is not None:
                    path = _store(kind, recipe, finding, scratch, findings, extent.attempts)
                    tell(kind, finding, path)
                on_case(tallies)
            number += 1
    except KeyboardInterrupt:
        return tallies


def _store(kind: Kind, recipe: MutationRecipe, finding: Finding, scratch: Path, findings: Path, attempts: int) -> Path:
    def holds(case: FuzzCase) -> bool:
        found = judge(kind, case, run_case(case, scratch))
        return found is not None and found.signature == finding.signature

    slow = finding.fault.startswith("over")
    case = make(kind, recipe) if slow else shrink(kind, recipe, holds, attempts)
    return save_finding(findings, case, recipe, finding)


def replay(kind: Kind, case: FuzzCase, scratch: Path) -> tuple[Ran, Finding | None]:
    """A stored case once more."""
    ran = run_case(case, scratch)
    return ran, judge(kind, case, ran)
