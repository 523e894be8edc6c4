"""The Arduino program: it runs recorded samples and says what came out, then reads samples from the serial port.

A program that is called with a frame at a time (`frames`) gets both that way: `x` is a frame, and `infer` says whether it was the last.
"""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.feature_quantiser import feature_function
from kilotune.codegen.emit.targets.recording import Export

BAUD = 115200

_HEADERS = ("#include <string.h>", "#include <math.h>", "#include <stdlib.h>")


def sketch(export: Export, usage: str) -> str:
    """C++ for the Arduino core; `usage`: the lines that say what to do with it."""
    face = export.source.interface
    real = face.kind is ir.ResultKind.REAL
    lines = [f"/* A fixed-point model on an Arduino. Written by kilotune; changes will be lost.\n *\n{usage} */"]
    lines += ['#include "model.h"', '#include "samples.h"', "", *_HEADERS, ""]
    if face.input_bits:
        lines += ["#define FRAME (MODEL_FEATURES / MODEL_FRAMES)"] if face.pushed else []
        lines += [f"static {face.input_type} x[{'FRAME' if face.pushed else 'MODEL_FEATURES'}];"]
    if real:
        lines += [f"static {face.result_type} result[MODEL_RESULTS];"]
    lines += ["", *_infer(export), "", *_report(export), "", *_recorded(export)]
    lines += ["", "void setup()", "{", f"    Serial.begin({BAUD});", "    while (!Serial) {", "    }"]
    lines += ["    run_recorded();"]
    if face.input_bits:
        lines += ['    Serial.println(F("type a sample: " TEXT(MODEL_FEATURES) " numbers"));']
    lines += ["}", "", *(_TYPED if face.input_bits else ()), *_loop(export)]
    return "\n".join(lines) + "\n"


def _infer(export: Export) -> list[str]:
    """`infer` leaves the label, or writes `result`; of a program that is called with each frame it returns whether that is so."""
    function, face = export.source.function, export.source.interface
    if face.pushed:
        label = face.kind is ir.ResultKind.CLASS
        body = (
            [f"    label = {function}(x);", "    return label != -1;"]
            if label
            else [f"    return {function}(x, result) != 0;"]
        )
        return [*(["static int label;", ""] if label else []), "static bool infer()", "{", *body, "}"]
    given = ["x"] if face.input_bits else []
    if face.kind is ir.ResultKind.REAL:
        return [
            "static void infer()",
            "{",
            f"    {function}({', '.join([*given, 'result'])});",
            "}",
        ]
    return ["static int label;", "", "static void infer()", "{", f"    label = {function}({', '.join(given)});", "}"]


def _report(export: Export) -> list[str]:
    lines = ["#define TEXT_OF(number) #number", "#define TEXT(number) TEXT_OF(number)", ""]
    lines += ["static void print_result()", "{"]
    if export.source.interface.kind is ir.ResultKind.CLASS:
        return [*lines, '    Serial.print(F("label "));', "    Serial.print(label);", "}"]
    return [
        *lines,
        '    Serial.print(F("result"));',
        "    for (uint16_t j = 0; j < MODEL_RESULTS; j++) {",
        "        Serial.print(' ');",
        "        Serial.print(ldexp(result[j], -(MODEL_RESULT_SCALE)), 6);",
        "    }",
        "}",
    ]


def _recorded(export: Export) -> list[str]:
    face = export.source.interface
    lines = ["static void run_recorded()", "{", "    uint16_t equal = 0;", "    uint32_t total = 0;"]
    lines += ["    for (uint16_t i = 0; i < SAMPLES; i++) {"]
    lines += _frame_by_frame(export.source.function) if face.pushed else _at_once(bool(face.input_bits))
    answered = "once && " if face.pushed else ""
    if face.kind is ir.ResultKind.REAL:
        lines += [f"        {face.result_type} expected[MODEL_RESULTS];"]
        lines += ["        memcpy_P(expected, outputs + i * (uint32_t)MODEL_RESULTS, sizeof expected);"]
        lines += [f"        const bool same = {answered}memcmp(result, expected, sizeof expected) == 0;"]
    else:
        lines += [f"        {face.result_type} expected;"]
        lines += ["        memcpy_P(&expected, outputs + i, sizeof expected);"]
        lines += [f"        const bool same = {answered}label == expected;"]
    return [
        *lines,
        "        equal += same;",
        "        total += took;",
        '        Serial.print(F("sample "));',
        "        Serial.print(i);",
        '        Serial.print(F(": "));',
        "        print_result();",
        '        Serial.print(same ? F(", equal, ") : F(", DIFFERENT, "));',
        "        Serial.print(took);",
        '        Serial.print(F(" us, "));',
        "        Serial.print(took * (uint32_t)(F_CPU / 1000000L));",
        '        Serial.println(F(" cycles"));',
        "    }",
        "    Serial.print(equal);",
        '    Serial.print(F(" of " TEXT(SAMPLES) " outputs equal, "));',
        "    Serial.print(total / SAMPLES);",
        '    Serial.println(F(" us on average"));',
        "}",
    ]


_SENT = "        Serial.flush(); /* sending takes an interrupt a byte, which would be counted */"
"""The line before anything is timed."""


def _at_once(given: bool) -> list[str]:
    """Sample i as a whole; `took` microseconds."""
    lines = ["        memcpy_P(x, inputs + i * (uint32_t)MODEL_FEATURES, sizeof x);"] if given else []
    lines += [_SENT, "        const uint32_t start = micros();", "        infer();"]
    return [*lines, "        const uint32_t took = micros() - start;"]


def _frame_by_frame(function: str) -> list[str]:
    """The frames of sample i, one after the other; `took` microseconds, `once`: an answer came with the last one and not before.

    Each sample begins with a reset, so that what a wrong one left behind is not taken for the next one's fault.
    """
    return [
        f"        {function}_reset();",
        _SENT,
        "        uint32_t took = 0;",
        "        uint16_t answers = 0;",
        "        bool once = false;",
        "        for (uint16_t t = 0; t < MODEL_FRAMES; t++) {",
        "            memcpy_P(x, inputs + (i * (uint32_t)MODEL_FRAMES + t) * FRAME, sizeof x);",
        "            const uint32_t start = micros();",
        "            const bool answered = infer();",
        "            took += micros() - start;",
        "            answers += answered;",
        "            once = answered && answers == 1;",
        "        }",
    ]


_TYPED = (
    "/* The number that begins with the next character and ends before a space, a comma, a semicolon, a new line, or a second without any.",
    " * Serial.parseFloat() reads neither exponents nor more than nine digits. */",
    "static float typed_number()",
    "{",
    "    char text[40], next;",
    "    uint8_t length = 0;",
    "    while (Serial.readBytes(&next, 1) == 1 && next > ' ' && next != ',' && next != ';') {",
    "        if (length < sizeof text - 1) text[length++] = next;",
    "    }",
    "    text[length] = 0;",
    "    return (float)strtod(text, NULL);",
    "}",
    "",
)


def _loop(export: Export) -> list[str]:
    face = export.source.interface
    if not face.input_bits:
        return ["void loop()", "{", "}"]
    starts = "of each frame starts its round" if face.pushed else "starts the inference"
    place = "received % FRAME" if face.pushed else "received"
    taken = ["    if (++received < MODEL_FEATURES) return;", "    received = 0;", "    infer();"]
    if face.pushed:
        taken = [
            "    if (++received % FRAME) return;",
            "    if (received == MODEL_FEATURES) received = 0;",
            "    if (!infer()) return;",
        ]
    return [
        f"/* The numbers of a sample, as they come; the last one {starts}. */",
        "void loop()",
        "{",
        "    static uint16_t received = 0;",
        "    const int next = Serial.peek();",
        "    if (next < 0) return;",
        "    if (next != '+' && next != '-' && next != '.' && (next < '0' || next > '9')) {",
        "        Serial.read();",
        "        return;",
        "    }",
        f"    x[{place}] = {feature_function(export.source.name)}(received, typed_number());",
        *taken,
        "    print_result();",
        "    Serial.println();",
        "}",
    ]
