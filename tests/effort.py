"""How much is drawn: what a change is checked with, and more where `make explore` looks for what no run has seen."""

from __future__ import annotations

import os

EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "explore"


def effort(usual: int, explored: int) -> int:
    """How many examples or seeds a test takes in `make test`, and in `make explore`.

    The usual number is several times that after which broken code was seen; one example costs so much there (a compiler, an
    execution) that more of them would be most of what the suite takes.
    """
    return explored if EXPLORES else usual
