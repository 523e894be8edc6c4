"""Predicted cycles of candidates: counted features times a table of cycles that was fitted to simulator runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.json_values import shown, shown_at
from kilotune.evaluators.code_size import CodeSize
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES, NUMBERS, Terms
from kilotune.search.fingerprint import NOT_CONTENT, absent_as

SCHEMA = 1


@dataclass(frozen=True)
class CostTable:
    """Cycles by feature; those that are not named cost nothing. `compact`: the cycles of code in which operators that stand in several
    places are functions; where there are none those of plain code stand for them. `made`: how, from what, with which compiler. Tables
    of the same cycles predict the same, whatever they were made for."""

    target: str = field(metadata=NOT_CONTENT)
    cycles: Mapping[str, float]
    made: Mapping[str, Any] = field(metadata=NOT_CONTENT)
    compact: Mapping[str, float] = field(default_factory=dict, metadata=absent_as({}))

    def vector(self, shape: CodeShape | None = None) -> npt.NDArray[np.float64]:
        """Cycles [features] of code of a shape; default: plain code."""
        result = np.zeros(len(FEATURES))
        cycles = self.compact if self.compact and shape is not None and shape.shared else self.cycles
        for name, value in cycles.items():
            result[NUMBERS[name]] = value
        return result

    def as_json(self) -> str:
        """The table as a file."""
        content = {"schema": SCHEMA, "target": self.target, "made": dict(self.made), "cycles": dict(self.cycles)}
        if self.compact:
            content["compact"] = dict(self.compact)
        return json.dumps(content, indent=1) + "\n"


def parse_cost_table(text: str, path: str) -> CostTable:
    """Read `CostTable.as_json`. InputError that names what is wrong."""
    content = parse_json_object(text, path)
    content = {"target": path, "made": {}, "compact": {}, **content}
    objects = ("cycles", "compact", "made")
    for key, kind, expected in (*((name, dict, "an object") for name in objects), ("target", str, "a text")):
        if not isinstance(content.get(key), kind):
            raise InputError(path, place=key, expected=expected, found=shown_at(content, key))
    schema = content.get("schema", SCHEMA)
    if schema != SCHEMA or isinstance(schema, bool):
        raise InputError(path, place="schema", expected=str(SCHEMA), found=shown(schema))
    for key in ("cycles", "compact"):
        _check_cycles(content[key], key, path)
    return CostTable(content["target"], content["cycles"], content["made"], content["compact"])


def _check_cycles(cycles: Mapping[str, Any], key: str, path: str) -> None:
    for name, value in cycles.items():
        if name not in NUMBERS:
            raise InputError(path, place=f"{key}.{name}", expected="a feature of a cost table", found="an unknown name")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e9:
            raise InputError(path, place=f"{key}.{name}", expected="cycles, from 0", found=shown(value))


def parse_json_object(text: str, path: str) -> dict[str, Any]:
    """A JSON object. InputError for anything else."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError.of_json(path, error) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        raise InputError(path, expected="JSON", found=str(error)) from error
    if not isinstance(content, dict):
        found = "null" if content is None else type(content).__name__
        raise InputError(path, expected="a JSON object", found=found)
    return content


class CostModel:
    """Predicts the cycles of one program's candidates, whole batches at once."""

    def __init__(
        self,
        program: ir.Program,
        parameters: Mapping[str, FloatArray],
        table: CostTable,
        shape: CodeShape | None = None,
    ) -> None:
        self._features = CostFeatures(program, parameters, shape)
        self._cycles = table.vector(shape)

    def terms(self, batch: FixedBatch) -> Terms:
        """What candidates execute."""
        return self._features.terms(batch)

    def cycles(self, batch: FixedBatch) -> npt.NDArray[np.float64]:
        """Predicted cycles of one inference [candidates]."""
        return self.cycles_of(self.terms(batch))

    def cycles_of(self, terms: Terms) -> npt.NDArray[np.float64]:
        """Predicted cycles of one inference [candidates] of candidates that execute `terms`."""
        return terms.times(self._cycles)

    def cycles_by_row(self, batch: FixedBatch) -> npt.NDArray[np.float64]:
        """Predicted cycles of one inference by operation [candidates, operations + 1]: all its executions; behind the last one what belongs
        to none (`CostFeatures.terms_by_row`). The sum is that of `cycles`."""
        terms, owners = self._features.terms_by_row(batch)
        return terms.times_by(owners, batch.rows.shape[1] + 1, self._cycles)

    def scratch_bytes(self, batch: FixedBatch) -> IntArray:
        """RAM that fast inner loops take besides variables [candidates], at most."""
        return self._features.scratch_bytes(batch)


@dataclass(frozen=True)
class Timing:
    """What a device makes of programs: a cost table, a clock and how inner loops are written, which is seconds; and where linked sizes
    are limited what `code` takes in flash."""

    table: CostTable
    clock_hz: int
    shape: CodeShape = field(default_factory=CodeShape, metadata=absent_as(CodeShape()))
    code: CodeSize | None = field(default=None, metadata=absent_as(None))

    def milliseconds(self, cycles: float) -> float:
        """Time of that many cycles."""
        return 1000.0 * cycles / self.clock_hz
