"""The tables of routes, pair by pair, on nodes with links one way and both ways, several between two nodes, or none."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.cm import routing
from kilotune.codegen.cm.hardware import Hardware, Link
from kilotune.codegen.cm.routing import UNREACHABLE, route_tables


def random_hardware(seed: int) -> Hardware:
    rng = np.random.default_rng(seed)
    cores = int(rng.integers(2, 14))
    pairs = [tuple(rng.choice(cores + 1, 2, replace=False).tolist()) for _ in range(int(rng.integers(1, 3 * cores)))]
    pairs += [(b, a) for a, b in pairs if rng.random() < 0.9 * (seed % 2)]
    pairs += [pair for pair in pairs if rng.random() < 0.1]
    links = tuple(Link(a, b, 1, 1) for a, b in rng.permutation(pairs).tolist())
    return Hardware("random", cores, links, 1, 1, 1, 1 << 20, 2)


def shortest(hardware: Hardware) -> list[list[int]]:
    """Links between nodes by relaxing all of them again and again; none leads on from GMEM but the first."""
    nodes = hardware.cores + 1
    away = [[0 if a == b else UNREACHABLE for b in range(nodes)] for a in range(nodes)]
    for _ in range(nodes):
        for link in hardware.links:
            for goal in range(nodes):
                if link.target != hardware.gmem or goal == hardware.gmem:
                    away[link.source][goal] = min(away[link.source][goal], away[link.target][goal] + 1)
    return away


@pytest.mark.parametrize("seed", range(12))
def test_tables_say_of_every_pair_of_nodes_what_their_definition_says(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = random_hardware(seed)
    monkeypatch.setattr(routing, "NARROW_LINKS", len(hardware.links) + seed % 2)
    tables, away, gmem = route_tables(hardware), shortest(hardware), hardware.gmem
    assert tables.distance.tolist() == away
    assert tables.is_wide == (seed % 2 == 0)
    assert tables.longest == max(far for row in away for far in row if far < UNREACHABLE)
    ports = sorted(enumerate(hardware.links), key=lambda numbered: numbered[1].target)  # stable
    for node in range(gmem + 1):
        links = [(number, link.target) for number, link in ports if link.source == node]
        for goal in range(gmem + 1):
            near = [
                number
                for number, after in links
                if away[after][goal] + 1 == away[node][goal] and (after != gmem or goal == gmem)
            ]
            assert tables.step[:, node, goal].tolist() == ([near[0], near[-1]] if near else [-1, -1])
            if node == gmem:
                continue
            detours = [(number, table) for number, after in links for table in (0, 1) if after not in (gmem, goal)
                       and node != goal and away[after][goal] < UNREACHABLE
                       and 0 <= away[after][goal] - away[node][goal] <= 1
                       and tables.target[tables.step[table, after, goal]] != node]  # fmt: skip
            ends = (detours[0], next(d for d in detours if d[0] == detours[-1][0])) if detours else ((-1, 0),) * 2
            for shape, wanted in enumerate(ends):
                found = int(tables.detour[shape, node, goal])
                assert (divmod(found, 2) if found >= 0 else (-1, 0)) == wanted
