"""The tiles of a floor plan are what the design is predicted to take, and say so."""

from __future__ import annotations

from kilotune.codegen.rtl.plan import make_plan
from kilotune.evaluators.fpga.boards import Gates, find_board
from kilotune.evaluators.fpga.cost_model import estimate
from kilotune.experiments.presentation.palette import BLUE, GREEN, ORANGE
from kilotune.experiments.problems.fpga.figures.floor_plan import Tile, floor_plan_figure, floor_tiles
from tests.codegen.rtl.models import candidate

BOARD = find_board("ecp5-25f")


def test_tiles_add_up_to_the_whole_design() -> None:
    bundle, batch = candidate("mlp-diabetes")
    plan = make_plan(batch, bundle.parameters)
    tiles = list(floor_tiles(plan, BOARD))
    assert sum(tile.gates.luts for tile in tiles) == estimate(plan, BOARD).gates.luts
    assert [tile.name for tile in tiles if tile.colour == BLUE] == [unit.name for unit in plan.units]
    assert {tile.colour for tile in tiles} == {BLUE, ORANGE, GREEN}
    (map_of_tiles,) = floor_plan_figure(plan, BOARD).data
    assert list(map_of_tiles.values) == [tile.gates.luts for tile in tiles]
    assert len(set(map_of_tiles.ids)) == len(tiles)
    assert "controller: " in map_of_tiles.hovertext[-1]


def test_a_tile_says_all_its_gates() -> None:
    said = Tile("2 matmul", Gates(100, 80, 1, 0), BLUE).hover(0.25)
    assert said == "2 matmul: 100 LUTs, 80 flip-flops, 1 block RAM; 25.0% of the look-up tables"
