"""Which device tools there are; tests that need a missing one are skipped with its Debian packages as the reason."""

from __future__ import annotations

import shutil

import pytest

from kilotune.evaluators.architectures.avr.firmware import avr_gcc
from kilotune.evaluators.architectures.avr.machine import load_shim
from kilotune.evaluators.architectures.cortex.firmware import arm_gcc
from kilotune.evaluators.architectures.cortex.run import load_plugin, qemu

needs_avr = pytest.mark.skipif(
    avr_gcc() is None or load_shim() is None,
    reason="no AVR tools: install gcc-avr avr-libc simavr libsimavr-dev gcc",
)
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="no node: install nodejs and npm"
)
needs_cortex = pytest.mark.skipif(
    arm_gcc() is None or qemu() is None or load_plugin() is None,
    reason="no ARM tools: install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm gcc",
)
