"""The batch simulator: all samples of a data set through whole batches of candidates, with the fastest execution there is."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import FloatArray, IntArray
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.straight_line import OperationInstance, unroll
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference


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
    _steps: tuple[OperationInstance, ...] | None = field(default=None, init=False, repr=False)
    _native: NativeProgram | None = field(default=None, init=False, repr=False)

    def run(self, batch: FixedBatch) -> IntArray:
        """Outputs [candidates, samples, elements of the result]: labels, or integers at the result's scale."""
        native = self._native_program()
        if native is not None and native.supports(batch):
            return native.run(batch)
        return run_reference(batch, self.parameters, self.features, self._unrolled())

    @property
    def description(self) -> str:
        """Which execution runs, for results and reports."""
        kernel = None if self.backend is Backend.NUMPY else load_kernel()
        # programs of other widths run in NumPy whatever there is
        return f"C kernel for 8 and 16 bits ({kernel.compiler}, {kernel.vector_unit})" if kernel else "NumPy"

    def _unrolled(self) -> tuple[OperationInstance, ...]:
        if self._steps is None:
            self._steps = unroll(self.program)
        return self._steps

    def _native_program(self) -> NativeProgram | None:
        if self.backend is Backend.NUMPY:
            return None
        if self._native is None:
            kernel = load_kernel()
            if kernel is None:
                if self.backend is Backend.NATIVE:
                    raise RuntimeError("no working C compiler was found: install gcc or set CC")
                return None
            self._native = NativeProgram(kernel, self.program, self._unrolled(), self.parameters, self.features)
        return self._native

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_steps": None, "_native": None}
