"""What 16 integers of a matrix's own keep that 16 equal steps lose.

    python -m kilotune.experiments.benchmarks.codebooks [--rounding NAME] [MODEL ...]

Each bundled classifier with every weight of its products in 4 bits, in each way to say what these stand for, and all else in 8 bits at the
first scale that is offered: flash, expected flips, and accuracy on training and test samples. `--rounding`: how programs
divide, as `tune --rounding` has it; of `any` the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kilotune.experiments.benchmarks.stored_parameters import ALL, BUNDLED, ROUNDINGS
from kilotune.experiments.benchmarks.unpacking import narrowed
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment
from kilotune.spaces.shiftry.formats import CODEBOOK, SEQUENTIAL, parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

FORMS = ("", SEQUENTIAL, " by rows sequential", CODEBOOK, CODEBOOK + SEQUENTIAL)


def candidates(space: ShiftrySpace) -> Iterator[tuple[str, Assignment]]:
    """8 bits everywhere, then each form of 4 bits; parameters that it is not offered for have none of their rows' own scales."""
    eight = narrowed(space, None)
    yield "8 bits", eight
    for form in FORMS:
        chosen = dict(eight)
        for decision in space.format_decisions:
            options = [str(o) for o in decision.options if parse_format(str(o)).bits == 4]
            if not any(o.endswith(SEQUENTIAL) for o in options):
                continue
            plain = [o for o in options if o.endswith(SEQUENTIAL) == form.endswith(SEQUENTIAL)]
            wanted = [o for o in plain if o.partition("@")[2].lstrip("-0123456789") == form]
            chosen[decision.name] = (wanted or plain)[0]
        yield f"4 bits{form}", chosen


def main() -> None:
    """A line of a Markdown table a model and form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=BUNDLED)
    parser.add_argument("--rounding", choices=ROUNDINGS)
    given = parser.parse_args()
    options = {**ALL, **({} if given.rounding is None else {"rounding": given.rounding})}
    print("| model | weights | flash | expected flips | train | test |")
    for model in given.models:
        problem = build_problem(TuneRequest("shiftry", str(resolve_input(model)), "random", options=options))
        assert isinstance(problem.space, ShiftrySpace)
        for what, candidate in candidates(problem.space):
            (found,) = problem.space.evaluate([candidate])
            metrics, test = found.metrics, problem.test_metrics(candidate) or {}
            print(
                f"| {model} | {what} | {metrics['flash_bytes']:.0f} | {metrics['expected_flips']:.2f} "
                f"| {metrics['accuracy_percent']:.2f} | {test['accuracy_percent']:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
