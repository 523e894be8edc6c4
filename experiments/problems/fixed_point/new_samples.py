"""What is said of a candidate on samples that nobody has seen: which classes may flip, or how far numbers may grow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kilotune.codegen.counts import counted
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.headroom import headroom, meets_new_numbers, samples_beyond
from kilotune.evaluators.fixed_point.fresh_inputs import FreshInputs
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.search.space import Trial
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.formats import DEFAULT_BITS
from kilotune.spaces.shiftry.pruned_space import PrunedSpace
from kilotune.spaces.shiftry.quantised_space import QuantisedSpace

LEAST_FLIPS_ADVISED = 0.01
"""Expected flips of training samples below which there are none to ask fewer of."""


@dataclass(frozen=True)
class RoomLeft:
    """`factor`: by how much the largest values of the training samples may be exceeded before one wraps around, None where nothing can;
    `beyond`: of `samples` validation samples those that do, None where none were held out; `wide`: of which all that is said of values in
    16 and 32 bits only."""

    factor: float | None
    beyond: int | None
    samples: int
    wide: bool = False

    def sentence(self) -> str:
        """What the summary says."""
        values = "values of 16 bits and more" if self.wide else "values"
        if self.factor is None:
            return "No value can wrap around, whatever the input."
        counts = (
            "" if self.beyond is None else f"; of {counted(self.samples, 'validation sample')} {self.beyond} go beyond"
        )
        return (
            f"Room for new samples: {values} may be {self.factor:.3g} times as large as those of the training samples "
            f"before one wraps around{counts}."
        )

    def as_json(self) -> dict[str, float | int | None]:
        """What the details of a result say."""
        counts = {} if self.beyond is None else {"validation_samples_beyond": self.beyond}
        return {"headroom": self.factor, **counts}


def room_left(problem: TunedModel, trial: Trial, held_out: Dataset | None) -> RoomLeft | None:
    """The room of a candidate of a numerical model, and of a classifier with few training samples that of values in 16 bits and more, if
    any can wrap around; None for other classifiers, whose errors are known as flips, for programs without an input, and where the file's
    integers are kept, which end where their types do."""
    own = problem.of_candidate(trial.assignment)
    space = own.space
    if isinstance(space, QuantisedSpace | PrunedSpace):
        return None
    task = space.task
    wide = isinstance(space, ShiftryCandidates) and space.meets_surer_scores
    if not wide and not meets_new_numbers(task.program):
        return None
    batch = own.lower(trial.assignment)
    bits = batch.bits[0].tolist()
    room = headroom(batch.program, space.profile, bits, batch.scales[0].tolist(), DEFAULT_BITS if wide else 0)
    if wide and not room.largest:
        return None
    beyond = None
    if held_out is not None:
        beyond = samples_beyond(batch.program, task.parameters, held_out.features, room)
    factor = room.factor if math.isfinite(room.factor) else None
    return RoomLeft(factor, beyond, 0 if held_out is None else len(held_out.features), wide)


def flips_advised(problem: TunedModel, trial: Trial) -> str | None:
    """That new samples may lose more than `--drop` permits of training samples, and what to ask for; None where they do not."""
    limits, task = problem.space.constraints, problem.space.task
    drops = any(limit.metric == task.score.metric for limit in limits)
    if problem.request.space != "shiftry" or not drops or any(limit.violation(trial.metrics) for limit in limits):
        return None
    samples = len(task.features)
    permitted = max(1.0, problem.options.accuracy_drop / 100.0 * samples)
    own = problem.of_candidate(trial.assignment)
    (flips,) = FreshInputs(own.space.evaluator).expected_flips(own.lower(trial.assignment))
    if flips <= permitted:
        return None
    fewer = min(permitted, trial.metrics.get("expected_flips", 0.0) / 2.0)
    advice = f": --flips {fewer:.3g} asks for fewer" if fewer >= LEAST_FLIPS_ADVISED else ""
    return (
        f"Of {samples} made-up inputs like the training samples {flips:.3g} may be expected to change class, "
        f"more than --drop permits of training samples{advice}."
    )
