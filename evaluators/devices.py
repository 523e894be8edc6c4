"""The boards that programs are made for: those of the architectures, or a description of one's own; and what cycles cost there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.json_values import shown, shown_at
from kilotune.codegen.text_files import read_text_file
from kilotune.evaluators.architectures.registry import architecture_of, architectures, boards, known_processors
from kilotune.evaluators.cost_model import CostTable, parse_cost_table, parse_json_object
from kilotune.evaluators.device import Device
from kilotune.search.suggestion import did_you_mean


def shipped_cost_tables() -> dict[str, Path]:
    """The files of the tables that come with the package, by name."""
    return {name: path for one in architectures() for name, path in one.cost_tables.items()}


def shipped_cost_table(name: str) -> CostTable | None:
    """The table of that name that comes with the package, such as `avr`; None when there is none."""
    path = shipped_cost_tables().get(name)
    return None if path is None else parse_cost_table(path.read_text(encoding="utf-8"), str(path))


def cost_table(device: Device) -> CostTable | None:
    """Cycles of what emitted code does on a device; None where there is no table. InputError for a file that cannot be used."""
    if device.cost_table.endswith(".json"):
        return parse_cost_table(read_text_file(Path(device.cost_table), "a text file"), device.cost_table)
    return shipped_cost_table(device.cost_table or architecture_of(device.processor).cost_table(device.processor))


def find_device(text: str) -> Device:
    """The device of that name, or the one that a JSON file describes.

    ValueError, a sentence that lists the names, when there is none; InputError for a description that cannot be used.
    """
    for device in boards():
        if device.name == text:
            return device
    if text.endswith(".json") or Path(text).is_file():
        return load_device(Path(text))
    names = [device.name for device in boards()]
    hint = did_you_mean(text, names)
    raise ValueError(f"There is no device {text!r}{hint}; there are {', '.join(names)}, or a JSON file of your own.")


def load_device(path: Path) -> Device:
    """Read a description such as

        {"name": "my-board", "flash_bytes": 32256, "ram_bytes": 2048, "clock_hz": 16000000, "processor": "atmega328p"}

    with `description` and `cost_table` (a shipped table, or a JSON file beside this one) if wanted. InputError that names
    the key, what is expected, and what was found.
    """
    device = device_from_json(parse_json_object(read_text_file(path, "a text file"), str(path)), str(path))
    if device.cost_table.endswith(".json"):
        device = Device(**{**device.as_json(), "cost_table": str((path.parent / device.cost_table).resolve())})
    elif device.cost_table and shipped_cost_table(device.cost_table) is None:
        expected = f"{', '.join(shipped_cost_tables())}, or a .json file"
        raise InputError(str(path), place="cost_table", expected=expected, found=repr(device.cost_table))
    cost_table(device)
    return device


def device_from_json(content: Mapping[str, Any], path: str) -> Device:
    """A device from a JSON object. InputError when a key is unknown, missing, or of another kind."""
    known = {f.name for f in fields(Device)}
    for key in content:
        if key not in known:
            raise InputError(
                path, place=str(key), expected=f"one of {', '.join(sorted(known))}", found="an unknown key"
            )
    values: dict[str, Any] = {"description": "", **content}
    for key in ("name", "description", "processor", "cost_table"):
        value = values.get(key, None if key in ("name", "processor") else "")
        if not isinstance(value, str) or (key in ("name", "processor") and not value):
            raise InputError(path, place=key, expected="a text", found=shown_at(content, key))
    for key, most in (("flash_bytes", 1 << 32), ("ram_bytes", 1 << 32), ("clock_hz", 10**10)):
        value = values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
            expected = f"a whole number from 1 to {most}"
            raise InputError(path, place=key, expected=expected, found=shown_at(content, key))
    if not any(architecture.has(values["processor"]) for architecture in architectures()):
        raise InputError(path, place="processor", expected=known_processors(), found=shown(values["processor"]))
    return Device(**values)
