"""Placement problems for the tests: random ones, and the optimum by brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from kilotune.spaces.memory.instance import Buffer, Instance, Placement

DATA = Path(__file__).parent / "data"


def make(*rows: tuple[int, int, int] | tuple[int, int, int, int], name: str = "made") -> Instance:
    """(lower, upper, size[, alignment]) a buffer; ids are b0, b1, ..."""
    return Instance(name, tuple(Buffer(f"b{i}", *row) for i, row in enumerate(rows)))


@st.composite
def instances(draw: st.DrawFn, most: int = 6, aligned: bool = True) -> Instance:
    """Few buffers, small numbers: many ties and touching ranges."""
    rows = []
    for _ in range(draw(st.integers(0, most))):
        lower = draw(st.integers(0, 7))
        life, size = draw(st.integers(1, 5)), draw(st.integers(0, 6))
        rows.append((lower, lower + life, size, draw(st.sampled_from((1, 1, 2, 4))) if aligned else 1))
    return make(*rows)


def random_instance(seed: int, count: int, aligned: bool = False) -> Instance:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        lower = int(rng.integers(0, 2 * count))
        alignment = int(rng.choice([1, 2, 4, 8])) if aligned else 1
        rows.append((lower, lower + int(rng.integers(1, count)), int(rng.integers(1, 64)), alignment))
    return make(*rows, name=f"random-{seed}")


def least_peak(instance: Instance) -> int:
    """All orders, each buffer at the lowest offset above everything before it that it meets: one of them is optimal."""
    best = sum(b.size + b.alignment for b in instance.buffers)
    for order in itertools.permutations(instance.buffers):
        offsets: dict[str, int] = {}
        placed: list[Buffer] = []
        for b in order:
            top = max((offsets[c.id] + c.size for c in placed if c.overlaps(b)), default=0)
            offsets[b.id] = -(-top // b.alignment) * b.alignment if b.size else 0
            placed.append(b)
        best = min(best, Placement(offsets).peak_bytes(instance))
    return best if instance.buffers else 0


def guillotine(count: int, seed: int) -> Instance:
    """A rectangle of 1 MiB cut from edge to edge again and again: every byte is used at every point, and the optimum is 1 MiB."""
    rng = np.random.default_rng((seed, count))
    tiles = [(0, 16 * count, 1 << 20)]
    while len(tiles) < count:
        areas = np.array([float(upper - lower) * size for lower, upper, size in tiles])
        lower, upper, size = tiles.pop(int(rng.choice(len(tiles), p=areas / areas.sum())))
        if rng.random() < 0.5 and upper - lower > 1:
            at = int(rng.integers(lower + 1, upper))
            tiles += [(lower, at, size), (at, upper, size)]
        else:
            at = int(rng.integers(1, size))
            tiles += [(lower, upper, at), (lower, upper, size - at)]
    return make(*(tiles[k] for k in rng.permutation(count)), name=f"guillotine-{seed}")


def shrunk(count: int, seed: int) -> Instance:
    """A tiling cut from edge to edge, every tile smaller by up to a tenth: no two sizes fit any more."""
    rng = np.random.default_rng(seed)
    tiles = guillotine(count, seed).buffers
    return Instance("shrunk", tuple(replace(b, size=max(1, int(b.size * (1 - rng.random() / 10)))) for b in tiles))


def shrunken_wheels(count: int, seed: int) -> Instance:
    """A rectangle of 1 MiB cut in wheels of five or from edge to edge, every piece smaller by up to a tenth."""
    rng = np.random.default_rng(seed)
    tiles = [(0, 160 * count, 1 << 20)]
    while len(tiles) < count:
        lower, upper, size = tiles.pop(int(np.argmax([(upper - lower) * size for lower, upper, size in tiles])))
        first, second = sorted(int(at) for at in rng.choice(np.arange(lower + 1, upper), 2, replace=False))
        low, high = sorted(int(at) for at in rng.choice(np.arange(1, size), 2, replace=False))
        if rng.random() < 0.6:
            tiles += [(lower, first, size), (first, upper, low), (first, upper, size - low)]
            continue
        tiles += [(lower, second, low), (second, upper, high), (first, upper, size - high), (lower, first, size - low)]
        tiles.append((first, second, high - low))
    return make(*((lower, upper, max(1, int(size * (1 - rng.random() / 10)))) for lower, upper, size in tiles))


def thinned(count: int, seed: int) -> Instance:
    """A tiling cut from edge to edge of which a tenth is missing."""
    rng = np.random.default_rng(seed)
    return Instance("thinned", tuple(b for b in guillotine(count, seed).buffers if rng.random() < 0.9))
