"""Where the cycles and the memory of one candidate's program go, layer by layer: what `tune profile`, exports and reports show."""

from __future__ import annotations

from kilotune.evaluators.cost_model import CostModel
from kilotune.evaluators.layer_profile import profile_layers
from kilotune.experiments.problems.fixed_point.export import emit_program
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.experiments.problems.program_profile import ProgramProfile
from kilotune.search.space import Trial


def profile_program(problem: TunedModel, trial: Trial) -> ProgramProfile:
    """The trial's program, as the problem's shape writes it. Cycles are predicted where the request has a device that a cost table is
    for."""
    batch = problem.lower(trial.assignment)
    options = problem.options
    source = emit_program(problem, batch, in_steps=options.streaming)
    timing, predicted = options.timing, None
    if timing is not None:
        model = CostModel(problem.bundle.program, problem.bundle.parameters, timing.table, timing.shape)
        predicted = model.cycles_by_row(batch)[0]
    return ProgramProfile(profile_layers(batch.program, source, predicted), options.board, options.shape_name)
