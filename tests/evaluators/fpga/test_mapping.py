"""What memories and multiplications become, against what Yosys 0.70 was seen to make of them."""

from __future__ import annotations

import pytest

from kilotune.evaluators.fpga.mapping import product_parts, ram_parts, rom_parts


@pytest.mark.parametrize(
    ("words", "bits", "blocks"),
    [
        # of `unit_probe` 49, 12 and 58 on an ECP5: distributed memory for 214.5, 148.5 and 67.5 look-up tables, a block for 130
        (144, 16, 1),
        (196, 6, 1),
        (37, 16, 0),
        (2048, 18, 2),
        (96, 16, 0),  # a bank of lenet-digits with four lanes
    ],
)
def test_memories_on_ecp5(words: int, bits: int, blocks: int) -> None:
    parts = ram_parts(words, bits, 1, "ecp5")
    assert parts.block_rams == blocks
    assert (parts.lut_ram == 0) == bool(blocks)


def test_a_port_more_is_a_copy() -> None:
    assert ram_parts(1024, 16, 2, "ecp5").block_rams == 2
    assert ram_parts(32, 16, 2, "ecp5").lut_ram == 2 * ram_parts(32, 16, 1, "ecp5").lut_ram


def test_ice40_has_no_distributed_memory() -> None:
    assert ram_parts(16, 16, 1, "ice40").block_rams == 1
    assert ram_parts(4, 16, 1, "ice40").register_ram == 64
    assert ram_parts(12, 8, 2, "ice40").block_rams == 2, "each copy decides for itself, whatever both cost together"


@pytest.mark.parametrize(("words", "bits", "blocks"), [(256, 8, 0), (257, 8, 1), (512, 36, 1), (513, 36, 2), (1, 8, 0)])
def test_read_only_memories_become_blocks_where_look_up_tables_cost_more(words: int, bits: int, blocks: int) -> None:
    assert rom_parts(words, bits, "ecp5").block_rams == blocks


@pytest.mark.parametrize(
    ("a", "b", "multipliers"), [(8, 8, 1), (16, 16, 1), (18, 18, 1), (19, 18, 2), (32, 16, 2), (32, 32, 4), (1, 16, 0)]
)
def test_multiplications_on_ecp5(a: int, b: int, multipliers: int) -> None:
    assert product_parts(a, b, a + b, False, "ecp5").multipliers == multipliers
    assert product_parts(b, a, a + b, False, "ecp5").multipliers == multipliers


def test_multiplications_without_multipliers() -> None:
    assert product_parts(8, 16, 24, False, "ice40").soft_products == 128
    assert product_parts(8, 16, 24, True, "ecp5").soft_products == 128
    assert product_parts(16, 16, 16, True, "ecp5").soft_products == 136, "a row loses what lies above the result"
    assert product_parts(4, 3, 5, True, "ecp5").soft_products == 4 + 4 + 3
    assert product_parts(24, 24, 48, False, "ecp5").multipliers == 4
    assert product_parts(24, 24, 32, False, "ecp5").multipliers == 3, (
        "as Yosys makes it: upper by upper half is above the result"
    )
    assert product_parts(16, 16, 32, False, "ice40-ultraplus").multipliers == 1
