"""Kernels from JSON: `{"kernels": [[[1, 0, -1], [2, 0, -2], [1, 0, -1]]], "depth": 4, "registers": 6, "target": "scamp5"}`.

Only `kernels` is needed, and then its value alone will do, or a single kernel: `[[1, 0], [0, -1]]`, of which a weight in quotes alone,
`"1"`, is the smallest. With `network` they are the first layer of a network (`network_files`). A weight is a number, or a number or a
fraction in quotes, such as "1" or "1/9"; numbers are taken as written, 0.1 is a tenth. Rows run north to south, see `kernel` for the
centre.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.json_values import JsonConstant, shown
from kilotune.codegen.scamp.instructions import INSTRUCTION_SETS, REGISTERS
from kilotune.codegen.scamp.kernel import MAXIMUM_DEPTH, Kernel, KernelSet
from kilotune.codegen.scamp.network import ChipNetwork
from kilotune.codegen.scamp.network_files import parse_network
from kilotune.codegen.text_files import read_text_file

MAXIMUM_SIDE = 64
"""Rows or columns of a kernel; the array has 256."""

MAXIMUM_WEIGHT = 2**20

LOOKED_AT = 1 << 16
"""First characters of a file, by which it is one of kernels."""

_QUOTED = r"\s*-?\d{1,9}(\.\d{1,9}|\s*/\s*0*[1-9]\d{0,8})?\s*"
"""A weight in quotes: an integer, a decimal number or a fraction."""

_KERNELS = r'\s*(\[\s*\[|\{(?s:.*?)"kernels"\s*:)'
"""How such a JSON text begins, unless it is a weight alone."""

_KEYS = ("kernels", "depth", "registers", "target", "network")


@dataclass(frozen=True)
class KernelFile:
    """What a file asks for; None where it says nothing."""

    kernels: KernelSet
    depth: int | None = None
    registers: int | None = None
    target: str | None = None
    network: ChipNetwork | None = None


def kernel_format(text: str) -> str | None:
    """What kernels are called; None where `text` is none, nor a file of them by its beginning."""
    with contextlib.suppress(OSError, UnicodeDecodeError):  # a text may be too long for a name
        if Path(text).is_file():
            with Path(text).open(encoding="utf-8-sig") as stream:
                text = stream.read(LOOKED_AT)
    return "kernels as JSON" if re.match(_KERNELS, text) else None


def read_kernel_file(path: Path) -> KernelFile:
    """Raises `InputError` for a file that is not such JSON: place, expected, found."""
    return parse_kernel_file(read_text_file(path, "a JSON file"), str(path))


def parse_kernel_file(text: str, path: str) -> KernelFile:
    """The kernels that a JSON text defines; `path` names it in messages. `InputError` for a text that is not such JSON."""
    try:
        content = json.loads(text, parse_float=Fraction, parse_constant=JsonConstant)
    except json.JSONDecodeError as error:
        raise InputError.of_json(path, error) from error
    except (RecursionError, ValueError) as error:
        raise InputError(path, expected="JSON", found=str(error)) from error
    if isinstance(content, str):  # the one weight of the smallest kernel
        content = [[content]]
    if isinstance(content, list):
        content = {"kernels": content if _is_list_of_kernels(content) else [content]}
    if not isinstance(content, dict) or "kernels" not in content:
        raise InputError(
            path, expected='an object {"kernels": [...]}, a list of rows or a weight in quotes', found=shown(content)
        )
    unknown = next((key for key in content if key not in _KEYS), None)
    if unknown is not None:
        raise InputError(path, place=f"key {unknown!r}", expected=f"one of {', '.join(_KEYS)}", found=repr(unknown))
    target = content.get("target")
    if target is not None and not (isinstance(target, str) and target in INSTRUCTION_SETS):
        raise InputError(path, place="target", expected=" or ".join(INSTRUCTION_SETS), found=shown(target))
    kernels, network = _kernels(content["kernels"], path), content.get("network")
    return KernelFile(
        KernelSet(kernels),
        _count(content.get("depth"), 0, MAXIMUM_DEPTH, "depth", path),
        _count(content.get("registers"), 1, len(REGISTERS), "registers", path),
        target,
        None if network is None else parse_network(network, len(kernels), path),
    )


def _is_list_of_kernels(content: list[Any]) -> bool:
    """Rather than the rows of one."""
    return not content or (isinstance(content[0], list) and bool(content[0]) and isinstance(content[0][0], list))


def _kernels(listed: Any, path: str) -> tuple[Kernel, ...]:
    if not isinstance(listed, list) or not listed:
        raise InputError(path, place="kernels", expected="a list of at least one kernel", found=shown(listed))
    return tuple(_kernel(rows, f"kernel {number}", path) for number, rows in enumerate(listed, start=1))


def _kernel(rows: Any, place: str, path: str) -> Kernel:
    if not isinstance(rows, list) or not rows:
        raise InputError(path, place=place, expected="a list of rows with at least one weight", found=shown(rows))
    if len(rows) > MAXIMUM_SIDE:
        raise InputError(path, place=place, expected=f"at most {MAXIMUM_SIDE} rows", found=str(len(rows)))
    weights = []
    for number, row in enumerate(rows, start=1):
        here = f"{place}, row {number}"
        if not isinstance(row, list) or not row:
            raise InputError(path, place=here, expected="a list of at least one weight", found=shown(row))
        if len(row) != len(rows[0]):
            expected = f"{counted(len(rows[0]), 'weight')} as in row 1"
            raise InputError(path, place=here, expected=expected, found=str(len(row)))
        if len(row) > MAXIMUM_SIDE:
            raise InputError(path, place=here, expected=f"at most {MAXIMUM_SIDE} weights", found=str(len(row)))
        weights.append([_weight(w, f"{here}, column {column}", path) for column, w in enumerate(row, start=1)])
    return Kernel.of_rows(weights)


def _weight(given: Any, place: str, path: str) -> Fraction:
    if isinstance(given, str) and re.fullmatch(_QUOTED, given, re.ASCII):
        numerator, _, denominator = given.partition("/")
        weight = Fraction(numerator.strip()) / int(denominator or 1)
    elif isinstance(given, (int, Fraction)) and not isinstance(given, bool):
        weight = Fraction(given)
    else:
        raise InputError(path, place=place, expected='a finite number or a fraction such as "1/9"', found=shown(given))
    if abs(weight) > MAXIMUM_WEIGHT:
        raise InputError(path, place=place, expected=f"a weight of at most {MAXIMUM_WEIGHT}", found=shown(given))
    return weight


def _count(given: Any, least: int, most: int, place: str, path: str) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise InputError(path, place=place, expected=f"an integer from {least} to {most}", found=shown(given))
    return given
