"""Whole programs as C99: one header, one source, one function; the same text for the host and for devices."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import assert_never

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.class_names import ClassName
from kilotune.codegen.emit.chains import choose_chains, emit_chain
from kilotune.codegen.emit.constant_arrays import (
    FLASH_MACROS,
    ConstantArray,
    near_flash_guard,
)
from kilotune.codegen.emit.context import Context, OperationRow
from kilotune.codegen.emit.dot import emit_product
from kilotune.codegen.emit.elementwise import emit_elementwise
from kilotune.codegen.emit.frames import ask_for_frame, frame_array, in_rounds, one_round, reset_function
from kilotune.codegen.emit.fusion import OperationChain
from kilotune.codegen.emit.integers import Integers
from kilotune.codegen.emit.interface import Interface, comment_text, describe_interface, header, signature, title
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.layout import PlacedTemporaries, TemporaryLayout, lay_out, place_temporaries
from kilotune.codegen.emit.literal_factors import emitted_rows
from kilotune.codegen.emit.operators import Operators
from kilotune.codegen.emit.packing import reader, reader_definition
from kilotune.codegen.emit.parameters import parameter_arrays
from kilotune.codegen.emit.prelude import prelude
from kilotune.codegen.emit.preshift import preshift
from kilotune.codegen.emit.ranges import largest_sums, narrow_sums
from kilotune.codegen.emit.row_calls import interleaved_weights, row_calls
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.emit.sharing import share
from kilotune.codegen.emit.storage import VariableStorage, describe_storage, index_bits
from kilotune.codegen.emit.streaming import streamed
from kilotune.codegen.emit.tables import Functions
from kilotune.codegen.emit.unpacking_size import UnpackingSize
from kilotune.codegen.emit.windows import emit_argmax, emit_maxpool
from kilotune.codegen.emit.writer import Writer, counter_type
from kilotune.codegen.feature_order import FeatureOrder
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.hazards import find_hazard
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.quantisation_grid import QuantisationGrid


@dataclass(frozen=True, eq=False)
class Candidate:
    """What fixed-point code is made from: a batch of one, the real parameters, how inner loops are written, by how many frames windows
    move on where the program is called with frames, and where temporaries were asked to lie (code made for speed may place them anew)."""

    batch: FixedBatch
    parameters: Mapping[str, FloatArray]
    shape: CodeShape
    hop: int = 0
    placement: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CSource:
    """Emitted C. `name` is the stem of both files; `function` the entry.

    `ram_bytes` is the size of the one RAM array, of which variables take the first `variable_bytes` (what a search reports
    as RAM); scratch arrays of operations, the largest of `scratch_bytes`, fit between them or behind. `flash_bytes` are
    parameters and tables, and about what the code takes that unpacks parameters
    (`unpacking_size`). `unstored`: rows of operations whose results stay in registers (`fusion`), which no hook follows.
    `live_bytes`: of the RAM array, by row, those that hold values while it runs; `constant_bytes`: of flash, by parameter.
    `candidate`: what it was made from, for targets that are not C; None for floats. `input_offset`: where in the RAM array the sample lies
    that the program has asked for as a whole; None where it lies elsewhere.
    """

    name: str
    function: str
    header: str
    source: str
    interface: Interface
    offsets: Mapping[str, int]
    ram_bytes: int
    variable_bytes: int
    scratch_bytes: int
    flash_bytes: int
    unstored: frozenset[int] = frozenset()
    live_bytes: tuple[int, ...] = ()
    constant_bytes: Mapping[str, int] = field(default_factory=dict)
    candidate: Candidate | None = None
    input_offset: int | None = None


def emit_c(
    batch: FixedBatch,
    parameters: Mapping[str, FloatArray],
    placement: Mapping[str, int] | None = None,
    *,
    in_place: bool = True,
    in_frames: bool = False,
    in_steps: bool = False,
    hop: int = 0,
    shape: CodeShape | None = None,
    name: str = "model",
    function: str = "predict",
    scaling: FeatureScaling | QuantisationGrid | None = None,
    class_names: tuple[ClassName, ...] = (),
    result_grid: QuantisationGrid | None = None,
    order: FeatureOrder | None = None,
) -> CSource:
    """The only candidate of `batch` as C.

    `placement`: byte offset of temporaries in RAM; those that it does not name are placed as `codegen.placement` does. In shapes made for
    speed all may be placed anew, in no more RAM, so that more operations run as one.
    `in_place`: results may overwrite operands that die there (`codegen.in_place`). `in_frames`: the program asks for its input a frame at
    a time (`streaming`), `in_steps`: it is called with each, and with a `hop` goes on after
    a sample with all but its first so many frames. `shape`: how inner loops are written, plainly unless it is given.
    `scaling`: what callers do to features before
    they are quantised. `class_names`: what the classes are called, where that is not their number. `result_grid`: where the
    integers stand that a quantised program returns. `order`: which features of the model its own are. Raises ValueError
    for a batch of another size, an operation that overwrites what it still has to read, a placement in which two live
    variables overlap, or a program that reads its input in no loop over frames and is to be called with each.
    """
    if len(batch) != 1:
        raise ValueError(f"one candidate is emitted at a time, not {len(batch)}: choose it with FixedBatch.one")
    whole, stream = batch, None
    if in_frames or in_steps:
        program, stream = streamed(batch.program, pushed=in_steps, hop=hop)
        batch = dataclasses.replace(batch, program=program)
    rows, (_, shifts) = emitted_rows(batch)[0], preshift(batch)
    storage = dataclasses.replace(describe_storage(batch), shifts=shifts, rounding=batch.rounding)
    shape, operators = shape or CodeShape(), Operators(batch.rounding)
    integers = Integers(
        Functions(operators, frozenset(itertools.compress(batch.functions, batch.by_half_tanh)), shape.shared),
        batch.functions,
        narrow_sums(dataclasses.replace(batch, rows=rows[None]), parameters, shifts),
        largest_sums(batch, parameters),
    )
    context = Context(storage, operators, integers, rows, Writer(depth=1), stream=stream, shape=shape)
    functions = integers.functions
    made = emit_program(
        context,
        parameters,
        placement or {},
        in_place,
        (name, function),
        lambda: (functions.arrays, functions.definitions),
        scaling,
        class_names,
        result_grid,
        order,
    )
    flash = made.flash_bytes + int(UnpackingSize(batch.program).code_bytes(batch)[0])
    candidate = Candidate(whole, parameters, shape, hop, placement or {})
    return dataclasses.replace(made, flash_bytes=flash, candidate=candidate)


def emit_program(
    context: Context,
    parameters: Mapping[str, FloatArray],
    placement: Mapping[str, int],
    in_place: bool,
    names: tuple[str, str],
    tables: Callable[[], tuple[list[ConstantArray], list[str]]],
    scaling: FeatureScaling | QuantisationGrid | None = None,
    class_names: tuple[ClassName, ...] = (),
    result_grid: QuantisationGrid | None = None,
    order: FeatureOrder | None = None,
) -> CSource:
    """The program of `context` in any arithmetic; `names`: of the files and of the function.

    `tables`: asked when all operations are written, the arrays and functions that they turned out to need.
    """
    storage, program = context.storage, context.storage.program
    _check_order(program)
    with_input = context.stream is not None and context.stream.whole
    variables = place_temporaries(storage, placement, in_place, with_input=with_input)
    storage = dataclasses.replace(storage, interleaved=interleaved_weights(context))
    context, variables = _knowing_placement(dataclasses.replace(context, storage=storage), variables)
    ask_for_frame(context, None)
    _emit_body(context, program.body, 0)
    _emit_result(context)
    layout = lay_out(storage, variables, context.scratches, placement, context.chains, _unstored(context))
    arrays, functions = tables()
    by_parameter = parameter_arrays(storage, program, parameters)
    constants = [*itertools.chain.from_iterable(by_parameter.values()), *arrays]
    interface = describe_interface(storage, program, context.stream, scaling, class_names, result_grid, order)
    name, function = names
    prototype = signature(interface, function)
    resets, reset_prototype = reset_function(context, function)
    flash_bytes = sum(array.size_bytes for array in constants)
    further = [*resets, *near_flash_guard(flash_bytes)]
    return CSource(
        name,
        function,
        header(interface, title(context.storage.real, program), name, reset_prototype + prototype),
        "\n".join([_source(context, layout, constants, functions, program, name, function, prototype), *further]),
        interface,
        layout.offsets,
        layout.size_bytes,
        layout.variable_bytes,
        max((s.size_bytes for s in context.scratches.values()), default=0),
        flash_bytes,
        frozenset(row for chain in context.chains.values() for row in chain.rows[:-1]),
        layout.live_bytes,
        {name: sum(array.size_bytes for array in of_one) for name, of_one in by_parameter.items()},
        input_offset=layout.offsets[program.input.name] if with_input and program.input is not None else None,
    )


def _knowing_placement(context: Context, placed: PlacedTemporaries) -> tuple[Context, PlacedTemporaries]:
    """The context with all that follows from where temporaries lie, and where they lie when operations run as one."""
    chains, variables = choose_chains(context, placed)
    context = dataclasses.replace(context, chains=chains, offsets=variables.offsets, backward=variables.backward)
    return dataclasses.replace(context, row_calls=row_calls(context)), variables


def _check_order(program: ir.Program) -> None:
    hazard = find_hazard(loop_steps(program))
    if hazard is not None:
        operation = hazard.operation
        raise ValueError(
            f"{operation.location}: {operation.out.variable} is written and read at different places by one "
            f"{type(operation).__name__}; write the result to another variable and copy it"
        )


def _emit_body(context: Context, body: tuple[ir.Statement, ...], number: int) -> int:
    """Emit statements whose first operation is row `number`; the number after the last one."""
    done = number
    for statement in body:
        if isinstance(statement, ir.Periodic):
            context.writer.line()
            with context.writer.block(f"if ({in_rounds(context, statement)})"):
                number = _emit_body(context, statement.body, number)
            done = number
            continue
        if isinstance(statement, ir.Loop):
            name = context.storage.loop_names[statement.index]
            end = statement.start + statement.count
            context.writer.line()
            context.writer.line(f"/* {_place(statement.location)}: loop */")
            kind = counter_type(end) if statement.start >= 0 else "kt_index"
            stream = context.stream
            pushed = stream is not None and stream.pushed and stream.loop == statement.index
            rounds = f"for ({kind} {name} = {statement.start}; {name} < {end}; {name}++)"
            with one_round(context, name, kind, statement) if pushed else context.writer.block(rounds):
                ask_for_frame(context, statement.index, statement.start + statement.count)
                number = _emit_body(context, statement.body, number)
            done = number
            continue
        if number == done:
            chain = context.chains.get(number, OperationChain(number, (statement,)))
            _emit_operations(context, chain)
            done = chain.rows.stop
        number += 1
    return number


def _emit_operations(context: Context, chain: OperationChain) -> None:
    """One operation, or several that run in one nest."""
    context.writer.line()
    for operation in chain.operations:
        context.writer.line(f"/* {_place(operation.location)}: {_sentence(operation)} */")
    operation, row = chain.operations[0], OperationRow(chain.first, context.rows[chain.first])
    if len(chain.operations) > 1:
        emit_chain(context, chain)
    elif isinstance(operation, ir.Elementwise):
        emit_elementwise(context, operation, row)
    else:
        _emit_gathering(context, operation, row)
    context.writer.line(f"KT_AFTER({chain.rows[-1]});")


def _emit_gathering(context: Context, operation: ir.Gathering, row: OperationRow) -> None:
    match operation:
        case ir.MatMul() | ir.Conv2D():
            emit_product(context, operation, row)
        case ir.MaxPool():
            emit_maxpool(context, operation, row)
        case ir.NormaliseL2():
            context.arithmetic.normalise(context, operation, row)
        case ir.QuantisedSoftmax():
            context.arithmetic.softmax(context, operation)
        case ir.ArgMax():
            emit_argmax(context, operation)
        case _:
            assert_never(operation)


def _place(location: ir.Location) -> str:
    """The source place; only the file's name, so that the text does not depend on where it was compiled. Names in a file may hold
    anything, also what ends a comment."""
    name = PurePath(location.path).name
    text = f"{name}:{location.line}:{location.column}" if location.place is None else f"{name}, {location.place}"
    return (
        "".join(c if c.isascii() and c.isprintable() else "?" for c in text).replace("*/", "* /").replace("/*", "/ *")
    )


def _sentence(operation: ir.Operation) -> str:
    read = [o.variable if isinstance(o, ir.View) else str(o.value) for o in operation.operands]
    inside = ", ".join(read) if read else str(getattr(operation, "value", ""))
    return comment_text(f"{operation.out.variable} = {type(operation).__name__}({inside})")


def _unstored(context: Context) -> str | None:
    """The label that the caller gets, where code is to be short: it need not lie among the temporaries, whose bytes outlive the call."""
    program = context.storage.program
    is_label = program.result_kind is ir.ResultKind.CLASS and program.result.variable in ir.label_variables(program)
    alone = is_label and context.shape.shared and context.stream is None
    return program.result.variable if alone and program.variable(program.result.variable).size == 1 else None


def _emit_result(context: Context) -> None:
    """Return the label, or copy the result's elements to the caller."""
    program, writer = context.storage.program, context.writer
    writer.line()
    if program.result_kind is ir.ResultKind.CLASS:
        writer.line(f"return {context.storage.element(program.result, []).text};")
        return
    loops = iterate([program.result])
    steps = ir.row_major_strides(loops.extents)
    with writer.loops([(f"i{axis}", extent) for axis, extent in enumerate(loops.extents)]) as counters:
        value = context.storage.element(program.result, list(zip(counters, loops.strides[0], strict=True)))
        place = " + ".join(c if s == 1 else f"{s} * {c}" for c, s in zip(counters, steps, strict=True)) or "0"
        writer.line(f"result[{place}] = {value.text};")
    if context.stream is not None and context.stream.pushed:
        writer.line("return 1;")


def _packed_readers(storage: VariableStorage, written: str) -> list[str]:
    """What reads packed codes, as far as the text that was written calls it."""
    widths = [width for width in storage.packed_widths if f"{reader(width)}(" in written]
    place = [f"typedef uint_fast{index_bits(storage.program)}_t kt_place;"] if widths or "kt_place" in written else []
    return place + [reader_definition(width) for width in widths]


def _array_of(layout: TemporaryLayout, pointers: list[str]) -> list[str]:
    """The array of all temporaries: in tracing builds alone where no others have one of these pointers into it."""
    if any(not line.startswith("#if") for line in pointers):
        return layout.array
    return [f"#if defined(KT_TRACED)\n{array}\n#endif" for array in layout.array]


def _source(
    context: Context,
    layout: TemporaryLayout,
    constants: list[ConstantArray],
    functions: list[str],
    program: ir.Program,
    name: str,
    function: str,
    prototype: str,
) -> str:
    arrays = [array.definition for array in constants]
    parts = [title(context.storage.real, program)]
    uses_library = context.storage.real or any("expf(" in definition for definition in functions)
    includes = f'#include "{name}.h"' + ("\n\n#include <math.h>" if uses_library else "")
    definitions, lines = [*context.operators.functions, *functions], context.writer.lines
    if context.shape.shared:
        operators = context.operators
        definitions, lines = share(definitions, lines, operators.rounding, operators.called)
        definitions = [
            re.sub(r"^static (?=\w+ \w+\()", "static KT_NEAR ", text, flags=re.MULTILINE) for text in definitions
        ]
    written = [*definitions, *lines]
    parts += [includes, prelude(context, written, function)]
    parts += [FLASH_MACROS.rstrip()] if arrays else []
    parts += _packed_readers(context.storage, "\n".join(written))
    text = re.sub(r"/\*.*\*/", "", "\n".join(lines))
    pointers = [line for name, line in layout.pointers if re.search(rf"\b{name}\b", text)]
    parts += layout.typedefs + arrays + _array_of(layout, pointers)
    parts += definitions
    unread = program.input is not None and program.input.name not in ir.used_variables(program)
    frame, named = frame_array(context, program)
    parts += frame
    body = [*named, *pointers, *(["    (void)x;"] if unread else []), *lines]
    near = "KT_NEAR " if context.shape.shared else ""
    parts.append("\n".join([near + prototype, "{", *body, "}"]))
    return "\n\n".join(parts) + "\n"
