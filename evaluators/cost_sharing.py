"""Which divisions of compact code are calls of one function for them all: counted by candidate, as `codegen.emit.sharing` decides it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kilotune.codegen.emit.sharing import (
    CALL_BYTES,
    FEWEST_DIVISIONS,
    FUNCTION_BYTES,
    SHARED_BITS,
    written_out_bytes,
)
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.evaluators.cost_features import FEATURES, NUMBERS, Terms


class SharedDivisions:
    """The features of divisions that are written out, and those that they become where a function is called.

    A term of a candidate stands for one place in its program; a function of two tables divides their product of 32 bits, too.
    """

    def __init__(self) -> None:
        self._called = np.arange(len(FEATURES), dtype=np.int64)
        self._is_wide = np.zeros(len(FEATURES), dtype=bool)
        self._wide_places = np.array(
            [name.startswith("function.") and name.endswith(".two") for name in FEATURES], float
        )
        self._saved = {rounding: np.zeros(len(FEATURES)) for rounding in Rounding}
        for feature, number in NUMBERS.items():
            family, *labels = feature.split(".")
            if family != "down":
                continue
            rounding, (bits, shift, result) = Rounding(labels[0]), map(int, labels[1:])
            if not 0 < shift < bits or bits not in SHARED_BITS:
                continue
            self._called[number] = NUMBERS[f"called.{rounding.value}.{bits}.{shift}"]
            self._is_wide[number] = bits > 16
            self._wide_places[number] = float(bits > 16)
            if bits == 16:
                self._saved[rounding][number] = max(written_out_bytes(shift, result, rounding) - CALL_BYTES, 0)

    def applied(self, terms: Terms, rounding: Rounding) -> Terms:
        """The terms of candidates with what each of them calls."""
        numbers, saved = terms.numbers, self._saved[rounding]
        narrow = _of_terms(saved, numbers) > FUNCTION_BYTES[rounding]
        wide = _of_terms(self._wide_places, numbers) >= FEWEST_DIVISIONS
        calls = np.where(self._is_wide[numbers], wide[:, None], narrow[:, None] & (saved[numbers] > 0))
        return Terms(np.where(calls, self._called[numbers], numbers), terms.counts)


def _of_terms(of_feature: npt.NDArray[np.generic], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The sums over all terms [candidates]."""
    return np.asarray(of_feature[numbers].sum(axis=1, dtype=np.float64))
