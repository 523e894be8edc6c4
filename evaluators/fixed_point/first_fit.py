"""Placements of a whole batch of candidates by the compiled twin of `codegen.placement`."""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.fixed.footprint import PlaceMany
from kilotune.codegen.in_place import ELEMENT_BYTES
from kilotune.codegen.placement import REPAIRS, PlacedVariables, Placer
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library

NUMBERS = 8192
"""Random numbers at hand for the repairs of one placement, of which each takes four, or a few more."""

_Temporaries, _Meeting = structures(Path(__file__).with_name("first_fit.c"), "Temporaries", "Meeting")


def compiled_first_fit(placer: Placer) -> PlaceMany:
    """What `placer.place` finds, for many width maps at once; without a C compiler by the definition itself."""
    library = load_first_fit()
    return placer.place_each if library is None else _CompiledFirstFit(placer, library)


@cache
def load_first_fit() -> ctypes.CDLL | None:
    """The compiled placement of many candidates; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("first_fit.c"))
    return None if loaded is None else loaded.library


@cache
def _numbers() -> npt.NDArray[np.uint32]:
    chance = random.Random(0)
    return np.array([chance.getrandbits(32) for _ in range(NUMBERS)], dtype=np.uint32)


class _CompiledFirstFit:
    """One program's temporaries as C structures, and calls with the widths of a batch."""

    def __init__(self, placer: Placer, library: ctypes.CDLL) -> None:
        self._library = library
        self._placer = placer
        self._interference = placer.interference
        self._kept: list[np.ndarray] = []
        number = {name: i for i, name in enumerate(placer.interference.names)}
        apart = set(placer.apart)
        meetings = list(dict.fromkeys(m for instant in placer.instants for m, _, _ in instant[1]))
        meetings += [m for m, _, _ in placer.meetings if m not in set(meetings)]
        rows = np.zeros(len(meetings), dtype=_Meeting)
        for row, meeting in zip(rows, meetings, strict=True):
            a, b = number[meeting.result], number[meeting.operand]
            row["result"], row["operand"], row["apart"] = a, b, (min(a, b), max(a, b)) in apart
            for (i, result), (j, operand) in itertools.product(enumerate(ELEMENT_BYTES), repeat=2):
                order = meeting.order
                for way, forbidden in (("either", order.forbidden), ("forward", order.forbidden_forward)):
                    between = forbidden(result, operand)
                    row[way][len(ELEMENT_BYTES) * i + j] = (1, 0, 0) if between is None else (0, *between)
        place = {meeting: i for i, meeting in enumerate(meetings)}
        held = [instant[0] for instant in placer.instants]
        met = [[place[m] for m, _, _ in instant[1]] for instant in placer.instants]
        elements = [placer.interference.elements[name] for name in placer.interference.names]
        self._temporaries = _Temporaries(
            count=len(number),
            apart_count=len(placer.apart),
            meeting_count=len(meetings),
            instant_count=len(placer.instants),
            number_count=NUMBERS,
            repairs=REPAIRS,
            two_ways=placer.two_ways,
            elements=self._keep(elements, np.int64),
            life=self._keep(placer.life, np.int64),
            start=self._keep(placer.start, np.int64),
            apart=self._keep(placer.apart, np.int32),
            meetings=self._keep(rows, _Meeting),
            held=self._keep(list(itertools.chain(*held)), np.int32),
            held_ends=self._keep(np.cumsum([len(h) for h in held]), np.int32),
            met=self._keep(list(itertools.chain(*met)), np.int32),
            met_ends=self._keep(np.cumsum([len(m) for m in met]), np.int32),
            numbers=self._keep(_numbers(), np.uint32),
        )

    def __call__(self, many: Sequence[Mapping[str, int]]) -> list[PlacedVariables]:
        names = self._interference.names
        index = {width: i for i, width in enumerate(ELEMENT_BYTES)}
        maps = (self._interference.element_bytes(bits) for bits in many)
        widths = np.array([[index[held[name]] for name in names] for held in maps], dtype=np.int8)
        offsets = np.zeros((len(many), len(names)), dtype=np.int64)
        peaks, bounds = np.zeros(len(many), dtype=np.int64), np.zeros(len(many), dtype=np.int64)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (widths, offsets, peaks, bounds)]
        if self._library.kilotune_first_fit(ctypes.byref(self._temporaries), ctypes.c_int32(len(many)), *pointers):
            raise MemoryError(f"no memory to place the temporaries of {self._interference.program.name}")
        found = zip(offsets.tolist(), peaks.tolist(), bounds.tolist(), strict=True)
        return [PlacedVariables(dict(zip(names, row, strict=True)), peak, bound) for row, peak, bound in found]

    def __reduce__(self) -> tuple[Callable[[Placer], PlaceMany], tuple[Placer]]:
        """What travels to another process is the problem; its C structures are made there."""
        return compiled_first_fit, (self._placer,)

    def _keep(self, values: object, kind: npt.DTypeLike) -> int:
        array = np.ascontiguousarray(values, dtype=kind)
        self._kept.append(array)
        return int(array.ctypes.data)
