"""What `tune list` shows of FPGAs."""

from __future__ import annotations

from dataclasses import asdict

from kilotune.evaluators.fpga.boards import FAMILIES, shipped_boards
from kilotune.experiments.problems.family import ListedRows, ListingRequest


def boards(asked: ListingRequest) -> ListedRows:
    """Those that are known by name, and which tool places and routes on them."""
    return [
        {
            "name": board.name,
            "description": board.description,
            **asdict(board.gates),
            "placed_by": None if (placer := FAMILIES[board.family].placer) is None else placer.name,
        }
        for board in shipped_boards()
    ]
