"""The steps of a program as the compiled kernel reads them: an array of C structures, a loop before the steps in it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.looped_steps import Body, LoopedSteps, RepeatedSteps, Step, executions_of, moved, offsets
from kilotune.codegen.straight_line import OperationInstance, Source
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.fixed_point.formatted import FormattedData, Weights
from kilotune.evaluators.fixed_point.kernel import BatchKernel

_LITERAL, _STATIC, _DYNAMIC = range(3)

(_Operand, _Step) = structures(Path(__file__).with_name("kernel.c"), "Operand", "Step")

LOOP = "Loop"
"""What the kernel calls a loop among its operations."""

MOST_PACKED = 1 << 20
"""How many weights of one step are packed, in all rounds of the loops that bring others; more are read one by one."""


class CompiledSteps:
    """`numbers`: of variables; `dynamic`: those that are no parameters. Weights of products are packed in `data`."""

    def __init__(
        self,
        kernel: BatchKernel,
        steps: LoopedSteps,
        numbers: Mapping[str, int],
        dynamic: AbstractSet[str],
        data: FormattedData,
    ) -> None:
        kinds = {type(step.first.operation) for step, _ in steps.places}
        self._opcodes = {kind: kernel.opcode(_case(kind)) for kind in kinds}
        self._loop_opcode = kernel.opcode(LOOP)
        self._numbers, self._dynamic, self._data = numbers, dynamic, data
        self._kept: list[np.ndarray] = []  # what the C structures point to
        self._records: list[dict[str, Any]] = []
        self.most_loops = max((len(counts) for _, counts in steps.places), default=0)
        firsts = [step.first for step, _ in steps.places]
        self.longest_sum = max((one.sources[0].elements.shape[1] for one in firsts if _is_dot(one)), default=1)
        self.starts_of_parts: list[int] = []
        """Where each part of the body begins among the structures."""
        self._executed = [0]
        for part in steps.body:
            self.starts_of_parts.append(len(self._records))
            self._add((part,), {})
            self._records[self.starts_of_parts[-1]]["executed"] = self._executed[-1]
            self._executed.append(self._executed[-1] + executions_of((part,)))
        self.work_of_parts = [work_of((part,)) for part in steps.body]
        """Products and other elements that each part computes for a sample."""
        self._array = (_Step * len(self._records))(*(_Step(**record) for record in self._records))

    def __len__(self) -> int:
        return len(self._records)

    @property
    def address(self) -> int:
        """Where the first structure is in memory."""
        return ctypes.addressof(self._array)

    def part_of(self, executed: int | None) -> int:
        """The part of the body that has the step of that number among all that are executed; None is the last one."""
        last = self._executed[-1] - 1 if executed is None else executed
        return max(int(np.searchsorted(self._executed, last, side="right")) - 1, 0)

    def _add(self, body: Body, counts: Mapping[str, int]) -> None:
        for part in body:
            if isinstance(part, Step):
                self._records.append(self._record(part, counts))
                continue
            header: dict[str, Any] = {"opcode": self._loop_opcode, "n": part.count, "pack": -1}
            self._records.append(header)
            first = len(self._records)
            self._add(part.body, {**counts, part.index: part.count})
            header["window"] = len(self._records) - first

    def _record(self, step: Step, counts: Mapping[str, int]) -> dict[str, Any]:
        one, operation = step.first, step.first.operation
        places = list(range(len(one.sources)))
        ordered = [*places[1:], places[0]] if isinstance(operation, ir.Select) else places
        operands = [self._operand(one.sources[place]) for place in ordered]
        operands += [_Operand(_LITERAL, -1, None)] * (3 - len(operands))
        p, q, r, pack = 0, 0, 0, -1
        pack_moves: dict[str, int] = {}
        if _is_dot(one):
            (p, q), r = one.sources[0].elements.shape, one.sources[1].elements.shape[1]
            if (operands[0].place == _STATIC) != (operands[1].place == _STATIC):
                pack, pack_moves = self._packed(step, 0 if operands[0].place == _STATIC else 1, counts)
        factors = [dict(step.out_moves), *(dict(step.moves[place]) for place in ordered)]
        factors += [{}] * (4 - len(factors)) + [pack_moves]
        return {
            "opcode": self._opcodes[type(operation)],
            "row": one.row,
            "n": one.sources[0].elements.size if isinstance(operation, ir.ArgMax) else one.out.size,
            "window": _window(one),
            "p": p,
            "q": q,
            "r": r,
            "pack": pack,
            "out_variable": self._numbers[operation.out.variable],
            "out": self._keep(one.out),
            "a": operands[0],
            "b": operands[1],
            "c": operands[2],
            "moves": self._moves(factors, counts) if step.indices else None,
        }

    def _moves(self, factors: Sequence[Mapping[str, int]], counts: Mapping[str, int]) -> int:
        """[loops, what moves]"""
        return self._keep(np.array([[one.get(name, 0) for one in factors] for name in counts], dtype=np.int32))

    def _packed(self, step: Step, static: int, counts: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        """The number of the packed weights in the first round, and by how much it grows with the loops that bring others."""
        source, factors = step.first.sources[static], dict(step.moves[static])
        moving = {name: count for name, count in counts.items() if factors.get(name)}
        if source.elements.size * ir.count_elements(tuple(moving.values())) > max(MOST_PACKED, source.elements.size):
            return -1, {}
        elements = source.elements.T if static == 0 else source.elements
        distances = offsets(step.moves[static], moving).tolist()
        weights = [Weights(source.variable or "", moved(elements, distance)) for distance in distances]
        strides = np.cumprod([1, *reversed(list(moving.values()))])[:-1][::-1]
        return self._data.pack_numbers(weights), dict(zip(moving, map(int, strides), strict=True))

    def _operand(self, source: Source) -> ctypes.Structure:
        if source.variable is None:
            return _Operand(_LITERAL, -1, None)
        place = _DYNAMIC if source.variable in self._dynamic else _STATIC
        return _Operand(place, self._numbers[source.variable], self._keep(source.elements))

    def _keep(self, array: np.ndarray) -> int:
        contiguous = np.ascontiguousarray(array)
        self._kept.append(contiguous)
        return int(contiguous.ctypes.data)


def _window(one: OperationInstance) -> int:
    """Elements of a window or row, or whether a choice is strict."""
    if isinstance(one.operation, ir.Select):
        return int(one.operation.strict)
    windowed = one.operation.order in (ir.Order.WINDOWS, ir.Order.ROWS)
    return one.sources[0].elements.shape[1] if windowed else 0


def work_of(body: Body) -> int:
    return sum(
        part.count * work_of(part.body) if isinstance(part, RepeatedSteps) else _terms(part.first) for part in body
    )


def _terms(one: OperationInstance) -> int:
    """Products and other elements that a step computes for a sample."""
    return one.out.size * (one.sources[0].elements.shape[1] if _is_dot(one) else 1)


def _is_dot(one: OperationInstance) -> bool:
    return one.operation.order is ir.Order.PRODUCTS


def _case(kind: type[ir.Operation]) -> str:
    """The kernel's name of what executes such operations: all products are one, and all functions from tables."""
    if kind.order is ir.Order.PRODUCTS:
        return "Dot"
    return "Table" if issubclass(kind, ir.TableFunction) else kind.__name__
