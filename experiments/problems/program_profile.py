"""A program's profile by layer, in words: a table and what has to be said beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kilotune.evaluators.device import Device
from kilotune.evaluators.layer_profile import OUTSIDE, LayerProfile, ProfiledLayer
from kilotune.evaluators.marks import MarkedRun
from kilotune.experiments.problems.device_check import DeviceCheck

TITLES = ("layer", "operations", "MACs", "cycles predicted", "cycles measured", "share %", "RAM live", "flash")
"""Columns of the table; RAM and flash are in bytes."""

Cell = float | str | None


@dataclass(frozen=True)
class ProgramProfile:
    """`layers` of a program in code of a `shape`, for a device or none. Where it ran there, `check` has what the whole program takes, and
    `marked` the run that the measured cycles of layers are of."""

    layers: LayerProfile
    device: Device | None
    shape: str
    check: DeviceCheck | None = None
    marked: MarkedRun | None = None

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """Cells of a table under `TITLES`: one row a layer, and at last the whole program."""
        layers = self.layers
        whole = ProfiledLayer(
            "all",
            (),
            sum(layer.macs for layer in layers.layers),
            layers.predicted_cycles,
            layers.measured_cycles,
            layers.ram_bytes,
            layers.constant_bytes,
        )
        beside = layers.predicted_cycles is not None or layers.outside.constant_bytes > 0
        shown = [*layers.layers, *([layers.outside] if beside else []), whole]
        return [self._row(layer) for layer in shown]

    def _row(self, layer: ProfiledLayer) -> tuple[Cell, ...]:
        share = self.layers.share(layer)
        cycles = (layer.predicted_cycles, layer.measured_cycles)
        return (
            layer.name,
            ", ".join(layer.kinds),
            layer.macs,
            *(None if amount is None else round(amount) for amount in cycles),
            None if share is None else round(100.0 * share, 1),
            layer.ram_bytes,
            layer.constant_bytes,
        )

    @property
    def sentences(self) -> Iterator[str]:
        """What the figures are, and what the whole program takes where it was run."""
        peak, held = self.layers.peak, self.layers.ram_bytes
        if self.device is None:
            yield "No cycles: the study has no device (`--device`)."
        elif self.layers.predicted_cycles is None:
            yield f"No cycles are predicted: there is no cost table for {self.device.name}."
        else:
            yield f"Cycles of one inference on {self.device.name}, code shape {self.shape}; all rounds of a loop together."
        yield from self._measured()
        if self.layers.outside.constant_bytes:
            yield (
                f"Flash {OUTSIDE}, {self.layers.outside.constant_bytes} bytes: tables of functions, multipliers of kept integers and "
                f"the unpacking of narrow weights."
            )
        if peak is not None:
            yield f"RAM: of the array of {held} bytes, most holds values in {peak.name}: {peak.ram_bytes} bytes."

    @property
    def markdown(self) -> str:
        """The table and the sentences as a part of a README."""
        rows = [[cell_text(cell).replace("|", "/") for cell in row] for row in self.rows]
        shown = [column for column in range(len(TITLES)) if any(row[column] for row in rows)]
        lines = [[TITLES[column] for column in shown], ["---"] * len(shown), *([row[c] for c in shown] for row in rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"\n## What each layer takes\n\n{table}\n\n" + "".join(f"- {sentence}\n" for sentence in self.sentences)

    def _measured(self) -> Iterator[str]:
        """About the runs on the device."""
        found = None if self.check is None else self.check.measured
        if found is None:
            if self.check is not None and self.check.reason:
                yield self.check.reason
            return
        exact, step = "about " if found.approximate else "", found.run.most_step_cycles
        called = "" if step is None else f" ({round(step)} a frame at most)"
        yield (
            f"The whole program, linked and run on a simulated {found.device.name} ({found.build}): {exact}{round(found.cycles)} cycles"
            f"{called}, {found.sizes.flash_bytes} bytes of flash, {found.sizes.static_ram_bytes} of static RAM, "
            f"{found.run.peak_stack_bytes} of stack at most."
        )
        if self.check is not None and self.check.unknown_shape:
            yield self.check.unknown_shape
        if self.marked is not None and self.layers.measured_cycles is not None:
            more = 100.0 * (self.layers.measured_cycles / found.cycles - 1.0)
            direction = "more" if more >= 0 else "less"
            yield (
                f"Measured by layer on a build with a mark behind each operation: "
                f"{round(self.layers.measured_cycles)} cycles without the "
                f"{round(self.marked.marks)} of the marks themselves, {abs(more):.1f} % {direction} than without marks."
            )

    def as_json(self) -> dict[str, Any]:
        """All figures."""
        device = None if self.device is None else self.device.name
        marks = None if self.marked is None else self.marked.marks
        whole = {} if self.check is None else {"on_device": self.check.as_json()}
        return {"device": device, "shape": self.shape, **self.layers.as_json(), "mark_cycles": marks, **whole}


def cell_text(cell: Cell) -> str:
    """A cell as a terminal or a README shows it: whole numbers whole."""
    return "" if cell is None else str(cell)
