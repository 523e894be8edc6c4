"""Where every variable of a program lives in the emitted C, and how its elements are written as expressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.byte_weights import byte_codes
from kilotune.codegen.emit.constant_arrays import stored_orders, stored_sparse
from kilotune.codegen.emit.iteration import element_number
from kilotune.codegen.emit.names import c_identifiers
from kilotune.codegen.emit.operators import CExpression, int_type
from kilotune.codegen.emit.packing import decoded, in_whole_groups, reader
from kilotune.codegen.fixed.arithmetic import Rounding, scale_down
from kilotune.codegen.fixed.encoding import BYTE_BITS, ParameterEncoding, stored_integers
from kilotune.codegen.fixed.table import FixedBatch

LABEL_BITS = 16
"""Width of what ArgMax and Sign write, whatever the variable's own width."""


@dataclass(frozen=True)
class VariableStorage:
    """C names, stored widths and scales by variable; `loop_names` are the C names of the loop indices.

    `orders`: the order of axes in which a parameter is stored, where that is not its own. `real`: numbers are floats.
    `shifts`: by how many bits a parameter is stored divided. `encodings` of parameters that have one. `buffers`: the C names of arrays
    in RAM in which elements of a parameter lie unpacked. `steps`: of a float program's parameters that lie in flash as 8-bit integers
    (`codegen.byte_weights`), what an integer of 1 is worth; what is read of them is the integer. `interleaved`: parameters, with the length
    of their rows, in which of each four elements of a row the two in the middle change places: none but calls for all rows read them.
    """

    program: ir.Program
    names: Mapping[str, str]
    loop_names: Mapping[str, str]
    bits: Mapping[str, int]
    scales: Mapping[str, int]
    sparse: frozenset[str]
    orders: Mapping[str, tuple[int, ...]]
    real: bool = False
    shifts: Mapping[str, int] = field(default_factory=dict)
    encodings: Mapping[str, ParameterEncoding] = field(default_factory=dict)
    rounding: Rounding = Rounding.TOWARD_ZERO
    buffers: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)
    interleaved: Mapping[str, int] = field(default_factory=dict)

    def stored(self, name: str) -> Callable[[FloatArray], IntArray]:
        """How values of a parameter become the integers in flash; those that are stored divided (`preshift`) are divided here."""
        if name in self.steps:
            return lambda values: byte_codes(values, self.steps[name])
        bits, scale, shift = self.bits[name], self.scales[name], self.shifts.get(name, 0)
        encoding = self.encodings.get(name)
        if encoding is not None and self.has_codes(name):
            return lambda values: encoding.codes(values, scale)
        return lambda values: scale_down(stored_integers(values, bits, scale, encoding), shift, self.rounding)

    def packing(self, name: str) -> ParameterEncoding | None:
        """The encoding of a parameter that is stored in packed codes."""
        encoding = self.encodings.get(name)
        return encoding if encoding is not None and encoding.layout is not None else None

    def of_codes(self, name: str) -> VariableStorage:
        """A storage in which what is read of a parameter is its codes and not the integers that they stand for."""
        bits = {**self.bits, name: BYTE_BITS}
        encodings = {**self.encodings, name: dataclasses.replace(self.encodings[name], shift=0, rows=None)}
        return dataclasses.replace(self, bits=bits, encodings=encodings)

    def of_buffer(self, name: str, buffer: str) -> VariableStorage:
        """A storage in which elements of a parameter are read from that array in RAM."""
        encodings = {other: encoding for other, encoding in self.encodings.items() if other != name}
        return dataclasses.replace(self, encodings=encodings, buffers={**self.buffers, name: buffer})

    def has_codes(self, name: str) -> bool:
        """Whether a parameter lies in flash as codes, and not as the integers that it is computed with."""
        encoding = self.encodings.get(name)
        return encoding is not None and encoding.in_codes

    @property
    def packed_widths(self) -> tuple[int, ...]:
        """Widths of packed codes, in order."""
        return tuple(sorted({e.width for e in self.encodings.values() if e.layout is not None}))

    def element(self, view: ir.View, moves: Sequence[tuple[str, int]]) -> CExpression:
        """The element at `view.offset` moved by (counter expression, elements a step) pairs."""
        assert view.variable not in self.interleaved
        number = self._number(view, moves)
        bits, name = self.bits[view.variable], self.name(view.variable)
        if self.packing(view.variable) is not None:
            return CExpression(self._code(view.variable, _as_place(number)), bits)
        if self.in_flash(view.variable):
            return CExpression(f"KT_LOAD{self.suffix(view.variable)}(&{name}[{number}])", bits)
        return CExpression(f"{name}[{number}]", bits)

    def pointer(self, view: ir.View, moves: Sequence[tuple[str, int]], name: str, written: bool) -> str:
        """The declaration of a pointer to that element; of its number, where codes are packed."""
        if self.packing(view.variable) is not None:
            return f"kt_place {name} = {self.address(view, moves)}"
        return f"{'' if written else 'const '}{self.pointed_type(view.variable)} *{name} = {self.address(view, moves)}"

    def group_address(self, view: ir.View, moves: Sequence[tuple[str, int]], count: int) -> str | None:
        """The expression of a pointer to the group of packed codes with which `count` elements from that one on begin.

        None where it is not known that they are whole groups.
        """
        packing = self.packing(view.variable)
        if packing is None or packing.layout is None:
            return None
        codes, size = packing.layout.codes, packing.layout.group_bytes
        if not in_whole_groups(packing.width, view, [step for name, step in moves if name != "0"], count):
            return None
        terms = tuple((name, factor // codes * size) for name, factor in view.offset.terms)
        offset = ir.Affine(view.offset.constant // codes * size, terms)
        number = element_number(
            offset, [(name, step // codes * size) for name, step in moves if name != "0"], self.loop_names
        )
        return self.array(view.variable) + (f" + {number}" if number != "0" else "")

    def address(self, view: ir.View, moves: Sequence[tuple[str, int]]) -> str:
        """The expression of a pointer to that element; of its number, where codes are packed."""
        number = self._number(view, moves)
        if self.packing(view.variable) is not None:
            return _as_place(number)
        return self.name(view.variable) + (f" + {number}" if number != "0" else "")

    def next(self, view: ir.View, pointer: str) -> str:
        """The element at a pointer, which moves on to the next one."""
        if self.packing(view.variable) is not None:
            return self._code(view.variable, f"{pointer}++")
        if self.in_flash(view.variable):
            return f"KT_NEXT{self.suffix(view.variable)}({pointer})"
        return f"*{pointer}++"

    def _code(self, variable: str, number: str) -> str:
        """The element of a packed array."""
        encoding = self.encodings[variable]
        code = f"{reader(encoding.width)}({self.array(variable)}, {number})"
        return decoded(code, encoding, self.bits[variable], self.codebook(variable))

    def row_shifts(self, variable: str) -> str:
        """The C name of the array that says by how much the sums of a parameter's rows are multiplied."""
        return f"kt_shifts_{self.name(variable)}"

    def codebook(self, variable: str) -> str:
        """The C name of the table of integers that a parameter's codes stand for, where it has one."""
        return f"kt_codebook_{self.names[variable]}"

    def array(self, variable: str) -> str:
        """The C name of the array that holds a variable's elements: of a sparse matrix those that are not zero."""
        return self.name(variable) + ("_values" if variable in self.sparse else "")

    def name(self, variable: str) -> str:
        """The C name of a variable."""
        if variable in self.buffers:
            return self.buffers[variable]
        return "x" if self.program.variable(variable).role is ir.Role.INPUT else self.names[variable]

    def type_of(self, variable: str) -> str:
        """The C type of a variable's elements."""
        return int_type(self.bits[variable]) if self.is_integer(variable) else "float"

    def pointed_type(self, variable: str) -> str:
        """The C type of a variable's elements behind a pointer: for temporaries one that may alias, since they share one array."""
        if self.program.variable(variable).role is not ir.Role.TEMPORARY:
            return self.type_of(variable)
        return f"kt_int{self.bits[variable]}" if self.is_integer(variable) else "kt_float"

    def is_integer(self, variable: str) -> bool:
        """Everything in a fixed-point program; labels and parameters of 8 bits only in one of floats."""
        return not self.real or variable in self.steps or variable in ir.label_variables(self.program)

    def strides(self, view: ir.View) -> tuple[int, ...]:
        """Strides of a view in the stored array: its own, unless it is a whole parameter stored in another order."""
        order = self.orders.get(view.variable)
        if order is None:
            return view.strides
        shape = self.program.variable(view.variable).shape
        steps = ir.row_major_strides(tuple(shape[axis] for axis in order))
        return tuple(steps[order.index(axis)] for axis in range(len(order)))

    def loop(self, counter: str, count: int, numbered: bool) -> str:
        """The head of a loop that runs `count` times, down to zero where nobody asks which time it is."""
        small = index_bits(self.program) == 16
        kind = "uint_fast8_t" if small and count < 256 else "uint_fast16_t" if small else "kt_index"
        if numbered:
            return f"for ({kind} {counter} = 0; {counter} < {count}; {counter}++)"
        return f"for ({kind} {counter} = {count}; {counter} != 0; {counter}--)"

    def describe(self, name: str) -> str:
        """Format of a variable for comments."""
        variable = self.program.variable(name)
        shape = f"[{', '.join(map(str, variable.shape))}]" if variable.shape else "scalar"
        if name in ir.label_variables(self.program):
            return f"{shape}, label"
        kind = f"{self.bits[name]} bits, scale {self.scales[name]}"
        if self.real:
            kind = f"8 bits times {self.steps[name]:.9g}" if name in self.steps else "float"
        encoding = self.encodings.get(name)
        if encoding is not None:
            kind += f", stored in {encoding.width}" + (f" times 2**{encoding.shift}" if encoding.shift else "")
            kind += ", by a table of integers" if encoding.codebook else ""
            kind += ", rows shifted" if encoding.rows is not None else ""
        kind += f", stored divided by 2**{self.shifts[name]}" if name in self.shifts else ""
        order = self.orders.get(name)
        return f"{shape}, {kind}" + (f", stored by axes {', '.join(map(str, order))}" if order else "")

    def _number(self, view: ir.View, moves: Sequence[tuple[str, int]]) -> str:
        return element_number(view.offset, [m for m in moves if m[0] != "0"], self.loop_names)

    def in_flash(self, variable: str) -> bool:
        """Whether it is a parameter, and not unpacked."""
        return variable not in self.buffers and self.program.variable(variable).role is ir.Role.PARAMETER

    def suffix(self, variable: str) -> str:
        """How the macros that read a parameter of this type end."""
        return str(self.bits[variable]) if self.is_integer(variable) else "_FLOAT"


def _as_place(number: str) -> str:
    """The number of a code as functions take it."""
    return number if number.isdigit() else f"(kt_place)({number})"


def index_bits(program: ir.Program) -> int:
    """Width of element numbers and loop counters: 16 bits are what an 8-bit processor counts with."""
    largest = max(v.size for v in program.variables)
    windows = [o for o in ir.operations(program.body) if isinstance(o, ir.Windowed)]
    largest = max([largest, *(o.a.size + sum(o.padding) for o in windows)])
    return 16 if largest < 1 << 15 else 32


def describe_storage(batch: FixedBatch) -> VariableStorage:
    """The storage of the only candidate of a batch."""
    scales = {v.name: int(s) for v, s in zip(batch.program.variables, batch.scales[0], strict=True)}
    found = ((v.name, batch.encoding(0, column)) for column, v in enumerate(batch.program.variables))
    encodings = {name: encoding for name, encoding in found if encoding is not None}
    return dataclasses.replace(make_storage(batch.program, stored_bits(batch), scales), encodings=encodings)


def make_storage(
    program: ir.Program, bits: Mapping[str, int], scales: Mapping[str, int], real: bool = False
) -> VariableStorage:
    """Names and orders for variables of these widths."""
    loops = [loop.index for loop in _loops(program.body)]
    variables = [v.name for v in program.variables]
    identifiers = c_identifiers([*variables, *(f"loop {name}" for name in loops)])
    sparse = frozenset(stored_sparse(program))
    return VariableStorage(
        program,
        {name: identifiers[name] for name in variables},
        {name: identifiers[f"loop {name}"] for name in loops},
        bits,
        scales,
        sparse,
        stored_orders(program, sparse),
        real,
    )


def stored_bits(batch: FixedBatch) -> dict[str, int]:
    """Width in storage by variable."""
    labels = ir.label_variables(batch.program)
    return {
        v.name: LABEL_BITS if v.name in labels else int(bits)
        for v, bits in zip(batch.program.variables, batch.bits[0], strict=True)
    }


def _loops(body: tuple[ir.Statement, ...]) -> list[ir.Loop]:
    found = []
    for statement in body:
        if isinstance(statement, ir.Loop):
            found += [statement, *_loops(statement.body)]  # there are none in what runs in some rounds
    return found
