"""C functions for exponentials by table, and for sigmoid and tanh on top of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

from kilotune.codegen import ir
from kilotune.codegen.emit.called_code import called_lookup
from kilotune.codegen.emit.constant_arrays import ConstantArray, constant_array, float_literal
from kilotune.codegen.emit.operators import CExpression, Operators, cast, constant, int_type, width_for
from kilotune.codegen.emit.writer import Writer
from kilotune.codegen.fixed.exponential import Exponential, LibraryExponential

LOGISTICS = MappingProxyType({"sigmoid": "1 / (1 + e**-v)", "tanh": "tanh(v / 2)"})


FRACTION8 = """\
    uint8_t quotient = n == d; /* a bit of the quotient a step */
    if (quotient) n = 0;
    for (; bits != 0; bits--) {
        n = (uint8_t)(n << 1);
        quotient = (uint8_t)(quotient << 1);
        if (n >= d) {
            n = (uint8_t)(n - d);
            quotient |= 1;
        }
    }
    return quotient;
"""

_STEP = """\
        "lsl %A[n]\\n\\t"
        "rol %B[n]\\n\\t"
        "cp %A[n], %A[d]\\n\\t"
        "cpc %B[n], %B[d]\\n\\t"
        "brcs .+4\\n\\t"
        "sub %A[n], %A[d]\\n\\t"
        "sbc %B[n], %B[d]\\n\\t"
        "rol %A[q]\\n\\t"
        "rol %B[q]\\n\\t"
"""

FRACTION16 = f"""\
    uint16_t q = 0xFFFF; /* the bits of the quotient, inverted, two a round: carries of comparisons */
    uint8_t rounds = (uint8_t)(bits + 1) >> 1;
    if (n == d) {{
        q = 0xFFFE;
        n = 0;
    }}
    __asm__("1:\\n\\t"
{_STEP}{_STEP}\
        "dec %[rounds]\\n\\t"
        "brne 1b"
        : [n] "+r"(n), [q] "+r"(q), [rounds] "+r"(rounds) : [d] "r"(d));
    q = (uint16_t)~q;
    return bits & 1 ? q >> 1 : q;
"""
"""With one bit more than asked for where that is odd: 2**16 is not reached, as 2**bits is at most half of the largest d."""


@dataclass
class Functions:
    """The tables and functions that a program needs; equal ones are emitted once. `by_half_tanh`: those of which `half_tanh` is stored.
    `short`: code is to be short rather than fast."""

    operators: Operators
    by_half_tanh: frozenset[Exponential] = frozenset()
    short: bool = False
    definitions: list[str] = field(default_factory=list)
    arrays: list[ConstantArray] = field(default_factory=list)
    _array_names: dict[tuple[int, tuple[int, ...]], str] = field(default_factory=dict)
    _made: dict[tuple[str, Exponential, int], CExpression] = field(default_factory=dict)

    def apply(self, operation: ir.TableFunction, table: Exponential, argument: CExpression, shift: int) -> CExpression:
        """Exp, Sigmoid or Tanh of `argument / 2**shift`, as `evaluators.fixed_point.reference.evaluate_function`."""
        looked_up = table in self.by_half_tanh and table.half_tanh is not None and table.last_told_apart < 1 << 8
        if isinstance(operation, ir.Sigmoid | ir.Tanh) and looked_up and argument.bits == 8 and shift < 0:
            function = self._logistic(operation.function, table, 8, -shift)
            return CExpression(f"{function.text}({argument.text})", function.bits)
        scaled = self._scaled(table, argument, shift)
        by_distance = _of_distance(table) if isinstance(operation, ir.Exp) else table in self.by_half_tanh
        narrow = scaled.bits == 8 and by_distance and table.last_told_apart < 1 << 8
        width = 8 if narrow else _argument_width(table, scaled.bits)
        match operation:
            case ir.Exp():
                function = self._exponential(table, width)
            case ir.Sigmoid() | ir.Tanh():
                function = self._logistic(operation.function, table, width)
            case _:
                raise AssertionError(f"no C function for {type(operation).__name__}")
        return CExpression(f"{function.text}({scaled.text})", function.bits)

    def _scaled(self, table: Exponential, argument: CExpression, shift: int) -> CExpression:
        """The argument at the table's scale; saturated where the ends of the table are nearer than those of the type."""
        bits = max(16, argument.bits)
        if -shift in range(1, bits) and argument.bits - shift > bits and _argument_width(table, bits) == bits:
            return self.operators.saturating(argument, -shift, bits)
        return self.operators.exact(argument, shift)

    def array(self, bits: int, entries: tuple[int, ...]) -> str:
        """The name of the array in flash of integers of so many bits."""
        key = (bits, entries)
        if key not in self._array_names:
            self._array_names[key] = name = f"kt_table{len(self._array_names)}"
            self.arrays.append(constant_array(name, int_type(bits), entries, bits))
        return self._array_names[key]

    def _exponential(self, table: Exponential, width: int) -> CExpression:
        """The name of the function and the width of its result."""
        key = ("exp", table, width)
        if key not in self._made:
            name = f"kt_exp{len(self._made)}"
            body = Writer()
            if width == 8:
                _distance_below(body, table.last_told_apart)
                result = self._look_up(body, table)
            elif isinstance(table, LibraryExponential):
                _limit(body, table, width)
                result = _by_library(table)
            else:
                _limit(body, table, width)
                self._subtract(body, table, width)
                result = self._look_up(body, table)
            body.line(f"return {result.text};")
            self._define(name, table, width, result.bits, "e**v", body)
            self._made[key] = CExpression(name, result.bits)
        return self._made[key]

    def _decay(self, table: Exponential, width: int) -> str:
        """The call of the function e**-|v|. Where the table begins at 0, |v| is the place in it."""
        if not _of_distance(table):
            return f"{self._exponential(table, width).text}(v > 0 ? ({int_type(width)})-v : v)"
        key = ("decay", table, width)
        if key not in self._made:
            name, last = f"kt_decay{len(self._made)}", table.last_told_apart
            body = Writer()
            _distance(body, width, last)
            result = self._look_up(body, table)
            body.line(f"return {result.text};")
            self._define(name, table, width, result.bits, "e**-|v|", body)
            self._made[key] = CExpression(name, result.bits)
        return f"{self._made[key].text}(v)"

    def _define(
        self, name: str, table: Exponential, width: int, bits: int, what: str, body: Writer, up: int = 0
    ) -> None:
        comment = f"/* {what} for v at scale {table.input_scale - up}; the result has scale {table.scale} */"
        # Inlined behind a product that it knows to be sign-extended, avr-gcc 5.4 and 7.3 take a comparison of 64 bits for decided.
        kind = "KT_NOINLINE" if width == 64 else "static"
        lines = [comment, f"{kind} {int_type(bits)} {name}({int_type(width)} v)", "{"]
        self.definitions.append("\n".join([*lines, *(f"    {line}" for line in body.lines), "}"]))

    def _subtract(self, body: Writer, table: Exponential, width: int) -> None:
        """t = sign * (v - reference), of a v that is limited."""
        kind = f"uint{width}_t"
        operands = [f"({kind})v", f"({kind}){constant(table.reference).text}"]
        first, second = operands if table.sign > 0 else operands[::-1]
        body.line(f"const {kind} t = ({kind})({first} - {second});")

    def _look_up(self, body: Writer, table: Exponential) -> CExpression:
        coarse, *fine = table.stored_arrays(self.operators.rounding)
        high = self._entry(table.bits, coarse, table.coarse_shift)
        if not fine:
            return high
        low = self._entry(table.bits, fine[0], table.fine_shift, len(table.fine) - 1)
        body.line(f"const {int_type(high.bits)} high = {high.text};")
        body.line(f"const {int_type(low.bits)} low = {low.text};")
        largest = max(map(abs, table.coarse)) * max(map(abs, table.fine))
        bits = min(table.product_bits, width_for(-largest, largest))
        product = self.operators.multiply(CExpression("high", high.bits), CExpression("low", low.bits), bits)
        result = self.operators.down(product, table.product_shift)
        if bits < table.product_bits or largest < 1 << (bits - 1):  # the product does not wrap
            bound = (largest >> table.product_shift) + 1
            return cast(result, min(bits, width_for(-bound, bound)))
        return result

    def _entry(self, bits: int, entries: tuple[int, ...], shift: int, mask: int | None = None) -> CExpression:
        """The element of a table that t chooses."""
        name = self.array(bits, entries)
        place = f"t >> {shift}" if shift else "t"
        if mask is not None:
            place = f"({place}) & {mask}" if shift else f"t & {mask}"
        return CExpression(f"KT_LOAD{bits}(&{name}[{place}])", bits)

    def _logistic(self, stem: str, table: Exponential, width: int, up: int = 0) -> CExpression:
        """Sigmoid and tanh from e**-|v| (Shiftry Section 5.4.1); for tanh the argument arrives doubled. `up`: the function multiplies it by
        2**up first, which only those that are looked up do."""
        key = (f"{stem} {up}" if up else stem, table, width)
        if key not in self._made and table in self.by_half_tanh and table.half_tanh is not None:
            self._made[key] = self._looked_up(stem, table, table.half_tanh, width, up)
        if key not in self._made:
            decay = self._decay(table, width)
            name = f"kt_{stem}{len(self._made)}"
            bits = width_for(0, 1 << table.scale)
            one = f"(({int_type(16)})1 << {table.scale})"
            body = Writer()
            body.line(f"const int16_t decayed = {decay};")
            if stem == "sigmoid":
                body.line(f"return ({int_type(bits)}){self._fraction(table, f'v <= 0 ? decayed : {one}', one)};")
            else:
                ratio = self._fraction(table, f"{one} - decayed", one)
                body.line(f"const {int_type(bits)} magnitude = ({int_type(bits)}){ratio};")
                body.line(f"return v <= 0 ? ({int_type(bits)})-magnitude : magnitude;")
            self._define(name, table, width, bits, LOGISTICS[stem], body)
            self._made[key] = CExpression(name, bits)
        return self._made[key]

    def _looked_up(self, stem: str, table: Exponential, entries: tuple[int, ...], width: int, up: int) -> CExpression:
        """Sigmoid and tanh from tanh(|v| / 2): with x = one**2 / (one + e**-|v|), an entry is the whole part of 2x less one, and a sigmoid
        that of x for v >= 0, of one - x for v < 0. Only where e**-|v| is 0 or 1 is x a whole number: 0 is, in the last entry, where x is
        one."""
        name, last, one = f"kt_{stem}{len(self._made)}", len(entries) - 1, 1 << table.scale
        result = int_type(width_for(0, one))
        body, array = Writer(), self.array(table.bits, entries)
        if self.short and width == table.bits == 8 and last < 1 << 7:
            argument = f"{self._up_in_byte(up)}(v)" if up else "v"
            body.line(f"int8_t r = {self._by_magnitude(array, last)}({argument});")
        else:
            _distance(body, width, last, up)
            body.line(f"{result} r = KT_LOAD{table.bits}(&{array}[t]);")
        if stem == "sigmoid":
            body.line(f"if (v < 0) r = ({result})~r;")
            body.line(f"r = ({result})({f'(r >> 1) + {one >> 1}' if table.scale else '(r + 1) >> 1'});")
            body.line(f"return ({result})(r < 0 ? 0 : r);")
        else:
            body.line(f"return v < 0 ? ({result})-r : r;")
        self._define(name, table, width, width_for(0, one), LOGISTICS[stem], body, up)
        return CExpression(name, width_for(0, one))

    def _by_magnitude(self, array: str, last: int) -> str:
        """The function that looks a byte up by its magnitude in an array of bytes."""
        name, body = array.replace("table", "entry"), Writer(depth=1)
        _distance(body, 8, last)
        body.line(f"return KT_LOAD8(&{array}[t]);")
        comment, text = f"/* {array}[|v|], or its last element */\n", "\n".join(["{", *body.lines, "}"])
        plain, alone = (f"{kind} int8_t {name}(int8_t v)\n{text}" for kind in ("KT_NOINLINE", "KT_INLINE"))
        self.operators.called[name] = comment + called_lookup(name, array, last, plain)
        return self.operators.require(name, comment + alone)

    def _up_in_byte(self, up: int) -> str:
        """The function that multiplies a byte by 2**up for its magnitude alone."""
        return self.operators.require(f"kt_magnitude{up}", magnitude_up(up))

    def _fraction(self, table: Exponential, numerator: str, one: str) -> str:
        """numerator * 2**scale / (one + decayed), toward zero; the decayed is between 0 and one, so the ratio is at most 1."""
        width = 8 if table.scale <= 6 else 16
        name, kind = self.operators.require(*fraction(width)), f"uint{width}_t"
        return f"{name}(({kind})({numerator}), ({kind})({one} + decayed), {table.scale})"


def fraction(width: int) -> tuple[str, str]:
    """Name and definition of the function whose quotient has less than 8 or 16 bits."""
    kind, on_avr = f"uint{width}_t", FRACTION8 if width == 8 else FRACTION16
    return f"kt_fraction{width}", (
        f"/* n * 2**bits / d for n <= d, 2**bits <= d <= 2**{width - 1} and 0 < bits, toward zero */\n"
        f"static {kind} kt_fraction{width}({kind} n, {kind} d, uint8_t bits)\n{{\n"
        f"#if defined(__AVR__) /* no divider */\n{on_avr}"
        f"#else\n    return ({kind})(((uint32_t)n << bits) / d);\n#endif\n}}"
    )


def magnitude_up(up: int) -> str:
    """The function of a byte v: v * 2**up, or 127 where that is no byte; 0 < up < 8."""
    # each step jumps behind the others, 4 bytes each, where it overflows
    steps = [f"lsl %0\\n\\tbrvs .+{4 * (up - step - 1)}" for step in range(up - 1)]
    text = "\\n\\t".join([*steps, "lsl %0", "brvc .+2", "ldi %0, 127"])
    return (
        f"/* v * 2**{up}, or 127 where that is no byte: for its magnitude */\n"
        f"KT_INLINE int8_t kt_magnitude{up}(int8_t v)\n{{\n#if defined(__AVR__)\n"
        f'    __asm__("{text}" : "+d"(v));\n    return v;\n#else\n'
        f"    return (int8_t)(v > {127 >> up} || v < {-(128 >> up)} ? 127 : v * {1 << up});\n#endif\n}}"
    )


def _distance(body: Writer, width: int, last: int, up: int = 0) -> None:
    """t = |v| * 2**up, at most `last`."""
    kind = f"uint{width}_t"
    body.line(f"{kind} t = v < 0 ? ({kind})(0u - ({kind})v) : ({kind})v;")
    if up:
        body.line(f"t = ({kind})(t > {last >> up} ? {last} : t << {up});")
    else:
        body.line(f"if (t > {last}) t = {last};")


def _of_distance(table: Exponential) -> bool:
    """Whether the place in the table is -v, from 0 on."""
    return table.reference == 0 and table.sign < 0 and not isinstance(table, LibraryExponential)


def _distance_below(body: Writer, last: int) -> None:
    """t = -v of a byte v below 0, otherwise 0; at most `last`."""
    body.line("uint8_t t = (uint8_t)(v < 0 ? (uint8_t)(0u - (uint8_t)v) : 0);")
    if last < 1 << 7:
        body.line(f"if (t > {last}) t = {last};")


def _limit(body: Writer, table: Exponential, width: int) -> None:
    """Keep v between the ends of the table; these are applied to v, where nothing can overflow."""
    low, high = _argument_ends(table)
    least = -(1 << (width - 1))
    if low > least:
        body.line(f"if (v < {constant(low).text}) v = {constant(low).text};")
    if high < -least - 1:
        body.line(f"if (v > {constant(high).text}) v = {constant(high).text};")


def _by_library(table: Exponential) -> CExpression:
    """e**v of a limited v, toward zero."""
    argument, scale = (float_literal(2.0**power) for power in (-table.input_scale, table.scale))
    return CExpression(f"({int_type(table.bits)})(expf((float)v * {argument}) * {scale})", table.bits)


def _argument_ends(table: Exponential) -> tuple[int, int]:
    """The arguments beyond which the table does not change."""
    other = table.reference + table.sign * table.last_told_apart
    return min(table.reference, other), max(table.reference, other)


def _argument_width(table: Exponential, bits: int) -> int:
    """The width at which an argument of `bits` bits can be clamped and subtracted from the reference."""
    low, high = _argument_ends(table)
    return max(16, bits, width_for(low, high), width_for(0, table.last_told_apart))
