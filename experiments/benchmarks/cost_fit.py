"""Cycles of features from simulator runs: non-negative least squares of relative errors (Lawson and Hanson's), with Huber's weights."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.emit.pairs import STEPS, interleaves, step_instructions
from kilotune.codegen.emit.shifts import device_instructions
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.evaluators.cost_features import BLOCK_SIZES, FEATURES

PRIOR_WEIGHT = 1e-4
FAMILY_WEIGHT = 1e-3
"""How strongly cycles are held to those of features that are alike: of the weights from 0.0001 to 0.01 that were tried, the one with the
least errors at the median on random programs of a Cortex-M55 that were not fitted to."""

UNKNOWN = 10.0
"""Cycles of what no run has on a processor whose registers have 32 bits."""

PLAIN_WEIGHT = 3e-2
"""How strongly the cycles of compact code are held to those of other code."""

ROUNDS = 6
USUAL_ERROR = 0.03
"""Larger relative errors count by their size, not by its square."""


@dataclass(frozen=True)
class Observation:
    """A candidate that was run: counts of its features, measured cycles, and whether as compact code, which has cycles of its own."""

    model: str
    counts: npt.NDArray[np.float64]
    cycles: float
    compact: bool = False


def parameters_of(feature: str, avr: bool) -> dict[str, float]:
    """What the cycles of a feature are a sum of: itself, but shifts share the cost of their instructions and of rounding."""
    family, *labels = feature.split(".")
    if family == "fraction":
        return {feature: 1.0} if not avr else {f"fraction.{labels[0]}": 1.0, f"quotient.{labels[0]}": float(labels[1])}
    if family == "up" and labels[1] == "0":
        return {}
    if family == "called":
        kind, shift = ".".join(labels[:2]), int(labels[2])
        whole, single = divmod(shift, 8) if labels[1] == "32" else (0, shift)
        return {f"called.start.{kind}": 1.0, f"called.place.{kind}": float(single), f"called.byte.{kind}": float(whole)}
    if family != "down":
        return {feature: 1.0}
    rounding, bits, shift, result = Rounding(labels[0]), int(labels[1]), int(labels[2]), int(labels[3])
    if not 0 < shift < bits or result > bits:
        return {}
    wraps = "wraps" if bits - shift > result else "fits"
    shared = ".".join(("rounding", labels[0], labels[1], labels[3], wraps))
    if not avr:
        return {shared: 1.0}
    instructions = device_instructions(bits, shift, result, rounding)
    if instructions is not None:
        return {"instruction": float(instructions), shared: 1.0}
    # the compiler moves whole bytes, and shifts single ones by steps
    return {"step": float((0, 1, 2, 3, 4, 5, 4, 2)[shift % 8]), f"plain.{shared}.{shift // 8}": 1.0}


def known_steps() -> dict[str, float]:
    """Cycles of the steps of `codegen.emit.pairs` on a Cortex-M4, by feature: a load takes two, one behind another load, all else one; the
    loop's end takes four, once a round. Too few candidates have each of them for a fit."""
    found = {}
    for (rows, operands), wide, bits in itertools.product(BLOCK_SIZES, (8, 16), (8, 16)):
        loads = [
            line.startswith("ldr")
            for line in step_instructions(rows, wide, bits, operands, interleaved=interleaves(wide, bits))
        ]
        cycles = sum(2 if load and not before else 1 for load, before in zip(loads, [False, *loads[:-1]], strict=True))
        size = str(rows) if operands == 1 else f"{rows}x{operands}"
        found[f"step.{size}.{wide}.{bits}"] = cycles + 4.0 / STEPS[operands]
    return found


def prior(parameter: str) -> float:
    """Plausible cycles of an 8-bit processor, for what no run has."""
    parts = parameter.split(".")
    widths = [int(p) for p in parts if p in ("8", "16", "32", "64")]
    octets = widths[0] // 8 if widths else 1
    match parts[0]:
        case "instruction" | "step":
            return 1.0
        case "norm" | "called":
            norm = {"root": 1000.0, "square": 60.0, "quotient": 600.0}
            return (norm | {"start": 20.0, "place": 3.0 + octets, "byte": 10.0})[parts[1]]
        case "quotient":
            return 9.0 * octets
        case "up":
            return int(parts[2]) * (octets + 2.0)
        case "load" | "store" | "rounding" | "plain":
            return 2.0 * octets
        case "mac" | "product" | "dot" | "straight":
            return 4.0 + sum(widths) / 4 + (widths[0] // 8) * (widths[1] // 8) * 3
        case "function":
            return 100.0
        case "scan" | "apply" | "tap" | "element":
            return 6.0 * octets
        case "tree":
            return 20.0 * octets
    return 10.0


@dataclass(frozen=True)
class FittedCycles:
    """What was fitted: `parameters` by name, and the `cycles` [features] that they make."""

    parameters: Mapping[str, float]
    cycles: npt.NDArray[np.float64]


def fit(seen: Sequence[Observation], avr: bool, plain: FittedCycles | None = None) -> FittedCycles:
    """Least squares of relative errors, held weakly to the prior, or to the fit of `plain` code; none negative.

    Registers of 32 bits take all widths alike, so but for an AVR, whose prior says what a width takes, parameters are held to what those
    of their family take on average, which are fitted first; then to those that differ in widths alone.
    """
    shares = [parameters_of(name, avr) for name in FEATURES]
    names = sorted({parameter for share in shares for parameter in share})
    numbers = {name: number for number, name in enumerate(names)}
    map_ = np.zeros((len(FEATURES), len(names)))
    for row, share in zip(map_, shares, strict=True):
        for parameter, weight in share.items():
            row[numbers[parameter]] = weight
    measured = np.array([s.cycles for s in seen])
    design = np.stack([s.counts for s in seen]) @ map_ / measured[:, None]
    expected = np.array([prior(name) if avr else UNKNOWN for name in names])
    weight = PRIOR_WEIGHT
    if plain is not None:
        expected, weight = np.array([plain.parameters[name] for name in names]), PLAIN_WEIGHT
    fixed = {numbers[name]: cycles for name, cycles in known_steps().items()}
    expected[list(fixed)] = list(fixed.values())
    if not avr and plain is None:
        for alike in (family_of, widthless):
            groups = [name if number in fixed else alike(name) for number, name in enumerate(names)]
            kinds = sorted(set(groups))
            place = np.array([kinds.index(group) for group in groups])
            together = (place[:, None] == np.arange(len(kinds))).astype(float)
            held = np.array([expected[place == number].mean() for number in range(len(kinds))])
            known = {int(place[number]) for number in fixed}
            expected = _least_squares(design @ together, held, known, weight)[place]
            weight = FAMILY_WEIGHT
    values = _least_squares(design, expected, set(fixed), weight)
    return FittedCycles(dict(zip(names, values.tolist(), strict=True)), np.asarray(map_ @ values))


def family_of(parameter: str) -> str:
    """What a feature's name begins with."""
    return parameter.split(".")[0]


def widthless(parameter: str) -> str:
    """A feature's name without its widths and other numbers."""
    return ".".join(part for part in parameter.split(".") if not part.isdigit())


def _least_squares(
    design: npt.NDArray[np.float64], expected: npt.NDArray[np.float64], fixed: Set[int], weight: float
) -> npt.NDArray[np.float64]:
    """Cycles that make all of `design` [observations, parameters] nearly 1, held to what is expected as strongly as `weight` says; those of
    `fixed` and what no observation has are as expected."""
    from scipy.optimize import nnls

    used: npt.NDArray[np.bool_] = np.asarray(design.any(axis=0))
    used[list(fixed)] = False
    rest = 1.0 - design[:, list(fixed)] @ expected[list(fixed)]
    held = np.sqrt(weight) / np.maximum(expected[used], 1.0)
    values = expected.copy()
    # Huber: a program that the features do not describe must not bend the cycles of all the others
    weights = np.ones(len(design))
    for _ in range(ROUNDS):
        rows = np.vstack([design[:, used] * weights[:, None], np.diag(held)])
        values[used], _ = nnls(rows, np.concatenate([weights * rest, held * expected[used]]), maxiter=50_000)
        residuals = np.abs(design @ values - 1.0)
        weights = np.sqrt(np.minimum(1.0, USUAL_ERROR / np.maximum(residuals, 1e-9)))
    return values


def errors(seen: Sequence[Observation], cycles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Relative errors of predictions."""
    return np.array([s.counts @ cycles / s.cycles - 1.0 for s in seen])
