"""RAM limits as placements meet them: a candidate over the limit whose bound is not gets an exact solver's attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kilotune.codegen.placement import PlacedVariables, Placer


@dataclass(frozen=True)
class FitLimit:
    """Places within `limit_bytes` where that is possible and the greedy placement is larger; see `spaces.shiftry.placing`."""

    limit_bytes: int

    def __call__(self, placer: Placer, bits: Mapping[str, int], found: PlacedVariables) -> PlacedVariables:
        """The placement found, or a better one within the limit."""
        if not found.bound_bytes <= self.limit_bytes < found.peak_bytes:
            return found
        from kilotune.spaces.shiftry.placement_model import fit

        return fit(placer, bits, self.limit_bytes) or found
