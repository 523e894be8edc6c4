"""The boards that programs are made for: how much memory they have (data sheets of the makers)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A microcontroller board. Flash is what the boot loader leaves free."""

    name: str
    description: str
    flash_bytes: int
    ram_bytes: int
    clock_hz: int


DEVICES = (
    Device("uno", "Arduino Uno, ATmega328P, 8 bit", 32256, 2048, 16_000_000),
    Device("mega", "Arduino Mega 2560, ATmega2560, 8 bit", 253952, 8192, 16_000_000),
    Device("mkr1000", "Arduino MKR1000, SAMD21 (Cortex-M0+)", 253952, 32768, 48_000_000),
    Device("nano33", "Arduino Nano 33 BLE, nRF52840 (Cortex-M4F)", 983040, 262144, 64_000_000),
)


def find_device(name: str) -> Device:
    """The device of that name; ValueError, a sentence that lists them, when there is none."""
    for device in DEVICES:
        if device.name == name:
            return device
    raise ValueError(f"There is no device {name!r}; there are {', '.join(device.name for device in DEVICES)}.")
