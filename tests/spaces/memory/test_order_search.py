"""Orders of execution: what they need at least, and the search of the one that needs least."""

from __future__ import annotations

import itertools
import random
import tracemalloc

import pytest

from kilotune.spaces.memory import order_search
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.live_sums import ExecutionPoint, LiveSums
from kilotune.spaces.memory.order_search import BestFirst, CheaperOrders, other_order, search_orders
from kilotune.spaces.memory.tensor_buffers import buffers_in_order
from tests.spaces.memory.graphs import all_orders, random_graph, wide_graph


@pytest.mark.parametrize("alignment", [1, 4, 16])
@pytest.mark.parametrize("seed", range(40))
def test_the_least_of_all_orders(seed: int, alignment: int) -> None:
    """Against every order; what an order costs is the largest live sum of the buffers that follow from it, alignment included."""
    graph = random_graph(seed, 1 + seed % 7)
    sums = LiveSums(graph, alignment)
    costs = {
        order: largest_live_sum(buffers_in_order(graph, order, alignment)).peak_bytes for order in all_orders(graph)
    }
    assert {order: sums.cost(order) for order in costs} == costs
    steps = list(search_orders(sums, graph.file_order))
    least = min(costs.values())
    assert steps[-1].done
    assert steps[-1].cost == steps[-1].bound == costs[steps[-1].order] == least
    assert all(step.bound <= least <= step.cost == costs[step.order] for step in steps)


class Plain(LiveSums):
    """No operator runs before its turn."""

    def costs_nothing(self, at: ExecutionPoint, after: ExecutionPoint) -> bool:
        return False


def best_first(sums: LiveSums, known_bound: int = 0) -> tuple[int, int]:
    """The least cost by its own account, and what the order that it found costs."""
    search = BestFirst(sums, sums.start(), (1 << sums.count) - 1, 10**9, 10**6, known_bound)
    while search.found is None:
        search.visit(1000)
    return search.bound, sums.cost(search.found)


@pytest.mark.parametrize("alignment", [1, 4, 16])
def test_operators_that_run_at_once_cost_nothing(alignment: int) -> None:
    """Against the search without that rule: roundings, tensors without bytes and inputs that nobody reads are among the graphs. A bound
    that is known changes nothing (found by a reader: operators ran at once that cost no more than the bound)."""
    for seed in range(500):
        graph = random_graph(seed, 3 + seed % 6, inputs=3)
        least, _ = best_first(Plain(graph, alignment))
        sums = LiveSums(graph, alignment)
        assert best_first(sums) == (least, least), seed
        alone = max([sums.cost(()), *(sums.alone(k) for k in range(sums.count))])
        assert best_first(sums, alone) == (least, least), seed
        assert best_first(sums, least) == (least, least), seed


@pytest.mark.parametrize("seed", range(4))
def test_all_sets_of_wide_graphs(seed: int) -> None:
    """4 chains of 3: the rule finds the same, and so does the whole search."""
    graph = wide_graph(seed, 4, 3)
    least, _ = best_first(Plain(graph))
    found = list(search_orders(LiveSums(graph), graph.file_order, seed))[-1]
    assert found.cost == found.bound == least == best_first(LiveSums(graph))[0]


@pytest.mark.parametrize("seed", range(4))
def test_graphs_with_too_many_sets(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound stays one, and windows of the order make it better than the beam's where they can."""
    graph = wide_graph(seed, 5, 3)
    sums = LiveSums(graph)
    least = list(search_orders(sums, graph.file_order))[-1]
    assert least.cost == least.bound
    monkeypatch.setattr(order_search, "MOST_STATES", 20)
    monkeypatch.setattr(order_search, "BEAM_SETS", 1)
    monkeypatch.setattr(order_search, "WINDOWS_IN_VAIN", 15)
    steps = list(search_orders(sums, graph.file_order, seed))
    assert all(step.bound <= least.cost <= step.cost for step in steps)
    assert steps[-1].done
    assert sorted(steps[-1].order) == list(range(sums.count))
    assert steps[-1].cost == sums.cost(steps[-1].order) <= sums.cost(graph.file_order)


def test_a_narrow_beam_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wide one would find may take longer than there is time."""
    graph = wide_graph(1, 30, 10)
    sums = LiveSums(graph)
    beam = order_search._beam

    def narrow(sums: LiveSums, width: int, rng: random.Random) -> tuple[int, ...]:
        if width > 1:
            raise TimeoutError
        return beam(sums, width, rng)

    monkeypatch.setattr(order_search, "_beam", narrow)
    steps = search_orders(sums, graph.file_order)
    given, first = next(steps), next(steps)
    assert first.cost == sums.cost(first.order) < given.cost == sums.cost(graph.file_order)
    with pytest.raises(TimeoutError):
        next(steps)


def test_visits_end_when_as_many_sets_are_remembered() -> None:
    """From each set of 40 chains as many operators may run: who looks at a clock now and then does not wait for all of these."""
    graph = wide_graph(2, 40, 3)
    sums = LiveSums(graph)
    search = BestFirst(sums, sums.start(), (1 << sums.count) - 1, sums.cost(graph.file_order), 10**6)
    for visit in range(1, 4):
        search.visit(100)
        assert 100 * visit < search.remembered < 100 * visit + 3 * 41
        assert not search.stuck


def cheaper_orders(sums: LiveSums, limit: int, most_states: int = 10**6) -> CheaperOrders:
    """After a visit to all sets."""
    search = CheaperOrders(sums, limit, most_states)
    while not search.none_left and search.visit(10**6):
        pass
    return search


@pytest.mark.parametrize("alignment", [1, 4, 16])
def test_cheaper_orders_end_with_the_cheapest(alignment: int) -> None:
    """Against the search best first in which no operator runs before its turn; inputs that nobody reads are among the graphs."""
    for seed in range(500):
        graph = random_graph(seed, 3 + seed % 6, inputs=3)
        sums = LiveSums(graph, alignment)
        least, _ = best_first(Plain(graph, alignment))
        for limit in (10**9, least + 1):
            search = cheaper_orders(sums, limit)
            assert search.none_left
            assert search.found is not None
            graph.lifetimes(search.found)
            assert sums.cost(search.found) == search.limit == least, seed
        none = cheaper_orders(sums, least)
        assert (none.found, none.none_left, none.limit) == (None, True, least)


def test_an_order_that_was_found_is_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a step of its own: the seconds may be over long before as many sets have been visited as one may."""
    graph = wide_graph(2, 40, 3)
    sums = LiveSums(graph)
    monkeypatch.setattr(order_search, "_beam", lambda sums, width, rng: graph.file_order)
    search = CheaperOrders(sums, sums.cost(graph.file_order), 10**6)
    left = search.visit(10_000)
    assert search.found is not None
    assert 0 < left < 10_000
    assert sums.cost(search.found) == search.limit < sums.cost(graph.file_order)
    costs = [step.cost for step in itertools.islice(search_orders(sums, graph.file_order), 12)]
    found = list(dict.fromkeys(costs))
    assert found[1] == search.limit
    search.visit(left)
    assert found[2] == search.limit


def test_sets_that_wait_have_their_orders_in_common() -> None:
    """Of a thousand operators in a hundred branches 28 000 sets wait at a time, each after up to a thousand operators: an order of its own
    for each takes gigabytes of graphs four times as large."""
    graph = wide_graph(2, 60, 5)
    sums = LiveSums(graph)
    tracemalloc.start()
    try:
        CheaperOrders(sums, sums.cost(graph.file_order), 10**6).visit(250)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_too_many_sets_prove_nothing() -> None:
    graph = wide_graph(0, 5, 3)
    search = cheaper_orders(LiveSums(graph), best_first(LiveSums(graph))[0], 10)
    assert (search.found, search.none_left) == (None, False)


def test_a_wide_graph_is_proved_from_few_sets() -> None:
    """Best first alone remembers 60 000 sets and more of it without a proof."""
    graph = wide_graph(2, 6, 8)
    last = list(search_orders(LiveSums(graph), graph.file_order))[-1]
    assert last.cost == last.bound == cheaper_orders(LiveSums(graph), 10**9).limit
    assert last.sets < 60_000


def test_other_orders_can_be_executed() -> None:
    graph = random_graph(3, 12)
    found = {other_order(LiveSums(graph), random.Random(seed)) for seed in range(20)}
    assert len(found) > 1
    for order in found:
        graph.lifetimes(order)
