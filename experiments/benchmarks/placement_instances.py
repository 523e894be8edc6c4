"""Generated instances of the placement problem: random buffers, and rectangles that were cut up, so that a low placement is known.

What `experiments.benchmarks.placement --random` places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from kilotune.spaces.memory.instance import Buffer, Instance

MEGABYTE = 1 << 20

LifeAndSize = tuple[int, int, int]
"""First point of a piece's life, one past its last one, bytes."""


def scattered(count: int, seed: int) -> Instance:
    """Lives of up to a tenth of the program, sizes of up to 4 KiB."""
    rng = np.random.default_rng((seed, count))
    lower = rng.integers(0, 2 * count, count)
    life = rng.integers(1, max(count // 5, 2), count)
    size = rng.integers(1, 4097, count)
    rows = zip(lower.tolist(), (lower + life).tolist(), size.tolist(), strict=True)
    return Instance(f"random-{count}", tuple(Buffer(str(i), *r) for i, r in enumerate(rows)))


def tiled(count: int, seed: int) -> Instance:
    """A rectangle of 1 MiB cut up at random: every byte is used at every point."""
    return cut_up(f"tiled-{count}", count, seed, halves_of)


def pinwheels(count: int, seed: int) -> Instance:
    """A rectangle of 1 MiB, each piece of which is cut in five that no cut from edge to edge parts."""
    return cut_up(f"pinwheels-{count}", count, seed, wheel_of)


def cut_up(
    name: str,
    count: int,
    seed: int,
    pieces_of: Callable[[LifeAndSize, np.random.Generator], list[LifeAndSize]],
    points: int = 0,
) -> Instance:
    """A rectangle of 1 MiB in at least so many pieces, in a random order; larger ones are cut up earlier."""
    rng = np.random.default_rng((seed, count))
    tiles = [(0, points or 16 * count, MEGABYTE)]
    while len(tiles) < count:
        area = np.array([float(upper - lower) * size for lower, upper, size in tiles])
        tiles += pieces_of(tiles.pop(int(rng.choice(len(tiles), p=area / area.sum()))), rng)
    order = rng.permutation(len(tiles))
    return Instance(name, tuple(Buffer(str(i), *tiles[k]) for i, k in enumerate(order)))


def halves_of(tile: LifeAndSize, rng: np.random.Generator) -> list[LifeAndSize]:
    """The tile cut from edge to edge, in two; itself, where it is too small."""
    lower, upper, size = tile
    if rng.random() < 0.5 and upper - lower > 1:
        at = int(rng.integers(lower + 1, upper))
        return [(lower, at, size), (at, upper, size)]
    if size > 1:
        at = int(rng.integers(1, size))
        return [(lower, upper, at), (lower, upper, size - at)]
    return [tile]


def wheel_of(tile: LifeAndSize, rng: np.random.Generator) -> list[LifeAndSize]:
    """The tile cut in five that turn around one of them; itself, where it is too small."""
    lower, upper, size = tile
    if upper - lower < 3 or size < 3:
        return [tile]
    first, second = sorted(int(at) for at in rng.choice(upper - lower - 1, 2, replace=False) + lower + 1)
    low, high = sorted(int(at) for at in rng.choice(size - 1, 2, replace=False) + 1)
    around = [(lower, second, low), (second, upper, high), (first, upper, size - high), (lower, first, size - low)]
    return [*around, (first, second, high - low)]


def thinned(count: int, seed: int) -> Instance:
    """A tiling of which a tenth is missing."""
    rng = np.random.default_rng((seed, count))
    return Instance(f"thinned-{count}", tuple(b for b in tiled(count, seed).buffers if rng.random() < 0.9))


def slack(count: int, seed: int) -> Instance:
    """A tiling in which every buffer is smaller by up to a tenth, each by its own share."""
    whole = replace(tiled(count, seed), name=f"slack-{count}")
    return smaller(whole, np.random.default_rng((seed, count)))


def smaller(whole: Instance, rng: np.random.Generator) -> Instance:
    """Every buffer smaller by up to a tenth."""
    shrunk = (replace(b, size=max(1, int(b.size * (1 - rng.random() / 10)))) for b in whole.buffers)
    return replace(whole, buffers=tuple(shrunk))


def slack_wheels(count: int, seed: int) -> Instance:
    """A rectangle of 1 MiB cut up at random, two of five times in wheels of five, every piece smaller by up to a tenth. There are so few
    points of time that cuts meet by chance. A placement of at most 1 MiB is there by construction."""

    def pieces_of(tile: LifeAndSize, rng: np.random.Generator) -> list[LifeAndSize]:
        return wheel_of(tile, rng) if rng.random() < 0.4 else halves_of(tile, rng)

    whole = cut_up(f"slack-wheels-{count}", count, seed, pieces_of, 5 * count)
    return smaller(whole, np.random.default_rng((seed, count)))


def stacks(count: int, seed: int) -> Instance:
    """A stack of pieces that fills 1 MiB. At each point of time neighbours end, at up to three places of the stack, and others as large
    together begin there: mostly no cut from edge to edge parts what comes of it, and no wheel."""
    return changing_stack(f"stacks-{count}", count, seed, 3)


def slack_stacks(count: int, seed: int) -> Instance:
    """A `changing_stack` with one place at each point, every piece smaller by up to a tenth."""
    whole = changing_stack(f"slack-stacks-{count}", count, seed, 1)
    return smaller(whole, np.random.default_rng((seed, count)))


def changing_stack(name: str, count: int, seed: int, most_places: int) -> Instance:
    """At least so many pieces, in a random order. At each point of time up to so many groups of one to three neighbours change."""
    rng = np.random.default_rng((seed, count, 11))
    stack = [(0, size) for size in _cut(MEGABYTE, 30, rng)]
    tiles: list[LifeAndSize] = []
    at = 0
    while len(tiles) + len(stack) < count:
        at += int(rng.integers(1, 20))
        for _ in range(int(rng.integers(1, most_places + 1))):
            width = int(rng.integers(1, 4))
            first = int(rng.integers(len(stack) - width + 1))
            ending = stack[first : first + width]
            size = sum(piece for _, piece in ending)
            parts = 3 if len(stack) < 20 else 1 if len(stack) > 40 else int(rng.integers(1, 4))
            if size > parts and all(begin < at for begin, _ in ending):
                tiles += [(begin, at, piece) for begin, piece in ending]
                stack[first : first + width] = [(at, piece) for piece in _cut(size, parts, rng)]
    tiles += [(begin, at + 1, piece) for begin, piece in stack]
    order = rng.permutation(len(tiles))
    return Instance(name, tuple(Buffer(str(i), *tiles[k]) for i, k in enumerate(order)))


def _cut(total: int, parts: int, rng: np.random.Generator) -> list[int]:
    """So many sizes that are this large together."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    sizes: list[int] = np.diff(cuts, prepend=0, append=total).tolist()
    return sizes


def over_points(count: int, points: int, seed: int, shrunk: bool) -> Instance:
    """A rectangle of 1 MiB cut up at random over so many points of time, three of ten times in wheels of five; where they are shrunk, every
    piece is smaller by up to a tenth."""

    def pieces_of(tile: LifeAndSize, rng: np.random.Generator) -> list[LifeAndSize]:
        return wheel_of(tile, rng) if rng.random() < 0.3 else halves_of(tile, rng)

    whole = cut_up(f"over-{points}-points", count, seed, pieces_of, points)
    return smaller(whole, np.random.default_rng((seed, count, 7))) if shrunk else whole


KINDS: Mapping[str, Callable[[int, int], Instance]] = MappingProxyType(
    {
        "random": scattered,
        "tiled": tiled,
        "pinwheels": pinwheels,
        "thinned": thinned,
        "slack": slack,
        "slack-wheels": slack_wheels,
        "stacks": stacks,
        "slack-stacks": slack_stacks,
    }
)
"""What `generated` makes, by how many buffers and from which seed."""
