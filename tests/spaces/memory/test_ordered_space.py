"""Order and placement together: optima by brute force, and a checker that executes."""

from __future__ import annotations

import itertools
import random

import pytest

from kilotune.codegen.tensor_graph import GraphOperator, GraphTensor, TensorGraph
from kilotune.search.candidates import complete
from kilotune.spaces.memory import order_search, ordered_placement
from kilotune.spaces.memory.checker import PlacementError, check_placement
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Placement
from kilotune.spaces.memory.order_checker import check_execution
from kilotune.spaces.memory.ordered_placement import FIRST_QUESTIONS, place_in_orders
from kilotune.spaces.memory.ordered_space import OrderedSpace
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.search_note import work_of
from kilotune.spaces.memory.tensor_buffers import buffers_in_order
from tests.spaces.memory.graphs import all_orders, random_graph


def best_of(space: OrderedSpace) -> tuple[dict[str, float], float, bool]:
    """Metrics of the exact search's best candidate, its bound, and whether it ended with a proof."""
    best, bound, complete_ = None, 0.0, False
    for step in space.exact_search():
        if step.candidate is not None:
            (found,) = space.evaluate([step.candidate])
            assert found.failure is None, found.failure
            best = dict(found.metrics)
        bound, complete_ = step.bound, step.complete
    assert best is not None
    return best, bound, complete_


def proved_peak(space: OrderedSpace, order: tuple[int, ...]) -> int:
    placements = space.placements_of(order)
    *_, last = minimise_peak(placements.arrays, placements.least_peak_bytes)
    assert last.done
    return last.peak_bytes


@pytest.mark.parametrize("seed", range(25))
def test_the_least_peak_of_all_orders(seed: int) -> None:
    graph = random_graph(seed, 1 + seed % 4)
    alignment = (1, 4)[seed % 2]
    least = min(proved_peak(OrderedSpace(graph, alignment), order) for order in all_orders(graph))
    found, bound, proved = best_of(OrderedSpace(graph, alignment))
    assert found["peak_bytes"] == least
    assert bound <= least
    assert proved == (bound == least)


GAPPED = TensorGraph(
    "gapped",
    tuple(GraphTensor(name, size, k) for k, (name, size) in enumerate((("x", 1), ("a", 40), ("b", 10), ("c", 30), ("y", 1)))),
    (
        GraphOperator("A", ("x",), ("a",)),
        GraphOperator("B", ("x",), ("b",)),
        GraphOperator("shrink", ("a",), ("c",)),
        GraphOperator("join", ("b", "c"), ("y",)),
    ),
    ("x",),
    ("y",),
)  # fmt: skip


def test_an_order_by_hand() -> None:
    """In the file's order b waits while a shrinks: 40 + 30 + 10. Shrinking first, b comes beside c alone, and x waits: 40 + 30 + 1."""
    space = OrderedSpace(GAPPED)
    found, bound, proved = best_of(space)
    assert (space.in_file_order.least_peak_bytes, found["peak_bytes"], bound, proved) == (80, 71, 71, True)
    assert space.largest_sum.peak_bytes == 70
    assert space.sentence() == "in any order shrink alone holds 70 bytes in 2 tensors"


def test_with_a_capacity_it_is_a_question() -> None:
    for capacity, excess in ((71, 0.0), (70, 1.0)):
        space = OrderedSpace(GAPPED, 1, capacity)
        *_, last = space.exact_search()
        assert last.complete
        assert last.bound == excess


def test_states_lead_to_candidates() -> None:
    """First options: the file's order. Any walk is executed by the checker; bounds hold."""
    space = OrderedSpace(GAPPED)
    first = complete(space.start(), lambda decision: decision.options[0])
    assert space.order_of(first) == (0, 1, 2, 3)
    rng = random.Random(1)
    for _ in range(50):
        state = space.start()
        bounds = [state.bound()]
        while (decision := state.decision) is not None:
            state = state.take(rng.choice([option for option in decision.options if option != "shiftry"]))
            bounds.append(state.bound())
        (found,) = space.evaluate([state.assignment])
        assert found.failure is None
        assert bounds == sorted(bounds)
        assert bounds[-1] <= found.metrics["peak_bytes"]
        assert found.metrics["order_bytes"] <= found.metrics["peak_bytes"]
        shuffled = dict(sorted(state.assignment.items()))
        assert list(space.in_order(shuffled)) == list(state.assignment)


def test_the_papers_allocator_takes_the_files_order() -> None:
    space = OrderedSpace(GAPPED)
    (candidates,) = space.procedure()
    (found,) = space.evaluate(candidates)
    assert found.metrics["order_bytes"] == 80


def test_candidates_that_cannot_be_executed_are_failures() -> None:
    space = OrderedSpace(GAPPED)
    good = dict(space.fallback() or {})
    swapped = {**good, "operator 1": good["operator 3"], "operator 3": good["operator 1"]}
    unknown = {**good, "operator 1": "nothing"}
    found = space.evaluate([good, swapped, unknown])
    assert found[0].failure is None
    assert found[1].failure == "shrink reads a before it is written."
    assert found[2].failure == "gapped has no operator nothing."


def test_the_checker_refuses_mutated_orders_and_placements() -> None:
    """It agrees with lifetimes and rectangles, from which it takes nothing, on thousands of mutated executions, of which it refuses a
    thousand and more."""
    rng = random.Random(0)
    refused = accepted = 0
    for turn in range(3000):
        graph = random_graph(turn % 60, 3 + turn % 6)
        alignment = (1, 4)[turn % 2]
        order = list(graph.file_order)
        space = OrderedSpace(graph, alignment).placements_of(order)
        offsets = {b: int(at) for b, at in zip(space.ids, best_greedy(space.arrays)[1], strict=True)}
        if turn % 3 != 0:
            moved = rng.choice(list(offsets))
            offsets[moved] = max(offsets[moved] + rng.choice((-4, -1, 1, 4)), 0)
        if turn % 3 != 1:
            i, j = rng.randrange(len(order)), rng.randrange(len(order))
            order[i], order[j] = order[j], order[i]
        try:
            instance = buffers_in_order(graph, order, alignment)
            expected = check_placement(instance, Placement(offsets))
        except (ValueError, PlacementError):
            expected = None
        try:
            peak = check_execution(graph, [graph.operators[k].name for k in order], offsets, alignment)
        except PlacementError:
            peak = None
        assert peak == expected, (turn, order, offsets)
        refused += peak is None
        accepted += peak is not None
    assert refused > 1000
    assert accepted > 300


def test_a_placement_goes_on_while_orders_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a reader: of 150 operators in many orders the file's got four steps, and the search of orders all other time."""
    monkeypatch.setattr(order_search, "MOST_STATES", 60)
    monkeypatch.setattr(order_search, "STEP_STATES", 20)
    monkeypatch.setattr(order_search, "BEAM_SETS", 1)
    found = list(itertools.islice(place_in_orders(OrderedSpace(random_graph(0, 60)), 7, lambda: 3600.0), 100))
    assert not any(one.standing.others for one in found)  # orders are being searched all the time
    first = [one.peak_bytes for one in found if one.standing.asked <= FIRST_QUESTIONS]
    assert min(one.peak_bytes for one in found) < min(first)
    last = found[-1].standing
    assert work_of(last.progress) > 0.5 * ordered_placement.WINDOW_WORK * last.in_vain
