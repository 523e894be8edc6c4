"""Which other builds of a program are spoken of beside the one that was asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kilotune.experiments.problems.device_check import DeviceCheck


def build(shape: str, flash: int, cycles: float, fits: bool = True) -> Any:
    return SimpleNamespace(shape=shape, sizes=SimpleNamespace(flash_bytes=flash), cycles=cycles, fits=fits)


@pytest.mark.parametrize(
    ("asked", "others", "smaller"),
    [
        (("unrolled16", 2946, 174.0), [("unrolled8", 2898, 172.0), ("plain", 2566, 239.0)], "unrolled8"),
        (("unrolled16", 2946, 174.0), [("unrolled8", 2950, 172.0), ("plain", 2566, 239.0)], None),
        (("unrolled16", 2946, 174.0), [("unrolled8", 2898, 172.0, False)], None),
        (("plain", 2566, 239.0), [("unrolled8", 2898, 172.0), ("compact", 2500, 260.0)], "compact"),
    ],
)
def test_a_smaller_build_than_fast_code_is_one_that_takes_no_longer(
    asked: tuple[Any, ...], others: list[tuple[Any, ...]], smaller: str | None
) -> None:
    held = build(*asked)
    device: Any = SimpleNamespace(name="board")
    found = DeviceCheck(device, None, held, (held, *(build(*other) for other in others)), None).smaller
    assert (None if found is None else found.shape) == smaller


@pytest.mark.parametrize(
    ("processor", "shape", "said"),
    [
        ("atmega328p", "vectors4", True),
        ("cortex-m0plus", "rows4", True),
        ("cortex-m4", "rows4", False),
        ("cortex-m55", "vectors1", False),
        ("cortex-m4", "compact", False),
    ],
)
def test_cycles_of_a_shape_that_no_table_was_fitted_to_are_named_as_such(
    processor: str, shape: str, said: bool
) -> None:
    """`--shape vectors4` on an Uno is plain C of 200 000 cycles, and was predicted at 2189."""
    device: Any = SimpleNamespace(name="board", processor=processor)
    check = DeviceCheck(device, 2189.0, build(shape, 4000, 2e5), (), None)
    assert bool(check.unknown_shape) is said


@pytest.mark.parametrize(("counted", "said"), [(502.0, True), (459.0, False), (None, False)])
def test_less_ram_than_the_search_counts_is_explained(counted: float | None, said: bool) -> None:
    device: Any = SimpleNamespace(name="board")
    held: Any = SimpleNamespace(sizes=SimpleNamespace(static_ram_bytes=459), run=SimpleNamespace(peak_stack_bytes=21))
    text = DeviceCheck(device, None, held, (held,), None, counted_ram_bytes=counted).less_ram
    assert bool(text) is said
    assert not said or text.endswith("with the input 459 bytes instead of 502, and up to 21 of stack.")
