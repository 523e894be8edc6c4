"""Whether a run has been asked to stop, and how long ago."""

from __future__ import annotations

import math
import time


class StopRequest:
    """Asked once; from another thread or a signal handler too."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def ask(self) -> None:
        """Stop, please."""
        if self._since_s is None:
            self._since_s = time.monotonic()

    @property
    def asked(self) -> bool:
        """Whether somebody has."""
        return self._since_s is not None

    def seconds(self) -> float:
        """Since it was asked; -inf when it has not been."""
        since_s = self._since_s
        return -math.inf if since_s is None else time.monotonic() - since_s
