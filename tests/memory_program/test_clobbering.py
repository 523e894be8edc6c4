"""No placement that the rules allow ever overwrites a value that is still wanted, and the rules are not idle."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.interference import find_interference
from kilotune.codegen.placement import Placer
from tests.emit.random_programs import RandomModel, random_models
from tests.memory_program.byte_machine import clobbered

quick = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def random_bits(program: ir.Program, seed: int) -> dict[str, int]:
    rng = np.random.default_rng(seed)
    return {v.name: int(rng.choice([8, 16, 32])) for v in program.variables}


def any_valid_placement(placer: Placer, bits: dict[str, int], seed: int) -> dict[str, int]:
    """Temporaries one by one in random order, each at a random aligned offset that the rules allow."""
    rng = random.Random(seed)
    names = list(placer.interference.names)
    widths = placer.interference.element_bytes(bits)
    room = sum(widths[n] * placer.interference.elements[n] for n in names)
    offsets: dict[str, int] = {}
    far = {n: 10 * room + 10 * room * i for i, n in enumerate(names)}
    for name in rng.sample(names, len(names)):
        places = list(range(0, room + 1, widths[name]))
        for offset in rng.sample(places, len(places)):
            if placer.find_clash(bits, {**far, **offsets, name: offset}) is None:
                offsets[name] = offset
                break
        else:
            offsets[name] = far[name] // widths[name] * widths[name]
    return offsets


@pytest.mark.parametrize("in_place", [False, True])
@given(model=random_models(), seed=st.integers(0, 2**32 - 1))
@settings(quick, max_examples=150)
def test_no_valid_placement_clobbers(in_place: bool, model: RandomModel, seed: int) -> None:
    program = model.program
    placer = Placer(find_interference(program, in_place))
    bits = random_bits(program, seed)
    widths = placer.interference.element_bytes(bits)
    found = placer.place(bits)
    assert placer.find_clash(bits, found.offsets) is None
    assert clobbered(program, widths, found.offsets) is None
    assert found.bound_bytes <= found.peak_bytes
    for turn in range(3):
        offsets = any_valid_placement(placer, bits, seed + turn)
        assert clobbered(program, widths, offsets) is None
