"""Whole numbers in the base of the golden ratio: how a total and a result that waits multiply an image by any weight, and are restored.

A pair of registers (a, b) stands for a + b*phi, where phi = (1 + sqrt(5)) / 2. One addition multiplies the pair by phi, (b, a + b), and one
subtraction divides it by phi, (b - a, a), so that whatever the pair held comes back after as many of these as of those. An image that is
added to a in between is multiplied by the power of phi that is still to come, and every whole number is a finite sum of different powers of
phi, about as many above 1 as below (G. Bergman, A number system with an irrational base, Mathematics Magazine 31, 1957).
"""

from __future__ import annotations


def golden_digits(number: int) -> tuple[int, ...]:
    """The exponents of the powers of phi whose sum is the number, falling, no two of them neighbours. ValueError below zero."""
    if number < 0:
        raise ValueError(f"expected a number from 0 on, found {number}")
    rest, exponents = (number, 0), list[int]()
    power, exponent = (1, 0), 0
    while _at_least(rest, _times_phi(power)):
        power, exponent = _times_phi(power), exponent + 1
    while rest != (0, 0):
        if _at_least(rest, power):
            rest = (rest[0] - power[0], rest[1] - power[1])
            exponents.append(exponent)
        power, exponent = (power[1] - power[0], power[0]), exponent - 1
    return tuple(exponents)


def _times_phi(value: tuple[int, int]) -> tuple[int, int]:
    return value[1], value[0] + value[1]


def _at_least(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether a >= b, exactly: twice the difference is whole + root * sqrt(5)."""
    root = a[1] - b[1]
    whole = 2 * (a[0] - b[0]) + root
    if whole >= 0 and root >= 0:
        return True
    larger = whole * whole >= 5 * root * root
    return (whole >= 0 and larger) or (root >= 0 and not larger)
