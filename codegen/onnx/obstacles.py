"""Everything that keeps a file from being imported, for one message: not the first obstacle, then the next, and so on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.constants import FOLDED
from kilotune.codegen.onnx.operators import CONVERTERS, SUPPORTED

MAIN_DOMAINS = ("", "ai.onnx")

CLASSICAL_DOMAIN = "ai.onnx.ml"
"""Operators of scalers, linear models, support vectors and trees."""


@dataclass
class Obstacles:
    """What has been found in the file `path`, in the order of its nodes. `unread`: values of which nothing is known, since a node
    that they come from could not be imported; nodes that read them can only be asked for their operator."""

    path: str
    unread: set[str] = field(default_factory=set)
    first: InputError | None = None
    _others: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, number: int, proto: Any, error: ValueError) -> None:
        """A node that cannot be imported. Alike ones become one."""
        self.unread.update(name for name in proto.output if name)
        if self.first is None:
            self.first = error_at(self.path, node_place(number, proto), error)
            return
        what = "" if supported(proto) else "not supported"
        self._others.setdefault((operator_name(proto), what or str(error)), []).append(number)

    def add_graph(self, error: InputError) -> None:
        """Something that is wrong with the graph's inputs or outputs."""
        if self.first is None:
            self.first = error
        else:
            subject = error.place or error.subject
            self._others[subject, f"expected {error.expected}, found {error.found}"] = []

    def skips(self, number: int, proto: Any, every: bool = False) -> bool:
        """Whether a node hangs on what could not be imported, as all do where the image is unknown; its operator is looked at all
        the same."""
        if not every and not self.unread.intersection(proto.input):
            return False
        if not supported(proto):
            self.add(number, proto, unsupported(proto))
        self.unread.update(name for name in proto.output if name)
        return True

    def check(self) -> None:
        """InputError with all of them, if there are any."""
        if self.first is None:
            return
        besides = [_words(*key, numbers) for key, numbers in self._others.items()]
        e = self.first
        raise InputError(
            self.path, place=e.place, subject=e.subject, expected=e.expected, found=e.found, besides=besides
        )


def _words(name: str, what: str, numbers: list[int]) -> str:
    nodes = "" if not numbers else f" (node {numbers[0]})"
    if len(numbers) > 1:
        nodes = f" ({len(numbers)} nodes, the first is node {numbers[0]})"
    return f"{name}{nodes}: {what}"


def operator_name(proto: Any) -> str:
    """With its domain where that is not ONNX's own."""
    return str(proto.op_type) if proto.domain in MAIN_DOMAINS else f"{proto.domain}.{proto.op_type}"


def supported(proto: Any) -> bool:
    """Whether there is a converter for a node's operator at all."""
    return proto.domain in MAIN_DOMAINS and (proto.op_type in CONVERTERS or proto.op_type in FOLDED)


def unsupported(proto: Any) -> ValueError:
    """The error of an operator without a converter."""
    return ValueError(f"expected a supported operator ({', '.join(SUPPORTED)}), found {operator_name(proto)}")


def node_place(number: int, proto: Any) -> str:
    """Which node, for messages."""
    place = f"node {number}" + (f" {proto.name!r}" if proto.name else "")
    written = next((name for name in proto.output if name), "")
    return place + (f" ({proto.op_type} that writes {written!r})" if written else f" ({proto.op_type})")


def error_at(path: str, place: str, error: ValueError) -> InputError:
    """The InputError of a converter's "expected X, found Y"."""
    text = str(error)
    if not text.startswith("expected ") or ", found " not in text:
        return InputError(path, place=place, expected="attributes and shapes that fit", found=text)
    expected, _, found = text.removeprefix("expected ").partition(", found ")
    return InputError(path, place=place, expected=expected, found=found)
