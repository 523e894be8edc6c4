"""What the integers of quantised files take (`codegen.emit.requantising`): predictions for random networks of them, and a fit.

    python -m kilotune.experiments.benchmarks.kept_integers [TARGET]           # errors of the shipped table
    python -m kilotune.experiments.benchmarks.kept_integers [TARGET] --fit     # fit their features alone, into the table that is shipped
    python -m kilotune.experiments.benchmarks.kept_integers [TARGET] --fit --networks 16    # to so many networks, not NETWORKS

TARGET: avr (an ATmega328P at -Os), cortex-m0plus, cortex-m4, cortex-m55. Each network has one to three layers, dense ones, convolutions or
sums with what they read, and both kinds of factors; the fit leaves all other cycles as they are, and is a least squares of relative
errors, with Huber's weights. Errors are on networks of another seed.
"""

from __future__ import annotations

import datetime
import sys

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import PLAIN, SHAPES, CodeShape
from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.ir.requantisation import even_multiplier, fixed_multiplier
from kilotune.codegen.quantisation_grid import LEAST, MOST
from kilotune.evaluators.architectures.cortex.emulated import EMULATED
from kilotune.evaluators.architectures.registry import code_shapes
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES
from kilotune.evaluators.cost_model import CostTable
from kilotune.evaluators.devices import shipped_cost_table, shipped_cost_tables
from kilotune.experiments.artefacts.whole_file import replace
from kilotune.experiments.benchmarks.cost_fit import ROUNDS, USUAL_ERROR, Observation, errors
from kilotune.experiments.benchmarks.cost_model import runner_of

NETWORKS, SAMPLES = 40, 3
FIT_SEED, TEST_SEED = 11, 1_000_011
FITTED = ("rescaled.fixed", "rescaled.even", "looked")
_HERE = ir.Location("integers", 0, 0, "a random network")


class _Network:
    """A program that grows layer by layer."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.even = random, bool(random.integers(2))
        self.variables: list[ir.Variable] = []
        self.parameters: dict[str, FloatArray] = {}
        self.body: list[ir.Statement] = []
        side, channels = int(random.integers(3, 8)), int(random.choice([1, 2, 4, 8, 16]))
        self.input = self.last = self._variable((1, side, side, channels), ir.Role.INPUT)
        kinds = [self._convolution, self._dense, self._sum, self._table]
        for number in random.integers(0, len(kinds), int(random.integers(1, 4))):
            kinds[int(number)]()
        if not any(isinstance(one, ir.Product) for one in self.body):
            self._dense()
        self.program = ir.Program("made", tuple(self.variables), tuple(self.body), self.last, ir.ResultKind.REAL)

    def _variable(self, shape: tuple[int, ...], role: ir.Role = ir.Role.TEMPORARY) -> ir.View:
        made = ir.Variable(f"v{len(self.variables)}", shape, role, _HERE)
        self.variables.append(made)
        return ir.whole(made)

    def _weights(self, shape: tuple[int, ...]) -> ir.View:
        made = self._variable(shape, ir.Role.PARAMETER)
        self.parameters[made.variable] = self.random.integers(LEAST, MOST + 1, shape).astype(np.float64)
        return made

    def _factor(self, real: float) -> ir.Multiplier:
        return even_multiplier(np.float32(real)) if self.even else fixed_multiplier(real)

    def _completion(self, channels: int, taps: int, *, alike: bool) -> ir.Requantisation:
        biases = self.random.integers(-3000, 3000, channels)
        reals = self.random.uniform(0.5, 2, 1 if alike else channels) / (73 * np.sqrt(taps))
        factors = tuple(self._factor(float(real)) for real in np.broadcast_to(reals, (channels,)))
        zero = int(self.random.integers(LEAST, MOST + 1))
        return ir.Requantisation(tuple(biases.tolist()), factors, zero, zero if self.random.integers(2) else LEAST)

    def _dense(self) -> None:
        outputs = int(self.random.integers(2, 25))
        out, size = self._variable((1, outputs)), self.last.size
        completion = self._completion(outputs, size, alike=bool(self.random.integers(3)))
        flat = ir.View(self.last.variable, (1, size), (size, 1))
        self.body.append(ir.MatMul(out, _HERE, flat, self._weights((size, outputs)), completion=completion))
        self.last = out

    def _convolution(self) -> None:
        if len(self.last.shape) != 4:
            return
        _, height, width, channels = self.last.shape
        kernel, filters = int(min(height, width, self.random.choice([1, 3]))), int(self.random.choice([2, 4, 8, 16]))
        pad = int(self.random.integers(0, kernel // 2 + 1))
        out = self._variable((1, height + 2 * pad - kernel + 1, width + 2 * pad - kernel + 1, filters))
        completion = self._completion(filters, kernel * kernel * channels, alike=False)
        weights, zero = (
            self._weights((1, kernel, kernel, channels, filters)),
            int(self.random.integers(LEAST, MOST + 1)),
        )
        self.body.append(
            ir.Conv2D(out, _HERE, self.last, weights, (1, 1), (pad,) * 4, completion=completion, outside=zero)
        )
        self.last = out

    def _sum(self) -> None:
        zeros, zero = (3, -20), int(self.random.integers(LEAST, MOST + 1))
        out = self._variable(self.last.shape)
        if self.random.integers(2):
            factor = self._factor(0.011)
            self.body.append(ir.QuantisedProduct(out, _HERE, self.last, self.last, zeros, factor, zero))
        else:
            factors = fixed_multiplier(0.5), fixed_multiplier(0.31)
            self.body.append(
                ir.QuantisedSum(out, _HERE, self.last, self.last, zeros, factors, fixed_multiplier(2.0**-20), zero)
            )
        self.last = out

    def _table(self) -> None:
        out = self._variable(self.last.shape)
        entries = tuple(self.random.integers(LEAST, MOST + 1, MOST - LEAST + 1).tolist())
        self.body.append(ir.Lookup(out, _HERE, self.last, entries))
        self.last = out


def observations(target: str, seed: int, count: int = NETWORKS) -> list[Observation]:
    """Networks as plain code and in the processor's other shapes, in turn."""
    shapes = list(code_shapes(target if target in EMULATED else "atmega328p"))
    runner, seen = runner_of(target), []
    for number in range(count):
        network = _Network(np.random.default_rng([seed, number]))
        batch = lower_quantised(network.program)
        samples = network.random.integers(LEAST, MOST + 1, (SAMPLES, network.input.size)).astype(np.float64)
        for name in dict.fromkeys((PLAIN, shapes[number % len(shapes)])):
            shape = SHAPES[name] if name != PLAIN else CodeShape()
            counts = CostFeatures(network.program, network.parameters, shape).terms(batch).matrix()[0]
            cycles = runner(emit_c(batch, network.parameters, shape=shape), samples)
            seen.append(Observation(name, counts, cycles, shape.shared))
    return seen


def fitted(seen: list[Observation], table: CostTable) -> dict[str, float]:
    """Cycles of the features of FITTED, at those that the table has for all others."""
    from scipy.optimize import nnls

    numbers = [FEATURES.index(name) for name in FITTED]
    known = np.stack([one.counts * _vector(table, one) for one in seen])
    known[:, numbers] = 0.0
    measured = np.array([one.cycles for one in seen])
    design = np.stack([one.counts for one in seen])[:, numbers] / measured[:, None]
    rest, weights = 1.0 - known.sum(axis=1) / measured, np.ones(len(seen))
    values = np.zeros(len(numbers))
    for _ in range(ROUNDS):
        values, _ = nnls(design * weights[:, None], rest * weights)
        weights = np.sqrt(np.minimum(1.0, USUAL_ERROR / np.maximum(np.abs(design @ values - rest), 1e-9)))
    return {name: round(float(value), 2) for name, value in zip(FITTED, values, strict=True)}


def _vector(table: CostTable, one: Observation) -> npt.NDArray[np.float64]:
    return table.vector(SHAPES[one.model])


def report(title: str, seen: list[Observation], table: CostTable) -> dict[str, float]:
    """Errors by shape, printed, and those of all."""
    found = np.array([float(errors([one], _vector(table, one))[0]) for one in seen])
    print(f"\n{title}\n{'shape':<16}{'networks':>9}{'median':>9}{'worst':>9}{'mean':>9}")
    for shape in dict.fromkeys(one.model for one in seen):
        some = found[[one.model == shape for one in seen]]
        print(f"{shape:<16}{some.size:>9}{np.median(np.abs(some)):>9.1%}{np.abs(some).max():>9.1%}{some.mean():>+9.1%}")
    size = np.abs(found)
    print(f"{'all':<16}{size.size:>9}{np.median(size):>9.1%}{size.max():>9.1%}{found.mean():>+9.1%}")
    return {"programs": size.size, "median": round(float(np.median(size)), 4), "worst": round(float(size.max()), 4)}


def main(arguments: list[str]) -> None:
    """See the module's text."""
    given = "--networks" in arguments
    count = int(arguments.pop(arguments.index("--networks") + 1)) if given else NETWORKS
    target = next((a for a in arguments if not a.startswith("-")), "avr")
    table = shipped_cost_table(target)
    if table is None:
        sys.exit(f"no table for {target} is shipped: benchmarks.cost_model --fit makes one")
    test = observations(target, TEST_SEED, count)
    report(f"{target}: the shipped table's predictions against simulator runs", test, table)
    if "--fit" not in arguments:
        return
    seen = observations(target, FIT_SEED, count)
    plain = fitted([one for one in seen if not one.compact], table)
    compact = fitted([one for one in seen if one.compact], table) if table.compact else {}
    changed = CostTable(target, {**table.cycles, **plain}, table.made, {**table.compact, **compact})
    summary = report(f"{target}: fitted, on other networks", test, changed)
    command = f"benchmarks.kept_integers {target} --fit" + (f" --networks {count}" if given else "")
    how = f"{command}, {datetime.date.today().isoformat()}"
    made = {**table.made, "integers": {"how": how, **summary}}
    place = shipped_cost_tables()[target]
    replace(place, CostTable(target, changed.cycles, made, changed.compact).as_json().encode())


if __name__ == "__main__":
    main(sys.argv[1:])
