"""From a trial to a folder of C that checks itself against recorded outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.project import DECISIONS, project_files, project_names
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.emit.streaming import streamed
from kilotune.codegen.emit.targets.recording import Recording
from kilotune.codegen.emit.targets.streamed import ASKING
from kilotune.codegen.emit.targets.target import ASKS, STEPPED, ProjectTarget
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.registry import project_target
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.experiments.artefacts.folder import ArtefactFolder
from kilotune.experiments.artefacts.inputs import files_read
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.experiments.problems.program_profile import ProgramProfile
from kilotune.search.space import Trial
from kilotune.spaces.shiftry.pruned_models import PrunedModel

README = "README.md"

RECORDED_SAMPLES = 100
"""Inputs that the exported main.c runs, from the test data where there are any."""


def export_program(
    problem: TunedModel, trial: Trial, folder: Path, target: str, level: str | None, profile: ProgramProfile
) -> dict[str, str]:
    """Write the trial's program into `folder`, for one of `project_targets()`; the paths written, by what they are.

    `level`: of the device's compiler, the request's unless given. `profile`: what README.md and decisions.json say of its
    layers. RefusedOutputError as `ArtefactFolder.write`.
    """
    return export_batch(
        problem,
        problem.lower(trial.assignment),
        folder,
        {**decisions(problem, trial), "profile": profile.as_json()},
        project_target(target),
        level or problem.level,
        _smaller_model(problem.pruned) + profile.markdown,
    )


def _smaller_model(pruned: PrunedModel | None) -> str:
    """Which units and choices of the trained model the program has not, as a section of its README.md."""
    if pruned is None:
        return ""
    units = [f"- {name}: {_listed(places)}" for name, places in pruned.left_out.items()]
    choices = [f"- the choice {name}: always its {('first', 'second')[way]} branch" for name, way in pruned.choices]
    said = "The program is that of a smaller model. Of the trained one these places, counted from 0, were left out, and the weights that"
    return (
        f"\n## Left out of the model\n\n{said}\nare left were fitted to what it does.\n\n"
        + "\n".join([*units, *choices])
        + "\n"
    )


def _listed(places: Sequence[int]) -> str:
    return ", ".join(map(str, places))


def export_batch(
    problem: TunedModel,
    batch: FixedBatch,
    folder: Path,
    decided: Mapping[str, object],
    kind: ProjectTarget,
    level: str,
    notes: str = "",
) -> dict[str, str]:
    """Write the only candidate of `batch` into `folder`, beside what was `decided`; `notes` end its README.md. See `export_program`.
    ValueError, a sentence, for a target whose programs are handed a sample that this one counts as its own."""
    asking = problem.options.overwrite_input
    if asking and kind.name != ASKING:
        raise ValueError(
            f"--target {kind.name}: expected {ASKING} for a study with --overwrite-input, whose program asks for its sample and counts its "
            f"room; search without that option for a program that is handed it."
        )
    data = problem.bundle.test or problem.bundle.train
    features = np.zeros((1, 0)) if data is None else data.features[:RECORDED_SAMPLES]
    outputs = Simulator(batch.program, problem.bundle.parameters, features).run(batch)[0]
    inputs = np.zeros((len(features), 0), dtype=np.int64)
    source_input = batch.program.input
    if source_input is not None:
        column = [v.name for v in batch.program.variables].index(source_input.name)
        inputs = quantise_features(features, int(batch.bits[0, column]), int(batch.scales[0, column]))
    recording = Recording(inputs, outputs)
    name = folder.absolute().name
    files = project_files(name, emit_program(problem, batch, asking=asking), recording, decided, kind, level)
    files[README] += notes
    _folder(problem, folder).write(files)
    parts = {**kind.parts, "decisions": DECISIONS}
    return {what: str(folder / path.format(folder=name)) for what, path in parts.items()}


def check_export(problem: TunedModel, folder: Path, kind: ProjectTarget) -> None:
    """RefusedOutputError, a sentence, when `export_program` could not write into the folder."""
    _folder(problem, folder).check(project_names(kind, folder.absolute().name))


def _folder(problem: TunedModel, folder: Path) -> ArtefactFolder:
    return ArtefactFolder(folder, files_read(problem.request), alone=True)


def emit_for_device(problem: TunedModel, batch: FixedBatch, shape: str | None = None) -> CSource:
    """As `emit_program`, with the input given as the problem says: it is what devices run and link."""
    way = problem.input_way
    return emit_program(problem, batch, shape, in_steps=way == STEPPED, asking=way == ASKS)


def emit_program(
    problem: TunedModel, batch: FixedBatch, shape: str | None = None, *, in_steps: bool = False, asking: bool = False
) -> CSource:
    """The C of a lowered candidate, its temporaries where the search placed them; its inner loops as asked for, or in that shape;
    `in_steps`: called with a frame of its input at a time, one sample after the other; `asking`: for its input."""
    footprint = problem.space.evaluator.footprint
    placement = footprint.placed(batch.bits[0].astype(np.int64)).offsets
    if asking and not problem.options.overwrite_input and streamed(batch.program)[1].whole:
        placement = {}  # the search's has no room for the sample
    return emit_c(
        batch,
        problem.bundle.parameters,
        placement,
        in_place=footprint.in_place,
        in_frames=asking,
        in_steps=in_steps,
        hop=0 if in_steps else problem.options.hop,
        shape=SHAPES[shape or problem.shape],
        scaling=problem.bundle.scaling,
        class_names=problem.bundle.class_names,
        result_grid=problem.bundle.result_grid,
        order=problem.bundle.order,
    )


def decisions(problem: TunedModel, trial: Trial) -> dict[str, object]:
    """What was decided, and the format of every variable that came of it."""
    scaling, names = problem.bundle.scaling, problem.bundle.class_names
    return {
        "space": problem.request.space,
        "model": problem.bundle.name,
        "accumulator": problem.options.accumulator,
        "assignment": dict(trial.assignment),
        "metrics": dict(trial.measurement.metrics),
        **({} if scaling is None else {"features": dataclasses.asdict(scaling)}),
        **({} if problem.bundle.order is None else {"feature_order": problem.bundle.order.places}),
        **({"classes": list(names)} if names else {}),
        **_left_out(problem.pruned),
        **formats_of(problem.lower(trial.assignment)),
    }


def _left_out(pruned: PrunedModel | None) -> dict[str, object]:
    if pruned is None:
        return {}
    units = {name: list(places) for name, places in pruned.left_out.items()}
    return {"left_out": {"units": units, "choices": [list(one) for one in pruned.choices]}}


def formats_of(batch: FixedBatch) -> dict[str, object]:
    """The rounding of a program, and bits and scale of each variable."""
    labels = ir.label_variables(batch.program)
    formats = {
        variable.name: {"bits": int(batch.bits[0, i]), "scale": int(batch.scales[0, i])} | _stored(batch, i)
        for i, variable in enumerate(batch.program.variables)
        if variable.name not in labels
    }
    return {"rounding": batch.rounding.value, "variables": formats}


def _stored(batch: FixedBatch, column: int) -> dict[str, object]:
    """What is said of a parameter that is stored in codes."""
    encoding = batch.encoding(0, column)
    if encoding is None:
        return {}
    return {"stored_bits": encoding.width, **({"codebook": True} if encoding.codebook else {})}
