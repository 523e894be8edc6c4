"""The simulated AVR counts what a data sheet says, computes what the batch simulator does, and notices when it does not."""

from __future__ import annotations

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.profile import profile
from kilotune.evaluators.architectures.avr.firmware import build_firmware
from kilotune.evaluators.architectures.avr.machine import AvrMachine
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.divergence import DivergenceError, run_checked
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.simulated import DeviceError, SimulatedRun, of_emitted, quantised
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches
from tests.evaluators.devices.candidates import MODELS, ON_AN_UNO, Candidate, bundled
from tests.evaluators.devices.hand_written import NO_SAMPLE, hand_written
from tests.evaluators.devices.toolchains import needs_avr

pytestmark = [needs_avr, pytest.mark.slow]
PROCESSORS = ("atmega328p", "atmega2560")


def run_body(body: str, result: str = "0", mcu: str = "atmega328p") -> SimulatedRun:
    return AvrTarget(mcu).run(hand_written(body, result), NO_SAMPLE)[1]


@pytest.mark.parametrize("mcu", PROCESSORS)
def test_cycles_are_those_of_the_data_sheet(mcu: str) -> None:
    """NOP takes 1 cycle, RJMP 2, LPM 3, PUSH and POP 2 each."""
    code = {'__asm__ volatile ("nop\\n nop\\n nop");': 3, '__asm__ volatile ("rjmp .+0");': 2}
    code['__asm__ volatile ("lpm r24, Z" ::: "r24");'] = 3
    code['__asm__ volatile ("push r24\\n pop r24");'] = 4
    nothing = int(run_body("", mcu=mcu).cycles[0])
    assert {body: int(run_body(body, mcu=mcu).cycles[0]) - nothing for body in code} == code


def test_an_empty_inference_is_a_call_and_a_return() -> None:
    """CALL 4, LDI 1 twice, RET 4, and one LDI for the mark that ends it: the marks themselves are not counted."""
    assert int(run_body("").cycles[0]) == 4 + 1 + 1 + 4


@pytest.mark.parametrize("level", ["-Os", "-O2"])
def test_a_clamp_of_64_bits_is_not_optimised_away(level: str) -> None:
    """avr-gcc takes it for decided where it sees that the argument is a product of sign-extended 16 bits."""
    bundle = load_bundle(MODELS / "protonn-cancer")
    assert bundle.train is not None
    features = bundle.train.features[:40]
    seen, _ = profile(bundle.program, bundle.parameters, bundle.train.features)
    magnitudes = {name: seen.magnitude(name) for name in seen.minimum}
    ranges = {row: seen.exponent_range(row, 0.99) for row in seen.exponents}
    lowering = SeeDotLowering(bundle.program, magnitudes, Rounding.TOWARD_ZERO)
    batch = lowering.lower(SeeDotParameters(32, 27, 4), ranges)
    source = emit_c(batch, bundle.parameters)
    assert "kt_exp0(int64_t v)" in source.source
    expected = run_reference(batch, bundle.parameters, features)[0]
    run_checked(source, batch, bundle.parameters, features, expected, AvrTarget(level=level))


@pytest.mark.parametrize("shape", ["unrolled16", "compact"])
def test_a_build_for_a_debugger_computes_the_same(shape: str) -> None:
    """At -O0 avr-gcc refuses assembly that names as many registers as these shapes' does."""
    candidate = bundled("lenet-digits", samples=2, seed=7)
    source = emit_c(candidate.batch, candidate.parameters, shape=SHAPES[shape])
    expected = run_reference(candidate.batch, candidate.parameters, candidate.features)[0]
    run_checked(source, candidate.batch, candidate.parameters, candidate.features, expected, AvrTarget(level="-O0"))


@pytest.mark.parametrize(("mcu", "said"), [("attiny85", "GPIOR0 elsewhere"), ("atmega32", "no GPIOR0")])
def test_a_processor_without_the_mark_is_refused_at_once(mcu: str, said: str) -> None:
    """Otherwise an inference would never seem to begin: 16 CPU-seconds of each until the limit on cycles."""
    with pytest.raises(DeviceError, match=said):
        run_body("", mcu=mcu)


def test_peak_stack_counts_every_byte() -> None:
    push, pop = "push r24\\n" * 7, "pop r24\\n" * 7
    assert run_body(f'__asm__ volatile ("{push}{pop}");').peak_stack_bytes - run_body("").peak_stack_bytes == 7


@pytest.mark.parametrize("size", [230, 250, 256])
def test_the_stack_of_an_array_is_its_size(size: int) -> None:
    """The halves of the stack pointer are written one after the other: between them a place stands there that it never has."""
    body = "volatile uint8_t array[{0}]; array[0] = 1; array[{0} - 1] = array[0];"
    found, less = (run_body(body.format(count)).peak_stack_bytes for count in (size, 100))
    assert found - less == size - 100


@pytest.mark.parametrize("deep", [10, 200])
def test_a_stack_that_meets_variables_is_said(deep: int) -> None:
    """Otherwise it may never end, have other results, or not be noticed."""
    body = f"""static volatile uint8_t held[1900];
volatile uint8_t array[{deep}];
array[{deep} - 1] = 1;
held[0] = held[1] + array[{deep} - 1];"""
    if deep == 10:
        assert run_body(body).peak_stack_bytes < 60
        return
    with pytest.raises(DeviceError, match=r"needs more RAM than atmega328p has: its stack reaches .* of 190\d bytes"):
        run_body(body)


SKIPS = {
    "sbrs": "sbrs %0, 0",  # bit 0 of 1001 is set
    "sbrc": "sbrc %0, 1",
    "cpse": "cpse %0, %0",
}


@pytest.mark.parametrize("constant", [11, 12, 15, 28, 63])
@pytest.mark.parametrize("instruction", ["adiw", "sbiw"])
@pytest.mark.parametrize("skip", SKIPS)
def test_a_skip_skips_one_instruction(skip: str, instruction: str, constant: int) -> None:
    """1001 passes over the skipped instruction to the next one, which adds 1, in the cycles of a one-word skip."""
    code = "uint16_t v = 1001;\n"
    code += f'__asm__ volatile ("{SKIPS[skip]}\\n {instruction} %0, {constant}\\n adiw %0, 1" : "+w" (v));'
    one_word = code.replace(f"{instruction} %0, {constant}", "inc %A0")
    found, plain = run_body(code, "(int)v"), run_body(one_word, "(int)v")
    assert int(found.outputs[0, 0]) == int(plain.outputs[0, 0]) == 1002
    assert found.cycles[0] == plain.cycles[0]


def test_simavr_without_correction_skips_two() -> None:
    """Why the correction is there; should a newer simavr not need it, this test says so."""
    code = 'uint16_t v = 1001;\n__asm__ volatile ("sbrs %0, 0\\n sbiw %0, 63\\n adiw %0, 1" : "+w" (v));'
    firmware = build_firmware(hand_written(code, "(int)v"), "atmega328p")
    with AvrMachine(firmware, corrects_skips=False) as machine:
        if int(machine.run(NO_SAMPLE).outputs[0, 0]) == 1002:
            pytest.skip("this simavr is right by itself")
    with AvrMachine(firmware) as machine:
        assert int(machine.run(NO_SAMPLE).outputs[0, 0]) == 1002


def test_an_endless_loop_ends_with_an_error() -> None:
    firmware = build_firmware(hand_written('for (;;) __asm__ volatile ("nop");'), "atmega328p")
    with AvrMachine(firmware) as machine, pytest.raises(DeviceError, match=r"sample 0 did not end within 10000 cycles"):
        machine.run(NO_SAMPLE, most_cycles=10_000)


def test_what_the_compiler_says_is_in_the_error() -> None:
    with pytest.raises(DeviceError, match="unused variable"):
        run_body("int unused;")


def test_a_program_that_is_too_large_is_refused() -> None:
    with pytest.raises(DeviceError, match="needs more RAM than atmega328p has"):
        run_body('static uint8_t big[3000]; __asm__ volatile ("" :: "r" (big));')


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", ON_AN_UNO)
def test_bundled_models_are_exact(name: str, seed: int | None) -> None:
    candidate = bundled(name, seed=seed)
    target = AvrTarget("atmega328p" if seed is None else "atmega2560")
    sizes, run = run_checked(
        candidate.source, candidate.batch, candidate.parameters, candidate.features, candidate.expected, target
    )
    assert candidate.source.flash_bytes < sizes.flash_bytes
    assert candidate.source.ram_bytes + sizes.input_bytes <= sizes.static_ram_bytes
    assert run.cycles.min() > 0
    assert sizes.static_ram_bytes + run.peak_stack_bytes <= 2048


def test_runs_repeat_and_samples_do_not_disturb_each_other() -> None:
    candidate = bundled("fastgrnn16-digits")

    def run(features: np.ndarray, expected: np.ndarray) -> SimulatedRun:
        return run_checked(candidate.source, candidate.batch, candidate.parameters, features, expected, AvrTarget())[1]

    whole = run(candidate.features, candidate.expected)
    again = run(candidate.features[::-1], candidate.expected[::-1])
    np.testing.assert_array_equal(whole.cycles, again.cycles[::-1])


def test_processors_run_side_by_side() -> None:
    """Threads with a processor each get what one after the other gets."""
    candidates = [bundled(name, samples=10) for name in ("protonn-cancer", "mlp-diabetes", "protonn-digits")] * 2

    def cycles(candidate: Candidate) -> list[int]:
        inputs = quantised(candidate.source, candidate.features)
        return AvrTarget().run(of_emitted(candidate.source), inputs)[1].cycles.tolist()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(cycles, candidates)) == [cycles(candidate) for candidate in candidates]


@given(data=st.data(), model=random_models())
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=25)
def test_random_programs_are_exact(data: st.DataObject, model: RandomModel) -> None:
    drawn = shiftry_batches(model.program, 1) if data.draw(st.booleans()) else seedot_batches(model.program)
    batch = data.draw(drawn)
    expected = run_reference(batch, model.parameters, model.features)[0]
    source = emit_c(batch, model.parameters, shape=SHAPES[data.draw(st.sampled_from([PLAIN, "compact"]))])
    level = data.draw(st.sampled_from(["-Os", "-O2", "-O3"]))
    run_checked(source, batch, model.parameters, model.features, expected, AvrTarget("atmega2560", level=level))


@pytest.mark.parametrize("in_steps", [False, True])
def test_the_first_operation_that_differs_is_named(in_steps: bool) -> None:
    """Break the C behind one operation: the error names it, though only labels and not its results are returned; also where it is
    called with a frame at a time."""
    candidate = bundled("fastgrnn16-digits", samples=12)
    stepped = emit_c(candidate.batch, candidate.parameters, in_steps=True)
    candidate = dataclasses.replace(candidate, source=stepped) if in_steps else candidate
    operations = list(ir.operations(candidate.batch.program.body))
    row = next(number for number, o in enumerate(operations) if isinstance(o, ir.Add) and o.out.variable == "H")
    assert row not in candidate.source.unstored
    line = operations[row]
    hook, place = f"KT_AFTER({row});", candidate.source.offsets[line.out.variable]
    text = candidate.source.source
    assert text.count(hook) == 1
    broken = dataclasses.replace(
        candidate.source, source=text.replace(hook, f"kt_ram.bytes[{place} + 1] ^= 32; {hook}")
    )
    with pytest.raises(DivergenceError) as error:
        run_checked(broken, candidate.batch, candidate.parameters, candidate.features, candidate.expected, AvrTarget())
    said = str(error.value)
    assert f"{line.location}: Add wrote {line.out.variable}[0] = " in said
    wrong, right = re.findall(r"= (-?\d+) where the simulator has (-?\d+)", said)[0]
    assert int(wrong) ^ int(right) in (32 << 8, -(32 << 8))
    assert re.search(r"\(sample \d+, atmega328p, -Os\)\.$", said)


def test_wrong_shifts_are_named_where_they_are() -> None:
    """Lowered with three more shifts in one row: that row's operation is the first to differ, if outputs do at all, or, where its result
    stays in a register, the one that stores what was made of it."""
    candidate = bundled("fastgrnn16-digits")
    operations = list(ir.operations(candidate.batch.program.body))
    said: list[tuple[str, str]] = []
    for row in range(len(operations)):
        operation = next(o for n, o in enumerate(operations) if n >= row and n not in candidate.source.unstored)
        rows = candidate.batch.rows.copy()
        rows[0, row, Column.SHIFT_OUT] += 3
        source = emit_c(dataclasses.replace(candidate.batch, rows=rows), candidate.parameters)
        try:
            run_checked(
                source, candidate.batch, candidate.parameters, candidate.features, candidate.expected, AvrTarget()
            )
        except DivergenceError as error:
            said.append((str(error), f"{operation.location}: {type(operation).__name__} wrote"))
    assert len(said) > 3
    assert all(message.startswith(start) for message, start in said)


def test_an_operation_that_does_not_run_is_named() -> None:
    """A loop that ends too early: the operation that should have come next is named."""
    candidate = bundled("fastgrnn16-digits")
    text = candidate.source.source
    assert text.count("t < 8;") == 1
    broken = dataclasses.replace(candidate.source, source=text.replace("t < 8;", "t < 7;"))
    with pytest.raises(DivergenceError, match="did not run when it should"):
        run_checked(broken, candidate.batch, candidate.parameters, candidate.features, candidate.expected, AvrTarget())


def test_rounding_is_the_programs() -> None:
    for rounding in Rounding:
        candidate = bundled("protonn-cancer", seed=1)
        batch = dataclasses.replace(candidate.batch, rounding=rounding)
        expected = run_reference(batch, candidate.parameters, candidate.features)[0]
        run_checked(
            emit_c(batch, candidate.parameters), batch, candidate.parameters, candidate.features, expected, AvrTarget()
        )
