"""Boards by name and from files, and what is said of those that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.evaluators.fpga.boards import FAMILIES, Gates, counted_gates, find_board, shipped_boards

MINE: dict[str, Any] = {
    "name": "mine", "family": "ecp5", "part": ["--25k"], "luts": 100, "flip_flops": 100, "block_rams": 4, "multipliers": 2,
}  # fmt: skip


def test_the_boards_that_are_known() -> None:
    """Counts of the makers' data sheets; the paper's Arty has 20 800 look-up tables."""
    boards = {board.name: board for board in shipped_boards()}
    assert set(boards) >= {"ecp5-25f", "ecp5-45f", "ecp5-85f", "ice40-up5k", "ice40-hx8k", "artix7-35t"}
    assert boards["ecp5-25f"].gates == Gates(24288, 24288, 56, 28)
    assert boards["artix7-35t"].gates.luts == 20800
    assert FAMILIES[boards["artix7-35t"].family].placer is None


def test_what_a_design_takes_too_much_of() -> None:
    assert Gates(101, 5, 4, 3).missing(Gates(100, 100, 4, 2)) == {"luts": (101, 100), "multipliers": (3, 2)}


def test_a_board_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(MINE))
    board = find_board(str(tmp_path / "mine.json"))
    assert (board.name, board.part, board.gates) == ("mine", ("--25k",), Gates(100, 100, 4, 2))


def test_an_unknown_board_is_said_with_those_that_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"^There is no board 'ecp5-25g' \(did you mean 'ecp5-25f'\?\); there are ecp5-25f, .*own\.$"
    ):
        find_board("ecp5-25g")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"family": "stratix"}, "family: expected one of ecp5, ice40, ice40-ultraplus, xilinx, found 'stratix'"),
        ({"luts": -1}, "luts: expected a whole number from 0, found -1"),
        ({"luts": True}, "luts: expected a whole number from 0, found true"),
        ({"part": "--25k"}, "part: expected a list of texts, found '--25k'"),
        (
            {"part": ["--25k\n\trm -rf ."]},
            "part: expected texts of printable characters on one line, found '--25k\\n\\trm -rf .'",
        ),
        ({"name": None}, "name: expected a text, found null"),
        ({"bread": 1}, "bread: expected a key of a board, found an unknown key"),
    ],
)
def test_a_description_that_cannot_be_used(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**MINE, **change}))
    with pytest.raises(InputError) as found:
        find_board(str(path))
    assert said in str(found.value)
    assert "mine.json" in str(found.value)


def test_one_of_a_kind_is_said_in_the_singular() -> None:
    said = [counted_gates(count, kind) for count, kind in ((1, "block_rams"), (2, "block_rams"), (1, "luts"))]
    assert said == ["1 block RAM", "2 block RAMs", "1 LUT"]
