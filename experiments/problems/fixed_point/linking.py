"""Whole programs of a search as the device's compiler links them: what their code takes is learnt from some, and said of any.

Some are drawn, and some found near the limit by short searches before the search, since an estimate is right where it was learnt."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError
from kilotune.evaluators.code_size import KINDS, CodeSize, LinkedCode, fitted_code_size, stored_code_size
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.kept_work import KeptWork
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.on_device import target_of
from kilotune.evaluators.simulated import DeviceError, of_emitted
from kilotune.experiments.problems.fixed_point.export import emit_for_device
from kilotune.experiments.problems.fixed_point.model import ModelOptions, TunedModel
from kilotune.experiments.requests.request import TuneRequest, whole_bytes
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Decision, Option
from kilotune.search.study import Study
from kilotune.spaces.objectives import DEFAULT, LINKED
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.formats import DEFAULT_BITS, DEMOTED_BITS, parse_format
from kilotune.spaces.shiftry.pruned_space import TunedFormats
from kilotune.spaces.shiftry.space import ShiftrySpace

LEARNING = 3
"""Version of how what code takes is learnt, part of the name under which it is kept: whoever changes a constant below, or makes code much
shorter, raises it."""

DRAWN = 16
"""Candidates that are linked to learn from, besides the widest one and that of 8 bits: at a fifth of a second each some three seconds."""

LEAST_LINKED = 6
"""Fewer say too little."""

NEAR = (0.15, 0.07, 0.0)
"""Short searches for a front of precision against what is linked, one after the other, each of which goes by what was learnt before it: by
which share of the limit what is linked of each may be beyond that, by its estimate. A search that has 16-bit variables wrong by a hundred
bytes finds other candidates than one that does not, and the most precise ones are those of the most bytes: with a share of 0.15 in all
three, next to none that was linked had formats as narrow as those that keep the limit, and of these it was told 50 bytes too little."""

AS_ASKED = len(NEAR)
"""The short search after these: for what is asked for, within the limit, as the search itself does it. What such searches find is where the
estimate is most too low: they look for that."""

PILOT_TRIALS = 800
"""Candidates that each measures, and fewer where they are so large that they would compute more than PILOT_WORK."""

PILOT_WORK = 500_000_000_000
"""Elements that a pilot search computes, on all samples."""

FOUND = 12
"""Candidates of each that are linked: with ten of them the others of generated perceptrons near a limit are 11 to 21 bytes off, with
twenty 10 to 20, with none 41 to 45."""

SMALLEST = 0.1
"""Which share of what was found is linked, the smallest by estimate, where nearly all is told to be beyond the limit."""


CORRECTED_BY = 8
"""Candidates of a smaller model that are linked after each of its short searches, to correct the estimate of the whole model's code by."""

CORRECTING = (1, 2)
"""Which ones these are."""


def linked_flash_bytes(problem: TunedModel, candidate: Assignment) -> int:
    """Flash of the whole program of a candidate with its harness, at the request's level and in its code shape. DeviceError when it
    cannot be built. ValueError without a device."""
    device = problem.options.board
    if device is None:
        raise ValueError("Without a device nothing is linked.")
    source = emit_for_device(problem, problem.lower(candidate))
    target = target_of(device, f"-{problem.level}")
    return target.sizes(of_emitted(source)).flash_bytes


FormatsOf = Callable[[Task, ModelOptions, CodeSize | None], TunedFormats]
"""The space of a task's formats with what was asked, which knows what code takes where that is said."""


@dataclasses.dataclass(frozen=True)
class FormatsKnowingCode:
    """The spaces of a model's formats, and of those of smaller models made of it, each of which knows what code takes on the device.

    That is told wrongly by some bytes, and by so many the spaces' limit lies beyond the one that was asked for, since finalists are linked.
    What was learnt is kept for whoever builds a space again, as reports, exports and workers do. `code`: what that of the whole model
    takes.
    """

    request: TuneRequest
    bundle: Bundle
    options: ModelOptions
    formats_of: FormatsOf
    code: CodeSize

    @classmethod
    def learnt(
        cls,
        request: TuneRequest,
        bundle: Bundle,
        task: Task,
        options: ModelOptions,
        formats_of: FormatsOf,
        tell: Callable[[str], None],
    ) -> FormatsKnowingCode:
        """From candidates of the whole model, whose `task` that is, which are linked; `tell` is told how many have been. InputError where
        they cannot be."""
        code = _recalled(_Learning(request, bundle, task, options, formats_of, tell), None)
        return cls(request, bundle, options, formats_of, code)

    def whole(self, task: Task) -> TunedFormats:
        """The space of the whole model."""
        return self.formats_of(task, self._within, self.code)

    def smaller(self, task: Task) -> TunedFormats:
        """The space of a smaller model. Its code is the whole one's with fewer rounds: what is told of that is corrected by some programs
        that are linked."""
        smaller = dataclasses.replace(self.bundle, program=task.program, parameters=task.parameters)
        learning = _Learning(self.request, smaller, task, self.options, self.formats_of, lambda _: None)
        return self.formats_of(task, self._within, _recalled(learning, self.code))

    @property
    def _within(self) -> ModelOptions:
        """What was asked, with the limit of all models' spaces."""
        limit = whole_bytes(self.options.further_limits.get(LINKED))
        if limit is None:
            return self.options
        beyond = dict(self.options.further_limits) | {LINKED: limit + round(self.code.error)}
        return dataclasses.replace(self.options, further_limits=beyond)


@dataclasses.dataclass(frozen=True)
class _Learning:
    """What code takes is learnt of whose formats, and who is told of it."""

    request: TuneRequest
    bundle: Bundle
    task: Task
    options: ModelOptions
    formats_of: FormatsOf
    tell: Callable[[str], None]

    @property
    def limit(self) -> int | None:
        """Bytes that whole programs may take."""
        return whole_bytes(self.options.further_limits.get(LINKED))

    def asked(self, **others: Any) -> ModelOptions:
        """What was asked, without a limit on linked flash, a front, or codes that are fitted or trained."""
        unlimited = {name: amount for name, amount in self.options.further_limits.items() if name != LINKED}
        plain: dict[str, Any] = {"further_limits": unlimited, "front": (), "fitted": False, "trained": False}
        return dataclasses.replace(self.options, **{**plain, **others})

    def linker(self) -> _Linker:
        """What links candidates, in formats of which no limit is asked."""
        plain = self.formats_of(self.task, self.asked(), None)
        assert isinstance(plain, ShiftrySpace)
        return _Linker(TunedModel(self.request, self.bundle, plain), plain, self.tell)

    def found(self, code: CodeSize, pilot: int) -> list[Assignment]:
        """What a short search finds near the limit, going by what code is known to take; the first one, which may be told much too large,
        has none."""
        assert self.limit is not None
        unlimited = self.asked().further_limits
        most = self.limit + code.error if pilot == AS_ASKED else (1.0 + NEAR[pilot]) * self.limit
        within = {**unlimited, LINKED: most} if pilot else unlimited
        others = {} if pilot == AS_ASKED else {"objective": DEFAULT, "front": (LINKED,)}
        space = self.formats_of(self.task, self.asked(further_limits=within, **others), code)
        assert isinstance(space, ShiftrySpace)
        return _found(space, most, pilot)


def _recalled(learning: _Learning, whole: CodeSize | None) -> CodeSize:
    """What code takes, learnt now or by an earlier run; of a smaller model by what that of the `whole` one takes."""
    linker = learning.linker()
    of_whole = () if whole is None else (dataclasses.asdict(whole),)
    subject = (LEARNING, linker.formats.fingerprint, learning.options, learning.limit, *of_whole)
    learnt = functools.cache(
        lambda: _learnt(learning, linker) if whole is None else _corrected(learning, linker, whole)
    )
    with contextlib.closing(EvaluationCache()) as cache:
        known = KeptWork(cache, linker.formats).recalled(subject, lambda: dataclasses.asdict(learnt()))
    return stored_code_size(known) or learnt()


def _learnt(learning: _Learning, linker: _Linker) -> CodeSize:
    """From candidates that are linked: some that are drawn, and with a limit some that short searches find near it."""
    names = [decision.name for decision in linker.formats.format_decisions]
    linked, error = linker.linked(_drawn(linker.formats), near=False)
    if len(linked.code) < LEAST_LINKED:
        found = f"none that could be ({str(error).rstrip('.')})"
        raise InputError(
            learning.request.input, expected="a model with programs that can be linked", found=found
        ) from error
    code = fitted_code_size(names, linked)
    if learning.limit is None:
        return code
    for pilot in range(AS_ASKED + 1):
        linked += linker.linked(learning.found(code, pilot), near=True)[0]
        code = fitted_code_size(names, linked)
    return code


def _corrected(learning: _Learning, linker: _Linker, whole: CodeSize) -> CodeSize:
    """From what code of the whole model takes, and some candidates that are linked: with a limit such as short searches find near it."""
    names = [decision.name for decision in linker.formats.format_decisions]
    if learning.limit is None:
        return whole.corrected_by(names, linker.linked(_drawn(linker.formats)[:CORRECTED_BY], near=False)[0])
    linked, code = None, whole
    for pilot in CORRECTING:
        some = linker.linked(learning.found(code, pilot)[:CORRECTED_BY], near=True)[0]
        linked = some if linked is None else linked + some
        code = whole.corrected_by(names, linked)
    return code


class _Linker:
    """Links candidates of a model, in `formats`, and says how many."""

    def __init__(self, model: TunedModel, formats: ShiftrySpace, tell: Callable[[str], None]) -> None:
        self.model, self.formats, self._tell = model, formats, tell
        self._count = 0

    def linked(self, candidates: Sequence[Assignment], *, near: bool) -> tuple[LinkedCode, DeviceError | None]:
        """What is seen of those of the candidates that the processor has room for, and what was said of the last other one."""
        formats = self.formats
        names = [variable.name for variable in formats.task.program.variables]
        columns = [names.index(decision.name) for decision in formats.format_decisions]
        wide, kinds, code = list[IntArray](), list[IntArray](), list[int]()
        beyond: DeviceError | None = None
        for one in candidates:
            self._tell(f"learning what code takes: {counted(self._count, 'program')} linked")
            self._count += 1
            try:
                whole = linked_flash_bytes(self.model, one)
            except DeviceError as error:
                beyond = error
                continue
            batch = formats.lower([one])
            wide.append((batch.bits[0, columns] > DEMOTED_BITS).astype(np.int64))
            kinds.append(formats.evaluator.code_kinds(batch)[0])
            code.append(whole - int(formats.evaluator.costs(batch)[0]["flash_bytes"]))
        seen = LinkedCode(
            np.array(wide, dtype=np.int64).reshape(len(code), len(columns)),
            np.array(kinds, dtype=np.int64).reshape(len(code), len(KINDS)),
            np.array(code, dtype=np.int64),
            np.full(len(code), near),
        )
        return seen, beyond


def _found(pilot: ShiftrySpace, most: float, seed: int) -> list[Assignment]:
    """The best candidates of at most so many bytes, by their estimate, that a short search finds and that differ in widths or kinds of
    code."""
    work = pilot.evaluator.simulator.steps.elements_touched * len(pilot.task.features)
    of_front = bool(pilot.options.front)
    study = Study(pilot, "front" if of_front else "refine", seed)
    budget = Budget(trials=max(1, min(PILOT_TRIALS, PILOT_WORK // max(1, work))))
    # Ctrl-C ends the command, not this search alone.
    study.run(InProcessExecutor(pilot), budget, handle_interrupts=False)
    sized = [(t.metrics["linked_bytes"], t) for t in study.trials() if "linked_bytes" in t.metrics]
    most = max(most, float(np.quantile([size for size, _ in sized], SMALLEST)) if sized else 0.0)
    near = [trial for size, trial in sized if size <= most]
    # flash comes first in a front
    precise = Ranking(tuple(reversed(pilot.objectives)) if of_front else pilot.objectives, ())
    chosen = dict[tuple[int, ...], Assignment]()
    for trial in sorted(near, key=lambda trial: precise.losses(trial.measurement)):
        batch = pilot.lower([trial.assignment])
        seen = (*batch.bits[0].tolist(), *pilot.evaluator.code_kinds(batch)[0].tolist())
        chosen.setdefault(seen, trial.assignment)
        if len(chosen) == FOUND:
            break
    return list(chosen.values())


def _drawn(formats: ShiftryCandidates) -> list[Assignment]:
    """The widest candidate, that of 8 bits, and some of which each temporary has 16 with a probability of the candidate's own, and each
    parameter any of its formats rather than 8 bits with another; how they divide is drawn as well."""
    random = np.random.default_rng(0)
    rows = [(1.0, 0.0), (0.0, 0.0), *((float(p), float(q)) for p, q in random.random((DRAWN, 2)))]
    return [
        {decision.name: _drawn_option(random, formats, decision, *row) for decision in formats.decisions}
        for row in rows
    ]


def _drawn_option(
    random: np.random.Generator, formats: ShiftryCandidates, decision: Decision, wide: float, any_format: float
) -> Option:
    """An answer to a decision: of a temporary 16 bits with the chance `wide`, of a parameter any with the chance `any_format`."""
    parameter = decision in formats.format_decisions and _is_parameter(formats.task.program, decision.name)
    if decision not in formats.format_decisions or (parameter and random.random() < any_format):
        return decision.options[int(random.integers(len(decision.options)))]
    return _of_width(decision.options, DEFAULT_BITS if not parameter and random.random() < wide else DEMOTED_BITS)


def _is_parameter(program: ir.Program, name: str) -> bool:
    return program.variable(name).role is ir.Role.PARAMETER


def _of_width(options: tuple[Option, ...], width: int) -> Option:
    """The first option of that width; else the first of 8 bits, else the first."""
    by_width = {parse_format(str(option)).bits: option for option in reversed(options)}
    return by_width.get(width, by_width.get(DEMOTED_BITS, options[0]))
