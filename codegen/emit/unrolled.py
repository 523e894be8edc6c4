"""Runs of products with several steps written out in each round of the loop.

On an AVR a round takes as long as the product and a load together, so the instructions of several steps stand in one piece of assembler,
which also clears r1 once a round and not once a product. Everything else compiles plain C beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kilotune.codegen.emit.products import ADDITIONS

LEAST = 4
"""Steps a round, at least, where steps are written out."""


@dataclass(frozen=True)
class Factor:
    """An element that a step reads: its width, and whether it lies in flash."""

    bits: int
    in_flash: bool


ROUNDS_OF_A_CALL = 4
"""What the call for steps that are left over takes, in rounds."""


def steps_for(most: int, lengths: Mapping[int, int]) -> int:
    """How many steps, at most `most`, take the fewest rounds for so many runs by length; steps that are left over take a round each, and
    behind whole rounds a call of their own."""

    def rounds(steps: int) -> int:
        whole = {length: divmod(length, steps) for length in lengths}
        called = {length: ROUNDS_OF_A_CALL * (count > 0 and left > 0) for length, (count, left) in whole.items()}
        return sum(times * (sum(whole[length]) + called[length]) for length, times in lengths.items())

    return min(range(LEAST, most + 1), key=lambda steps: (rounds(steps), steps))


def divisor(most: int, count: int) -> int:
    """The largest number of steps up to `most` that leaves none of `count` over; 0 where that is not worth it."""
    return max((steps for steps in range(LEAST, most + 1) if count % steps == 0), default=0)


def several_steps(steps: int, step: list[str], factors: tuple[Factor, Factor], sum_bits: int | None) -> list[str]:
    """C of so many steps, each of which is `step` on the pointers p0 and p1, and adds a product to `sum`. `sum_bits`: None where factors or
    products are shifted first."""
    block = [line for _ in range(steps) for line in ("{", *(f"    {part}" for part in step), "}")]
    device = None if sum_bits is None else _instructions(steps, factors, sum_bits)
    if device is None:
        return block
    guard = (
        "defined(__AVR_HAVE_MUL__) && defined(__AVR_HAVE_LPMX__) && defined(__OPTIMIZE__)"  # at -O0 registers run out
    )
    return [f"#if {guard}", *device, "#else", *block, "#endif"]


def _instructions(steps: int, factors: tuple[Factor, Factor], sum_bits: int) -> list[str] | None:
    """C with the assembler of a round; None where there is none: only one pointer can walk through flash."""
    wide, other = (0, 1) if factors[0].bits >= factors[1].bits else (1, 0)
    added = ADDITIONS.get((factors[wide].bits, factors[other].bits, sum_bits))
    if added is None or all(factor.in_flash for factor in factors):
        return None
    names = {"%0": "%[sum]", "%1": f"%[v{wide}]", "%2": f"%[v{other}]", "%3": "%[zero]"}
    one = [line for number, factor in enumerate(factors) for line in _load(number, factor)]
    for line in added:
        for old, new in names.items():
            letter = new.replace("%[", "[")
            line = line.replace(old, new)
            for byte in "ABCD":
                line = line.replace(f"%{byte}{old[1]}", f"%{byte}{letter}")
        one.append(line)
    text = [line for _ in range(steps) for line in one] + ["clr r1"]
    lines = [f"int{factor.bits}_t v{number};" for number, factor in enumerate(factors)]
    lines += ["__asm__(" + "\n            ".join(f'"{line}{chr(92)}n{chr(92)}t"' for line in text)]
    pointers = ", ".join(f'[p{n}] "+{"z" if f.in_flash else "e"}"(p{n})' for n, f in enumerate(factors))
    lines += [f'    : [sum] "+&r"(sum), {pointers}, [v0] "=&a"(v0), [v1] "=&a"(v1)']
    lines += ['    : [zero] "r"((uint8_t)0) : "memory");']
    return lines


def _load(number: int, factor: Factor) -> list[str]:
    instruction = "lpm" if factor.in_flash else "ld"
    octets = ["%"] if factor.bits == 8 else ["%A", "%B"]
    return [f"{instruction} {octet}[v{number}], %a[p{number}]+" for octet in octets]
