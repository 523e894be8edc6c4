"""C of a program that gets its input a frame at a time (`streaming`): it asks for each by a call, or is called with each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context


def ask_for_frame(context: Context, loop: str | None, rounds: int = 0) -> None:
    """The call for the next frame, if it belongs to the beginning of the rounds of `loop`, of which there are so many; None: of the
    program."""
    stream = context.stream
    if stream is not None and not stream.pushed and stream.loop == loop:
        condition = ""
        if loop is not None and rounds > stream.frames:
            condition = f"if ({context.storage.loop_names[loop]} < {stream.frames}) "
        context.writer.line(f"{condition}kt_next({'x' if stream.whole else 'kt_frame'});")


def in_rounds(context: Context, statement: ir.Periodic) -> str:
    """The condition that the loop around is in one of the statement's rounds."""
    index, first, every = context.storage.loop_names[statement.index], statement.first, statement.every
    end = first + every * (statement.count - 1) + 1
    moved = index if first == 0 else f"({index} - {first})"
    tests = [f"{index} >= {first}"] if first > 0 else []
    tests += [f"{index} < {end}"]
    tests += [f"{moved} % {every} == 0"] if every > 1 else []
    return " && ".join(tests)


def frame_array(context: Context, program: ir.Program) -> tuple[list[str], list[str]]:
    """The definition of the array, and the line of the function that makes it the input; of a program that is
    called with each frame, the number of those there have been; nothing where the whole sample is there, or lies among the temporaries."""
    if context.stream is None or context.stream.whole or program.input is None:
        return [], []
    if context.stream.pushed:
        kind = "uint16_t" if context.stream.frames < 1 << 16 else "uint32_t"
        count = f"/* How many frames of the sample there have been. */\nstatic {kind} kt_step;"
        return [count], []
    kind = context.storage.type_of(program.input.name)
    array = f"/* The frame of the input that is being read. */\nstatic {kind} kt_frame[{context.stream.features}];"
    return [array], [f"    const {kind} *const x = kt_frame;"]


@contextmanager
def one_round(context: Context, counter: str, kind: str, loop: ir.Loop) -> Iterator[None]:
    """What is written inside is one round of the outermost loop that reads the frames, that of the frame that the program is called
    with. What was written before it belongs to the first call, what comes behind it to the last one."""
    writer = context.writer
    before = [f"    {line}" if line else line for line in writer.lines]
    writer.lines[:] = ["    if (kt_step == 0) {", *before, "    }"] if before else []
    stream = context.stream
    assert stream is not None
    frames, first = stream.frames, f"{loop.start} + kt_step" if loop.start else "kt_step"
    if loop.count == frames:
        with writer.block(""):
            writer.line(f"const {kind} {counter} = ({kind})({first});")
            writer.line(f"(void){counter};")
            yield
    else:  # behind the last frame there are rounds without one
        ends = f"(kt_step + 1 < {frames} ? {counter} + 1 : {loop.start + loop.count})"
        with writer.block(
            f"for ({kind} {counter} = ({kind})({first}), end = ({kind}){ends}; {counter} < end; {counter}++)"
        ):
            yield
    unfinished = -1 if context.storage.program.result_kind is ir.ResultKind.CLASS else 0
    writer.line(f"if (++kt_step < {frames}) return {unfinished};")
    writer.line(f"kt_step = {frames - stream.hop if stream.hop else 0};")


def reset_function(context: Context, function: str) -> tuple[list[str], str]:
    """The definition of the function that begins a new sample, and its prototype as a line of the header; nothing where no such is
    needed."""
    stream = context.stream
    if stream is None or not stream.pushed:
        return [], ""
    prototype = f"void {function}_reset(void)"
    return [f"{prototype}\n{{\n    kt_step = 0;\n}}\n"], f"{prototype};\n"
