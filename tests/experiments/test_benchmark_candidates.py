"""Candidates that benchmarks make themselves are candidates, also where more than formats is decided."""

from __future__ import annotations

import numpy as np

from kilotune.codegen.bundle import load_bundle
from kilotune.experiments.benchmarks.codebooks import candidates
from kilotune.experiments.benchmarks.unpacking import narrowed, some_widths
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.encoding import encoding_of
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.program_decisions import ROUNDING
from kilotune.spaces.shiftry.space import ShiftrySpace


def test_how_programs_divide_is_decided_besides_their_formats() -> None:
    bundle = load_bundle(resolve_model("worked-example"))
    space = ShiftrySpace(task_of(bundle, bundle.train), ShiftryOptions(narrow=True, truer=True, any_rounding=True))
    drawn = [draw(space, np.random.default_rng(0)) for draw in (narrowed, some_widths)]
    made = [narrowed(space, None), *drawn, *(candidate for _, candidate in candidates(space))]
    encode = encoding_of(space)
    assert [encode.candidate(encode.key(candidate)) for candidate in made] == made
    assert {candidate[ROUNDING] for candidate in made} == {space.decisions[-1].options[0]}
