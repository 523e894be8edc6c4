"""The machines of QEMU that stand for Cortex-M boards: the compiler's options for them, their memory, how they start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True)
class EmulatedBoard:
    """A machine of QEMU with a processor (`core`: its name in prose). `flash`, `ram`: as linker scripts write sizes."""

    core: str
    machine: str
    options: tuple[str, ...]
    flash: str
    ram: str

    def link_script(self) -> str:
        """The linker script."""
        text = Path(__file__).with_name("link.ld").read_text(encoding="utf-8")
        return text.replace("@flash@", self.flash).replace("@ram@", self.ram)


EMULATED: Mapping[str, EmulatedBoard] = MappingProxyType(
    {
        "cortex-m0plus": EmulatedBoard("Cortex-M0+", "microbit", ("-mcpu=cortex-m0plus",), "256K", "16K"),
        "cortex-m4": EmulatedBoard(
            "Cortex-M4F",
            "mps2-an386",
            ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
            "4M",
            "4M",
        ),
        "cortex-m55": EmulatedBoard(
            "Cortex-M55", "mps3-an547", ("-mcpu=cortex-m55", "-mfloat-abi=hard"), "512K", "512K"
        ),
    }
)
"""By processor. The micro:bit's is a Cortex-M0, which has the same instructions as the M0+."""

LARGER: Mapping[str, EmulatedBoard] = MappingProxyType(
    {"cortex-m0plus": EmulatedBoard("Cortex-M0+", "mps2-an385", ("-mcpu=cortex-m0plus",), "4M", "4M")}
)
"""By processor, the machine for programs that its usual one has no room for: boards with an M0+ have more memory than the micro:bit. This
one's core is a Cortex-M3, which executes all instructions of the M0+."""


def startup_code() -> str:
    """C that sets up memory and the floating-point unit, calls main, and exits with what that returns."""
    return Path(__file__).with_name("startup.c").read_text(encoding="utf-8")
