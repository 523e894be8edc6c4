"""SeeDot Section 7.2: e**x by tables against math.h and a fast float trick, on a simulated Arduino Uno.

    python -m kilotune.experiments.papers.seedot_exponentials [--inputs N] [--seed N] [--level Os]

Random arguments of [-8, 0], the range that ProtoNN's have. Cycles are those of the inference less those of a function that
only copies its argument; errors are against e**x of the argument as the program receives it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.simulated import Artefact, of_emitted

LOWEST = -8.0
PAPER = {"math.h": 1.0, "fast float trick": 23.2 / 4.1, "SeeDot tables, 16 bits": 23.2}
"""Speed-up over math.h. The paper gives 23.2x for its tables, and 4.1x of these over the trick."""

_MATH = "#include <math.h>\nvoid predict(const float *x, float *result) { result[0] = expf(x[0]); }\n"
# Schraudolph (Neural Computation 11, 1999), on 32-bit floats: x / ln 2 into the exponent, a constant for the least mean error
_TRICK = """\
#include <stdint.h>
void predict(const float *x, float *result)
{
    union { int32_t i; float f; } u;
    u.i = (int32_t)(12102203.2f * x[0]) + 1064866805;
    result[0] = u.f;
}
"""
_COPY = "void predict(const TYPE *x, TYPE *result) { result[0] = x[0]; }\n"


@dataclass(frozen=True)
class ImplementationCost:
    """One implementation: cycles of a call, and its errors (absolute; e**x is at most 1)."""

    name: str
    cycles: float
    largest_error: float
    mean_error: float
    flash_bytes: int


def measure(inputs: int = 100, seed: int = 0, level: str = "Os") -> list[ImplementationCost]:
    """All implementations on the same arguments. DeviceError without avr-gcc or simavr."""
    arguments = np.random.default_rng(seed).uniform(LOWEST, 0.0, (inputs, 1))
    target = AvrTarget(level=f"-{level}")
    outcomes = []
    empty = {kind: _run(_plain(_COPY.replace("TYPE", c), kind), arguments.astype(kind), target) for kind, c in _TYPES}
    for name, text in (("math.h", _MATH), ("fast float trick", _TRICK)):
        given = arguments.astype(np.float32)
        outcomes.append(_outcome(name, _run(_plain(text, "f4"), given, target), empty["f4"], given, 0))
    for name, batch in _tables():
        source = emit_c(batch, {})
        face = source.interface
        quantised = np.trunc(np.ldexp(arguments, face.input_scale)).astype(np.int64)
        kind = f"i{face.input_bits // 8}"
        found = _run(of_emitted(source), quantised, target)
        real = np.ldexp(quantised.astype(np.float64), -face.input_scale)
        outcomes.append(_outcome(name, found, empty[kind], real, face.result_scale))
    return outcomes


_TYPES = (("f4", "float"), ("i1", "signed char"), ("i2", "int"))


@dataclass(frozen=True)
class _Measured:
    outputs: npt.NDArray[np.generic]
    cycles: float
    flash_bytes: int


def _run(artefact: Artefact, inputs: npt.NDArray[np.generic], target: AvrTarget) -> _Measured:
    sizes, run = target.run(artefact, inputs)
    return _Measured(run.outputs, float(run.cycles.mean()), sizes.flash_bytes)


def _outcome(
    name: str, found: _Measured, empty: _Measured, arguments: npt.NDArray[np.generic], scale: int
) -> ImplementationCost:
    real = np.ldexp(found.outputs.astype(np.float64), -scale)
    error = np.abs(real - np.exp(arguments.astype(np.float64)))
    flash = found.flash_bytes - empty.flash_bytes
    return ImplementationCost(name, found.cycles - empty.cycles, float(error.max()), float(error.mean()), flash)


def _plain(text: str, kind: str) -> Artefact:
    c = dict(_TYPES)[kind]
    header = f"void predict(const {c} *x, {c} *result);\n"
    dtype = np.dtype(f"<{kind}")
    return Artefact("model", header, f'#include "model.h"\n{text}', "predict", ir.ResultKind.REAL, 1, dtype, 1, dtype)


def _tables() -> Iterator[tuple[str, FixedBatch]]:
    here = ir.Location("exponential.sd", 1, 1)
    given, result = (ir.Variable(n, (1,), role, here) for n, role in (("X", ir.Role.INPUT), ("e", ir.Role.TEMPORARY)))
    body = (ir.Exp(ir.whole(result), here, ir.whole(given)),)
    program = ir.Program("exponential", (given, result), body, ir.whole(result), ir.ResultKind.REAL)
    for bits in (16, 8):
        rules = SeeDotLowering(program, {"X": -LOWEST, "e": 1.0})
        yield f"SeeDot tables, {bits} bits", rules.lower(SeeDotParameters(bits, bits - 2), {0: (LOWEST, 0.0)})
    for bits, scale in ((16, 11), (8, 4)):
        yield f"Shiftry tables, {bits} bits", ShiftryLowering(program, {}).lower([[bits, bits]], [[scale, bits - 2]])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level", default="Os")
    chosen = parser.parse_args()
    outcomes = measure(chosen.inputs, chosen.seed, chosen.level)
    table = Table(title=f"e**x on an ATmega328P, {chosen.inputs} random arguments of [-8, 0], -{chosen.level}")
    for column in ("", "cycles", "over math.h", "paper", "largest error", "mean error", "flash, bytes"):
        table.add_column(column, justify="left" if not column else "right")
    for o in outcomes:
        paper = f"{PAPER[o.name]:.1f}x" if o.name in PAPER else ""
        ours = f"{outcomes[0].cycles / o.cycles:.1f}x"
        errors = (f"{o.largest_error:.5f}", f"{o.mean_error:.5f}")
        table.add_row(o.name, f"{o.cycles:.0f}", ours, paper, *errors, str(o.flash_bytes))
    Console().print(table)


if __name__ == "__main__":
    main()
