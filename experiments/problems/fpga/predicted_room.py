"""Boards that the cost model finds too small by less than it has been wrong: their candidates are searched, and place and route tells.

The search may then predict as many gates as hardware of one lane is predicted to take, as far as these may turn out to be those of the
board. Its candidates are worth nothing until one of them has been placed: what is measured is held against the board itself.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from kilotune.evaluators.fpga.boards import FAMILIES, Board, Gates, counted_gates
from kilotune.evaluators.fpga.cost_model import most_predicted
from kilotune.search.space import SolveLimit
from kilotune.spaces.fpga.candidates import FixedProgram, HardwareGoal, NoRoomPredictedError
from kilotune.spaces.fpga.space import FpgaSpace

MOST_SOLVING = SolveLimit(5.0, 10.0)
"""What CP-SAT may take to look for a candidate that the model has room for, where hardware of one lane is too large."""


def space_on_board(program: FixedProgram, board: Board, goal: HardwareGoal) -> FpgaSpace:
    """The candidates of a program on a whole board. NoRoomPredictedError, a sentence, where none may fit, whatever the model's error."""
    try:
        space = FpgaSpace(program, board, goal)
    except NoRoomPredictedError as error:
        if error.least.missing(most_predicted(board.gates)):
            raise
        return FpgaSpace(program, board, replace(goal, budget=_allowed(board.gates, error.sequential)))
    if space.sequential_fits() or _has_room(program, board):
        return space
    return FpgaSpace(program, board, replace(goal, budget=_allowed(board.gates, space.smallest_sequential())))


def _allowed(there: Gates, sequential: Gates) -> Gates:
    """What hardware of one lane takes of each kind by the model, but no less than there is, and no more than may turn out to be that."""
    wanted, most = asdict(sequential), asdict(most_predicted(there))
    return Gates(**{kind: max(count, min(wanted[kind], most[kind])) for kind, count in asdict(there).items()})


def _has_room(program: FixedProgram, board: Board) -> bool:
    """Whether the model has room for some candidate."""
    smallest = FpgaSpace(program, board, HardwareGoal("luts"))
    return bool(smallest.model([]).solve(1, [], 0, MOST_SOLVING).candidates)


def overfull(goal: HardwareGoal, board: Board) -> dict[str, tuple[int, int]]:
    """By kind of which a candidate may be predicted to take more gates than the board has: (most that is predicted, there are)."""
    return {} if goal.budget is None else goal.budget.missing(board.gates)


def overfull_sentence(goal: HardwareGoal, board: Board) -> str | None:
    """That only the tools tell whether the board has room; None where the model says so."""
    short = overfull(goal, board)
    if not short:
        return None
    counts = " and ".join(
        f"up to {counted_gates(predicted, kind)}, where {there} are there" for kind, (predicted, there) in short.items()
    )
    tells = "synthesis tells" if FAMILIES[board.family].placer is None else "place and route tell"
    return (
        f"The cost model predicts too many gates for {board.name}, by no more than it has been wrong elsewhere: candidates that it "
        f"expects to take {counts}, are let through, and only {tells} whether there is room."
    )
