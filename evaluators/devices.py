"""The boards that programs are made for: memory, clock, processor (data sheets of the makers), or a description of one's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.text_files import read_text_file
from kilotune.evaluators.cost_model import CostTable, parse_cost_table, parse_json_object, shipped_cost_table
from kilotune.search.suggestion import did_you_mean

CORTEX = ("cortex-m0plus", "cortex-m4")


@dataclass(frozen=True)
class Device:
    """A microcontroller board. Flash is what the boot loader leaves free.

    `processor`: a name that avr-gcc's -mmcu takes, or one of CORTEX. `cost_table`: the name of a shipped table, or the path
    of another one (`evaluators.cost_model`); empty for the processor's own.
    """

    name: str
    description: str
    flash_bytes: int
    ram_bytes: int
    clock_hz: int
    processor: str
    cost_table: str = ""

    @property
    def architecture(self) -> str:
        """`avr` or `cortex`."""
        return "cortex" if self.processor in CORTEX else "avr"

    def costs(self) -> CostTable | None:
        """Cycles of what emitted code does; None where there is no table. InputError for a file that cannot be used."""
        if self.cost_table.endswith(".json"):
            return parse_cost_table(read_text_file(Path(self.cost_table), "a text file"), self.cost_table)
        return shipped_cost_table(self.cost_table or (self.processor if self.processor in CORTEX else "avr"))

    def as_json(self) -> dict[str, Any]:
        """The description as a file would hold it."""
        return asdict(self)


DEVICES = (
    Device("uno", "Arduino Uno, ATmega328P, 8 bit", 32256, 2048, 16_000_000, "atmega328p"),
    Device("mega", "Arduino Mega 2560, ATmega2560, 8 bit", 253952, 8192, 16_000_000, "atmega2560"),
    Device("mkr1000", "Arduino MKR1000, SAMD21 (Cortex-M0+)", 253952, 32768, 48_000_000, "cortex-m0plus"),
    Device("nano33", "Arduino Nano 33 BLE, nRF52840 (Cortex-M4F)", 983040, 262144, 64_000_000, "cortex-m4"),
)


def find_device(text: str) -> Device:
    """The device of that name, or the one that a JSON file describes.

    ValueError, a sentence that lists the names, when there is none; InputError for a description that cannot be used.
    """
    for device in DEVICES:
        if device.name == text:
            return device
    if text.endswith(".json") or Path(text).is_file():
        return load_device(Path(text))
    names = [device.name for device in DEVICES]
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
        shipped = "avr, " + ", ".join(CORTEX)
        expected = f"{shipped}, or a .json file"
        raise InputError(str(path), place="cost_table", expected=expected, found=repr(device.cost_table))
    device.costs()
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
            raise InputError(path, place=key, expected="a text", found="nothing" if value is None else repr(value))
    for key, most in (("flash_bytes", 1 << 32), ("ram_bytes", 1 << 32), ("clock_hz", 10**10)):
        value = values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
            found = "nothing" if value is None else repr(value)
            raise InputError(path, place=key, expected=f"a whole number from 1 to {most}", found=found)
    if values["processor"] not in CORTEX and not re.fullmatch(r"at[a-z]*\d+[a-z0-9]*", values["processor"]):
        expected = f"{', '.join(CORTEX)}, or an AVR such as atmega328p"
        raise InputError(path, place="processor", expected=expected, found=repr(values["processor"]))
    return Device(**values)
