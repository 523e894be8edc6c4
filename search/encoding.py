"""Candidates as short keys: what makes two candidates the same, and how a study stores one.

A flat space's candidate is one option index per decision; any other space's is the JSON text of its answers.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kilotune.search.candidates import follow
from kilotune.search.space import Assignment, Decision, FlatSpace, Option, OrdersAnswers, Space

CandidateKey = bytes | str
"""Canonical and hashable: equal keys, equal candidates."""


class Encoding(Protocol):
    """Between candidates, their keys, and the text that a study stores."""

    def key(self, candidate: Assignment) -> CandidateKey:
        """ValueError when it is not a candidate of the space."""

    def candidate(self, key: CandidateKey) -> dict[str, Option]:
        """The inverse of `key`."""

    def text(self, key: CandidateKey) -> str:
        """JSON, for the store."""

    def key_of_text(self, text: str) -> CandidateKey:
        """The inverse of `text`. ValueError for a text that encodes no candidate of the space."""


class FlatEncoding:
    """Option indices in the order of the decisions, as few bytes each as the longest list of options needs."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self.decisions = tuple(decisions)
        self._tables = [(d.name, _index(d)) for d in self.decisions]
        longest = max((len(d.options) for d in self.decisions), default=1)
        self._typecode = "B" if longest <= 1 << 8 else "H" if longest <= 1 << 16 else "I"

    def key(self, candidate: Assignment) -> CandidateKey:
        try:
            indices = [table[candidate[name]] for name, table in self._tables]
        except KeyError:
            raise ValueError(self._complaint(candidate)) from None
        if len(indices) != len(candidate):
            raise ValueError(self._complaint(candidate))
        return array(self._typecode, indices).tobytes()

    def candidate(self, key: CandidateKey) -> dict[str, Option]:
        return {d.name: d.options[i] for d, i in zip(self.decisions, self._indices(key), strict=True)}

    def text(self, key: CandidateKey) -> str:
        return str(self._indices(key))

    def key_of_text(self, text: str) -> CandidateKey:
        indices = _loaded(text)
        valid = (
            isinstance(indices, list)
            and len(indices) == len(self.decisions)
            and all(type(i) is int and 0 <= i < len(d.options) for i, d in zip(indices, self.decisions, strict=True))
        )
        if not valid:
            raise ValueError(f"A stored candidate {_shown(text)} does not fit the decisions of the space.")
        return array(self._typecode, indices).tobytes()

    def _indices(self, key: CandidateKey) -> list[int]:
        indices = array(self._typecode)
        indices.frombytes(key if isinstance(key, bytes) else key.encode())
        return indices.tolist()

    def _complaint(self, candidate: Assignment) -> str:
        for name, table in self._tables:
            if name not in candidate:
                return f"A candidate leaves decision {name!r} open."
            if candidate[name] not in table:
                return f"A candidate answers decision {name!r} with {candidate[name]!r}, not one of its options."
        unknown = sorted(set(candidate) - {name for name, _ in self._tables})
        return f"A candidate answers {unknown[0]!r}, which is no decision of the space."


class TreeEncoding:
    """JSON of the answers, sorted by name; the space, or walking it, puts them back in the order in which they were asked."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._in_order = space.in_order if isinstance(space, OrdersAnswers) else None

    def key(self, candidate: Assignment) -> CandidateKey:
        return json.dumps(dict(candidate), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def candidate(self, key: CandidateKey) -> dict[str, Option]:
        answers = json.loads(key)
        return follow(self._space, answers) if self._in_order is None else self._in_order(answers)

    def text(self, key: CandidateKey) -> str:
        return key if isinstance(key, str) else key.decode()

    def key_of_text(self, text: str) -> CandidateKey:
        answers = _loaded(text)
        if not isinstance(answers, dict) or not all(isinstance(a, (str, int, float)) for a in answers.values()):
            raise ValueError(f"A stored candidate {_shown(text)} is not an object of answers.")
        return text


def encoding_of(space: Space) -> Encoding:
    """ValueError when a flat space's decisions cannot be told apart by their names or options."""
    if not isinstance(space, FlatSpace):
        return TreeEncoding(space)
    names = [d.name for d in space.decisions]
    if len(set(names)) < len(names):
        raise ValueError(f"Space {space.name!r} asks two decisions of the same name.")
    return FlatEncoding(space.decisions)


def _loaded(text: str) -> Any:
    """The value of a JSON text; None for a text that is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _shown(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _index(decision: Decision) -> Mapping[Option, int]:
    table = {option: i for i, option in enumerate(decision.options)}
    if not table or len(table) < len(decision.options):
        # 1, 1.0 and True are equal to Python, so they would be one option with two indices.
        raise ValueError(f"Decision {decision.name!r} needs at least one option, and no two that are equal.")
    return table
