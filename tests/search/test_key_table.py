"""A table of keys is a list of keys and a dictionary of their last places; a set of numbers is a set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.key_table import KeyTable
from kilotune.search.number_set import NumberSet

BYTES = st.one_of(st.binary(min_size=3, max_size=3), st.binary(max_size=4), st.sampled_from([b"", b"\0", b"\0\0\0"]))
KEYS = st.one_of(st.lists(BYTES, max_size=400), st.lists(st.text(max_size=3), max_size=400))


def check(keys: list[bytes] | list[str]) -> None:
    table, places = KeyTable(), dict[bytes | str, int]()
    for place, key in enumerate(keys):
        assert table.put(key) == places.get(key, -1)
        places[key] = place
    assert len(table) == len(keys)
    assert [table.key(place) for place in range(len(keys))] == keys
    assert all(table.place(key) == place and key in table for key, place in places.items())


@given(KEYS)
def test_every_key_is_found_at_its_last_place(keys: list[bytes] | list[str]) -> None:
    check(keys)


@pytest.mark.parametrize("width", [2, 3, 9])
def test_many_keys_are_found_while_the_table_grows(width: int) -> None:
    """Keys of two bytes all come again, those of nine never; what was not put in is not found."""
    drawn = np.random.default_rng(width).integers(0, 256, (20_000, width), dtype=np.uint8)
    keys = [row.tobytes() for row in drawn]
    check(keys)
    table = KeyTable()
    for key in keys[::2]:
        table.put(key)
    put_in = set(keys[::2])
    assert all((key in table) == (key in put_in) for key in keys)


class SameHash(bytes):
    """Keys whose hashes are all at the end of a table."""

    def __hash__(self) -> int:
        return (1 << 37) - 1


def test_keys_of_one_hash_are_told_apart() -> None:
    """They fill the tail, which makes the table grow."""
    keys: list[bytes] = [SameHash(number.to_bytes(2, "little")) for number in range(600)]
    check(keys)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40))))
def test_numbers_are_there_until_they_are_removed(steps: list[tuple[bool, int]]) -> None:
    numbers, expected = NumberSet(), set[int]()
    for adds, number in steps:
        if adds:
            numbers.add(number)
            expected.add(number)
        elif number in expected:
            numbers.remove(number)
            expected.remove(number)
        else:
            with pytest.raises(KeyError):
                numbers.remove(number)
        assert len(numbers) == len(expected)
    assert [number in numbers for number in range(-3, 50)] == [number in expected for number in range(-3, 50)]


def test_texts_may_hold_halves_of_surrogate_pairs() -> None:
    """As names in damaged files do."""
    table = KeyTable()
    for text in ("\ud800", "a", "\ud800b"):
        assert table.put(text) == -1
    assert [table.key(place) for place in range(3)] == ["\ud800", "a", "\ud800b"]
    assert table.place("\ud800b") == 2
