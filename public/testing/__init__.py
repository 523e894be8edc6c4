"""Checks for those who write a space or a strategy: whether it is what the engine relies on.

Call `check_space(space)` or `check_strategy(factory)` in a test. The first thing that is wrong is raised as a
`ConformanceError`, one sentence that names the check, the candidate and what was expected. SPACE_CHECKS and STRATEGY_CHECKS are the
names of the checks, with what each one holds.
"""

from kilotune.testing.conformance_error import ConformanceError
from kilotune.testing.space import SPACE_CHECKS, check_space
from kilotune.testing.strategy import STRATEGY_CHECKS, check_strategy
from kilotune.testing.toy_spaces import toy_spaces

__all__ = ("SPACE_CHECKS", "STRATEGY_CHECKS", "ConformanceError", "check_space", "check_strategy", "toy_spaces")
