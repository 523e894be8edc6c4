"""Random hardware with every kind of unit at many shapes, widths and unroll factors: what tables of gates are fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding, get_scale
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.profile import profile
from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.plan import HardwarePlan, decidable, make_plan, takes_elements, takes_multipliers
from kilotune.codegen.rtl.processing import column_nonzeros, longest_first_shares, papers_shares
from kilotune.experiments.benchmarks.probe_programs import probe

_HERE = ir.Location("unit.sd", 1, 1)
WIDTHS = (4, 6, 8, 8, 8, 12, 16, 16, 16, 24, 32)
KINDS = ("dense", "sparse", "row product", "convolution", "pooling", "pointwise", "binary", "table", "normalise")
MOST_LANES = (1, 2, 4, 8, 16)
PRODUCTS = (ir.MatMul, ir.Conv2D, ir.Multiply)
SAMPLES = 4


@dataclass(frozen=True)
class HardwareProbe:
    """A plan with the parameters of its program, and what it is called in a table of errors."""

    name: str
    plan: HardwarePlan
    parameters: Mapping[str, FloatArray]

    def without_multipliers(self) -> HardwareProbe:
        """This probe with all multiplications made of look-up tables, as searches for a board without multipliers make them."""
        plan = self.plan
        rows = frozenset(n for n, made in enumerate(ir.operations(plan.batch.program.body)) if takes_multipliers(made))
        soft = make_plan(plan.batch, self.parameters, replace(plan.design, soft=rows))
        return HardwareProbe(f"{self.name}, soft", soft, self.parameters)


def program_probe(seed: int, narrow: bool = False) -> HardwareProbe:
    """A random program of several operations (`probe`), with random unroll factors, processing elements, registers and ports; `narrow`:
    with parameters of 1 to 6 bits."""
    made = probe(seed, narrow)
    random = np.random.default_rng([seed, 1])
    design = random_design(made.batch, made.parameters, random, int(random.choice((1, 1, 2, 4, 8))), 0.2)
    name = f"narrow program {seed}" if narrow else f"program {seed}"
    return HardwareProbe(name, make_plan(made.batch, made.parameters, design), made.parameters)


def unit_probe(seed: int, kinds: tuple[str, ...] = KINDS, soft: float = 0.0) -> HardwareProbe:
    """A program of one operation, of another one of `kinds` with each seed, on an input; widths from 4 to 32 bits."""
    random = np.random.default_rng([seed, 2])
    kind = kinds[seed % len(kinds)]
    builder = _UnitBuilder(random)
    program, parameters = builder.program(kind), builder.parameters
    features = random.normal(0, 1, (SAMPLES, program.variables[0].size))
    seen, _ = profile(program, parameters, features)
    bits = random.choice(WIDTHS, (1, len(program.variables)))
    best = [get_scale(seen.magnitude(v.name), int(w)) for v, w in zip(program.variables, bits[0], strict=True)]
    scales = np.array([best]) + random.integers(-1, 2, bits.shape)
    largest = {row: float(values.max()) for row, values in seen.exponents.items()}
    rounding = list(Rounding)[int(random.integers(len(Rounding)))]
    accumulator = list(Accumulator)[int(random.integers(len(Accumulator)))]
    batch = ShiftryLowering(program, largest, rounding, accumulator).lower(bits, scales)
    design = random_design(batch, parameters, random, int(random.choice(MOST_LANES)), soft)
    return HardwareProbe(f"{kind} {seed}", make_plan(batch, parameters, design), parameters)


def soft_probe(seed: int) -> HardwareProbe:
    """As `unit_probe`, of products whose multiplications are made of look-up tables."""
    return unit_probe(seed, ("dense", "sparse", "row product", "convolution", "binary"), 1.0)


def depends_on_input(batch: FixedBatch) -> bool:
    """Whether the result can be another one for other inputs: `x - x` is 0, and synthesis proves whatever is computed of it constant."""
    program = batch.program
    varying = set() if program.input is None else {program.input.name}
    while True:
        reached = set(varying)
        for row, operation in enumerate(ir.operations(program.body)):
            shifts = batch.rows[0, row, [Column.SHIFT_A, Column.SHIFT_B]]
            vanishes = isinstance(operation, ir.Subtract) and operation.a == operation.b and shifts[0] == shifts[1]
            reads = {operand.variable for operand in operation.operands if isinstance(operand, ir.View)}
            if reads & varying and not vanishes:
                reached.add(operation.out.variable)
        if reached == varying:
            return program.result.variable in varying
        varying = reached


def random_design(
    batch: FixedBatch, parameters: dict[str, FloatArray], random: np.random.Generator, most: int, soft: float
) -> HardwareDesign:
    """Unroll factors up to `most`, as many processing elements for half of the sparse products, and multiplications of look-up tables in
    a share `soft` of the products."""
    program = batch.program
    lanes = {
        row: int(random.choice([n for n in factors if n <= most])) for row, factors in decidable(program, batch).items()
    }
    shares = {}
    for row, operation in enumerate(ir.operations(program.body)):
        if isinstance(operation, ir.MatMul) and takes_elements(operation, program) and random.random() < 0.5:
            counts = column_nonzeros(parameters[operation.a.variable])
            given_out = longest_first_shares if random.random() < 0.5 else papers_shares
            shares[row] = given_out(counts, int(random.integers(1, most + 1)))
    pipelined, ports = bool(random.random() < 0.8), int(random.integers(1, 3))
    multiplied = [row for row, operation in enumerate(ir.operations(program.body)) if isinstance(operation, PRODUCTS)]
    return HardwareDesign(lanes, shares, pipelined, ports, frozenset(r for r in multiplied if random.random() < soft))


@dataclass
class _UnitBuilder:
    """The program of one operation while it is made; its input is the first variable."""

    random: np.random.Generator
    variables: list[ir.Variable] = field(default_factory=list)
    parameters: dict[str, FloatArray] = field(default_factory=dict)

    def pick(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def variable(self, shape: tuple[int, ...], role: ir.Role = ir.Role.TEMPORARY, sparse: bool = False) -> ir.View:
        made = ir.Variable(f"v{len(self.variables)}", shape, role, _HERE, sparse=sparse)
        self.variables.append(made)
        return ir.whole(made)

    def parameter(self, shape: tuple[int, ...], sparse: bool = False) -> ir.View:
        view, values = self.variable(shape, ir.Role.PARAMETER, sparse), self.random.normal(0, 0.5, shape)
        self.parameters[view.variable] = np.where(self.random.random(shape) < 0.3, values, 0.0) if sparse else values
        return view

    def program(self, kind: str) -> ir.Program:
        match kind:
            case "dense" | "sparse":
                operation = self._product(kind == "sparse")
            case "row product":
                columns, length = 4 * self.pick(1, 8), self.pick(4, 48)
                given = self.variable((1, length), ir.Role.INPUT)
                operation = ir.MatMul(self.variable((1, columns)), _HERE, given, self.parameter((length, columns)))
            case "convolution" | "pooling":
                operation = self._windows(kind == "pooling")
            case "normalise":
                given = self.variable((1, self.pick(4, 32)), ir.Role.INPUT)
                operation = ir.NormaliseL2(self.variable(given.shape), _HERE, given)
            case _:
                operation = self._by_element(kind)
        return ir.Program("unit", tuple(self.variables), (operation,), operation.out, ir.ResultKind.REAL)

    def _product(self, sparse: bool) -> ir.Operation:
        rows, length = 2 * self.pick(1, 16), 2 * self.pick(2, 32)
        given = self.variable((length, 1), ir.Role.INPUT)
        return ir.MatMul(self.variable((rows, 1)), _HERE, self.parameter((rows, length), sparse), given, sparse)

    def _windows(self, pooling: bool) -> ir.Operation:
        side, channels, kernel, pad = self.pick(4, 8), 2 * self.pick(1, 3), self.pick(2, 3), self.pick(0, 1)
        extent, padding = side + 2 * pad - kernel + 1, (pad, pad, pad, pad)
        given = self.variable((1, side, side, channels), ir.Role.INPUT)
        if pooling:
            out = self.variable((1, extent, extent, channels))
            return ir.MaxPool(out, _HERE, given, (kernel, kernel), (1, 1), padding)
        made = 2 * self.pick(1, 4)
        weights = self.parameter((1, kernel, kernel, channels, made))
        return ir.Conv2D(self.variable((1, extent, extent, made)), _HERE, given, weights, (1, 1), padding)

    def _by_element(self, kind: str) -> ir.Operation:
        shape = (8 * self.pick(1, 12), 1)
        given = self.variable(shape, ir.Role.INPUT)
        out = self.variable(shape)
        if kind == "table":
            return (ir.Exp, ir.Sigmoid, ir.Tanh)[self.pick(0, 2)](out, _HERE, given)
        if kind == "pointwise":
            return (ir.Negate, ir.Relu, ir.Relu6, ir.Copy)[self.pick(0, 3)](out, _HERE, given)
        others: tuple[ir.Operand, ...] = (given, ir.Literal(float(self.random.normal())))
        other = others[self.pick(0, 1)] if self.pick(0, 2) else self.parameter(shape)
        if self.pick(0, 3) == 0:
            return ir.Select(out, _HERE, ir.View(given.variable, (), ()), given, other)
        return (ir.Add, ir.Subtract, ir.Multiply)[self.pick(0, 2)](out, _HERE, given, other)
