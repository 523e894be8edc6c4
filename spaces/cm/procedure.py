"""What the paper does: no replication, and a placement by an SMT solver with connected partitions on linked cores.

Where there is none (a residual triangle never fits a mesh), the same question with routes of two links, then three and so on:
the paper has no answer there. Baselines go first: snake order without replicas, then with the balanced ones.
"""

from __future__ import annotations

import math
import time

import numpy as np

from kilotune.codegen.cm.pipeline import GMEM
from kilotune.search.space import Assignment, Procedure
from kilotune.spaces.cm.baselines import balanced_replicas, snake_placement
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.embedding import (
    Embedding,
    EmbeddingResult,
    load_solvers,
    solve_with_cp_sat,
    solve_without_quantifiers,
)
from kilotune.spaces.cm.lowered import LoweredPipeline

REFUTING_EFFORT = 0.25
"""In CP-SAT's deterministic seconds, so that a busy machine gives up no sooner."""

MOST_STEPS = 20_000_000
"""Steps of Z3, by its own count, for all questions together: about ten seconds, and the same answer on every machine."""

MOST_LINKS = 6
MOST_LITERALS = 400_000
"""Larger formulas take minutes to write down; no solver has answered one in the time that is left then."""


def paper_procedure(space: CmCandidates) -> Procedure:
    """Ends with the embedding; with snake order where no solver finds one in time. What is measured soonest comes first: a
    replicated network takes several times as long."""
    once = snake_candidate(space, balanced=False)
    yield [once]
    yield [snake_candidate(space, balanced=True)]
    cores = embedded_cores(space)
    yield [once if cores is None else space.candidate({}, cores)]


def embedded_cores(
    space: CmCandidates, seconds: float = math.inf, most_literals: int = MOST_LITERALS, *, refute_first: bool = False
) -> tuple[int, ...] | None:
    """The cores of the stages, once each, over routes as short as a solver finds in that time and MOST_STEPS; None: it finds none.

    `refute_first`: CP-SAT looks first whether routes are too short for any placement, which it knows some eight times sooner
    than Z3, and nothing is asked that half of the time is not left for. The placement is the same where there is one.
    """
    once = space.lowered({})
    if len(once.pipeline.stages) > space.hardware.cores:
        return None  # some would have to share a core
    load_solvers()
    deadline, steps = time.monotonic() + seconds, MOST_STEPS
    for links in range(1, 2 if space.strict else MOST_LINKS + 1):
        problem = embedding_of(once, space, links)
        if refute_first and _literals(problem) <= most_literals:
            refuting = deadline - time.monotonic() - seconds / 2
            if refuting > 0 and solve_with_cp_sat(problem, refuting, effort=REFUTING_EFFORT).impossible:
                continue
            if deadline - time.monotonic() < seconds / 2:
                return None
        found = _solve(problem, deadline - time.monotonic(), steps, most_literals)
        if found.cores is not None:
            return found.cores
        steps -= found.steps
    return None


def snake_candidate(space: CmCandidates, balanced: bool) -> Assignment:
    """Stages in their order along the rows of cores, on first routes."""
    replicas = balanced_replicas(space) if balanced else {}
    return space.candidate(replicas, snake_placement(space.lowered(replicas), space.hardware))


def embedding_of(lowered: LoweredPipeline, space: CmCandidates, links: int) -> Embedding:
    """Every edge between stages over at most so many links."""
    pairs = {(s.writer, s.reader) for s in lowered.streams if GMEM not in (s.writer, s.reader)}
    cores = space.hardware.cores
    distance = space.tables.distance[:cores, :cores]
    near = (distance <= links) & ~np.eye(cores, dtype=bool)
    return Embedding(len(lowered.pipeline.stages), tuple(sorted(pairs)), near)


def _solve(problem: Embedding, seconds: float, steps: int, most_literals: int) -> EmbeddingResult:
    """By Z3. Partitions in the order of the cores are tried first: where everything is linked with everything, that is all
    there is to it."""
    in_order = tuple(range(problem.partitions))
    if problem.holds(in_order):
        return EmbeddingResult(in_order)
    if _literals(problem) > most_literals or seconds <= 0 or steps <= 0:
        return EmbeddingResult()
    return solve_without_quantifiers(problem, seconds, steps)


def _literals(problem: Embedding) -> int:
    """The number of literals in the formula of this embedding."""
    return 2 * len(problem.edges) * int(problem.near.sum())
