"""First fit places validly, and never below the bound of the live ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.storage import stored_bits
from kilotune.codegen.first_fit import Block, find_overlap, first_fit
from kilotune.codegen.live_ranges import LiveRange, peak_bytes
from tests.codegen.emit.small_network import classifier

pytestmark = pytest.mark.slow


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    start, length = draw(st.integers(1, 12)), draw(st.integers(0, 5))
    alignment = draw(st.sampled_from([1, 2, 4]))
    return Block(draw(st.integers(1, 12)) * alignment, LiveRange(start, start + length), alignment)


@given(st.lists(blocks(), max_size=12))
def test_no_live_bytes_are_shared(given_blocks: list[Block]) -> None:
    """Brute force: at every program point, every byte has at most one owner."""
    named = {str(number): block for number, block in enumerate(given_blocks)}
    placed = first_fit(named)
    bound = 0
    for point in range(1, 19):
        live = [name for name, block in named.items() if block.live.start <= point <= block.live.end]
        owned = [b for name in live for b in range(placed.offsets[name], placed.offsets[name] + named[name].size_bytes)]
        assert len(owned) == len(set(owned))
        assert all(byte < placed.peak_bytes for byte in owned)
        bound = max(bound, len(owned))
    assert placed.peak_bytes >= bound
    assert all(offset % named[name].alignment == 0 for name, offset in placed.offsets.items())
    assert find_overlap(named, placed.offsets) is None


def test_fixed_blocks_stay() -> None:
    named = {"a": Block(4, LiveRange(1, 2)), "b": Block(8, LiveRange(2, 3)), "c": Block(2, LiveRange(2, 2))}
    placed = first_fit(named, {"a": 8})
    assert placed.offsets == {"a": 8, "b": 0, "c": 12}
    assert find_overlap(named, {"a": 0, "b": 2, "c": 20}) == ("a", "b")


def test_a_program_is_placed_at_its_bound_or_above() -> None:
    model, batch = classifier()
    bits = stored_bits(batch)
    sizes = {v.name: v.size * bits[v.name] // 8 for v in model.program.variables}
    assert emit_c(batch, model.parameters, in_place=False).ram_bytes >= peak_bytes(model.program, sizes)
