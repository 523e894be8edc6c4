"""Programs and batches of candidates as the compiled kernel wants them: flat C structures and integer arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.fixed.arithmetic import Rounding, quantise, scale_down, wrap
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.hazards import find_hazard
from kilotune.codegen.straight_line import OperationInstance, Source, elements_of
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.fixed_point.fidelity import LAST, MarginErrors, inverse, normal_tails
from kilotune.evaluators.fixed_point.kernel import BatchKernel
from kilotune.evaluators.fixed_point.margins import Contest, MarginSums
from kilotune.evaluators.fixed_point.reference import evaluate_function
from kilotune.evaluators.interruptible import StopFlag, interruptible

LANES = 64
TILE = 4
_ROUNDINGS = {Rounding.TOWARD_ZERO: 0, Rounding.FLOOR: 1, Rounding.NEAREST: 2}
_LITERAL, _STATIC, _DYNAMIC = range(3)


_Operand, _Step, _Program = structures(Path(__file__).with_name("kernel.c"), "Operand", "Step", "Program")

QUICK_TERMS = 100_000_000
"""Products and other elements, of all samples and candidates, in some hundredths of a second; a longer call can be ended."""


MOST_INPUT_BYTES = 256 << 20
"""How much features may take in all formats that are kept."""

QUANTISED_TOGETHER = 1 << 20
"""How many elements are brought into a format in one piece."""


class NativeProgram:
    """One program with its data, prepared for the kernel. Candidates then cost no more than their integers."""

    def __init__(
        self,
        kernel: BatchKernel,
        program: ir.Program,
        steps: Sequence[OperationInstance],
        parameters: Mapping[str, np.ndarray],
        features: np.ndarray,
        contest: Contest | None = None,
    ) -> None:
        self._kernel = kernel
        self._opcodes = {kind: kernel.opcode(_case(kind)) for kind in {type(step.operation) for step in steps}}
        self._program = program
        self._parameters = parameters
        self._features = features
        self._contest = contest
        stored = program.variable(program.result.variable).role is not ir.Role.PARAMETER
        self._numbers = {v.name: i for i, v in enumerate(program.variables)}
        self._dynamic = {v.name for v in program.variables if v.role is not ir.Role.PARAMETER}
        scored = contest is None or contest.variable in self._dynamic
        self._runs = stored and scored and find_hazard(steps) is None
        self._kept: list[np.ndarray] = []  # what the C structures point to
        self._statics: dict[tuple[int, int, int], _Addressed] = {}
        self._inputs: dict[tuple[int, int], _Addressed] = {}
        self._tables: dict[tuple[object, ...], _Addressed] = {}
        self._operations = tuple(ir.operations(program.body))
        self._tabled = [row for row, o in enumerate(self._operations) if isinstance(o, ir.TableFunction)]
        self._pack_offsets: dict[tuple[int, bytes], int] = {}
        self._packed_pairs = 0
        self._c_steps = (_Step * len(steps))(*(self._step(step) for step in steps))
        self._c_program = self._describe(steps)
        self._terms = sum(step.out.size * (step.sources[0].elements.shape[1] if _is_dot(step) else 1) for step in steps)

    def supports(self, batch: FixedBatch) -> bool:
        """Whether the kernel has the widths of the batch (8 and 16 bits), and its order of reads and writes is right."""
        return self._runs and bool((batch.bits <= 16).all())

    def run(self, batch: FixedBatch) -> IntArray:
        """Outputs [candidates, samples, elements of the result], as `run_reference`."""
        return self.run_contest(batch)[0]

    def run_contest(self, batch: FixedBatch) -> tuple[IntArray, list[MarginSums]]:
        """Outputs, and a contest's sums of each candidate, as `run_reference_contest`; zeros without a contest."""
        count = len(batch)
        statics = np.zeros((count, len(self._numbers)), dtype=np.uint64)
        inputs = np.zeros(count, dtype=np.uint64)
        tables = np.zeros((count, len(self._operations)), dtype=np.uint64)
        rows = batch.rows
        for column, variable in enumerate(self._program.variables):
            if variable.role not in (ir.Role.PARAMETER, ir.Role.INPUT):
                continue
            formats = list(zip(batch.bits[:, column].tolist(), batch.scales[:, column].tolist(), strict=True))
            if variable.role is ir.Role.PARAMETER:
                packed = {one: self._static(column, variable.name, *one) for one in set(formats)}
                statics[:, column] = [packed[one] for one in formats]
            else:
                self._make_room(set(formats))
                packed = {one: self._input(*one) for one in set(formats)}
                inputs[:] = [packed[one] for one in formats]
        for row in self._tabled:
            for i in range(count):
                tables[i, row] = self._table(batch, row, rows[i, row])
        c_program = self._c_program
        c_program.rounding = _ROUNDINGS[batch.rounding]
        outputs = np.empty((count, self._features.shape[0], self._program.result.size), dtype=np.int16)
        margin_sums = np.zeros((count, len(MarginSums._fields)), dtype=np.int64)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (rows, statics, tables, inputs)]
        flag = StopFlag()
        c_program.stop = flag.address

        def call() -> int:
            return int(
                self._kernel.library.kilotune_run(
                    ctypes.byref(c_program),
                    ctypes.c_int32(count),
                    *pointers,
                    ctypes.c_int64(self._features.shape[1]),
                    ctypes.c_void_p(outputs.ctypes.data),
                    ctypes.c_void_p(margin_sums.ctypes.data),
                )
            )

        # A thread takes longer to start than a small program takes to run.
        work = count * self._features.shape[0] * self._terms
        status = call() if work <= QUICK_TERMS else interruptible(call, flag.set)
        if status != 0:
            raise MemoryError(f"the simulator needs more memory for {self._program.name}")
        return outputs.astype(np.int64), [MarginSums(*sums) for sums in margin_sums.tolist()]

    def _describe(self, steps: Sequence[OperationInstance]) -> ctypes.Structure:
        offsets = np.full(len(self._numbers), -1, dtype=np.int64)
        total = 0
        for variable in self._program.variables:
            if variable.name in self._dynamic:
                offsets[self._numbers[variable.name]] = total
                total += variable.size
        input_variable = self._program.input
        result = self._program.result
        longest = max((step.sources[0].elements.shape[1] for step in steps if _is_dot(step)), default=1)
        return _Program(
            step_count=len(steps),
            variable_count=len(self._numbers),
            row_count=len(self._operations),
            block_count=-(-self._features.shape[0] // LANES),
            sample_count=self._features.shape[0],
            result_size=result.size,
            result_variable=self._numbers[result.variable],
            input_variable=self._numbers[input_variable.name] if input_variable else -1,
            result=self._keep(elements_of(result, {}).reshape(-1)),
            variable_offsets=self._keep(offsets),
            storage_elements=total,
            scratch_terms=longest,
            packed_pairs=self._packed_pairs,
            **self._contested(),
            steps=ctypes.addressof(self._c_steps),
        )

    def _contested(self) -> dict[str, int | None]:
        """The members of the C structure that say whose margins to sum."""
        contest = self._contest
        if contest is None:
            return {"contest_step": -1, "contest_variable": -1, "leaders": None, "rivals": None, "float_margins": None}
        return {
            "contest_step": contest.step,
            "contest_variable": self._numbers[contest.variable],
            "leaders": self._keep(contest.leaders),
            "rivals": self._keep(contest.rivals),
            "float_margins": self._keep(contest.units),
        }

    def _keep(self, array: np.ndarray) -> int:
        contiguous = np.ascontiguousarray(array)
        self._kept.append(contiguous)
        return int(contiguous.ctypes.data)

    def _operand(self, source: Source) -> ctypes.Structure:
        if source.variable is None:
            return _Operand(_LITERAL, -1, None)
        place = _DYNAMIC if source.variable in self._dynamic else _STATIC
        return _Operand(place, self._numbers[source.variable], self._keep(source.elements))

    def _step(self, step: OperationInstance) -> ctypes.Structure:
        select = isinstance(step.operation, ir.Select)
        ordered = (*step.sources[1:], step.sources[0]) if select else step.sources
        operands = [self._operand(source) for source in ordered]
        operands += [_Operand(_LITERAL, -1, None)] * (3 - len(operands))
        p, q, r, pack, packs = 0, 0, 0, 0, False
        if _is_dot(step):
            (p, q), r = step.sources[0].elements.shape, step.sources[1].elements.shape[1]
            if (operands[0].place == _STATIC) != (operands[1].place == _STATIC):
                pack, packs = self._pack(step, operands[1].place == _STATIC)
        window = step.sources[0].elements.shape[1] if step.operation.order in (ir.Order.WINDOWS, ir.Order.ROWS) else 0
        if isinstance(step.operation, ir.Select):
            window = int(step.operation.strict)
        count = step.sources[0].elements.size if isinstance(step.operation, ir.ArgMax) else step.out.size
        return _Step(
            opcode=self._opcodes[type(step.operation)],
            row=step.row,
            n=count,
            window=window,
            p=p,
            q=q,
            r=r,
            packs=packs,
            pack=pack,
            out_variable=self._numbers[step.operation.out.variable],
            out=self._keep(step.out),
            a=operands[0],
            b=operands[1],
            c=operands[2],
        )

    def _pack(self, step: OperationInstance, weights_right: bool) -> tuple[int, bool]:
        """Where the packed weights of a dot product start, and whether this step is the first to use them."""
        weights = step.sources[1 if weights_right else 0].elements
        key = (step.row, weights.tobytes())
        if key in self._pack_offsets:
            return self._pack_offsets[key], False
        length, outputs = weights.shape if weights_right else weights.shape[::-1]
        self._pack_offsets[key] = offset = self._packed_pairs
        self._packed_pairs += -(-outputs // TILE) * TILE * -(-length // 2)
        return offset, True

    def _static(self, column: int, name: str, bits: int, scale: int) -> int:
        key = (column, bits, scale)
        if key not in self._statics:
            values = quantise(self._parameters[name], bits, scale).astype(np.int16).reshape(-1)
            self._statics[key] = _Addressed.of(values)
        return self._statics[key].address

    def _input(self, bits: int, scale: int) -> int:
        """The features as blocks [blocks][features][LANES]; the last block is filled up with zeros."""
        key = (bits, scale)
        if key not in self._inputs:
            self._inputs[key] = _Addressed.of(self._laid_out(bits, scale))
        return self._inputs[key].address

    def _make_room(self, needed: set[tuple[int, int]]) -> None:
        """Forget features in formats that are not needed now, where all together would be too many."""
        if len(self._inputs.keys() | needed) * self._features.size * 2 > MOST_INPUT_BYTES:
            for key in self._inputs.keys() - needed:
                del self._inputs[key]

    def _laid_out(self, bits: int, scale: int) -> np.ndarray:
        """The features in a format, in blocks. Some samples after the other: whole arrays of float64 would take many times as much."""
        samples, features = self._features.shape
        blocks = np.zeros((-(-samples // LANES), features, LANES), dtype=np.int16)
        step = max(1, QUANTISED_TOGETHER // max(1, features * LANES)) * LANES
        for start in range(0, samples, step):
            values = quantise(self._features[start : start + step], bits, scale).astype(np.int16)
            padded = np.pad(values, ((0, -values.shape[0] % LANES), (0, 0))).reshape(-1, LANES, features)
            blocks[start // LANES : start // LANES + len(padded)] = padded.transpose(0, 2, 1)
        return blocks

    def _table(self, batch: FixedBatch, row: int, values: np.ndarray) -> int:
        """The function of the row for every argument that its operand can hold, scaled and wrapped."""
        operation = self._operations[row]
        assert isinstance(operation, ir.TableFunction)
        shift_a, shift_out, bits = (int(values[c]) for c in (Column.SHIFT_A, Column.SHIFT_OUT, Column.BITS))
        function = batch.functions[int(values[Column.FUNCTION])]
        key = (type(operation), id(function), shift_a, shift_out, bits, batch.rounding)
        if key not in self._tables:
            arguments = np.arange(1 << 16, dtype=np.int64).astype(np.uint16).astype(np.int16).astype(np.int64)
            scaled = scale_down(arguments, shift_a, batch.rounding)
            results = evaluate_function(operation, scaled, function, batch.rounding)
            entries = wrap(scale_down(results, shift_out, batch.rounding), bits).astype(np.int16)
            self._tables[key] = _Addressed.of(entries)
        return self._tables[key].address


def native_tail_sums(kernel: BatchKernel, margins: Int32Array, errors: Sequence[MarginErrors]) -> list[int]:
    """As `fidelity.tail_sums`."""
    biases = np.array([error.bias for error in errors])
    inverses = np.array([inverse(error.sigma) for error in errors])
    sums, table = np.empty(len(errors), dtype=np.int64), normal_tails()
    margins = np.ascontiguousarray(margins)
    kernel.library.kilotune_tail_sums(
        ctypes.c_int32(len(errors)),
        ctypes.c_int64(len(margins)),
        *(ctypes.c_void_p(array.ctypes.data) for array in (margins, biases, inverses, table)),
        ctypes.c_int32(LAST),
        ctypes.c_void_p(sums.ctypes.data),
    )
    return sums.tolist()


class _Addressed(NamedTuple):
    """An array, kept alive, and where it is: NumPy takes microseconds to say so, and every candidate asks."""

    array: np.ndarray
    address: int

    @classmethod
    def of(cls, array: np.ndarray) -> _Addressed:
        return cls(array, int(array.ctypes.data))


def _is_dot(step: OperationInstance) -> bool:
    return step.operation.order is ir.Order.PRODUCTS


def _case(kind: type[ir.Operation]) -> str:
    """The kernel's name of what executes such operations: all products are one, and all functions from tables."""
    if kind.order is ir.Order.PRODUCTS:
        return "Dot"
    return "Table" if issubclass(kind, ir.TableFunction) else kind.__name__
