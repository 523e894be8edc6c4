"""Sums over elements that lie beside each other in both operands, as functions of their own.

Where one operand is stored in packed codes, a run takes whole groups of them apart where it is known to consist of them, and otherwise
moves a byte along as it goes.
A function gives the inner loop all registers: inside the nest that calls it, avr-gcc keeps pointers on the stack instead.
Operations with operands of the same kinds share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kilotune.codegen import ir
from kilotune.codegen.emit.called_code import called_groups, called_rows, called_sum, most_groups
from kilotune.codegen.emit.common_windows import WindowNumbers, window_function
from kilotune.codegen.emit.context import Context, SumOfProducts
from kilotune.codegen.emit.operators import CExpression
from kilotune.codegen.emit.packing import code_of_byte, decoded, group_codes, layout_of, reader, walks
from kilotune.codegen.emit.unrolled import Factor, several_steps, steps_for
from kilotune.codegen.fixed.encoding import BYTE_BITS

RunStart = tuple[ir.View, Sequence[tuple[str, int]]]
"""A view and where in it a run begins: (expression, elements a step) pairs."""


NOTHING: Mapping[int, str] = MappingProxyType({})


def add_run(context: Context, total: SumOfProducts, a: RunStart, b: RunStart, count: int) -> None:
    """Add `count` products to the sum."""
    if _is_turned(context, total, a[0].variable, b[0].variable):
        a, b = b, a
    walking = [context.row_pointers.get(view) for view, _ in (a, b)]
    starts = [context.storage.group_address(view, moves, count) for view, moves in (a, b)]
    pair = a[0].variable, b[0].variable
    in_groups = (starts[0] is None) != (starts[1] is None)
    addresses = [
        pointer.name if pointer is not None else start if in_groups and start is not None else _address(context, place)
        for pointer, start, place in zip(walking, starts, (a, b), strict=True)
    ]
    if in_groups:
        number = 0 if starts[0] is not None else 1
        packing = context.storage.packing(pair[number])
        assert packing is not None
        groups = count // layout_of(packing.width).codes
        name = _groups_function(context, total, pair, number, groups)
        addresses[number] += codebook_argument(context, pair[number])
        context.writer.line(f"sum = {name}(sum, {', '.join(addresses)}, {groups});")
    else:
        _add(context, total, pair, addresses, count)
    for pointer in filter(None, walking):
        context.writer.line(f"{pointer.name} += {pointer.length};")


def add_run_at(
    context: Context, total: SumOfProducts, names: tuple[str, str], places: tuple[str, str], count: int
) -> None:
    """Add `count` products of two variables to the sum, from these expressions of pointers on."""
    if _is_turned(context, total, *names):
        names, places = names[::-1], places[::-1]
    pointers = [f"({pointed(context, variable)} *)({place})" for variable, place in zip(names, places, strict=True)]
    _add(context, total, names, pointers, count)


def _is_turned(context: Context, total: SumOfProducts, first: str, second: str) -> bool:
    """Whether the second operand is to be named first, wherever products may be taken in either order: operations with operands of the
    same kinds share a function whichever order they have. avr-gcc 5.4 has the one in flash first faster where both have the same width
    (by 8 to 10 % in recurrent networks of 8 bits), and the one in RAM first where their widths differ (by 2 %)."""
    bits = context.storage.bits
    kinds = kind_of(context, first), kind_of(context, second)
    return total.plain and (kinds[0] > kinds[1] if bits[first] == bits[second] else kinds[0] < kinds[1])


def _add(context: Context, total: SumOfProducts, names: tuple[str, str], pointers: Sequence[str], count: int) -> None:
    """The line that calls the function of a run."""
    assert not context.storage.interleaved.keys() & set(names)
    if takes_steps(context, names):
        steps = _steps_a_round(context)
        rounds, rest = divmod(count, steps)
        if rounds:
            name = _stepping(context, total, *names, steps)
            context.writer.line(f"sum = {name}(sum, {', '.join(pointers)}, {rounds});")
            pointers, count = [f"{pointer} + {count - rest}" for pointer in pointers], rest
    if count:
        name = _function(context, total, *names, count)
        context.writer.line(f"sum = {name}(sum, {', '.join(pointers)}, {count});")


@dataclass(frozen=True)
class RowsForm:
    """`long`: whether count and skips may be above 255, `tall`: whether rows may. `steps`: how many stand in a round, which is counted
    then; 0: one."""

    long: bool
    tall: bool
    steps: int

    @property
    def suffix(self) -> str:
        """What tells the function from others."""
        return (
            ("_long" if self.long else "") + ("_tall" if self.tall else "") + (f"_by{self.steps}" if self.steps else "")
        )


def add_rows(
    context: Context,
    total: SumOfProducts,
    places: tuple[str, str],
    views: tuple[ir.View, ir.View],
    extent: str,
    form: RowsForm,
) -> None:
    """Add several runs: `places` are expressions of both pointers, `extent` the further arguments (rows, count, skips)."""
    name = _rows_function(context, total, views[0].variable, views[1].variable, form)
    pointers = [_argument(context, v.variable, p) for v, p in zip(views, places, strict=True)]
    context.writer.line(f"sum = {name}(sum, {', '.join(pointers)}, {extent});")


def add_window(
    context: Context,
    total: SumOfProducts,
    places: tuple[str, str],
    names: tuple[str, str],
    first: tuple[str, str],
    numbers: WindowNumbers,
) -> None:
    """Add the part of a window inside the image: `places` are pointers to the image and the weights, `first` the window's first row and
    column, which may lie outside. The sum is that of this window alone."""
    rows = _rows_function(context, total, *names, RowsForm(long=False, tall=False, steps=0))
    kinds = pointed(context, names[0]), pointed(context, names[1])
    name = context.operators.require(
        (window := rows.replace("kt_rows", "kt_window")), window_function(window, rows, kinds, total.kind, numbers)
    )
    pointers = ", ".join(_argument(context, n, place) for n, place in zip(names, places, strict=True))
    at = ", ".join(f"(int8_t)({place})" for place in first)
    context.writer.line(f"sum = {name}({pointers}, {at}{numbers.passed()});")


def add_unpacking(context: Context, variable: str) -> str:
    """The name of the function that writes up to 255 elements of a packed parameter, from one on, to an array."""
    packing = context.storage.packing(variable)
    assert packing is not None
    bits, name = context.storage.bits[variable], f"kt_unpack_{kind_of(context, variable)}"
    element = decoded(f"{reader(packing.width)}(codes, first++)", packing, bits, "table")
    takes = f"kt_int{bits} *to, {_parameter(context, variable, 0)}, uint8_t n"
    takes = takes.replace("codes0", "codes").replace("p0", "first").replace("table0", "table")
    return context.operators.require(
        name,
        f"/* n > 0 elements of a parameter, from number `first` on */\n"
        f"KT_NOINLINE void {name}({takes})\n{{\n    do *to++ = {element}; while (--n != 0);\n}}",
    )


def _address(context: Context, place: RunStart) -> str:
    view, moves = place
    return _argument(context, view.variable, context.storage.address(view, moves))


def _argument(context: Context, variable: str, address: str) -> str:
    """What is passed for an operand: a pointer, or the array of its codes and a number."""
    if context.storage.packing(variable) is not None:
        return f"{context.storage.array(variable)}, {address}{codebook_argument(context, variable)}"
    kind = pointed(context, variable)
    return f"({kind} *)({address})" if " " in address else f"({kind} *){address}"


def _parameter(context: Context, variable: str, number: int) -> str:
    """The parameters that take it."""
    if context.storage.packing(variable) is not None:
        return f"const uint8_t *codes{number}, kt_place p{number}{_codebook_parameter(context, variable, number)}"
    return f"{pointed(context, variable)} *p{number}"


def codebook_argument(context: Context, variable: str) -> str:
    """The further argument for packed codes of a table."""
    packing = context.storage.packing(variable)
    return f", {context.storage.codebook(variable)}" if packing is not None and packing.codebook else ""


def _codebook_parameter(context: Context, variable: str, number: int) -> str:
    """The parameter that takes it."""
    return f", const int8_t *table{number}" if codebook_argument(context, variable) else ""


def pointed(context: Context, variable: str) -> str:
    """The C type that a pointer to its elements points at. Inputs are read as temporaries are, so that both can use one function."""
    storage = context.storage
    if storage.in_flash(variable):
        return f"const {storage.type_of(variable)}"
    return "const kt_float" if not storage.is_integer(variable) else f"const kt_int{storage.bits[variable]}"


def kind_of(context: Context, variable: str) -> str:
    """Part of a C name: where a variable lies, and in what form."""
    storage = context.storage
    kind = str(storage.bits[variable]) if storage.is_integer(variable) else ""
    packing = storage.packing(variable)
    if packing is not None:
        form = "_table" if packing.codebook else f"_{packing.shift}" if packing.shift else ""
        return f"codes{kind}_{packing.width}{form}"
    if variable in storage.interleaved:
        return f"flash{kind}i"
    return f"flash{kind}" if storage.in_flash(variable) else f"ram{kind}"


def _step(context: Context, total: SumOfProducts, a: str, b: str, known: Mapping[int, str] = NOTHING) -> list[str]:
    """The lines that read both elements and add their product. `known`: codes by operand that need not be read."""
    storage, values, lines = context.storage, [], []
    for number, variable in enumerate((a, b)):
        packing = storage.packing(variable)
        if packing is not None:
            code = known.get(number, f"{reader(packing.width)}(codes{number}, p{number}++)")
            text = decoded(code, packing, storage.bits[variable], f"table{number}")
        elif storage.in_flash(variable):
            text = f"KT_NEXT{storage.suffix(variable)}(p{number})"
        else:
            text = f"*p{number}++"
        lines.append(f"const {storage.type_of(variable)} v{number} = {text};")
        values.append(CExpression(f"v{number}", storage.bits[variable]))
    return [*lines, f"sum = {total.grown(values[0], values[1])};"]


def _function(context: Context, total: SumOfProducts, a: str, b: str, count: int) -> str:
    counter = _counter(count)
    name = f"kt_dot_{kind_of(context, a)}_{kind_of(context, b)}_{total.key}" + ("" if count < 256 else "_long")
    packings = [context.storage.packing(variable) for variable in (a, b)]
    walked = [n for n, packing in enumerate(packings) if packing is not None and walks(packing.width)]
    step = "\n        ".join(_step(context, total, a, b))
    body = f"    do {{\n        {step}\n        KT_COUNT(n);\n    }} while (--n != 0);\n    return sum;\n"
    if len(walked) == 1:
        body = _walking(context, total, (a, b), walked[0])
    takes = f"{_parameter(context, a, 0)}, {_parameter(context, b, 1)}"
    plain = f"KT_NOINLINE {total.kind} {name}({total.kind} sum, {takes}, {counter} n)\n{{\n{body}}}"
    called = None
    if count < 256 and packings == [None, None] and _is_of_bytes(context, total, (a, b)):
        called = called_sum(name, _pointers(context, (a, b)), int(total.key), plain)
    note = "/* sum + p0[0] * p1[0] + ... + p0[n - 1] * p1[n - 1], for n > 0 */\n"
    return context.operators.require(name, note + (plain if called is None else called))


def _is_of_bytes(context: Context, total: SumOfProducts, pair: tuple[str, str]) -> bool:
    """Whether a sum's function is short in AVR instructions, and wanted so: of bytes, with nothing done to them."""
    bytes_alone = all(context.storage.bits[variable] == BYTE_BITS for variable in pair)
    return context.shape.shared and total.plain and total.key.isdigit() and bytes_alone


def _pointers(context: Context, pair: tuple[str, str]) -> list[tuple[str, bool]]:
    """What pointers to operands point at, and whether they lie in flash."""
    return [(pointed(context, variable), context.storage.in_flash(variable)) for variable in pair]


def takes_steps(context: Context, names: tuple[str, str]) -> bool:
    """Whether several steps of a run of products of two variables are to be written out."""
    storage = context.storage
    whole = all(storage.packing(name) is None and storage.is_integer(name) for name in names)
    return bool(context.shape.unroll) and whole


def _run_lengths(context: Context) -> Counter[int]:
    """How many runs of each length all products of the program have."""
    lengths: Counter[int] = Counter()
    for operation, times in ir.executions(context.storage.program.body):
        if isinstance(operation, ir.Product):
            lengths[operation.taps] += times * operation.out.size
    return lengths


def _steps_a_round(context: Context) -> int:
    return steps_for(context.shape.unroll, _run_lengths(context))


def _stepping(context: Context, total: SumOfProducts, a: str, b: str, steps: int) -> str:
    """The function of whole rounds of a run. What is left over is a run of its own, so that this one has a single loop."""
    size = "uint_fast8_t" if max(_run_lengths(context)) < 256 * steps else "uint_fast16_t"
    name = f"kt_dot_{kind_of(context, a)}_{kind_of(context, b)}_{total.key}_by{steps}"
    takes = f"{_parameter(context, a, 0)}, {_parameter(context, b, 1)}"
    several = _steps(context, total, (a, b), steps)
    body = "\n".join(line if line.startswith("#") else f"        {line}" for line in several)
    text = (
        f"/* sum + p0[0] * p1[0] + ... over {steps} * rounds > 0 products */\n"
        f"KT_NOINLINE {total.kind} {name}({total.kind} sum, {takes}, {size} rounds)\n"
        f"{{\n    do {{\n{body}\n        KT_COUNT(rounds);\n    }} while (--rounds != 0);\n    return sum;\n}}"
    )
    return context.operators.require(name, text)


def _steps(context: Context, total: SumOfProducts, pair: tuple[str, str], steps: int) -> list[str]:
    """C of several steps."""
    storage, step = context.storage, _step(context, total, *pair)
    first, second = (Factor(storage.bits[name], storage.in_flash(name)) for name in pair)
    sum_bits = int(total.kind.strip("uint_")) if total.plain else None
    return several_steps(steps, step, (first, second), sum_bits)


def _counter(count: int) -> str:
    return "uint_fast8_t" if count < 256 else "uint_fast16_t"


def _walking(context: Context, total: SumOfProducts, pair: tuple[str, str], number: int) -> str:
    """The body of a run in which operand `number` is packed: it begins at any code, and moves a byte along as it goes."""
    packing = context.storage.packing(pair[number])
    assert packing is not None
    width, codes = packing.width, layout_of(packing.width).codes
    last, place, array = codes - 1, f"p{number}", f"codes{number}"
    lines = [
        f"{array} += {place} >> {last.bit_length()};",
        f"uint8_t byte = KT_NEXT_PLACE8({array}), left = (uint8_t)({codes} - ({place} & {last}));",
        f"for (uint8_t k = {codes}; k != left; k--) byte = (uint8_t)(byte >> {width});",
        "for (;;) {",
        *(f"    {line}" for line in _step(context, total, *pair, {number: code_of_byte(width, "byte")})),
        "    if (--n == 0) return sum;",
        f"    if (--left == 0) {{ byte = KT_NEXT_PLACE8({array}); left = {codes}; }}",
        f"    else byte = (uint8_t)(byte >> {width});",
        "}",
    ]
    return "".join(f"    {line}\n" for line in lines)


def _groups_function(context: Context, total: SumOfProducts, pair: tuple[str, str], number: int, groups: int) -> str:
    """The function for runs of whole groups of codes. Where they are many in a byte, a loop takes them apart."""
    packing = context.storage.packing(pair[number])
    assert packing is not None
    layout, width, array = layout_of(packing.width), packing.width, f"codes{number}"
    loaded = [f"byte{i}" for i in range(layout.group_bytes)]
    lines = [f"const uint8_t {name} = KT_NEXT_PLACE8({array});" for name in loaded]
    if width <= 2 or (context.shape.shared and BYTE_BITS % width == 0):
        step = _step(context, total, *pair, {number: code_of_byte(width, "byte")})
        lines = [f"uint8_t byte = KT_NEXT_PLACE8({array}), left = {layout.codes};", "do {"]
        lines += [
            *(f"    {line}" for line in step),
            f"    byte = (uint8_t)(byte >> {width});",
            "} while (--left != 0);",
        ]
    else:
        for code in group_codes(width, loaded):
            lines.append(" ".join(["{", *_step(context, total, *pair, {number: code}), "}"]))
    is_called = _is_of_bytes(context, total, pair) and walks(width) and not packing.codebook and packing.shift == 0
    few = groups <= (most_groups(width) if is_called else 255)
    name = f"kt_dot_{kind_of(context, pair[0])}_{kind_of(context, pair[1])}_{total.key}_groups{'' if few else '_long'}"
    takes = ", ".join(
        f"const uint8_t *{array}{_codebook_parameter(context, variable, number)}"
        if place == number
        else _parameter(context, variable, place)
        for place, variable in enumerate(pair)
    )
    body = "".join(f"        {line}\n" for line in lines)
    plain = (
        f"KT_NOINLINE {total.kind} {name}({total.kind} sum, {takes}, {_counter(groups)} n)\n"
        f"{{\n    do {{\n{body}        KT_COUNT(n);\n    }} while (--n != 0);\n    return sum;\n}}"
    )
    called = None
    if is_called and few:
        pointers = list(_pointers(context, pair))
        pointers[number] = ("const uint8_t", True)
        called = called_groups(name, pointers, number, width, int(total.key), plain)
    note = f"/* sum + p0[0] * p1[0] + ... over n > 0 groups of {layout.codes} */\n"
    return context.operators.require(name, note + (plain if called is None else called))


def _rows_function(context: Context, total: SumOfProducts, a: str, b: str, form: RowsForm) -> str:
    steps = form.steps
    name = f"kt_rows_{kind_of(context, a)}_{kind_of(context, b)}_{total.key}{form.suffix}"
    size, count_size = (f"uint_fast{16 if large else 8}_t" for large in (form.long, form.tall))
    lines = _steps(context, total, (a, b), steps) if steps else _step(context, total, a, b)
    step = "\n".join(line if line.startswith("#") else f"            {line}" for line in lines)
    count = f"n > 0 times {steps}" if steps else "n > 0"
    plain = (
        f"KT_NOINLINE {total.kind} {name}({total.kind} sum, {pointed(context, a)} *p0, {pointed(context, b)} *p1,\n"
        f"    {count_size} rows, {size} n, {size} skip0, {size} skip1)\n{{\n"
        f"    for (;;) {{\n        {size} k = n;\n        do {{\n{step}\n        }} while (--k != 0);\n"
        "        if (--rows == 0) return sum;\n        p0 += skip0;\n        p1 += skip1;\n    }\n}"
    )
    called = None
    if not form.suffix and _is_of_bytes(context, total, (a, b)):
        called = called_rows(name, _pointers(context, (a, b)), int(total.key), plain)
    note = f"/* the same over rows > 0 runs of {count} elements, between which the pointers skip some */\n"
    return context.operators.require(name, note + (plain if called is None else called))
