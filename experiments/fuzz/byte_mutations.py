"""Mutations of bytes that know nothing of what they mean."""

from __future__ import annotations

from random import Random

NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63)
"""Ends of the ranges of machine integers."""

MOST_BYTES = 1 << 16


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """One mutation: flipped bits, a number, a chunk removed, repeated, moved or made up, or the end cut off."""
    mutation = random.choice((_flip, _number, _remove, _repeat, _make_up, _cut, _swap, _fill))
    return mutation(data, random)[:MOST_BYTES]


def _chunk(data: bytes, random: Random) -> tuple[int, int]:
    """A piece of the data, mostly short: (begin, end)."""
    begin = random.randrange(len(data) + 1)
    length = 1 << random.randrange(max(len(data).bit_length(), 1))
    return begin, min(begin + random.randint(1, length), len(data))


def _flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8)) if data else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _number(data: bytes, random: Random) -> bytes:
    width = random.choice((1, 2, 4, 8))
    number = random.choice(NUMBERS) & ((1 << 8 * width) - 1)
    begin = random.randrange(len(data) + 1)
    return data[:begin] + number.to_bytes(width, random.choice(("little", "big"))) + data[begin + width :]


def _remove(data: bytes, random: Random) -> bytes:
    begin, end = _chunk(data, random)
    return data[:begin] + data[end:]


def _repeat(data: bytes, random: Random) -> bytes:
    begin, end = _chunk(data, random)
    return data[:end] + data[begin:end] * random.choice((1, 1, 7, 300)) + data[end:]


def _make_up(data: bytes, random: Random) -> bytes:
    begin = random.randrange(len(data) + 1)
    return data[:begin] + random.randbytes(random.choice((1, 2, 9, 100))) + data[begin:]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _swap(data: bytes, random: Random) -> bytes:
    (a, b), (c, d) = sorted((_chunk(data, random), _chunk(data, random)))
    c = max(b, c)
    d = max(c, d)
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _fill(data: bytes, random: Random) -> bytes:
    begin, end = _chunk(data, random)
    return data[:begin] + bytes([random.choice((0, 0xFF, 0x20, 0x41))]) * (end - begin) + data[end:]
