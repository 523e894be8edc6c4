"""What the options of `tune --space memory` say about memory: banks and prices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kilotune.experiments.requests.request import parse_size
from kilotune.spaces.memory.banks import Bank, MemoryMap

READ_ONLY = "read-only"
BANK_FORM = "NAME[=SIZE][:PRICE][:read-only], such as sram=2KiB, ccm=1024:0.5 or flash:2:read-only"
LARGEST_PRICE = 10**6
PRICE_DIGITS = 4
"""Prices have few decimals: CP-SAT counts in whole numbers."""


@dataclass(frozen=True)
class PlacementOptions:
    """What the command line says, as text where a study must hold it exactly."""

    capacity_bytes: int | None = None
    banks: Sequence[str] = ()
    migration_price: str | None = None
    most_moves: int | None = None
    alignment: int | None = None
    inclusive: bool | None = None
    heap: int | None = None
    order: str | None = None


def memory_map(options: PlacementOptions) -> MemoryMap | None:
    """The banks and prices of the options; None where it has neither, for the plain placement problem.

    ValueError, a sentence: an option that cannot be read, a bank twice, a capacity beside banks.
    """
    if not options.banks and options.migration_price is None:
        if options.most_moves is not None:
            raise ValueError("--moves says how often a buffer may move: expected --migration-price beside it.")
        return None
    if options.banks and options.capacity_bytes is not None:
        raise ValueError("--capacity, a RAM limit or a device beside --bank: expected the sizes of the banks instead.")
    banks = tuple(parse_bank(text) for text in options.banks) or (Bank("ram", options.capacity_bytes),)
    for bank in banks:
        if sum(bank.name == other.name for other in banks) > 1:
            raise ValueError(f"--bank {bank.name}: expected every bank once, found it twice.")
    price = None if options.migration_price is None else parse_price("--migration-price", options.migration_price)
    return MemoryMap(banks, price, options.most_moves)


def parse_bank(text: str) -> Bank:
    """Read `ccm=1024:0.5`. ValueError, a sentence, when it is not of that form."""
    head, *rest = text.split(":")
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?:=(.*))?", head)
    read_only = bool(rest) and rest[-1].strip() == READ_ONLY
    prices: Sequence[str] = rest[:-1] if read_only else rest
    if match is None or len(prices) > 1:
        raise ValueError(f"--bank {text!r}: expected {BANK_FORM}.")
    try:
        capacity = None if match[2] is None else parse_size(match[2])
    except ValueError:
        raise ValueError(f"--bank {text!r}: expected {BANK_FORM}, found the size {match[2]!r}.") from None
    price = parse_price(f"--bank {text!r}", prices[0]) if prices else Fraction(0)
    return Bank(match[1], capacity, price, read_only)


def parse_price(option: str, text: str) -> Fraction:
    """Bytes of peak a byte, exactly. ValueError, a sentence, for anything but a decimal number of 0 or more."""
    match = re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", text)
    if match is None or Fraction(text.strip()) > LARGEST_PRICE or len(text.strip().partition(".")[2]) > PRICE_DIGITS:
        raise ValueError(
            f"{option}: expected a price from 0 to {LARGEST_PRICE} with at most {PRICE_DIGITS} decimals, found {text!r}."
        )
    return Fraction(text.strip())
