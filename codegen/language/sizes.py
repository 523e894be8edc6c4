"""How large a program may be: one that no microcontroller could hold or finish is a slip of the pen, and would fill the memory of
the machine that analyses it, which writes every step of every loop down."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.language.values import describe_shape

MOST_ELEMENTS = 1 << 22
"""The most elements of one variable: more bytes than the flash and RAM of any board that has neither an operating system nor
external memory."""

MOST_WRITTEN = 2048
"""Operations of a program, loops counted once: what is decided and placed is some variable of each, pair by pair."""

MOST_STEPS = 1 << 22
"""Operations that run in all, loops counted as often as they run: recurrences of 16 operations over patches of 8 x 8 pixels, at 4096 places
of an image."""

MOST_PRODUCTS = 1 << 28
"""Elements that all operations read and combine; the 8-bit processor of an Arduino Uno needs five minutes for so many products."""


def check_variable(variable: ir.Variable) -> None:
    """InputError, at the variable's place, for more than MOST_ELEMENTS."""
    if variable.size > MOST_ELEMENTS:
        expected = f"at most {MOST_ELEMENTS} elements"
        found = f"{describe_shape(variable.shape)}, {variable.size} elements"
        raise InputError.at(variable.location, f"shape of {variable.name}", expected, found)


def check_length(body: tuple[ir.Statement, ...]) -> None:
    """InputError, at the first operation that is too much, for more than MOST_WRITTEN."""
    for number, operation in enumerate(ir.operations(body), start=1):
        if number > MOST_WRITTEN:
            expected = f"at most {MOST_WRITTEN} operations"
            raise InputError.at(operation.location, "program", expected, "more")


def check_work(body: tuple[ir.Statement, ...], times: int = 1) -> tuple[int, int]:
    """(operations run, elements read) by a body that runs so many times. InputError at the first statement with which they are
    more than MOST_STEPS or MOST_PRODUCTS."""
    steps = products = 0
    for statement in body:
        if isinstance(statement, ir.Loop | ir.Periodic):
            more = check_work(statement.body, times * statement.count)
        else:
            more = times, times * _products(statement)
        steps, products = steps + more[0], products + more[1]
        for found, most, what in ((steps, MOST_STEPS, "operations"), (products, MOST_PRODUCTS, "products")):
            if found > most:
                expected = f"at most {most} {what} in one run of the program"
                raise InputError.at(
                    statement.location, "loop" if times > 1 else "program", expected, f"{found} or more"
                )
    return steps, products


def _products(operation: ir.Operation) -> int:
    """Elements that an operation reads and combines."""
    match operation:
        case ir.MatMul(a=a):
            return operation.out.size * a.shape[-1]
        case ir.Conv2D(b=b):
            return operation.out.size * ir.count_elements(b.shape[1:4])
        case ir.MaxPool(kernel=kernel):
            return operation.out.size * kernel[0] * kernel[1]
        case ir.ArgMax(a=a):
            return a.size
        case _:
            return operation.out.size
