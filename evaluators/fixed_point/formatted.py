"""Data of a program in the formats that candidates ask for, as the compiled kernel reads them: made once a format and kept."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.fixed.arithmetic import Rounding, quantise_features, scale_down, wrap
from kilotune.codegen.fixed.encoding import ParameterEncoding, stored_integers
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.fixed_point.reference import evaluate_function
from kilotune.evaluators.fixed_point.sample_blocks import LANES

TILE = 4
VECTOR_BYTES = 64

MOST_INPUT_BYTES = 256 << 20
"""How much features may take in all formats that are kept."""

QUANTISED_TOGETHER = 1 << 20
"""How many elements are brought into a format in one piece."""

ENCODING_DIGITS = 24
"""Binary digits of the numbers of encodings."""

StoredFormat = tuple[int, int]
"""Bitwidth and scale."""

ParameterFormat = tuple[int, int, ParameterEncoding | None]
"""Bitwidth, scale and encoding."""

(_Table,) = structures(Path(__file__).with_name("kernel.c"), "Table")


class TableKey(NamedTuple):
    """What a table of a function is made from: the shifts and the result's width of a row, its function, and the argument's width."""

    shift_a: int
    shift_out: int
    bits: int
    function: int
    argument_bits: int


@dataclass(frozen=True)
class Weights:
    """The static operand of dot products: elements [length, outputs] of a parameter, -1 for a padded place."""

    variable: str
    elements: Int32Array


class FormattedData:
    """Addresses of a program's data in formats. Arrays live as long as this object, features as long as they are in use.

    `value`: what the kernel has for an element of a variable, int16 or int32.
    """

    def __init__(
        self,
        parameters: Mapping[str, np.ndarray],
        features: np.ndarray,
        value: npt.DTypeLike = np.int16,
        lanes: int = LANES,
    ) -> None:
        self._parameters, self._features = parameters, features
        self._value = np.dtype(value)
        self._lanes = lanes
        self._weights: list[Weights] = []
        self._packs_of: dict[str, list[int]] = {}  # numbers of packed weights, by their variable
        self._known_weights: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        self._parameter_addresses: dict[tuple[str, ParameterFormat], tuple[int, ...]] = {}
        self._inputs: dict[StoredFormat, np.ndarray] = {}
        self._input_addresses: dict[StoredFormat, int] = {}
        self._tables: dict[tuple[object, ...], int] = {}
        self._places: dict[tuple[int, Rounding], npt.NDArray[np.uint16]] = {}
        self._results_by_argument: dict[tuple[object, ...], IntArray] = {}
        self._entries_by_argument: dict[tuple[object, ...], np.ndarray] = {}
        self._kept: list[object] = []  # what C points to

    def pack_number(self, weights: Weights) -> int:
        """The number of these weights among all that are packed."""
        key = (weights.variable, weights.elements.shape, weights.elements.tobytes())
        if key not in self._known_weights:
            self._known_weights[key] = len(self._weights)
            self._packs_of.setdefault(weights.variable, []).append(len(self._weights))
            self._weights.append(weights)
        return self._known_weights[key]

    def pack_numbers(self, rounds: Sequence[Weights]) -> int:
        """The number of the first of these weights, which are packed one after the other and have the numbers behind it."""
        if len(rounds) == 1:
            return self.pack_number(rounds[0])
        first = len(self._weights)
        for weights in rounds:
            self._packs_of.setdefault(weights.variable, []).append(len(self._weights))
            self._weights.append(weights)
        return first

    @property
    def pack_count(self) -> int:
        """How many different weights are packed."""
        return len(self._weights)

    def packs_of(self, variable: str) -> Sequence[int]:
        """The numbers of the packed weights that are a parameter's."""
        return self._packs_of.get(variable, ())

    def parameter(self, variable: str, kind: ParameterFormat) -> tuple[int, ...]:
        """Addresses of a parameter in a format: its elements, then its packed weights in the order of `packs_of`."""
        key = (variable, kind)
        if key not in self._parameter_addresses:
            values = stored_integers(self._parameters[variable], *kind).astype(self._value).reshape(-1)
            packs = [packed(values, self._weights[number].elements) for number in self.packs_of(variable)]
            self._parameter_addresses[key] = tuple(self._address(array) for array in (values, *packs))
        return self._parameter_addresses[key]

    def make_room(self, needed: set[StoredFormat]) -> None:
        """Forget features in formats that are not needed now, where all together would be too many."""
        if len(self._inputs.keys() | needed) * self._features.size * self._value.itemsize > MOST_INPUT_BYTES:
            for kind in self._inputs.keys() - needed:
                del self._inputs[kind], self._input_addresses[kind]

    def input(self, kind: StoredFormat) -> int:
        """The address of the features as blocks [blocks][features][lanes]; the last block is filled up with zeros."""
        if kind not in self._inputs:
            made = _laid_out(self._features, *kind, self._value, self._lanes)
            self._input_addresses[kind] = int(made.ctypes.data)
            self._inputs[kind] = made  # last, as this may be abandoned anywhere
        return self._input_addresses[kind]

    def table(self, operation: ir.TableFunction, key: TableKey, function: Exponential, rounding: Rounding) -> int:
        """The address of a table: the function for every argument that its operand can hold, scaled and wrapped.

        Of wide values for every argument of 16 bits that is scaled already: see `knows_beyond_16_bits`.
        """
        if self._value.itemsize > 2:
            key = key._replace(shift_a=0, argument_bits=16)
        known = (type(operation), id(function), rounding, key.shift_a, key.shift_out, key.bits, key.argument_bits)
        if key.argument_bits > 8:
            known = (*known[:-1], 16)
        if known not in self._tables:
            self._kept.append(function)  # or another one could get its identity
            self._tables[known] = self._made_table(operation, key, function, rounding)
        return self._tables[known]

    def _made_table(self, operation: ir.TableFunction, key: TableKey, function: Exponential, rounding: Rounding) -> int:
        short = key.argument_bits <= 8
        if short or (key.shift_a < 0 and not knows_beyond_16_bits(function)):
            scaled = scale_down(_arguments(8 if short else 16), key.shift_a, rounding)
            results = evaluate_function(operation, scaled, function, rounding)
            entries = wrap(scale_down(results, key.shift_out, rounding), key.bits).astype(self._value)
        else:
            places = self._places_of_scaled(key.shift_a, rounding)
            entries = self._entries_of_16_bits(operation, key, function, rounding).take(places)
        if short:
            halves = [(entries & 0xFF).astype(np.uint8), (entries >> 8 & 0xFF).astype(np.uint8)]
            entries = np.concatenate([entries, *(half.view(np.int16) for half in halves)])
        table = _Table(self._address(entries), short_arguments=short, short_results=key.bits <= 8)
        self._kept.append(table)
        return ctypes.addressof(table)

    def _places_of_scaled(self, shift: int, rounding: Rounding) -> npt.NDArray[np.uint16]:
        """Where scaled arguments of 16 bits, or the nearest ones to these, are among all integers of 16 bits, ascending."""
        if (shift, rounding) not in self._places:
            places = scale_down(_arguments(16), shift, rounding) + (1 << 15)
            self._places[shift, rounding] = np.minimum(np.maximum(places, 0), (1 << 16) - 1).astype(np.uint16)
        return self._places[shift, rounding]

    def _entries_of_16_bits(
        self, operation: ir.TableFunction, key: TableKey, function: Exponential, rounding: Rounding
    ) -> np.ndarray:
        """The entries for all scaled arguments of 16 bits, ascending: tables of many scales have these, and to compute them takes long."""
        whole = (type(operation), id(function), rounding)
        if whole not in self._results_by_argument:
            self._kept.append(function)  # as above
            arguments = np.arange(-1 << 15, 1 << 15)
            self._results_by_argument[whole] = evaluate_function(operation, arguments, function, rounding)
        known = (*whole, key.shift_out, key.bits)
        if known not in self._entries_by_argument:
            results = scale_down(self._results_by_argument[whole], key.shift_out, rounding)
            self._entries_by_argument[known] = wrap(results, key.bits).astype(self._value)
        return self._entries_by_argument[known]

    def _address(self, array: np.ndarray) -> int:
        self._kept.append(array)
        return int(array.ctypes.data)


class ParameterAddresses:
    """Where the data of a program's parameters lie in the formats of candidates: addresses that have been asked for before are found by
    the formats alone."""

    def __init__(self, program: ir.Program, data: FormattedData) -> None:
        self._data = data
        parameters = [(i, v.name) for i, v in enumerate(program.variables) if v.role is ir.Role.PARAMETER]
        self._columns = np.array([column for column, _ in parameters], dtype=np.intp)
        self._names = [name for _, name in parameters]
        # where they are among the addresses of a candidate, of which the first is none
        self._values = np.zeros(len(program.variables), dtype=np.intp)
        self._packs = np.zeros(data.pack_count, dtype=np.intp)
        self._total = 1
        for column, name in parameters:
            packs = data.packs_of(name)
            self._values[column] = self._total
            self._packs[list(packs)] = self._total + 1 + np.arange(len(packs))
            self._total += 1 + len(packs)
        self._encodings: tuple[ParameterEncoding, ...] = ()
        self._known: list[dict[int, tuple[int, ...]]] = [{} for _ in parameters]  # by numbers of formats and encodings

    def of(self, batch: FixedBatch, formats: IntArray) -> tuple[IntArray, IntArray]:
        """Those of all variables [candidates, variables], 0 where one is no parameter, and those of packed weights [candidates, packs].
        `formats` [candidates, variables]: `format_numbers` of the batch."""
        if batch.encodings is not self._encodings:  # numbers of others mean others
            self._known = [{} for _ in self._known]  # first, as this may be abandoned anywhere
            self._encodings = batch.encodings
        asked = formats.take(self._columns, axis=1)
        if batch.encodings:
            asked = (asked << ENCODING_DIGITS) + batch.encoded.take(self._columns, axis=1)
        found: list[list[tuple[int, ...]]] = [[(0,)] * len(batch)]
        for parameter, (known, keys) in enumerate(zip(self._known, asked.T.tolist(), strict=True)):
            for key in {*keys} - known.keys():
                known[key] = self._made(parameter, batch, keys.index(key))
            found.append([known[key] for key in keys])
        rows = [list(itertools.chain(*addresses)) for addresses in zip(*found, strict=True)]
        addresses = np.array(rows, dtype=np.int64).reshape(len(batch), self._total)
        return addresses.take(self._values, axis=1), addresses.take(self._packs, axis=1)

    def _made(self, parameter: int, batch: FixedBatch, candidate: int) -> tuple[int, ...]:
        column = int(self._columns[parameter])
        bits, scale = int(batch.bits[candidate, column]), int(batch.scales[candidate, column])
        return self._data.parameter(self._names[parameter], (bits, scale, batch.encoding(candidate, column)))


def format_numbers(batch: FixedBatch) -> IntArray:
    """A number for each variable's width and scale [candidates, variables]."""
    return (batch.bits.astype(np.int64) << 32) + batch.scales


def _arguments(bits: int) -> IntArray:
    """All integers of so many bits, in the order of their unsigned values."""
    return np.arange(1 << bits).astype(f"int{bits}").astype(np.int64)


def address_of(array: np.ndarray) -> int:
    """Where the elements of an array lie one after the other, as long as it lives. ValueError where they do not."""
    if not array.flags.c_contiguous:
        raise ValueError("the elements of an array that C is to read do not lie one after the other")
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # a quarter of the time that `ctypes.data` takes
    except (TypeError, ValueError, BufferError):  # it has no elements, or must not be written to
        return int(array.ctypes.data)


def knows_beyond_16_bits(function: Exponential) -> bool:
    """Whether all arguments beyond 16 bits have the results of the nearest one of 16 bits: there the table is at its ends."""
    ends = function.reference, function.reference + function.sign * function.limit
    return all(-(1 << 15) <= end < 1 << 15 for end in ends)


def packed(values: np.ndarray, elements: Int32Array) -> np.ndarray:
    """Weights of a dot product as the kernel multiplies them: [tile][pair][TILE] of int32, each of two int16, the first in its low bits.

    `values`: int16 of the parameter; `elements` [length, outputs] of it. Both extents are filled up with zeros.
    """
    length, outputs = elements.shape
    chosen = np.zeros((-(-length // 2) * 2, -(-outputs // TILE) * TILE), dtype=np.int16)
    chosen[:length, :outputs] = np.where(elements < 0, 0, values[elements])
    pairs = chosen.view(np.uint16).astype(np.uint32).reshape(-1, 2, chosen.shape[1] // TILE, TILE)
    words = (pairs[:, 0] | pairs[:, 1] << 16).transpose(1, 0, 2)
    return np.ascontiguousarray(words).view(np.int32)


def _laid_out(features: np.ndarray, bits: int, scale: int, value: npt.DTypeLike, lanes: int) -> np.ndarray:
    """Features in a format, in blocks. Some samples after the other: whole arrays of float64 would take many times as much."""
    samples, count = features.shape
    blocks = _aligned_zeros((-(-samples // lanes), count, lanes), value)
    step = max(1, QUANTISED_TOGETHER // max(1, count * lanes)) * lanes
    for start in range(0, samples, step):
        values = quantise_features(features[start : start + step], bits, scale).astype(value)
        padded = np.pad(values, ((0, -values.shape[0] % lanes), (0, 0))).reshape(-1, lanes, count)
        blocks[start // lanes : start // lanes + len(padded)] = padded.transpose(0, 2, 1)
    return blocks


def _aligned_zeros(shape: tuple[int, ...], value: npt.DTypeLike) -> np.ndarray:
    """Zeros that start at an address which the widest vectors can be loaded from."""
    size, item = math.prod(shape), np.dtype(value).itemsize
    room = np.zeros(size + VECTOR_BYTES // item, dtype=value)
    start = -room.ctypes.data % VECTOR_BYTES // item
    return room[start : start + size].reshape(shape)
