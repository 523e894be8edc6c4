"""A proved program for every distinct shape of a cascade's features, and what they add up to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kilotune.codegen.scamp.composition import turned
from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.registers import allocate
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.symbolic import WrongProgramError, execute, prove
from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.faces.cascade import Cascade
from kilotune.experiments.faces.shapes import FeatureWeights, kernel_sum, placed, symmetries
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS
from kilotune.spaces.reverse_split.separable import FactorPlans, separable_plan


@dataclass(frozen=True)
class FeatureProgram:
    """A program whose text was executed on sums and computes the shape; `west` and `north` say where from the pixel that
    holds the result the shape's north-western cell lies (x to the east, y to the north)."""

    text: str
    program: ScampProgram
    west: int
    north: int
    bound: int


@dataclass(frozen=True)
class Total:
    """Totals of some features: how many they are, and the instructions and bus transfers of all programs, one after the other."""

    features: int
    instructions: int
    bus_transfers: int
    bound: int


def compile_shapes(
    shapes: Iterable[FeatureWeights],
    target: str,
    steps: int,
    registers: int = len(REGISTERS),
    tell: Callable[[int], None] = lambda count: None,
) -> dict[FeatureWeights, FeatureProgram]:
    """A program for every shape; shapes that are one but for turning share a search of `steps` steps.

    `tell` is called with the number of searches done. Raises `ValueError` for a shape that is no row times a column.
    """
    found: dict[FeatureWeights, FeatureProgram] = {}
    plans: dict[FeatureWeights, Plan] = {}
    rows: FactorPlans = {}
    for shape in shapes:
        chosen, back = min(symmetries(shape), key=lambda entry: entry[0])
        if chosen not in plans:
            plans[chosen] = separable_plan(kernel_sum(chosen), target, steps, registers, rows)
            tell(len(plans))
        plan = plans[chosen]
        for directions in back:
            plan = turned(plan, directions)
        found[shape] = proved(shape, format_program(allocate(plan, registers)))
    return found


def proved(shape: FeatureWeights, text: str) -> FeatureProgram:
    """The program of a text, proved to compute the shape, with the pixel that holds the result at a middle cell of it.

    Raises `WrongProgramError` when it computes anything else, `InputError` for text that is no program.
    """
    results, _ = execute(text)
    if len(results) != 1 or not results[0]:
        raise WrongProgramError("A feature is one sum of pixels.")
    wanted = kernel_sum(shape)
    by = (results[0].box[0] - wanted.box[0], results[0].box[3] - wanted.box[3])
    # An even number of columns (or rows) has two middle ones, and a mirrored program holds its result in the other one.
    if not (by[0] in _middles(len(shape[0])) and by[1] in _middles(len(shape))):
        raise WrongProgramError(f"The result lies {by} from the middle of the feature.")
    wanted = wanted.shifted(by)
    program = prove(text, (wanted,), 0)
    bound = lower_bound((wanted,), 0, program.target, INSTRUCTIONS)
    return FeatureProgram(text, program, wanted.box[0], wanted.box[3], bound)


def _middles(count: int) -> tuple[int, ...]:
    return (0,) if count % 2 else (0, -1)


def total(cascade: Cascade, features: Iterable[int], programs: Mapping[FeatureWeights, FeatureProgram]) -> Total:
    """Each feature computed by itself, as the paper counts."""
    used = [programs[placed(cascade.features[number]).shape] for number in features]
    return Total(
        len(used),
        sum(entry.program.instructions for entry in used),
        sum(entry.program.bus_transfers for entry in used),
        sum(entry.bound for entry in used),
    )


def save_programs(path: Path, programs: Mapping[FeatureWeights, FeatureProgram]) -> None:
    """The shapes and texts as JSON."""
    rows = [{"shape": shape, "program": entry.text} for shape, entry in programs.items()]
    write_whole(path, json.dumps(rows, indent=0) + "\n")


def load_programs(path: Path) -> dict[FeatureWeights, FeatureProgram]:
    """What `save_programs` wrote, every program proved again. Raises as `proved`."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    shapes = [(tuple(tuple(line) for line in row["shape"]), row["program"]) for row in rows]
    return {shape: proved(shape, text) for shape, text in shapes}
