"""Where fewer bytes of parameters make no smaller program: what narrow parameters save, the code that unpacks them may take."""

from __future__ import annotations

from kilotune.experiments.problems.problem import NarrowsLinkedFlash
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.experiments.studies.tuning import TuneOutcome

COUNTED, LINKED = "flash_bytes", "linked_bytes"


def larger_program(outcome: TuneOutcome) -> str | None:
    """A sentence where the best found has less flash than the procedure's answer as the search counts it, but more as it is linked for the
    device, and the search does not know what is linked; None otherwise, and where one of the two was not built."""
    best, procedure, problem = outcome.result.best, outcome.procedure, outcome.problem
    if best is None or procedure is None or not isinstance(problem, NarrowsLinkedFlash):
        return None
    if not problem.may_limit_linked or problem.linked_limit_bytes is not None or LINKED in best.metrics:
        return None
    ours, theirs = (
        None if check is None or check.measured is None else check.measured.sizes.flash_bytes
        for check in (outcome.device_check, outcome.procedure_device_check)
    )
    counted = procedure.measurement.metrics.get(COUNTED, 0.0) - best.measurement.metrics.get(COUNTED, 0.0)
    if ours is None or theirs is None or ours <= theirs or counted <= 0:
        return None
    return (
        f"Than the {procedure_name(problem)}, the whole program takes {ours - theirs} bytes of flash more, though the search counts "
        f"{round(counted)} fewer: it counts parameters, tables and what unpacks them, not code. "
        "--limit linked=SIZE limits the whole program."
    )
