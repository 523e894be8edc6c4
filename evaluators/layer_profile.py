"""Where a program's cycles and memory go: by layer, as predicted and as measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.layers import Layer, find_layers

OUTSIDE = "between layers"
"""What cycles of no layer are called: the call, rounds of loops, how the result is handed over."""


@dataclass(frozen=True)
class ProfiledLayer:
    """One layer in one inference. `ram_bytes`: the most of the RAM array that holds values while one of its operations runs;
    `constant_bytes`: the parameters that it reads, in flash; of `OUTSIDE` what layers share, tables of functions and the code that
    unpacks narrow weights. Cycles are None where nothing predicts or measures them."""

    name: str
    kinds: tuple[str, ...]
    macs: int
    predicted_cycles: float | None
    measured_cycles: float | None
    ram_bytes: int
    constant_bytes: int


@dataclass(frozen=True)
class LayerProfile:
    """All layers in program order, and `outside` them. `ram_bytes`: the size of the RAM array; `constant_bytes`: all that the program
    stores in flash beside its code, parameters that several layers read counted once."""

    layers: tuple[ProfiledLayer, ...]
    outside: ProfiledLayer
    ram_bytes: int
    constant_bytes: int

    @property
    def rows(self) -> tuple[ProfiledLayer, ...]:
        """The layers, and what is outside them."""
        return (*self.layers, self.outside)

    @property
    def predicted_cycles(self) -> float | None:
        """What the whole program takes."""
        return _sum([row.predicted_cycles for row in self.rows])

    @property
    def measured_cycles(self) -> float | None:
        """What the whole program with its marks takes, less the marks."""
        return _sum([row.measured_cycles for row in self.rows])

    @property
    def peak(self) -> ProfiledLayer | None:
        """The first layer during which most of the RAM array holds values; None without temporaries."""
        most = max((layer.ram_bytes for layer in self.layers), default=0)
        return next((layer for layer in self.layers if most and layer.ram_bytes == most), None)

    def share(self, row: ProfiledLayer) -> float | None:
        """The part of all cycles that a row has, of the measured ones where there are some."""
        cycles, total = row.measured_cycles, self.measured_cycles
        if cycles is None:
            cycles, total = row.predicted_cycles, self.predicted_cycles
        return None if cycles is None or not total else cycles / total

    def as_json(self) -> dict[str, Any]:
        """Every row, and which layer has the peak of RAM."""
        peak = self.peak
        return {
            "layers": [{**asdict(row), "kinds": list(row.kinds), "share": self.share(row)} for row in self.layers],
            "outside": {
                name: getattr(self.outside, name) for name in ("predicted_cycles", "measured_cycles", "constant_bytes")
            },
            "predicted_cycles": self.predicted_cycles,
            "measured_cycles": self.measured_cycles,
            "ram_bytes": self.ram_bytes,
            "constant_bytes": self.constant_bytes,
            "peak_layer": None if peak is None else peak.name,
        }


def profile_layers(
    program: ir.Program,
    source: CSource,
    predicted: npt.NDArray[np.float64] | None = None,
    measured: npt.NDArray[np.float64] | None = None,
) -> LayerProfile:
    """The layers of the program that was emitted as `source`. `predicted`, `measured`: cycles by operation, and last those outside all
    [operations + 1]."""

    def cost(layer: Layer) -> ProfiledLayer:
        constants = sum(source.constant_bytes.get(name, 0) for name in layer.read)
        live = max((source.live_bytes[row] for row in layer.rows if row < len(source.live_bytes)), default=0)
        cycles = _cycles(predicted, layer.rows), _cycles(measured, layer.rows)
        return ProfiledLayer(layer.name, layer.kinds, layer.macs, *cycles, live, constants)

    layers = find_layers(program, source.unstored)
    outside = _cycles(predicted, (-1,)), _cycles(measured, (-1,))
    read = frozenset[str]().union(*(layer.read for layer in layers))
    shared = source.flash_bytes - sum(source.constant_bytes.get(name, 0) for name in read)
    beside = ProfiledLayer(OUTSIDE, (), 0, *outside, 0, shared)
    return LayerProfile(tuple(map(cost, layers)), beside, source.ram_bytes, source.flash_bytes)


def _cycles(of_rows: npt.NDArray[np.float64] | None, rows: Sequence[int]) -> float | None:
    return None if of_rows is None else float(of_rows[list(rows)].sum())


def _sum(cycles: Sequence[float | None]) -> float | None:
    known = [amount for amount in cycles if amount is not None]
    return sum(known) if len(known) == len(cycles) else None
