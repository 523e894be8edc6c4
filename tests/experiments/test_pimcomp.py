"""PIMCOMP-NN's cost model, rebuilt: small cases counted by hand after its description, and its loads against another count of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.compiled_library import find_compiler
from kilotune.experiments.benchmarks.pimcomp_latency import (
    PeerLatency,
    PeerLayer,
    RowBlockCores,
    peer_latency,
    windows_of,
)
from kilotune.experiments.benchmarks.pimcomp_search import (
    CROSSBARS,
    PRODUCT_NS,
    STEP_NS,
    LayerLayouts,
    PeerWalk,
    packed,
)

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

DENSE = PeerLayer("fc", 1, (1, 1), 1, (1, 1), (1, 1), (0, 0), 256, 64, 1, bias=False, activation=False, dense=True)
CONVOLUTION = PeerLayer(
    "conv", 128, (6, 8), 8, (3, 3), (1, 1), (1, 1), 1152, 64, 48, bias=False, activation=True, dense=False
)


def ran(layers: list[PeerLayer], placed: RowBlockCores, cores: int = 4) -> PeerLatency:
    found = peer_latency(layers, placed, cores)
    assert found is not None
    return found


def test_one_core_loads_multiplies_adds_and_stores() -> None:
    """Loads of 128 elements take 4 ns each, and the second product starts 200 ns after the first, at 4; its 800 ns end at 1004, 64 elements
    are added in 20 ns and stored in 2."""
    found = ran([DENSE], [[[0, 0]]])
    assert found.us == pytest.approx((4 + 200 + 800 + 20 + 2) / 1000)
    assert found.loaded_bytes == 512


def test_partial_sums_go_to_the_core_of_the_first_row_block() -> None:
    """The second core's load waits for the first one's slots: its product ends at 808; 128 bytes take the bus for 5 ns, and adding takes
    20, storing 2."""
    found = ran([DENSE], [[[0, 1]]])
    assert found.us == pytest.approx((808 + 5 + 20 + 2) / 1000)
    assert found.cores_us[1] == pytest.approx(0.813)


def test_a_bias_is_loaded_once_and_added_in_every_step() -> None:
    """A load of 64 elements, 2 ns before all others, and an addition of 20 ns behind the product of the first row block."""
    plain, biased = (ran([replace(DENSE, rows=128, bias=bias)], [[[0]]]) for bias in (False, True))
    assert (biased.us - plain.us) * 1000 == pytest.approx(2 + 20)
    assert biased.loaded_bytes - plain.loaded_bytes == 128


def test_windows_are_dealt_to_the_replicas_of_a_core_in_turn() -> None:
    np.testing.assert_array_equal(windows_of(10, [3, 1, 3]), [[4, 2, 3], [0, 1, 4], [5, 2, 3]])


def test_more_than_is_asked_for_is_not_told() -> None:
    assert peer_latency([DENSE], [[[0, 0]]], 4, 900) is None


@settings(max_examples=30, deadline=None)
@given(
    channels=st.sampled_from([64, 96, 128, 192]),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    together=st.integers(1, 6),
)
def test_what_windows_side_by_side_load_is_counted_alike(
    channels: int, kernel: tuple[int, int], stride: int, together: int
) -> None:
    """In one step of one core, whose hash of addresses takes none of so small an image for another."""
    width = kernel[1] + stride * (together - 1)
    layer = PeerLayer(
        "c", channels, (kernel[0], width), together, kernel, (stride, stride), (0, 0), channels * kernel[0] * kernel[1], 64, together,
        bias=False, activation=False, dense=False,
    )  # fmt: skip
    if layer.row_blocks * together > CROSSBARS:
        return
    found = ran([layer], [[[0] * layer.row_blocks] * together])
    counted = 2 * LayerLayouts(layer)._loaded_part(0, layer.row_blocks, together)
    pieces = [size for size in (channels % 128, 128 - channels % 128) if 0 < size < 64]
    if pieces:  # short loads are gathered, and may load more than is asked for
        assert found.loaded_bytes >= counted
    else:
        assert found.loaded_bytes == counted


def test_a_walk_fills_no_core_beyond_what_it_has_and_ends_faster_than_it_begins() -> None:
    layers = [CONVOLUTION, replace(CONVOLUTION, name="other", stride=(2, 2), image=(12, 16), columns=256)]
    walk = PeerWalk(layers, 12)
    begun = None
    for _ in range(40):
        tried = walk._begun()
        if tried is not None:
            begun = walk._mapped(*tried)
        if begun is not None:
            break
    assert begun is not None
    placed = walk.walked(1.0)
    assert placed is not None
    assert walk.us <= begun.latency.us
    assert walk.us == peer_latency(layers, placed, 12).us  # type: ignore[union-attr]
    crossbars = np.zeros(12)
    for layer, replicas in zip(layers, placed, strict=True):
        for core in (core for blocks in replicas for core in blocks):
            crossbars[core] += layer.crossbars
    assert crossbars.max() <= CROSSBARS


def test_cores_do_no_more_than_they_may() -> None:
    """Products one every 200 ns, and 600 ns a step."""
    layers = [CONVOLUTION, replace(DENSE, rows=1024, columns=1000)]
    most = 30_000.0
    chosen = [min(LayerLayouts(layer).layouts(8, most), key=lambda layout: layout.cores) for layer in layers]
    placed = packed(layers, chosen, 8, most)
    assert placed is not None
    done, steps = np.zeros(8), np.zeros(8)
    for layout, replicas in zip(chosen, placed, strict=True):
        assert len(replicas) == layout.replicas
        for core in (core for blocks in replicas for core in blocks):
            done[core] += PRODUCT_NS * layout.steps
            steps[core] = max(steps[core], layout.steps)
    assert (done + STEP_NS * steps).max() <= most


@pytest.mark.parametrize(("windows", "cores"), [(3000, 1), (2, 4)])
def test_a_walk_finds_a_mapping_of_any_network_that_fits(windows: int, cores: int) -> None:
    """However few its steps would have to be, or many (found by a reader: between 8 and 40 there was none)."""
    layer = replace(
        CONVOLUTION, image=(1, windows), out_width=windows, windows=windows, kernel=(1, 1), rows=128, padding=(0, 0)
    )
    assert PeerWalk([layer], cores).walked(0.5) is not None
