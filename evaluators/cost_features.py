"""What emitted code does, counted: how often each kind of work is executed in one inference.

A feature is a name such as `load.flash.16.pointer` or `down.toward-zero.32.15.16`; a cost table gives its cycles. Which
features a row of a program has depends on the candidate's widths and shifts, how often it has them on the
program alone. So a batch of candidates is one array of feature numbers beside one vector of counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.pairs import BLOCKS, MOST_ROWS
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.encoding import LAYOUTS

WIDTHS = (8, 16, 32)
_BITS = tuple(str(w) for w in WIDTHS)
_SHIFTS = tuple(str(n) for n in range(32))
_PLACES = ("flash", "ram")
ROUNDINGS = tuple(r.value for r in Rounding)
_KINDS = (
    *("Fill", "Copy", "Add", "Subtract", "Multiply", "MatMul", "Conv2D", "MaxPool", "Negate", "Relu"),
    *("Relu6", "Exp", "Sigmoid", "Tanh", "NormaliseL2", "Select", "ArgMax", "Sign", "SparseMatMul", "GroupedConv2D"),
)
"""What tables are fitted to, by the names of operations."""

UNFITTED_POINTWISE = "Relu"
"""The pointwise operator whose loop stands for those of operators that no table has been fitted to."""

UNFITTED_QUANTISED = "Multiply"
"""The operator whose loop stands for those of quantised programs."""

FUNCTIONS = ("Exp", "Sigmoid", "Tanh")
_REACHED = ("pointer", "number")
_LENGTHS = ("short", "long")
_COPIES = ("short", "long")
_BOUNDED = ("run", "window")
BLOCK_SIZES: tuple[tuple[int, int], ...] = (
    *((rows, 1) for rows in BLOCKS),
    *((rows, 2) for rows in BLOCKS if rows <= MOST_ROWS[2]),
)
"""Rows, and how many operands meet them."""

_ROWS = tuple(f"{rows}x{operands}" if operands > 1 else str(rows) for rows, operands in BLOCK_SIZES)
_PACKED = tuple(str(width) for width in sorted(LAYOUTS))
_UNPACKED = ("single", "group", "walk", "run")

AXES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "program": (),  # the call, and what surrounds all operations
        "start": (_KINDS,),  # an operation begins
        "loop": (),  # one round of a loop of the program
        "nest": (_KINDS,),  # an inner loop of an operation begins
        "pointer": (_PLACES,),  # a pointer is set where a loop begins
        "element": (_KINDS, _LENGTHS),  # one element of the result; long: counters of 16 bits
        "tap": (_KINDS, _LENGTHS),  # one round of an inner loop
        "store": (_BITS, _REACHED),
        "load": (_PLACES, _BITS, _REACHED),
        "apply": (_KINDS, _BITS),  # the operation itself, at the accumulator's width
        "product": (_BITS, _BITS, _BITS),  # elementwise, by the operands' and the accumulator's width
        "mac": (_BITS, _BITS, _BITS, ("plain", "scaled")),  # a product of a sum, with its addition
        "dot": (
            _PLACES,
            _BITS,
            _PLACES,
            _BITS,
            _BITS,
        ),  # the same in a run of plain ones, reading both factors included
        "straight": (_PLACES, _BITS, _PLACES, _BITS, _BITS),  # the same with several steps in a round
        "round": (),  # one round of them
        "rest": (),  # a run of what whole rounds leave over begins
        "run": (_KINDS,),  # a run begins
        "check": (),  # one comparison with an end of a padded image
        "bounded": (_BOUNDED,),  # a run, or a place of a window, whose ends depend on where it lies in a padded image
        "down": (ROUNDINGS, _BITS, _SHIFTS, _BITS),  # a division by 2**n: of what width, to what width
        "up": (_BITS, _SHIFTS),
        "function": (FUNCTIONS, _BITS, ("one", "two")),  # by the width of its tables, of which there are one or two
        "fraction": (_BITS, _SHIFTS),  # the quotient of a sigmoid or a tanh, by the bits that it has
        "scan": (_KINDS, _BITS),  # an element that ArgMax or MaxPool looks at
        "norm": (("root", "square", "quotient"), ("32", "64")),  # NormaliseL2, by the width that it computes in
        "unpack": (_PACKED, _UNPACKED),  # what reading a packed code takes besides a byte, and once a run that walks
        "lookup": (),  # an integer that a code stands for is read from the table of a codebook
        "tree": (("term", "halved", "root"), _BITS),  # SeeDot's TreeSum
        "call": (),  # all rows of weights in one call, by blocks of so many rows
        "block": (_ROWS,),
        "step": (_ROWS, _BITS, _BITS),  # four terms of all rows of a block, by the widths of weights and operand
        "tail": (_ROWS, _BITS, _BITS),  # one term of them
        "vector": (_ROWS, _BITS, _BITS),  # as many terms of them as fit a vector, or what is left of a row
        "row": (),  # one of the sums becomes a result, divided and written
        "finish": (),  # and goes on to what a chain of operations makes of it
        "rescaled": (
            ("fixed", "even"),
        ),  # an integer of a quantised program times a ratio of scales, by how that is rounded
        "looked": (),  # and one that a table of all integers has the result of
        "window": (),  # what lies under a window is copied
        "line": (),  # one row of it
        "copied": (_BITS, _COPIES),  # one element of it, by elements or words, or by many words at a time
        "called": (ROUNDINGS, _BITS[1:], _SHIFTS),  # a division by 2**n that is a call of a function for all of them
    }
)


def _names() -> Iterator[str]:
    for family, axes in AXES.items():
        for labels in itertools.product(*axes):
            yield ".".join((family, *labels))


FEATURES: tuple[str, ...] = tuple(_names())
"""Every feature, in the order of their numbers."""

NUMBERS: Mapping[str, int] = MappingProxyType({name: number for number, name in enumerate(FEATURES)})


def _start(family: str) -> int:
    return NUMBERS[".".join((family, *(axis[0] for axis in AXES[family])))]


def number(family: str, *labels: int | IntArray) -> IntArray:
    """Feature numbers from positions on the family's axes."""
    place: int | IntArray = 0
    for axis, label in zip(AXES[family], labels, strict=True):
        place = place * len(axis) + label
    return np.asarray(_start(family) + place, dtype=np.int64)


def width_position(bits: IntArray | int) -> IntArray:
    """Position of a width: 8, 16, 32 become 0, 1, 2."""
    return np.asarray(np.asarray(bits) // 16, dtype=np.int64)


def packed_position(width: IntArray) -> IntArray:
    """Position of a packed width; of another one, that of the last."""
    return np.minimum(np.searchsorted(sorted(LAYOUTS), width), len(LAYOUTS) - 1)


@dataclass(frozen=True)
class Terms:
    """Feature `numbers` [candidates, terms], each executed `counts` [terms] times."""

    numbers: IntArray
    counts: npt.NDArray[np.float64]

    def times(self, cycles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Cycles [candidates] at `cycles` [features]."""
        return np.asarray(cycles[self.numbers] @ self.counts)

    def times_by(self, owners: IntArray, count: int, cycles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Cycles [candidates, count] at `cycles` [features] of the terms of each owner, a number below `count` a term."""
        of_terms = cycles[self.numbers] * self.counts
        result = np.zeros((count, len(of_terms)))
        np.add.at(result, owners, of_terms.T)
        return result.T

    def matrix(self) -> npt.NDArray[np.float64]:
        """Counts [candidates, features]."""
        result = np.zeros((self.numbers.shape[0], len(FEATURES)))
        for row, numbers in zip(result, self.numbers, strict=True):
            np.add.at(row, numbers, self.counts)
        return result


FREE = NUMBERS["down.floor.8.0.8"]
"""A shift by nothing: what a candidate that lacks a term has in its place."""


def kind_position(name: str) -> int:
    """Position of a kind of operation on its axis. ValueError for one that tables do not know."""
    return _KINDS.index(name)


def loop_kind(operation: ir.Operation) -> str:
    """The kind under which the loop of an operation is counted."""
    name = type(operation).__name__
    if isinstance(operation, ir.QuantisedElements):
        return UNFITTED_QUANTISED
    return UNFITTED_POINTWISE if isinstance(operation, ir.Pointwise) and name not in _KINDS else name


def length_position(count: int) -> int:
    """Position of a trip count: below 256 an 8-bit counter does."""
    return 0 if count < 256 else 1
