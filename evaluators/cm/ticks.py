"""Times of the simulated accelerator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TickArray = NDArray[np.int64]
"""Ticks of its clock, from the beginning of the stream."""
