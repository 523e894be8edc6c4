"""The eight filters of AUKE's evaluation, and our best program for each within a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from kilotune.codegen.scamp.kernel import Kernel
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.problems.reverse_split.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.study import Study

FIGURES = Path("figures")

EVALUATED = (
    ("Gauss3", "gauss3"),
    ("Gauss5", "gauss5"),
    ("Box3", "box3"),
    ("Box5", "box5"),
    ("Box7", "box7"),
    ("Sobel", "sobel"),
    ("Laplacian", "laplacian"),
    ("Sharpen", "sharpen"),
)
"""As the paper calls them, and as `tune list filters` does."""

AVERAGING = ("Gauss3", "Gauss5", "Box3", "Box5", "Box7")


@dataclass(frozen=True)
class FoundProgram:
    """A proved program, the kernel that it computes, whether nothing shorter exists, and what finding it took."""

    text: str
    program: ScampProgram
    kernel: Kernel
    proved: bool
    cpu_seconds: float


def best_program(name: str, target: str, seconds: float, objective: str = "instructions") -> FoundProgram:
    """The best that the space's own strategy finds for a well-known filter. ValueError when it finds none."""
    _, entry = find_entry("reverse-split")
    request = TuneRequest(
        "reverse-split", name, entry.best_strategy, options={"target": target, "objective": objective}
    )
    problem = build_problem(request)
    start = time.process_time()
    result = Study(problem.space, request.strategy).run(InProcessExecutor(problem.space), Budget(seconds=seconds))
    if result.best is None or result.best.measurement.failure is not None:
        raise ValueError(f"{name}: no program within {seconds:g} s.")
    text = problem.space.program(result.best.assignment).text
    program = prove(text, problem.wanted.sums, problem.wanted.depth)
    return FoundProgram(text, program, problem.kernels.kernels[0], result.proved, time.process_time() - start)
