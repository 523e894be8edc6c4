"""How much is drawn: what a change is checked with, and more where `make explore` looks for what no run has seen."""

from __future__ import annotations

import os

EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "explore"


def effort(usual: int, explored: int) -> int:
    """How many examples or seeds a test takes in `make test`, and in `make explore`.

    The usual number is at least twice that after which deliberately broken code was seen. One example executes whole networks or
    programs, so that more of them would be much of what the suite takes.
    """
    return explored if EXPLORES else usual
