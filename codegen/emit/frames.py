"""C of a program that asks for its input a frame at a time (`streaming`): the array of one frame, and the calls that fill it."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context


def ask_for_frame(context: Context, loop: str | None) -> None:
    """The call for the next frame, if it belongs to the beginning of the rounds of `loop`; None: of the program."""
    if context.stream is not None and context.stream.loop == loop:
        context.writer.line("kt_next(kt_frame);")


def frame_array(context: Context, program: ir.Program) -> tuple[list[str], list[str]]:
    """The definition of the array, and the line of the function that makes it the input; nothing where the whole sample is there."""
    if context.stream is None or program.input is None:
        return [], []
    kind = context.storage.type_of(program.input.name)
    array = f"/* The frame of the input that is being read. */\nstatic {kind} kt_frame[{context.stream.features}];"
    return [array], [f"    const {kind} *const x = kt_frame;"]
