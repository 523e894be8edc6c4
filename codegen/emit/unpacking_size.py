"""What the code that reads packed parameters takes in flash, so that a search of widths does not forget it.

Code is shared: every width that is used brings functions of its own, whoever reads it, and each operation that calls one takes a few
bytes besides. The bytes are those of an ATmega328P at -Os, fitted to linked programs (`experiments.benchmarks.unpacking avr --code`);
other processors differ, but not in what is shared. Programs without packed parameters take none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.packing import in_whole_groups, walks
from kilotune.codegen.emit.schedule import Convolution, DenseProduct, SparseProduct, schedule_product
from kilotune.codegen.emit.storage import VariableStorage, make_storage
from kilotune.codegen.fixed.codebook import CODEBOOK_BITS
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.codegen.fixed.table import FixedBatch

CODE_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "plain run": 20,
        "plain filter": 78,
        **{"groups 1": 77, "groups 2": 46, "groups 3": 346, "groups 4": 53, "groups 6": 239},
        **{"walk 1": 71, "walk 2": 61, "walk 4": 61},
        **{"one by one 3": 58, "one by one 6": 111},
        **{"reader 1": 5, "reader 2": 0, "reader 3": 95, "reader 4": 0, "reader 6": 49},
        **{"filters": 75, "single": 35, "filter": 35, "sparse": 30, "rows": 32},
        **{"groups 4 table": 80, "walk 4 table": 90, "table of a run": 14, "table": 8},
    }
)
"""Bytes of each piece of code, by its name: what is shared with the width after it, and what every use takes. No bundled model has what
"walk 4", "sparse" stand for: the first is the function of 2 bits with other shifts."""

PLAIN = "plain run"
"""The function that sums products of parameters that are not packed: a program has it anyway unless all of them are."""

PLAIN_FILTER = "plain filter"
"""The function that sums products of filters that are not packed, likewise."""


StoredForm = tuple[int, bool]
"""The width of codes, and whether they are numbers of a table's."""


@dataclass(frozen=True)
class Pieces:
    """Code that a parameter in codes of some width needs: names of what it shares with others, and of what it needs for itself."""

    shared: frozenset[str] = frozenset()
    own: tuple[str, ...] = ()


class UnpackingSize:
    """Bytes of code of one program's candidates."""

    def __init__(self, program: ir.Program) -> None:
        names = [v.name for v in program.variables]
        storage = make_storage(program, dict.fromkeys(names, 8), dict.fromkeys(names, 0))
        self.columns = {name: column for column, name in enumerate(names)}
        self.pieces: dict[str, dict[StoredForm, Pieces]] = {}
        self.plain: dict[str, set[str]] = {PLAIN: set(), PLAIN_FILTER: set()}
        """Parameters that need the function of that name as long as they are not packed."""
        uses = _uses(program, storage)
        for variable in program.variables:
            if variable.role is ir.Role.PARAMETER:
                kinds = uses.get(variable.name, [])
                forms = [*((width, False) for width in LAYOUTS), (CODEBOOK_BITS, True)]
                self.pieces[variable.name] = {form: _pieces(kinds, *form) for form in forms}
                if any(isinstance(kind, _Run) for kind in kinds):
                    self.plain[PLAIN].add(variable.name)
                if "filter" in kinds:
                    self.plain[PLAIN_FILTER].add(variable.name)

    def code_bytes(self, batch: FixedBatch) -> IntArray:
        """Bytes [candidates]."""
        total = np.zeros(len(batch), dtype=np.int64)
        for name, count in self.counts(batch).items():
            total += CODE_BYTES[name] * count
        return total

    def counts(self, batch: FixedBatch) -> dict[str, IntArray]:
        """How many of each piece of code candidates have [candidates] more than one without packed parameters."""
        if not batch.encodings:
            return {}
        stored, none = batch.stored_bits, np.zeros(len(batch), dtype=np.int64)
        counts: dict[str, IntArray] = {}
        shared: dict[str, npt.NDArray[np.bool_]] = {}
        of_table = _where_encoded(batch, [encoding.codebook for encoding in batch.encodings])
        by_rows = _where_encoded(batch, [encoding.rows is not None for encoding in batch.encodings])
        forms = np.where(batch.encoded >= 0, 2 * stored + of_table, -1)
        for name, by_form in self.pieces.items():
            column = forms[:, self.columns[name]]
            met = set(column.tolist())
            for (width, codebook), pieces in by_form.items():
                if 2 * width + codebook in met:
                    chosen = column == 2 * width + codebook
                    for piece in pieces.shared:
                        shared[piece] = shared.get(piece, np.zeros(len(batch), dtype=np.bool_)) | chosen
                    for piece in pieces.own:
                        counts[piece] = counts.get(piece, none) + chosen
            if by_rows[:, self.columns[name]].any():
                counts["rows"] = np.asarray(counts.get("rows", none) + by_rows[:, self.columns[name]])
        counts |= {name: users.astype(np.int64) for name, users in shared.items()}
        packed = batch.packed
        for function, users in self.plain.items():
            if users:
                everything = packed[:, [self.columns[name] for name in users]].all(axis=1)
                counts[function] = np.where(everything, -1, 0)
        return counts


def _where_encoded(batch: FixedBatch, is_so: Sequence[bool]) -> npt.NDArray[np.bool_]:
    """Which parameters [candidates, variables] have an encoding that is so; `is_so`: of each of the batch's encodings."""
    return np.array([*is_so, False])[batch.encoded]  # without an encoding it is -1


@dataclass(frozen=True)
class _Run:
    """A sum over elements that lie beside each other, and the steps from run to run."""

    view: ir.View
    step: int
    length: int


_Use = _Run | str
"""A run, or the name of what each other use takes."""


def _uses(program: ir.Program, storage: VariableStorage) -> dict[str, list[_Use]]:
    """What reads each variable, in program order."""
    uses: dict[str, list[_Use]] = {}
    for operation in ir.operations(program.body):
        for name in {view.variable: None for view in operation.operands if isinstance(view, ir.View)}:
            uses.setdefault(name, []).extend(_uses_in(operation, name, storage))
    return uses


def _uses_in(operation: ir.Operation, name: str, storage: VariableStorage) -> list[_Use]:
    views = [view for view in operation.operands if isinstance(view, ir.View) and view.variable == name]
    if not isinstance(operation, ir.Product):
        return ["single"] * len(views)
    schedule = schedule_product(operation, storage)
    match operation, schedule:
        case ir.MatMul(a=a, b=b), DenseProduct(beside=True):
            (a0, _), (_, b1) = storage.strides(a), storage.strides(b)
            steps = {id(a): a0 if a.shape[0] > 1 else 0, id(b): b1 if b.shape[1] > 1 else 0}
            return [_Run(view, steps[id(view)], operation.taps) for view in views]
        case _, SparseProduct():
            return ["sparse" if view is operation.a else "single" for view in views]
        case ir.Conv2D(), Convolution(beside=True):
            return ["filter" if view is operation.b else "single" for view in views]
    return ["single"] * len(views)


def _pieces(uses: list[_Use], width: int, codebook: bool) -> Pieces:
    shared, own, form = set(), [], f"{width} table" if codebook else str(width)
    if codebook:
        own += ["table of a run" if isinstance(use, _Run) else "table" for use in uses]
    for use in uses:
        if isinstance(use, _Run) and in_whole_groups(width, use.view, [use.step], use.length):
            shared.add(f"groups {form}")
        elif isinstance(use, _Run) and walks(width):
            shared.add(f"walk {form}")
        elif isinstance(use, _Run):
            shared |= {f"one by one {width}", f"reader {width}"}
        elif use == "sparse" and walks(width):
            own.append("sparse")
        else:
            shared |= {f"reader {width}"} | ({"filters"} if use == "filter" else set())
            own.append("single" if use == "sparse" else use)
    return Pieces(frozenset(shared), tuple(own))
