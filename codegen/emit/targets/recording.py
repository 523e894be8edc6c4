"""Recorded samples, with which an exported program checks itself where it runs."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.counts import counted
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.constant_arrays import constant_array
from kilotune.codegen.emit.feature_quantiser import feature_function
from kilotune.codegen.emit.interface import Interface
from kilotune.codegen.quantisation_grid import QuantisationGrid

AVR_SAMPLE_BYTES = 6144
"""What recorded samples may take of an AVR's flash; the model and the serial port want the rest."""


@dataclass(frozen=True)
class Recording:
    """What the simulator computed: `inputs` [n, features] as quantised integers, `outputs` [n, elements of the result]."""

    inputs: IntArray
    outputs: IntArray

    def __len__(self) -> int:
        return int(self.outputs.shape[0])

    def within(self, interface: Interface, most_bytes: int) -> Recording:
        """The first samples that fit into so many bytes; at least one."""
        each = interface.features * interface.input_bits // 8 + interface.results * interface.result_bits // 8
        count = max(1, min(len(self), most_bytes // max(each, 1)))
        return Recording(self.inputs[:count], self.outputs[:count])


@dataclass(frozen=True)
class Export:
    """A program on its way into a folder. `level`: the compiler's -O level on the device, such as `Os`."""

    source: CSource
    recording: Recording
    name: str
    level: str = "Os"


def check_recording(interface: Interface, recording: Recording) -> None:
    """ValueError when the recording has not the program's shape and widths."""
    samples = len(recording)
    wanted = {"inputs": (samples, interface.features), "outputs": (samples, interface.results)}
    for name, shape in wanted.items():
        found = getattr(recording, name).shape
        if found != shape:
            raise ValueError(f"recorded {name} have shape {found}, and the program needs {shape}")
    for name, bits in (("inputs", interface.input_bits or 8), ("outputs", interface.result_bits)):
        values = getattr(recording, name)
        if values.size and not -(1 << (bits - 1)) <= values.min() <= values.max() < 1 << (bits - 1):
            raise ValueError(f"recorded {name} do not fit {bits} bits: quantise them at the program's scale")


def sample_arrays(interface: Interface, recording: Recording, attribute: str = "") -> str:
    """`inputs` and `outputs` as constant arrays in C, with an attribute such as PROGMEM."""
    arrays = []
    for name, kind, bits in (
        ("inputs", interface.input_type, interface.input_bits),
        ("outputs", interface.result_type, interface.result_bits),
    ):
        if bits:
            values = getattr(recording, name).reshape(-1).tolist()
            arrays.append(constant_array(name, kind, values, bits).definition)
    return "\n\n".join(arrays).replace(" KT_FLASH", attribute)


def samples_header(interface: Interface, recording: Recording) -> str:
    """samples.h of a device: the arrays lie in flash."""
    return (
        "/* Recorded samples and what the simulator computed for them. */\n#ifndef SAMPLES_H\n#define SAMPLES_H\n\n"
        "#include <stdint.h>\n#if defined(__AVR__)\n#include <avr/pgmspace.h>\n#elif !defined(PROGMEM)\n#define PROGMEM\n#endif\n\n"
        f"#define SAMPLES {len(recording)}\n\n{sample_arrays(interface, recording, ' PROGMEM')}\n\n#endif\n"
    )


def check_program(export: Export, recording: Recording) -> str:
    """main.c of a target with printf: run the recorded samples, say how many are equal, exit 0 when all are."""
    face, source = export.source.interface, export.source
    arguments = [f"inputs + i * {face.features}"] if face.input_bits else []
    feeder, rewind = "", ""
    if face.frames and not face.pushed:
        each = face.features // face.frames
        rewind, arguments = f"        at = {arguments[0]};\n", ["next_frame"]
        feeder = (
            f"\n\nstatic const {face.input_type} *at;\n\nstatic void next_frame({face.input_type} *frame)\n{{\n"
            f"    for (int i = 0; i < {each}; i++) frame[i] = *at++;\n}}"
        )
    real = face.kind is ir.ResultKind.REAL
    if face.pushed:
        compare = _steps(source)
    elif real:
        call = f"{source.function}({', '.join([*arguments, 'result'])});"
        compare = (
            f"        {face.result_type} result[{face.results}];\n        {call}\n"
            f"        equal += memcmp(result, outputs + i * {face.results}, sizeof result) == 0;\n"
        )
    else:
        compare = f"        equal += {source.function}({', '.join(arguments)}) == outputs[i];\n"
    return (
        "/* Runs the model on recorded inputs and compares with the outputs that the simulator computed. */\n"
        f'#include "{source.name}.h"\n\n#include <stdio.h>\n'
        + ("#include <string.h>\n" if real else "")
        + f"\n#define SAMPLES {len(recording)}L\n\n"
        + sample_arrays(face, recording)
        + feeder
        + "\n\nint main(void)\n{\n    long equal = 0;\n    for (long i = 0; i < SAMPLES; i++) {\n"
        + rewind
        + compare
        + '    }\n    printf("%ld of %ld outputs equal\\n", equal, SAMPLES);\n'
        + "    return equal == SAMPLES ? 0 : 1;\n}\n"
    )


def _steps(source: CSource) -> str:
    """C that calls the program with every frame of sample i, and counts the result that the last one brings."""
    face = source.interface
    begin = f"        {source.function}_reset();\n" if face.hop else ""
    frame = f"inputs + i * {face.features} + t * {face.features // face.frames}"
    frames = "        for (int t = 0; t < MODEL_FRAMES; t++)"
    if face.kind is ir.ResultKind.REAL:
        return (
            f"{begin}        {face.result_type} result[{face.results}];\n        int done = 0;\n"
            f"{frames} done += {source.function}({frame}, result);\n"
            f"        equal += done == 1 && memcmp(result, outputs + i * {face.results}, sizeof result) == 0;\n"
        )
    return (
        f"{begin}        int label = -1, early = 0;\n"
        f"{frames} {{\n            early += label != -1;\n            label = {source.function}({frame});\n        }}\n"
        "        equal += !early && label == outputs[i];\n"
    )


def _arrival(face: Interface) -> str:
    """How features come, where that is not all at once in the model's order."""
    said = ""
    if face.order is not None:
        said += " Features stand frame by frame, not in the model's own order: the header says which is which."
    if face.frames:
        called = "for each of which the program calls the function that it is given"
        if face.frames == 1 and not face.pushed:
            said += " The program asks for all of them at once, from the function that it is given."
        else:
            said += f" They arrive in {counted(face.frames, 'frame')}, {'with each of which it is called' if face.pushed else called}."
    return said


def facts(source: CSource) -> str:
    """What a caller must know, as items of a README."""
    face = source.interface
    if face.input_bits:
        scale = f"2**{face.input_scale}" if face.input_scale >= 0 else f"2**({face.input_scale})"
        how = f"`x[i] = {feature_function(source.name)}(i, value)`, a function of the header,"
        if face.thresholds is not None:
            how += " counts how many thresholds of that feature are below the real value."
        elif isinstance(face.scaling, QuantisationGrid):
            how += " has the nearest integer of `(real value) / MODEL_INPUT_STEP + MODEL_INPUT_ZERO`."
        elif face.scaling is None:
            how += f" multiplies the real value by {scale} (`MODEL_INPUT_SCALE`) and truncates."
        else:
            how += " moves and multiplies the real value as that feature's own scale says, and truncates."
        given = f"Input: {counted(face.features, 'feature')}, each as {face.input_type}: {how}"
        given += _arrival(face)
    else:
        given = "The program takes no input."
    if face.kind is ir.ResultKind.CLASS:
        result = f"Result: the class, 0 to {face.classes - 1}."
        if face.class_names:
            called = ", ".join(f"{number}: {name}" for number, name in enumerate(face.class_names))
            result += f" What the classes are called (`MODEL_CLASS_NAMES`): {called}."
    elif face.result_grid is not None:
        result = (
            f"Result: {counted(face.results, 'value')} of {face.result_type}; the real one is `(result[i] - MODEL_RESULT_ZERO) *"
            " MODEL_RESULT_STEP`."
        )
    else:
        result = (
            f"Result: {counted(face.results, 'value')} of {face.result_type}; divide by 2 to the power of "
            f"`MODEL_RESULT_SCALE` ({face.result_scale})."
        )
    constants = f"- {given}\n- {result}\n- Constants: {source.flash_bytes} bytes of flash. "
    if not source.ram_bytes:
        return f"{constants}What it computes is on the stack: `{source.function}` is re-entrant.\n"
    held = "Temporaries" if source.input_offset is None else "Temporaries and the sample among them"
    of_search = source.variable_bytes + source.scratch_bytes
    between = (
        f" (a search counts {of_search}: {source.variable_bytes} of variables and, behind them, {source.scratch_bytes} that operations "
        "unpack or collect in; here these lie between variables)"
    )
    return (
        f"{constants}{held}: {source.ram_bytes} bytes of RAM in one array{_frame_bytes(source)}"
        f"{between if source.ram_bytes < of_search else ''}.\n"
        f"- `{source.function}` is not re-entrant, since that array is static.\n"
    )


def _frame_bytes(source: CSource) -> str:
    """What a frame takes beside the array."""
    face = source.interface
    if not face.frames or face.pushed or source.input_offset is not None:
        return ""
    return f", and a frame of {face.features // face.frames * face.input_bits // 8} bytes"
