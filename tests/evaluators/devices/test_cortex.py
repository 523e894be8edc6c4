"""Simulated Cortex-M: outputs are the batch simulator's, instructions are counted one by one, cycles follow the manuals' tables."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.preshift import preshifted_rows
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.divergence import DivergenceError, run_checked
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.simulated import DeviceError
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches
from tests.evaluators.devices.candidates import BUNDLES, bundled
from tests.evaluators.devices.hand_written import NO_SAMPLE, hand_written
from tests.evaluators.devices.toolchains import needs_cortex

pytestmark = [needs_cortex, pytest.mark.slow]
PROCESSORS = ("cortex-m0plus", "cortex-m4", "cortex-m55")


def counts(body: str, processor: str) -> tuple[int, int]:
    """(instructions, approximate cycles) beyond those of an empty inference."""
    empty = CortexTarget(processor).run(hand_written(""), NO_SAMPLE)[1]
    full = CortexTarget(processor).run(hand_written(body), NO_SAMPLE)[1]
    assert full.instructions is not None
    assert empty.instructions is not None
    return int(full.instructions[0] - empty.instructions[0]), int(full.cycles[0] - empty.cycles[0])


@pytest.mark.parametrize(
    ("assembly", "instructions", "m0plus", "m4"),
    [
        ("nop\\n nop\\n nop", 3, 3, 3),
        ("push {r0, r1, r2}\\n pop {r0, r1, r2}", 2, 8, 8),
        ("mov r0, sp\\n ldr r1, [r0]\\n ldr r2, [r0]", 3, 5, 4),  # the M4 pipelines the second load
        ("b 1f\\n nop\\n 1:", 1, 2, 3),
        ("cmp r0, r0\\n beq 1f\\n nop\\n 1:", 2, 3, 4),
        ("cmp r0, r0\\n bne 1f\\n 1:", 2, 2, 2),
    ],
)
def test_cycles_follow_the_manual(assembly: str, instructions: int, m0plus: int, m4: int) -> None:
    body = f'__asm__ volatile ("{assembly}" ::: "r0", "r1", "r2", "cc", "memory");'
    assert counts(body, "cortex-m0plus") == (instructions, m0plus)
    assert counts(body, "cortex-m4") == (instructions, m4)


@pytest.mark.parametrize(
    ("assembly", "cycles"),
    [
        ("smlad r0, r0, r0, r0\\n smlad r0, r0, r0, r0", 2),
        ("smlabb r0, r0, r0, r0\\n sxtb16 r0, r0, ror #8\\n pkhbt r0, r0, r0, lsl #16", 3),
        ("mla r0, r0, r0, r0\\n mul r0, r0, r0", 3),
        ("mov r0, sp\\n ldr r1, [r0]\\n ldr r2, [r0, #1]", 5),  # 4 when aligned
        ("mov r0, sp\\n ldrsh r1, [r0, #-1]", 4),
        ("mov r0, sp\\n ldrsb r1, [r0, #-1]", 3),
    ],
)
def test_pairs_and_unaligned_accesses_of_the_m4(assembly: str, cycles: int) -> None:
    """Table 3-2 of its manual: what multiplies pairs and adds them takes a cycle, MLA of Table 3-1 two."""
    body = f'__asm__ volatile ("{assembly}" ::: "r0", "r1", "r2", "cc", "memory");'
    assert counts(body, "cortex-m4")[1] == cycles


@pytest.mark.parametrize(
    ("assembly", "cycles"),
    [
        ("vldrb.8 q0, [r0]\\n vldrb.8 q1, [r0]", 4),  # one pipeline, half a vector a cycle
        ("vldrb.8 q0, [r0]\\n vmladava.s8 r2, q1, q1", 3),  # two pipelines
        ("vldrh.16 q0, [r0]\\n vmladava.s16 r2, q1, q1\\n vldrb.s16 q0, [r0]\\n vadd.i32 q1, q1, q1", 5),
        ("vmladava.s8 r2, q0, q1\\n vmul.i32 q0, q1, q1", 4),
        ("vmovlb.s8 q0, q1\\n vshl.s32 q0, q1, q1", 4),
        ("vldrb.8 q0, [r0]\\n nop\\n vmladava.s8 r2, q1, q1", 5),
        ("vctp.8 r3", 1),
        ("movs r3, #3\\n dls lr, r3\\n 1: nop\\n le lr, 1b", 5),  # the end of a loop takes nothing
        ("movs r3, #0\\n wls lr, r3, 1f\\n nop\\n 1: nop", 5),
        ("mov r0, sp\\n ldr r1, [r0]\\n ldr r2, [r0]", 4),  # scalars as on the M4
    ],
)
def test_vectors_and_loops_of_the_m55(assembly: str, cycles: int) -> None:
    """By hand, from the pipelines of LLVM's scheduling model."""
    read = '"r0", "r1", "r2", "r3", "lr", "d0", "d1", "d2", "d3", "cc", "memory"'
    body = f'__asm__ volatile ("mov r0, sp\\n {assembly}" ::: {read});'
    empty = f'__asm__ volatile ("mov r0, sp" ::: {read});'
    assert counts(body, "cortex-m55")[1] - counts(empty, "cortex-m55")[1] == cycles


def test_peak_stack_counts_every_word() -> None:
    push = '__asm__ volatile ("sub sp, #400\\n str r0, [sp]\\n add sp, #400" ::: "memory");'
    peaks = [CortexTarget("cortex-m4").run(hand_written(body), NO_SAMPLE)[1].peak_stack_bytes for body in (push, "")]
    assert 300 <= peaks[0] <= peaks[1] + 400


@pytest.mark.parametrize("held", [14000, 16200, 16360])
def test_a_machine_has_room_for_the_stack_too(held: int) -> None:
    """Of 16 KiB, where 1 KiB is kept for it; programs that leave less run on the machine with more memory."""
    body = f"""static volatile uint8_t held[{held}];
volatile uint8_t array[300];
array[299] = 1;
for (int i = 0; i < {held}; i++) held[i] = array[299];"""
    assert CortexTarget("cortex-m0plus").run(hand_written(body, "held[0] + array[299]"), NO_SAMPLE)[
        1
    ].outputs.tolist() == [[2]]


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", BUNDLES)
def test_bundled_models_are_exact(name: str, processor: str) -> None:
    candidate = bundled(name, seed=5)
    sizes, run = run_checked(
        candidate.source,
        candidate.batch,
        candidate.parameters,
        candidate.features,
        candidate.expected,
        CortexTarget(processor),
    )
    assert run.instructions is not None
    assert len(run.instructions) == len(candidate.features)
    assert (run.instructions <= run.cycles).all()
    assert candidate.source.ram_bytes + sizes.input_bytes <= sizes.static_ram_bytes


@given(data=st.data(), model=random_models())
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=15)
def test_random_programs_are_exact(data: st.DataObject, model: RandomModel) -> None:
    drawn = shiftry_batches(model.program, 1) if data.draw(st.booleans()) else seedot_batches(model.program)
    batch = data.draw(drawn)
    expected = run_reference(batch, model.parameters, model.features)[0]
    target = CortexTarget(data.draw(st.sampled_from(PROCESSORS)), data.draw(st.sampled_from(["-Os", "-O2", "-O3"])))
    source = emit_c(batch, model.parameters, shape=SHAPES[data.draw(st.sampled_from([PLAIN, "compact"]))])
    run_checked(source, batch, model.parameters, model.features, expected, target)


@pytest.mark.parametrize(("processor", "shape"), [("cortex-m0plus", PLAIN), ("cortex-m4", "rows4")])
def test_the_first_operation_that_differs_is_named(processor: str, shape: str) -> None:
    """Also behind products that are stored as their reader divides them (`rows4` stores all)."""
    candidate = bundled("fastgrnn16-digits", seed=2)
    as_emitted = preshifted_rows(candidate.batch)[0, :, Column.SHIFT_OUT]
    assert (as_emitted > candidate.batch.rows[0, :, Column.SHIFT_OUT]).any()
    operations = list(ir.operations(candidate.batch.program.body))
    row = next(i for i, o in enumerate(operations) if isinstance(o, ir.Multiply))
    rows = candidate.batch.rows.copy()
    rows[0, row, 5] += 3
    source = emit_c(dataclasses.replace(candidate.batch, rows=rows), candidate.parameters, shape=SHAPES[shape])
    with pytest.raises(DivergenceError) as error:
        run_checked(
            source,
            candidate.batch,
            candidate.parameters,
            candidate.features,
            candidate.expected,
            CortexTarget(processor),
        )
    stored = next(
        o for n, o in enumerate(operations) if n >= row and n not in source.unstored
    )  # products stay in registers
    assert str(error.value).startswith(f"{stored.location}: Add wrote {stored.out.variable}[")
    assert str(error.value).endswith(f"{processor}, -Os).")


def test_a_fault_and_an_endless_loop_are_errors() -> None:
    target = CortexTarget("cortex-m4")
    with pytest.raises(DeviceError, match="stopped with a fault"):
        target.run(hand_written('__asm__ volatile (".short 0xde00");'), NO_SAMPLE)
    with pytest.raises(DeviceError, match="did not end within 2 seconds"):
        CortexTarget("cortex-m4", seconds=2).run(hand_written('for (;;) __asm__ volatile ("nop");'), NO_SAMPLE)


def test_what_the_micro_bit_has_no_room_for_runs_on_a_larger_machine() -> None:
    """The MKR1000's 32 KB of RAM are twice the micro:bit's; the same code takes the same instructions and cycles there."""
    runs = []
    for size in (2000, 20000):
        body = f"static volatile unsigned char kept[{size}]; for (int i = 0; i < 1900; i++) kept[i]++;"
        sizes, run = CortexTarget("cortex-m0plus").run(hand_written(body), NO_SAMPLE)
        assert sizes.static_ram_bytes > size
        assert run.instructions is not None
        runs.append((int(run.instructions[0]), int(run.cycles[0])))
    assert runs[0] == runs[1]
    assert runs[0][0] > 3 * 1900
