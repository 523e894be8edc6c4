"""Candidates as short keys: what makes two candidates the same, and how a study stores one.

A flat space's candidate is one option index per decision; any other space's is the JSON text of its answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import lt, mul
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


LARGEST_WORD = 1 << 64


class FlatEncoding:
    """Option indices as digits of whole numbers of at most 64 bits, each to the base of how many options its decision has. The numbers lie
    one after the other, in as few bytes as each needs."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self.decisions = tuple(decisions)
        self._counts = [len(decision.options) for decision in self.decisions]
        self._indices_of = [(decision.name, _index(decision)) for decision in self.decisions]
        self._words = [self._word(first, last) for first, last in _spans(self._counts)]

    def _word(self, first: int, last: int) -> _KeyWord:
        weights = [1, *accumulate(self._counts[first:last], mul)]
        digits = [
            (name, {option: index * weight for option, index in indices.items()})
            for (name, indices), weight in zip(self._indices_of[first:last], weights, strict=False)
        ]
        length = (max(1, weights.pop() - 1).bit_length() + 7) // 8
        return _KeyWord(first, last, length, weights, digits)

    def key(self, candidate: Assignment) -> CandidateKey:
        if len(candidate) != len(self.decisions):
            raise ValueError(self._complaint(candidate))
        try:
            words = [
                sum([table[candidate[name]] for name, table in word.digits]).to_bytes(word.length, "little")
                for word in self._words
            ]
        except KeyError:
            raise ValueError(self._complaint(candidate)) from None
        return words[0] if len(words) == 1 else b"".join(words)

    def candidate(self, key: CandidateKey) -> dict[str, Option]:
        return {d.name: d.options[i] for d, i in zip(self.decisions, self._indices(key), strict=True)}

    def text(self, key: CandidateKey) -> str:
        return str(self._indices(key)).replace(" ", "")

    def key_of_text(self, text: str) -> CandidateKey:
        indices = _loaded(text)
        valid = (
            isinstance(indices, list)
            and len(indices) == len(self.decisions)
            and {int}.issuperset(map(type, indices))
            and min(indices, default=0) >= 0
            and all(map(lt, indices, self._counts))
        )
        if not valid:
            raise ValueError(f"A stored candidate {_shown(text)} does not fit the decisions of the space.")
        words = (sum(map(mul, indices[w.first : w.last], w.weights)).to_bytes(w.length, "little") for w in self._words)
        return b"".join(words)

    def _indices(self, key: CandidateKey) -> list[int]:
        indices, start = list[int](), 0
        content = key if isinstance(key, bytes) else key.encode()
        for word in self._words:
            left = int.from_bytes(content[start : start + word.length], "little")
            start += word.length
            for count in self._counts[word.first : word.last]:
                left, index = divmod(left, count)
                indices.append(index)
        return indices

    def _complaint(self, candidate: Assignment) -> str:
        for name, table in self._indices_of:
            if name not in candidate:
                return f"A candidate leaves decision {name!r} open."
            if candidate[name] not in table:
                return f"A candidate answers decision {name!r} with {candidate[name]!r}, not one of its options."
        unknown = sorted(set(candidate) - {name for name, _ in self._indices_of})
        return f"A candidate answers {unknown[0]!r}, which is no decision of the space."


@dataclass(frozen=True)
class _KeyWord:
    """A number of a key: decisions from `first` up to `last` without it, `length` bytes, what an index is worth, what each answer adds."""

    first: int
    last: int
    length: int
    weights: Sequence[int]
    digits: Sequence[tuple[str, Mapping[Option, int]]]


def _spans(counts: Sequence[int]) -> list[tuple[int, int]]:
    """First and last decisions, these excluded, of numbers of at most 64 bits (but for a decision of more options); at least one."""
    spans, first, weight = list[tuple[int, int]](), 0, 1
    for place, count in enumerate(counts):
        if weight * count > LARGEST_WORD and place > first:
            spans.append((first, place))
            first, weight = place, 1
        weight *= count
    return [*spans, (first, len(counts))]


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
