"""How far proofs of shortest SCAMP-5 programs get: named kernels and generated small sets, by the search that proves alone.

    python -m kilotune.experiments.benchmarks.program_proofs [--seconds 60] [--target auke] [--only NAME] [--thorough] [--jobs 1]

Every set is asked for a program of ever more instructions; the first one found is a shortest one. It is proved from its text by
symbolic execution. Seconds are CPU seconds of one core; with `--jobs` seconds of the clock, in which so many threads work.
Where they end before that, the search behind `tune` has `--walks` CPU seconds to find a program: one as long as the bound is a
shortest one as well. At the end: how many of the sets that have a program of at most 12 instructions (8 macros) are proved.
Of the others nobody knows whether they have one.
`--thorough`: by the search that meets every set of values, not one of
those that signs, symmetry and exchanges make of one another.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import click

from kilotune.codegen.scamp.registers import allocate
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.benchmarks.kernel_sets import generated_cases
from kilotune.experiments.benchmarks.kernel_table import SHORT
from kilotune.experiments.benchmarks.program_search import NONE, KernelCase, searched
from kilotune.experiments.benchmarks.reverse_split import cases
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.deepening import MOST_PROVABLE_TARGETS, Proof, proof_of
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS
from kilotune.spaces.reverse_split.trivial_results import distinct

SMALL = ("ternary 3x3", "ternary 3x3 x2", "3-bit 3x3")
"""Generated sets that have short programs."""

WORK_OF_A_SLICE = 200_000
ABOVE_ALL = 1 << 30
"""A cost above every program's."""


def proof_cases(seeds: int) -> Iterator[KernelCase]:
    """The named ones, then the small ones of as many seeds."""
    yield from cases()
    for seed in range(seeds):
        for case in generated_cases(seed):
            if case.name in SMALL:
                yield KernelCase(f"{case.name}, seed {seed}", case.depth, case.kernels)


@dataclass(frozen=True)
class ProofResult:
    """The instructions of a set's best known program, 0 where none is known, and whether none is shorter."""

    length: int
    proved: bool


@dataclass(frozen=True)
class ProofSearch:
    """What a set is searched with; see the command's options."""

    seconds: float
    most: int
    thorough: bool
    jobs: int
    walks: float

    def result(self, case: KernelCase, target: str) -> ProofResult | None:
        """What the search comes to, printed; None where the set certainly takes more than `most`, or has too many kernels."""
        clock = time.process_time if self.jobs == 1 else time.monotonic
        start = clock()
        wanted = distinct(case.approximated.sums, case.depth)
        bound = lower_bound(wanted, case.depth, target)
        if bound > self.most or not 0 < len(wanted) <= MOST_PROVABLE_TARGETS:
            return None
        proof = proof_of(wanted, target, case.depth, INSTRUCTIONS, bound, self.jobs)
        if self.thorough and proof.thorough is not None:
            proof = Proof(proof.thorough(), 1, bound)
        plan = None
        while plan is None and proof.open and clock() - start < self.seconds:
            plan = proof.advance(ABOVE_ALL, WORK_OF_A_SLICE)
        if plan is not None:
            prove(format_program(allocate(plan)), wanted, case.depth)
        spent = clock() - start
        length = len(plan.steps) if plan is not None else self._walked(case, target)
        click.echo(f"{case.name:26} {length or NONE!s:>8} {proof.bound:8} {spent:7.1f}")
        return ProofResult(length, length == proof.bound)

    def _walked(self, case: KernelCase, target: str) -> int:
        """Instructions of the best program of a short search; 0: none."""
        found = searched(case, target, self.walks).program if self.walks else None
        return found.instructions if found is not None else 0


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="CPU seconds a set.")
@click.option("--target", multiple=True, type=click.Choice(["auke", "scamp5"]))
@click.option("--seeds", default=3, show_default=True, help="Of generated sets.")
@click.option("--only", default="", help="A part of the names.")
@click.option("--most", default=12, show_default=True, help="Sets that certainly take more instructions are left out.")
@click.option("--thorough", is_flag=True)
@click.option("--jobs", default=1, show_default=True, help="Threads.")
@click.option("--walks", default=3.0, show_default=True, help="CPU seconds for a program where no proof finds one.")
def main(
    seconds: float, target: tuple[str, ...], seeds: int, only: str, most: int, thorough: bool, jobs: int, walks: float
) -> None:
    """Print the tables."""
    search = ProofSearch(seconds, most, thorough, jobs, walks)
    for name in target or ("auke", "scamp5"):
        click.echo(f"{name:26} {'program':>8} {'at least':>8} {'s':>7}")
        cases = [case for case in proof_cases(seeds) if only in case.name]
        found = [result for case in cases if (result := search.result(case, name)) is not None]
        short = [result for result in found if 0 < result.length <= SHORT[name]]
        click.echo(f"{sum(one.proved for one in found)} of {len(found)} proved")
        click.echo(
            f"{sum(one.proved for one in short)} of the {len(short)} sets with a program of at most {SHORT[name]} instructions proved"
        )


if __name__ == "__main__":
    main()
