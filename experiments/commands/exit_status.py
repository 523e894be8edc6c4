"""Exit statuses of the command, for scripts that call it."""

from __future__ import annotations

import enum


class ExitStatus(enum.IntEnum):
    """What `tune` returns to the shell."""

    FEASIBLE = 0  # the best candidate meets every constraint
    INFEASIBLE = 1  # none that was measured does, and the nearest is reported; or none was measured within the budget
    INTERRUPTED = 2  # stopped by Ctrl-C; `tune resume` goes on
    INTERNAL_ERROR = 3
    BAD_INPUT = 4  # bad usage, or an input that cannot be used
