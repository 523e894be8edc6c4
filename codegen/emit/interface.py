"""What a caller of an emitted program sees: features, results, their types, and the header file that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen import ir
from kilotune.codegen.class_names import ClassName, defined_names
from kilotune.codegen.emit.constant_arrays import float_literal
from kilotune.codegen.emit.feature_quantiser import feature_function, quantiser, ranker
from kilotune.codegen.emit.operators import int_type
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.emit.streaming import FrameStream
from kilotune.codegen.feature_order import FeatureOrder
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.quantisation_grid import QuantisationGrid


@dataclass(frozen=True)
class Interface:
    """What a caller must know: one sample is `features` integers of `input_bits` at `input_scale`.

    A class program returns its label; a real one writes `results` integers of `result_bits` at `result_scale`.
    `input_bits` is 0 for a program without input. `real`: numbers are floats, which have no scale. `frames`: where the program asks
    for the sample in so many equal parts, else 0; `pushed`: where it is called with each of them; `hop`: after how many
    further ones of overlapping samples it has the next result, else 0. `scaling`: what is done to features
    before they are quantised, where each has a scale
    of its own, or on which grid all are; `result_grid`: on which grid results are. `thresholds`: by feature, where it is given as how
    many of them are below it. `class_names`: what the classes are called, where that is not their number. `order`: which features of the
    model the sample's are, where they stand in another order.
    """

    kind: ir.ResultKind
    features: int
    input_bits: int
    input_scale: int
    results: int
    result_bits: int
    result_scale: int
    classes: int
    real: bool = False
    frames: int = 0
    pushed: bool = False
    hop: int = 0
    scaling: FeatureScaling | QuantisationGrid | None = None
    result_grid: QuantisationGrid | None = None
    thresholds: Mapping[int, NDArray[np.float32]] | None = None
    class_names: tuple[ClassName, ...] = ()
    order: FeatureOrder | None = None

    @property
    def input_type(self) -> str:
        """The C type of a feature."""
        return "float" if self.real else int_type(self.input_bits)

    @property
    def result_type(self) -> str:
        """The C type of an element of the result."""
        return "float" if self.real and self.kind is ir.ResultKind.REAL else int_type(self.result_bits)


def describe_interface(
    storage: VariableStorage,
    program: ir.Program,
    stream: FrameStream | None = None,
    scaling: FeatureScaling | QuantisationGrid | None = None,
    class_names: tuple[ClassName, ...] = (),
    result_grid: QuantisationGrid | None = None,
    order: FeatureOrder | None = None,
) -> Interface:
    """What the program of `storage` asks of its caller, whose input arrives as `stream` says and in that `order`, each feature at a scale
    of `scaling`; its classes are called `class_names`, and integers that it returns stand on `result_grid`."""
    given, result = program.input, program.result.variable
    writers = [o for o in ir.operations(program.body) if o.out.variable == result]
    classes = 0
    if program.result_kind is ir.ResultKind.CLASS:
        classes = max(
            o.a.size if isinstance(o, ir.ArgMax) else 2 for o in writers if isinstance(o, ir.ArgMax | ir.Sign)
        )
    return Interface(
        program.result_kind,
        (given.size * (stream.frames if stream else 1)) if given else 0,
        storage.bits[given.name] if given else 0,
        storage.scales[given.name] if given else 0,
        program.result.size,
        storage.bits[result],
        0 if result in ir.label_variables(program) else storage.scales[result],
        classes,
        storage.real,
        stream.frames if stream else 0,
        stream.pushed if stream else False,
        stream.hop if stream else 0,
        scaling,
        result_grid,
        class_names=class_names,
        order=order,
    )


def signature(interface: Interface, function: str) -> str:
    """The C prototype of the entry, without a semicolon."""
    arguments = []
    if interface.frames and not interface.pushed:
        arguments.append(f"void (*kt_next)({interface.input_type} *frame)")
    elif interface.input_bits:
        arguments.append(f"const {interface.input_type} *x")
    if interface.kind is ir.ResultKind.REAL:
        arguments.append(f"{interface.result_type} *result")
    kind = "int" if interface.kind is ir.ResultKind.CLASS or interface.pushed else "void"
    return f"{kind} {function}({', '.join(arguments) or 'void'})"


def header(interface: Interface, first: str, name: str, prototype: str) -> str:
    """The whole text of the header file `name`.h; `first`: its first comment."""
    lines = [first]
    guard = f"{''.join(c if c.isalnum() else '_' for c in name).upper()}_H"
    lines += [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    if interface.real:
        lines += [*_ordered(interface), f"#define MODEL_FEATURES {interface.features}", ""]
    elif interface.input_bits:
        lines += [
            f"/* One sample: x[i] = {_taken(interface)}:",
            f"   x[i] = {feature_function(name)}(i, the feature). */",
            *_ordered(interface),
            f"#define MODEL_FEATURES {interface.features}",
            f"#define MODEL_INPUT_BITS {interface.input_bits}",
        ]
        lines += _input_place(interface)
        lines.append("")
    if interface.frames:
        each = interface.features // interface.frames
        asked = f"kt_next is called MODEL_FRAMES times, and writes the next {each} features to frame"
        none = "-1" if interface.kind is ir.ResultKind.CLASS else "0, and then 1 where the result was written"
        given = f"call it with {each} features, MODEL_FRAMES times; before the last call it returns {none}. The reset begins a new sample"
        if interface.hop:
            given += (
                ". Without it the result of the last MODEL_FRAMES frames comes again after each MODEL_HOP further ones"
            )
        lines += [
            f"/* The sample in parts: {given if interface.pushed else asked}. */",
            f"#define MODEL_FRAMES {interface.frames}",
            *([f"#define MODEL_HOP {interface.hop}"] if interface.hop else []),
            "",
        ]
    lines += _returned(interface)
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", f"{prototype};", ""]
    lines += ["#ifdef __cplusplus", "}", "#endif", ""]
    if interface.input_bits and not interface.real:
        bits, thresholds = interface.input_bits, interface.thresholds
        if thresholds is None:
            lines.append(quantiser(name, bits, interface.input_scale, interface.scaling))
        else:
            lines.append(ranker(name, bits, interface.features, thresholds))
    lines.append("#endif")
    return "\n".join(lines) + "\n"


def _ordered(interface: Interface) -> list[str]:
    """Which feature is which, where they stand in another order than the model's own."""
    if interface.order is None:
        return []
    formula = interface.order.formula
    which = (
        f"x[i] is that of the model's feature number {formula}"
        if formula
        else "feature_order of decisions.json says which is which"
    )
    return [f"/* Features stand frame by frame, what belongs to one moment side by side: {which} (from 0). */"]


def _returned(interface: Interface) -> list[str]:
    """What the function returns or writes."""
    if interface.kind is ir.ResultKind.CLASS:
        counted = ["/* Returns the class, from 0. */", f"#define MODEL_CLASSES {interface.classes}"]
        return counted + defined_names(interface.class_names)
    if interface.real:
        return [f"#define MODEL_RESULTS {interface.results}"]
    sizes = [f"#define MODEL_RESULTS {interface.results}", f"#define MODEL_RESULT_BITS {interface.result_bits}"]
    grid = interface.result_grid
    if grid is None:
        said = "/* Writes the results: real value = result[i] / 2**MODEL_RESULT_SCALE. */"
        return [said, *sizes, f"#define MODEL_RESULT_SCALE ({interface.result_scale})"]
    said = "/* Writes the results: real value = (result[i] - MODEL_RESULT_ZERO) * MODEL_RESULT_STEP. */"
    places = [f"#define MODEL_RESULT_STEP {float_literal(grid.step)}", f"#define MODEL_RESULT_ZERO ({grid.zero})"]
    return [said, *sizes, *places]


def _input_place(interface: Interface) -> list[str]:
    """Where integers of the input stand."""
    if interface.thresholds is not None:
        return []
    if isinstance(interface.scaling, QuantisationGrid):
        step, zero = interface.scaling.step, interface.scaling.zero
        return [f"#define MODEL_INPUT_STEP {float_literal(step)}", f"#define MODEL_INPUT_ZERO ({zero})"]
    return [f"#define MODEL_INPUT_SCALE ({interface.input_scale})"]


def _taken(interface: Interface) -> str:
    """What an integer of a sample is."""
    if interface.thresholds is not None:
        return f"(how many thresholds of that feature are below it) - {1 << (interface.input_bits - 1)}"
    if isinstance(interface.scaling, QuantisationGrid):
        return "(the feature) / MODEL_INPUT_STEP + MODEL_INPUT_ZERO, to the nearest"
    given = "(the feature)" if interface.scaling is None else "((the feature) - its offset) / 2**(its exponent)"
    return f"{given} * 2**MODEL_INPUT_SCALE, toward zero"


def title(real: bool, program: ir.Program) -> str:
    """The first comment of either file."""
    what = "inference in floats" if real else "fixed-point inference"
    return f"/* {comment_text(program.name)}: {what}. Written by kilotune; changes will be lost. */"


def comment_text(text: str) -> str:
    """Text that cannot end a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")
