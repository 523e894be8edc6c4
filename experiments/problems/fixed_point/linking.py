"""Whole programs of a search as the device's compiler links them: what their code takes is learnt from some, and said of any."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.evaluators.code_size import CodeSize, fitted_code_size
from kilotune.evaluators.on_device import target_of
from kilotune.evaluators.simulated import DeviceError, of_emitted
from kilotune.experiments.problems.fixed_point.export import emit_program
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.search.space import Assignment, Decision, Option
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.formats import DEFAULT_BITS, DEMOTED_BITS, parse_format

DRAWN = 16
"""Candidates that are linked to learn from, besides the widest one and that of 8 bits: at a fifth of a second each some three seconds."""


LEAST_LINKED = 6
"""Fewer say too little."""


def linked_flash_bytes(problem: TunedModel, candidate: Assignment) -> int:
    """Flash of the whole program of a candidate with its harness, at the request's level and in its code shape. DeviceError when it
    cannot be built. ValueError without a device."""
    device = problem.options.board
    if device is None:
        raise ValueError("Without a device nothing is linked.")
    source = emit_program(problem, problem.lower(candidate), in_steps=problem.options.streaming)
    target = target_of(device, f"-{problem.options.level}")
    return target.sizes(of_emitted(source)).flash_bytes


def learnt_code_size(problem: TunedModel, formats: ShiftryCandidates) -> CodeSize:
    """What code takes in the programs of a problem, by which of their variables have more than 8 bits: from candidates of `formats`, always
    the same ones, that are linked, as far as the processor has room for them. DeviceError where it has for too few."""
    names = [decision.name for decision in formats.format_decisions]
    candidates = _drawn(formats)
    program = formats.task.program
    columns = [[variable.name for variable in program.variables].index(name) for name in names]
    wide = np.array([formats.lower([one]).bits[0, columns] > DEMOTED_BITS for one in candidates], dtype=np.int64)
    flash = [metrics["flash_bytes"] for metrics in formats.costs(candidates)]
    linked, beyond = dict[int, int](), DeviceError("No candidate was linked.")
    for number, one in enumerate(candidates):
        try:
            linked[number] = linked_flash_bytes(problem, one)
        except DeviceError as error:
            beyond = error
    if len(linked) < LEAST_LINKED:
        raise beyond
    return fitted_code_size(names, wide[list(linked)], [whole - flash[number] for number, whole in linked.items()])


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
