"""What is said of codes that may be fitted."""

from __future__ import annotations

import numpy as np

from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.candidates import random_candidate
from kilotune.search.space import Trial
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, ROUNDED


def test_whether_codes_are_fitted_is_said_where_that_was_asked_for() -> None:
    """Found by a reader: a short search fits none, and nothing said so."""
    given = str(resolve_input("protonn-cancer"))
    asked = build_problem(TuneRequest("shiftry", given, "refine", options={"fitted": True}))
    formats = {**random_candidate(asked.space, np.random.default_rng(0)), CODES: ROUNDED}

    def said(codes: str) -> list[str]:
        candidate = {**formats, CODES: codes}
        return [
            line for line in asked.lines(Trial(0, candidate, asked.space.evaluate([candidate])[0])) if "Codes" in line
        ]

    (fitted,), (rounded,) = said(FITTED), said(ROUNDED)
    assert fitted.startswith("Codes of weights: fitted,")
    assert rounded.startswith("Codes of weights: rounded;")
    plain = build_problem(TuneRequest("shiftry", given, "refine"))
    del formats[CODES]
    assert not any("Codes" in line for line in plain.lines(Trial(0, formats, plain.space.evaluate([formats])[0])))
