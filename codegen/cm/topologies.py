"""Interconnects by name: who is linked with whom. A link goes one way; every topology here has both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

CorePair = tuple[int, int]
"""Source and target core."""

"""Column and row, for pictures."""


def all_to_all(cores: int) -> list[CorePair]:
    """Every core with every other."""
    return [(a, b) for a in range(cores) for b in range(cores) if a != b]


def ring(cores: int) -> list[CorePair]:
    """Core i with i - 1 and i + 1, the last with the first."""
    return _both_ways((i, (i + 1) % cores) for i in range(cores) if cores > 1)


def mesh(rows: int, columns: int) -> list[CorePair]:
    """Core r * columns + c with its neighbours left, right, above and below."""
    return _both_ways(_grid_steps(rows, columns, ((0, 1), (1, 0))))


def torus(rows: int, columns: int) -> list[CorePair]:
    """A mesh whose rows and columns are closed to rings."""
    around = [(r * columns + c, r * columns + (c + 1) % columns) for r in range(rows) for c in range(columns)]
    around += [(r * columns + c, (r + 1) % rows * columns + c) for r in range(rows) for c in range(columns)]
    return _both_ways((a, b) for a, b in around if a != b)


def tree(cores: int) -> list[CorePair]:
    """A binary tree: core i with its parent (i - 1) / 2, core 0 at the root."""
    return _both_ways((i, (i - 1) // 2) for i in range(1, cores))


def diagonal_mesh(rows: int, columns: int) -> list[CorePair]:
    """A mesh with the four diagonal neighbours besides."""
    return _both_ways(_grid_steps(rows, columns, ((0, 1), (1, 0), (1, 1), (1, -1))))


def parallel_prism(layers: int) -> list[CorePair]:
    """5 Parallel Prism (Dazzi et al. 2019, the paper's [33]) in our reading of its name, for the paper does not repeat
    its definition: five parallel paths whose facing cores are all linked. Core 5 * layer + lane."""
    pairs = [(5 * k + a, 5 * k + b) for k in range(layers) for a in range(5) for b in range(a + 1, 5)]
    pairs += [(5 * k + a, 5 * (k + 1) + a) for k in range(layers - 1) for a in range(5)]
    return _both_ways(iter(pairs))


PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "all-to-all": ("cores",),
        "ring": ("cores",),
        "mesh": ("rows", "columns"),
        "mesh-diagonal": ("rows", "columns"),
        "torus": ("rows", "columns"),
        "tree": ("cores",),
        "5pp": ("layers",),
    }
)
"""What each kind of topology is given, by its name in a hardware file."""

_MAKERS: Mapping[str, Callable[..., list[CorePair]]] = MappingProxyType(
    {
        "all-to-all": all_to_all,
        "ring": ring,
        "mesh": mesh,
        "mesh-diagonal": diagonal_mesh,
        "torus": torus,
        "tree": tree,
        "5pp": parallel_prism,
    }
)


def pairs_of(kind: str, sizes: Mapping[str, int]) -> list[CorePair]:
    """The linked pairs, in ascending order. KeyError for an unknown kind."""
    return sorted(_MAKERS[kind](*(sizes[name] for name in PARAMETERS[kind])))


def core_count(kind: str, sizes: Mapping[str, int]) -> int:
    """How many cores the topology has."""
    if kind == "5pp":
        return 5 * sizes["layers"]
    return sizes["rows"] * sizes["columns"] if "rows" in sizes else sizes["cores"]


def grid_columns(kind: str, sizes: Mapping[str, int]) -> int | None:
    """Cores to a row of the picture; None: a circle shows more."""
    return 5 if kind == "5pp" else sizes.get("columns")


def _grid_steps(rows: int, columns: int, steps: tuple[CorePair, ...]) -> Iterator[CorePair]:
    for r in range(rows):
        for c in range(columns):
            for down, right in steps:
                if r + down < rows and 0 <= c + right < columns:
                    yield r * columns + c, (r + down) * columns + c + right


def _both_ways(pairs: Iterator[CorePair]) -> list[CorePair]:
    return sorted({pair for a, b in pairs for pair in ((a, b), (b, a))})
