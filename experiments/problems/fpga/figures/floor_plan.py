"""The floor plan: how large a share of a design's look-up tables each operation, each memory and the controller take, as areas.

Areas are the cost model's, also of a design that was placed: place and route knows no operations, since synthesis makes one netlist of all
of them. Where a tile lies means nothing. Tiles are as square as they can be (Bruls, Huizing and van Wijk, Squarified Treemaps, 2000).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import plotly.graph_objects as go

from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.evaluators.fpga.boards import Board, Gates, counted_gates
from kilotune.evaluators.fpga.cost_model import controller_gates, memory_gates, unit_gates
from kilotune.experiments.presentation.palette import BLUE, GREEN, ORANGE
from kilotune.experiments.presentation.text import plotly_text

HEIGHT = 420


@dataclass(frozen=True)
class Tile:
    """Something of a design, what it is predicted to take, and the colour of its kind."""

    name: str
    gates: Gates
    colour: str

    def hover(self, share: float) -> str:
        """All its gates in words."""
        counts = ", ".join(counted_gates(count, kind) for kind, count in asdict(self.gates).items() if count)
        return f"{self.name}: {counts}; {share:.1%} of the look-up tables"


def floor_tiles(plan: HardwarePlan, board: Board) -> Iterator[Tile]:
    """Everything that takes look-up tables: together they are what the cost model predicts of the design."""
    tiles = [
        *(Tile(unit.name, unit_gates(unit, plan, board), BLUE) for unit in plan.units),
        *(Tile(f"memory {name}", memory_gates(name, plan, board), ORANGE) for name in plan.memories),
        Tile("controller", controller_gates(plan, board), GREEN),
    ]
    yield from (tile for tile in tiles if tile.gates.luts)


def floor_plan_figure(plan: HardwarePlan, board: Board) -> go.Figure:
    """A tile for each, its area its look-up tables."""
    tiles = tuple(floor_tiles(plan, board))
    total = sum(tile.gates.luts for tile in tiles)
    figure = go.Figure(
        go.Treemap(
            ids=[str(number) for number in range(len(tiles))],
            labels=[plotly_text(tile.name) for tile in tiles],
            parents=[""] * len(tiles),
            values=[tile.gates.luts for tile in tiles],
            marker={"colors": [tile.colour for tile in tiles]},
            textinfo="label+value",
            hovertext=[plotly_text(tile.hover(tile.gates.luts / total)) for tile in tiles],
            hoverinfo="text",
            tiling={"packing": "squarify"},
            root={"color": "rgba(0,0,0,0)"},
            pathbar={"visible": False},
        )
    )
    figure.update_layout(height=HEIGHT, margin={"t": 10, "b": 10})
    return figure
