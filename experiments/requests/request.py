"""What a user asks for, in a form that a study stores, so that `tune resume` needs only its name."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from kilotune.codegen.json_values import shown
from kilotune.spaces.objectives import LIMITED, Unit

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

StoredT = TypeVar("StoredT", bound="DataclassInstance")


@dataclass(frozen=True)
class TuneRequest:
    """One search. `input` is an absolute path; `options` are a JSON object that the family of the space understands.

    `procedure_first`: the study begins with the paper's procedure (`search.warm_start`); not in comparisons, nor in studies that
    are older than this. `stop`: a rule of `search.stopping`, for runs that name none.
    """

    space: str
    input: str
    strategy: str
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    procedure_first: bool = False
    stop: str | None = None

    def as_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TuneRequest:
        """The request of a stored study; unknown keys of other versions are left out. ValueError, a sentence, for one that is
        damaged."""
        request = stored_fields(cls, stored, "request")
        if request.seed < 0:
            raise ValueError(f"the stored request is damaged: expected a seed from 0, found {request.seed}")
        return request


def stored_fields(cls: type[StoredT], stored: Mapping[str, Any], what: str) -> StoredT:
    """An object of a data class from a stored JSON object; unknown keys of other versions are left out. ValueError, which says
    which key of `what` is damaged: it is missing, or its value is of another type than the field."""
    types, values = get_type_hints(cls), {}
    for field_ in dataclasses.fields(cls):
        if field_.name not in stored:
            if field_.default is dataclasses.MISSING and field_.default_factory is dataclasses.MISSING:
                raise ValueError(f"the stored {what} is damaged: expected {field_.name!r} in it, found none")
            continue
        value = stored[field_.name]
        if not _is_of(value, types[field_.name]):
            raise ValueError(
                f"the stored {what} is damaged: expected {_words(types[field_.name])} as {field_.name!r}, "
                f"found {shown(value)}"
            )
        values[field_.name] = value
    return cls(**values)


def _is_of(value: Any, wanted: Any) -> bool:
    """Whether a JSON value is of a type: of a union one of its types, a list where a sequence or tuple is wanted."""
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return any(_is_of(value, one) for one in get_args(wanted))
    if origin in (Sequence, tuple):
        return isinstance(value, (list, tuple)) and all(_is_of(one, get_args(wanted)[0]) for one in value)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if wanted is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return wanted is Any or isinstance(value, wanted)


def _words(wanted: Any) -> str:
    return str(getattr(wanted, "__name__", wanted)).replace("collections.abc.", "").replace("typing.", "")


MOST_BYTES = 1 << 53
"""Sizes are measured as floating-point numbers, which hold every integer up to there."""


def parse_size(text: str) -> int:
    """Read `64KiB` as 65536. ValueError, a sentence, when it is not of that form."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].upper() not in Unit.BYTES.factors or math.isinf(float(match[1])):
        raise ValueError(f"{text!r} is no size: expected bytes, such as 2048 or 64KiB.")
    size = int(Unit.BYTES.amount(float(match[1]), match[2].upper()))
    if size > MOST_BYTES:
        raise ValueError(f"{text!r} is too large: expected at most {MOST_BYTES} bytes, which are 8192TiB.")
    return size


ACCURACY = "accuracy"
"""The limit that is a least: a share of samples, 0 to 1."""


def parse_limit(text: str) -> tuple[str, float]:
    """Read `flash=32KiB` as ("flash", 32768), `latency=0.2s` as ("latency", 200.0), `cycles=1e6` as ("cycles", 1000000.0):
    the quantities of `spaces.objectives` that may have limits; and `accuracy=0.95`.

    ValueError, a sentence, when it is not of that form.
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*=\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is not None:
        name, number, suffix = match[1], float(match[2]), match[3].upper()
        if name == ACCURACY and not suffix and number <= 1:
            return name, number
        factors = LIMITED[name].unit.factors if name in LIMITED else {}
        if suffix in factors and math.isfinite(number * factors[suffix]):
            return name, LIMITED[name].unit.amount(number, suffix)
    forms = [*(f"{quantity.name}={quantity.unit.word}" for quantity in LIMITED.values()), f"{ACCURACY}=SHARE"]
    examples = [*(f"{quantity.name}={quantity.example}" for quantity in LIMITED.values()), f"{ACCURACY}=0.95"]
    raise ValueError(f"--limit {text!r}: expected {_alternatives(forms)}, such as {_alternatives(examples)}.")


def _alternatives(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def limit_text(name: str, amount: float) -> str:
    """A limit as --limit reads it: `parse_limit` gives the same name and amount."""
    return f"{name}={amount:.15g}" if name == ACCURACY else f"{name}={LIMITED[name].unit.text(amount)}"


def whole_bytes(limit: float | None) -> int | None:
    """A limit in bytes; None stays None."""
    return None if limit is None else int(limit)
