"""Programs and batches of candidates as the compiled kernel wants them: flat C structures and integer arrays."""

from __future__ import annotations

import bisect
import ctypes
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.distributed_loops import distributed
from kilotune.codegen.first_fit import Block, first_fit
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.hazards import find_hazard
from kilotune.codegen.live_ranges import live_ranges
from kilotune.codegen.looped_steps import LoopedSteps, RepeatedSteps, executions_of
from kilotune.codegen.straight_line import elements_of
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.fixed_point.compiled_steps import CompiledSteps, work_of
from kilotune.evaluators.fixed_point.formatted import (
    FormattedData,
    ParameterAddresses,
    StoredFormat,
    TableKey,
    address_of,
    format_numbers,
    knows_beyond_16_bits,
)
from kilotune.evaluators.fixed_point.kernel import BatchKernel
from kilotune.evaluators.fixed_point.known_runs import KnownRuns, row_keys
from kilotune.evaluators.fixed_point.known_values import (
    WORTH_KEEPING,
    KnownValues,
    values_with_room,
    without_small_groups,
)
from kilotune.evaluators.fixed_point.label_limits import LabelLimits
from kilotune.evaluators.fixed_point.margins import Contest, MarginSums
from kilotune.evaluators.fixed_point.running_batch import RunningBatch
from kilotune.evaluators.fixed_point.sample_blocks import LANES, WORTH_COUNTING, lanes_of_block
from kilotune.evaluators.fixed_point.step_groups import StepGroup, grouped_parts, resumable_parts, separate_parts
from kilotune.evaluators.interruptible import StopFlag, interruptible

_TABLE_COLUMNS = np.array([Column.SHIFT_A, Column.SHIFT_OUT, Column.BITS, Column.FUNCTION])


_Program, _Batch, _Group = structures(Path(__file__).with_name("kernel.c"), "Program", "Batch", "Group")

MOST_STORAGE_BYTES = 32 << 20
"""How much the temporaries of a block of samples take, each with a place of its own; more than that shares places."""

QUICK_TERMS = 500_000_000
"""Products and other elements, of all samples and candidates, in some hundredths of a second; a longer call can be ended."""


class NativeProgram:
    """One program with its data, prepared for the kernel. Candidates then cost no more than their integers."""

    def __init__(
        self,
        kernel: BatchKernel,
        program: ir.Program,
        steps: LoopedSteps,
        parameters: Mapping[str, np.ndarray],
        features: np.ndarray,
        contest: Contest | None = None,
    ) -> None:
        self._kernel = kernel
        self._program = program
        self._features = features
        stored = program.variable(program.result.variable).role is not ir.Role.PARAMETER
        self._numbers = {v.name: i for i, v in enumerate(program.variables)}
        self._input_column = None if program.input is None else self._numbers[program.input.name]
        self._dynamic = {v.name for v in program.variables if v.role is not ir.Role.PARAMETER}
        scored = contest is None or contest.variable in self._dynamic
        self._runs = stored and scored and find_hazard(steps) is None
        steps, contest = split_loops(steps, contest)
        offsets, elements, shared = block_storage(steps, kernel.most_bits // 8)
        values = elements + features.shape[1]
        self.lanes = lanes_of_block(
            len(features), values, kernel.most_bits // 8, work_of(steps.body), kernel.most_lanes
        )
        self._contest = contest
        self._kept: list[np.ndarray] = []  # what the C structures point to
        self._known_runs = KnownRuns()
        self._data = FormattedData(parameters, features, kernel.value, self.lanes)
        self._operations = tuple(ir.operations(program.body))
        self._tabled = [(row, o) for row, o in enumerate(self._operations) if isinstance(o, ir.TableFunction)]
        self._c_steps = CompiledSteps(kernel, steps, self._numbers, self._dynamic, self._data)
        work = np.cumsum([0, *self._c_steps.work_of_parts])
        self._terms = int(work[-1])
        deciding = self._c_steps.part_of(None if contest is None else contest.step)
        parts = np.zeros(1, dtype=np.int64) if shared else resumable_parts(program, steps, deciding)
        self.own_work = float((work[-1] - work[parts]).sum()) / len(parts) * features.shape[0]
        """The share of `_terms` on all samples that a candidate does not have in common with one that differs from it in an operation."""
        groups, self._known_values = self._grouped(steps, shared, deciding)
        makers = {name: number for number, group in enumerate(groups) for name in group.written}
        self._c_groups = (_Group * len(groups))(*(self._group(group, deciding, makers) for group in groups))
        self._sizes = np.array([steps.size(v.name) for v in program.variables], dtype=np.int64)
        self._most_kept = max((sum(map(steps.size, group.kept)) for group in groups), default=0)
        self._c_program = self._describe(offsets, elements)
        self._parameter_addresses = ParameterAddresses(program, self._data)

    def _grouped(self, steps: LoopedSteps, shared: bool, deciding: int) -> tuple[tuple[StepGroup, ...], KnownValues]:
        """Steps that run together, and what keeps from call to call what they have come to. `shared`: whether temporaries share places."""
        # where temporaries share places, what another candidate has left behind is there only if it is the same from end to end
        boundaries = [0, len(steps.body)] if shared else separate_parts(steps).tolist()
        beside = () if self._contest is None else ((deciding, self._contest.variable),)
        groups = grouped_parts(steps, boundaries, beside)
        kept = sum(steps.size(name) for group in groups for name in self._stored(group))
        worth = not shared and self._terms >= WORTH_KEEPING * kept
        room = values_with_room(kept * len(self._features) * self._kernel.most_bits // 8)
        known_values = KnownValues(room if worth else 0)
        if known_values.count:
            groups = grouped_parts(steps, without_small_groups(boundaries, self._c_steps.work_of_parts), beside)
        return groups, known_values

    def supports(self, batch: FixedBatch) -> bool:
        """Whether the kernel has the widths of the batch, and its order of reads and writes is right."""
        fits = batch.most_bits <= self._kernel.most_bits
        tabled = self._kernel.most_bits == 16 or all(map(knows_beyond_16_bits, batch.functions))
        return self._runs and fits and tabled

    def run(self, batch: FixedBatch) -> IntArray:
        """Outputs [candidates, samples, elements of the result], as `run_reference`."""
        return self.run_contest(batch)[0].astype(np.int64)

    def run_contest(self, batch: FixedBatch) -> tuple[npt.NDArray[np.signedinteger], list[MarginSums]]:
        """Outputs, and a contest's sums of each candidate, as `run_reference_contest`; zeros without a contest."""
        running = self.run_limited(batch)
        return running.outputs, running.margin_sums(range(len(batch)))

    def run_limited(self, batch: FixedBatch, limits: LabelLimits | None = None) -> RunningBatch:
        """The batch when its candidates have met their last sample, or are out by the limits."""
        running = self.prepare(batch)
        keys = self._keys(batch, running)
        known = self._known_runs.find(keys)
        running.take_over(known)
        unknown = [i for i in range(len(batch)) if i not in known]
        if limits is not None:
            running.hold_against(limits, list(known))
        running.go_on(unknown, self.blocks)
        met = None if limits is None else running.met.tolist()
        whole = unknown if met is None else [i for i in unknown if met[i] == len(self._features)]
        self._known_runs.add([keys[i] for i in whole], *running.copies(whole))
        return running

    @property
    def counts_labels(self) -> bool:
        """Whether candidates may have `LabelLimits`, which is worth it: not where one is run beside what another one has left behind."""
        return self._known_values.count > 0 and self.own_work >= WORTH_COUNTING

    def _keys(self, batch: FixedBatch, running: RunningBatch) -> list[bytes]:
        """All that the outputs of a candidate hang on. Features are known by their format: where they are, others may be later."""
        arrays = [running.arrays[name] for name in ("statics", "tables", "input_formats")]
        return row_keys(batch.rounding.name.encode(), batch.rows, *arrays)

    def prepare(self, batch: FixedBatch) -> RunningBatch:
        """The batch before its first sample."""
        formats = format_numbers(batch)
        statics, packs = self._parameter_addresses.of(batch, formats)
        inputs, input_formats = self._inputs(batch, formats)
        count, samples = len(batch), self._features.shape[0]
        outputs = np.empty((count, samples, self._program.result.size), dtype=self._kernel.value)
        words = 1 if self._kernel.most_bits == 16 else 2
        margin_sums = np.zeros((count, len(MarginSums._fields), words), dtype=np.int64)
        arrays: dict[str, np.ndarray] = {"rows": batch.rows, "statics": statics, "packs": packs, "inputs": inputs}
        arrays |= {"tables": self._tables(batch), "outputs": outputs, "margin_sums": margin_sums}
        arrays |= {"groups_run": np.zeros(1, dtype=np.int64), "input_formats": input_formats}
        addresses = {name: address_of(array) for name, array in arrays.items()}
        c_batch = _Batch(known_values=self._known_values.count, **addresses)
        return RunningBatch(self, batch.rounding, c_batch, arrays)

    def count_labels(self, c_batch: ctypes.Structure, rounding: Rounding) -> None:
        """Count the labels of candidates whose outputs are known, as the structure says."""
        library = self._kernel.library(rounding, self.lanes)
        library.kilotune_count_labels(ctypes.byref(self._c_program), ctypes.byref(c_batch))

    @property
    def pack_count(self) -> int:
        """How many different weights of products are packed, in all rounds of loops."""
        return self._data.pack_count

    @property
    def blocks(self) -> int:
        """How many blocks of `lanes` samples there are; the last one may have fewer."""
        return int(self._c_program.block_count)

    def run_blocks(self, c_batch: ctypes.Structure, rounding: Rounding) -> None:
        """Run candidates on blocks of samples, as the structure says. MemoryError."""
        c_program, flag = self._c_program, StopFlag()
        c_program.stop = flag.address
        library = self._kernel.library(rounding, self.lanes)

        def call() -> int:
            return int(library.kilotune_run(ctypes.byref(c_program), ctypes.byref(c_batch)))

        known = self._known_values
        memory = known.take(rounding, library, c_program) if known.count else None
        c_batch.memory = None if memory is None else address_of(memory)
        # A thread takes longer to start than a small program takes to run.
        work = c_batch.count * (c_batch.end_block - c_batch.first_block) * self.lanes * self._terms
        status = call() if work <= QUICK_TERMS else interruptible(call, flag.set)
        if status != 0:
            raise MemoryError(f"the simulator needs more memory for {self._program.name}")
        if memory is not None:
            known.give_back(rounding, memory)

    def _inputs(self, batch: FixedBatch, formats: IntArray) -> tuple[IntArray, IntArray]:
        """Where the kernel finds features, and a number of their format [candidates]. `formats` [candidates, variables]: such numbers."""
        column = self._input_column
        if column is None:
            return np.zeros(len(batch), dtype=np.int64), np.zeros(len(batch), dtype=np.int64)
        asked = list(zip(batch.bits[:, column].tolist(), batch.scales[:, column].tolist(), strict=True))
        different: set[StoredFormat] = set(asked)
        self._data.make_room(different)
        held = {one: self._data.input(one) for one in different}
        return np.array([held[one] for one in asked], dtype=np.int64), formats[:, column].copy()

    def _tables(self, batch: FixedBatch) -> IntArray:
        """Where the kernel finds tables [candidates, operations]."""
        tables = np.zeros((len(batch), len(self._operations)), dtype=np.int64)
        for row, operation in self._tabled:
            widths = batch.bits[:, self._numbers[operation.a.variable]]
            columns = np.concatenate([batch.rows[:, row].take(_TABLE_COLUMNS, axis=1), widths[:, None]], axis=1)
            keys = list(map(tuple, columns.tolist()))
            found = {
                key: self._data.table(operation, TableKey(*key), batch.functions[key[3]], batch.rounding)
                for key in set(keys)
            }
            tables[:, row] = [found[key] for key in keys]
        return tables

    def _stored(self, group: StepGroup) -> list[str]:
        """What is of use of a group's variables when it has run."""
        return [name for name in group.written if name in group.kept or name == self._program.result.variable]

    def _group(self, group: StepGroup, deciding: int, makers: Mapping[str, int]) -> ctypes.Structure:
        starts = [*self._c_steps.starts_of_parts, len(self._c_steps)]
        given = self._program.input
        lists = {
            "rows": group.rows,
            "statics": [self._numbers[name] for name in group.reads if name not in self._dynamic],
            "reads": [
                self._numbers[n] for n in group.reads if n in self._dynamic and (given is None or n != given.name)
            ],
            "kept": [self._numbers[name] for name in group.kept],
            "stored": [self._numbers[name] for name in self._stored(group)],
            "sources": sorted({makers[name] for name in group.reads if name in makers}),
        }
        return _Group(
            first_step=starts[group.first],
            end_step=starts[group.end],
            row_count=len(group.rows),
            static_count=len(lists["statics"]),
            read_count=len(lists["reads"]),
            kept_count=len(lists["kept"]),
            stored_count=len(lists["stored"]),
            source_count=len(lists["sources"]),
            decides=self._contest is not None and group.first <= deciding < group.end,
            work=sum(self._c_steps.work_of_parts[group.first : group.end]),
            reads_input=given is not None and given.name in group.reads,
            **{name: self._keep(np.array(numbers, dtype=np.int32)) for name, numbers in lists.items()},
        )

    def _describe(self, offsets: IntArray, total: int) -> ctypes.Structure:
        input_variable = self._program.input
        result = self._program.result
        return _Program(
            step_count=len(self._c_steps),
            most_loops=self._c_steps.most_loops,
            variable_count=len(self._numbers),
            row_count=len(self._operations),
            block_count=-(-self._features.shape[0] // self.lanes),
            sample_count=self._features.shape[0],
            result_size=result.size,
            result_variable=self._numbers[result.variable],
            input_variable=self._numbers[input_variable.name] if input_variable else -1,
            result=self._keep(elements_of(result, {}).reshape(-1)),
            variable_offsets=self._keep(offsets),
            variable_elements=self._keep(self._sizes),
            storage_elements=total,
            most_kept=self._most_kept,
            input_elements=self._features.shape[1],
            scratch_terms=self._c_steps.longest_sum,
            pack_count=self._data.pack_count,
            **self._contested(),
            steps=self._c_steps.address,
            group_count=len(self._c_groups),
            groups=ctypes.addressof(self._c_groups),
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


def split_loops(steps: LoopedSteps, contest: Contest | None) -> tuple[LoopedSteps, Contest | None]:
    """`distributed` where there is room for all variables at once, and the contest by the numbers that steps have then."""
    ends = itertools.accumulate(executions_of((part,)) for part in steps.body)
    deciding = None
    if contest is not None:
        deciding = steps.body[bisect.bisect_right(list(ends), contest.step)]
    if isinstance(deciding, RepeatedSteps) or block_storage(steps)[2]:
        return steps, contest
    split = distributed(steps, () if contest is None else (contest.variable,))
    if contest is None:
        return split, None
    before = itertools.takewhile(lambda part: part is not deciding, split.body)
    return split, replace(contest, step=executions_of(tuple(before)))


def block_storage(steps: LoopedSteps, element_bytes: int = 2) -> tuple[IntArray, int, bool]:
    """Where the temporaries of a block of samples lie: the place of the first element by variable (-1 for those that are none), the
    elements of all, and whether temporaries share places. They do, where they are not live together, if they would take more than
    MOST_STORAGE_BYTES otherwise."""
    program = steps.program
    sizes = {v.name: steps.size(v.name) for v in program.variables if v.role is ir.Role.TEMPORARY}
    starts = dict(zip(sizes, itertools.accumulate(sizes.values(), initial=0), strict=False))
    total = sum(sizes.values())
    shared = total * LANES * element_bytes > MOST_STORAGE_BYTES
    if shared:
        placed = first_fit({name: Block(sizes[name], live) for name, live in live_ranges(program).items()})
        starts, total = dict.fromkeys(sizes, 0) | dict(placed.offsets), placed.peak_bytes
    return np.array([starts.get(v.name, -1) for v in program.variables], dtype=np.int64), total, shared
