"""The batch simulator: all samples of a data set through whole batches of candidates, with the fastest execution there is."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps
from kilotune.evaluators.fixed_point.fidelity import LeastSpread, MarginErrors, least_tail_sums, tail_sums
from kilotune.evaluators.fixed_point.kernel import BatchKernel, load_kernel, load_wide_kernel
from kilotune.evaluators.fixed_point.label_limits import LabelLimits
from kilotune.evaluators.fixed_point.margins import Contest, MarginSums
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.native_tails import native_least_tail_sums, native_tail_sums
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from kilotune.evaluators.fixed_point.running_batch import RunningBatch


class Backend(enum.Enum):
    """Which execution of the fixed-point semantics runs."""

    AUTO = "auto"  # the compiled kernel where there is a C compiler, else NumPy
    NATIVE = "native"
    NUMPY = "numpy"


@dataclass
class Simulator:
    """Runs candidates of one program on one data set. Pickles without its caches, so workers can receive it."""

    program: ir.Program
    parameters: Mapping[str, FloatArray]
    features: FloatArray  # [samples, features]
    backend: Backend = Backend.AUTO
    contest: Contest | None = None
    _steps: LoopedSteps | None = field(default=None, init=False, repr=False)
    _native: dict[int, NativeProgram] = field(default_factory=dict, init=False, repr=False)  # by the widest variable

    def run(self, batch: FixedBatch) -> IntArray:
        """Outputs [candidates, samples, elements of the result]: labels, or integers at the result's scale."""
        native = self._native_program(batch)
        if native is not None:
            return native.run(batch)
        return run_reference(batch, self.parameters, self.features, self.steps)

    def run_contest(self, batch: FixedBatch) -> tuple[npt.NDArray[np.signedinteger], list[MarginSums]]:
        """Outputs as `run`, and the contest's sums of each candidate. ValueError without a contest."""
        if self.contest is None:
            raise ValueError("margins belong to a contest, and this simulator has none")
        native = self._native_program(batch)
        if native is not None:
            return native.run_contest(batch)
        return run_reference_contest(batch, self.parameters, self.features, self.steps, self.contest)

    def tail_sums(self, errors: Sequence[MarginErrors]) -> list[int]:
        """As `fidelity.tail_sums` over the contest's margins. ValueError without a contest."""
        if self.contest is None:
            raise ValueError("margins belong to a contest, and this simulator has none")
        kernel = None if self._by_definition else load_kernel()
        margins = self.contest.ascending
        return tail_sums(margins, errors) if kernel is None else native_tail_sums(kernel, margins, errors)

    def least_tail_sums(self, spreads: Sequence[LeastSpread]) -> list[int]:
        """As `fidelity.least_tail_sums` over the contest's margins. ValueError without a contest."""
        if self.contest is None:
            raise ValueError("margins belong to a contest, and this simulator has none")
        kernel = None if self._by_definition else load_kernel()
        margins = self.contest.ascending
        return least_tail_sums(margins, spreads) if kernel is None else native_least_tail_sums(kernel, margins, spreads)

    def prepare(self, batch: FixedBatch) -> RunningBatch | None:
        """The batch before its first sample, to be run block by block; None where the kernel does not run it."""
        native = self._native_program(batch)
        return None if native is None else native.prepare(batch)

    def own_work(self, batch: FixedBatch) -> float:
        """Products and other elements of all samples that a candidate of the batch does not have in common with one that differs from it in
        an operation; 0 where the kernel does not run it."""
        native = self._native_program(batch)
        return 0.0 if native is None else native.own_work

    def run_limited(self, batch: FixedBatch, limits: LabelLimits) -> RunningBatch:
        """The batch when its candidates have met their last sample, or are out by the limits. ValueError where labels are not counted."""
        native = self._native_program(batch)
        if native is None or not native.counts_labels:
            raise ValueError("candidates have limits where the kernel counts labels, and here it does not")
        return native.run_limited(batch, limits)

    def counts_labels(self, batch: FixedBatch) -> bool:
        """Whether candidates of the batch may have `LabelLimits`."""
        native = self._native_program(batch)
        return native is not None and native.counts_labels

    @cached_property
    def may_count_labels(self) -> bool:
        """Whether those of 8 and 16 bits may."""
        kernel = None if self._by_definition else load_kernel()
        return kernel is not None and self._native_of(kernel).counts_labels

    @property
    def description(self) -> str:
        """Which execution runs, for results and reports."""
        kernel = None if self._by_definition else load_kernel()
        return f"C kernel ({kernel.compiler}, {kernel.vector_unit})" if kernel else "NumPy"

    @cached_property
    def _by_definition(self) -> bool:
        """Whether NumPy runs the program: a quantised one is one candidate, which runs once."""
        return self.backend is Backend.NUMPY or ir.is_quantised(self.program)

    def of_contest(self, contest: Contest | None) -> Simulator:
        """A simulator of the same program and data that also sums the margins of `contest`."""
        made = dataclasses.replace(self, contest=contest)
        made._steps = self._steps
        return made

    @property
    def steps(self) -> LoopedSteps:
        """The steps of the program."""
        if self._steps is None:
            self._steps = loop_steps(self.program)
        return self._steps

    def _native_program(self, batch: FixedBatch) -> NativeProgram | None:
        """What runs a batch compiled; None where nothing does."""
        if self._by_definition:
            return None
        kernel = load_wide_kernel() if batch.most_bits > 16 else load_kernel()
        if kernel is None:
            if self.backend is Backend.NATIVE:
                raise RuntimeError("no working C compiler was found: install gcc or set CC")
            return None
        native = self._native_of(kernel)
        return native if native.supports(batch) else None

    def _native_of(self, kernel: BatchKernel) -> NativeProgram:
        native = self._native.get(kernel.most_bits)
        if native is None:
            native = NativeProgram(kernel, self.program, self.steps, self.parameters, self.features, self.contest)
            self._native[kernel.most_bits] = native
        return native

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_steps": None, "_native": {}}
