"""Trees that are computed once are those of `tree`, and stay with the object that asked for them."""

from __future__ import annotations

import itertools
import pickle

import pytest

from kilotune.codegen.scamp import selection
from kilotune.codegen.scamp.selection import RememberedTrees, tree

SETS = [frozenset(found) for found in itertools.combinations([(0, 0, 0), (1, 0, 0), (2, -1, 1), (0, 2, 1)], 2)]


def test_each_set_is_computed_once_for_each_object(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[object] = []

    def counted(points: frozenset[selection.ShiftPoint]) -> object:
        computed.append(points)
        return tree(points)

    monkeypatch.setattr(selection, "tree", counted)
    trees = RememberedTrees()
    for _ in range(2):
        assert [trees(points) for points in SETS] == [tree(points) for points in SETS]
    assert computed == SETS
    pickle.loads(pickle.dumps(trees))(SETS[0])
    assert computed == [*SETS, SETS[0]]


def test_no_more_are_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "TREES_KEPT", 2)
    trees = RememberedTrees()
    assert [trees(points) for points in SETS] == [tree(points) for points in SETS]
    assert len(trees._known) <= 2
