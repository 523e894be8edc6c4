"""Batches of candidates of random fixed-point programs, run and placed: values overflow, scales lie near and far."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.interference import find_interference
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.placement import Placer
from kilotune.evaluators.fixed_point import known_values, native
from kilotune.evaluators.fixed_point.first_fit import compiled_first_fit
from kilotune.evaluators.fixed_point.kernel import load_kernel, load_wide_kernel
from kilotune.evaluators.fixed_point.label_limits import LabelLimits
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.sample_blocks import LANES, MANY_LANES
from tests.codegen.emit.random_programs import RandomModel, random_models, shiftry_batches

LAZY = settings(max_examples=2, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def _run(model: RandomModel, data: st.DataObject) -> None:
    steps, batch = loop_steps(model.program), data.draw(shiftry_batches(model.program))
    contest = float_contest(model.program, model.parameters, model.features, steps)[1]
    for kernel in (load_kernel(), load_wide_kernel()):
        assert kernel is not None
        lanes = data.draw(st.sampled_from((LANES, MANY_LANES)))
        room, small = data.draw(st.sampled_from((0, 1, 8, 12))), data.draw(st.sampled_from((0, 20)))
        with (
            mock.patch.object(native, "lanes_of_block", return_value=lanes),
            mock.patch.object(native, "values_with_room", return_value=room),
            mock.patch.object(native, "WORTH_KEEPING", 0),
            mock.patch.object(known_values, "SMALL_WORK", small),
        ):
            made = NativeProgram(kernel, model.program, steps, model.parameters, model.features, contest)
        if made.supports(batch):
            samples, count = len(model.features), len(batch)
            if room and model.program.result.size == 1:
                most = data.draw(st.lists(st.integers(-1, samples), min_size=2 * count, max_size=2 * count))
                limits = LabelLimits(
                    np.zeros((2, samples), dtype=np.int16), np.array(most, dtype=np.int32).reshape(count, 2)
                )
                for _ in range(2):  # labels of a run, and of what is known
                    made.run_limited(batch, limits)
            made.run_contest(batch)
            for _ in range(3):  # whatever candidates that mean the same have come to, what has been kept is read
                running = made.prepare(batch)
                running.go_on(range(len(batch)), running.blocks)


def _place(model: RandomModel, data: st.DataObject) -> None:
    names = [variable.name for variable in model.program.variables]
    widths = st.fixed_dictionaries({name: st.sampled_from((8, 16, 32)) for name in names})
    compiled_first_fit(Placer(find_interference(model.program, data.draw(st.booleans()))))(
        [data.draw(widths) for _ in range(3)]
    )


def _asked(random: Random, ask: Callable[[RandomModel, st.DataObject], None]) -> None:
    seed(random.getrandbits(32))(LAZY(given(random_models(), st.data())(ask)))()


def compile_all() -> None:
    """Compile both kernels, one library after another, before any case is asked: with sanitizers each takes a minute of a free processor.
    RuntimeError where the compiler fails or takes too long, which Hypothesis would look for a smaller program for, compiling anew each
    time."""
    for kernel in (load_kernel(), load_wide_kernel()):
        if kernel is None:
            raise RuntimeError("The compiler fails at the kernel, or takes longer than it is waited for.")
        for rounding, lanes in itertools.product(Rounding, (LANES, MANY_LANES)):
            kernel.library(rounding, lanes)


def kernel_case(random: Random) -> None:
    compile_all()
    _asked(random, _run)


def first_fit_case(random: Random) -> None:
    _asked(random, _place)


CASES = (kernel_case, first_fit_case)
