"""Where the cycles and the memory of one candidate's program go, layer by layer: what `tune profile`, exports and reports show."""

from __future__ import annotations

from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.targets.target import ASKS
from kilotune.evaluators.architectures.architecture import CountsOperations
from kilotune.evaluators.cost_model import CostModel
from kilotune.evaluators.layer_profile import profile_layers
from kilotune.evaluators.marks import MarkedRun
from kilotune.evaluators.on_device import missing_tools, target_of
from kilotune.evaluators.simulated import DeviceError, of_emitted, quantised
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.fixed_point.device_runs import check_program, samples_on_device
from kilotune.experiments.problems.fixed_point.export import emit_for_device
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.experiments.problems.program_profile import ProgramProfile
from kilotune.search.space import Trial


def profile_program(problem: TunedModel, trial: Trial, measured: bool = True) -> ProgramProfile:
    """The trial's program, as the problem's level and shape make it. Cycles are predicted where the request has a device that a cost table
    is for, and where they are to be `measured` and its tools are there the program is run on it, without and with marks;
    else what `problem` knows of a run is told. DivergenceError when the device computes something else than the search measured."""
    batch = problem.lower(trial.assignment)
    options = problem.options
    source = emit_for_device(problem, batch)
    timing, predicted = problem.timing, None
    if timing is not None:
        model = CostModel(problem.bundle.program, problem.bundle.parameters, timing.table, timing.shape)
        predicted = model.cycles_by_row(batch)[0]
    check = problem.check
    frames = source.interface.frames
    if options.board is not None and problem.input_way == ASKS and frames > 1:
        measured = False
        reason = f"It asks for its input in {frames} frames, which simulated devices do not answer: it was not run."
        check = DeviceCheck(options.board, trial.measurement.metrics.get("cycles"), None, (), reason)
    elif measured:
        check = check_program(problem, trial)
    ran = measured and check is not None and check.measured is not None
    marked = _marked(problem, source, batch.rows.shape[1], samples_on_device(trial)) if ran else None
    layers = profile_layers(batch.program, source, predicted, None if marked is None else marked.cycles)
    return ProgramProfile(layers, options.board, problem.shape, check, marked)


def _marked(problem: TunedModel, source: CSource, operations: int, samples: int) -> MarkedRun | None:
    """The program with its marks on the device; None where that cannot count operations, or has no room for it."""
    device = problem.options.board
    if device is None or missing_tools(device) is not None:
        return None
    target, artefact = target_of(device, f"-{problem.level}"), of_emitted(source)
    if not isinstance(target, CountsOperations):
        return None
    inputs = quantised(source, problem.space.task.features[:samples])
    try:
        return target.profile(artefact, inputs.reshape(len(inputs) * artefact.calls, artefact.features), operations)
    except DeviceError:
        return None
