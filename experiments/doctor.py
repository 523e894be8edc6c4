"""What `tune doctor` finds on this machine."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path


def findings() -> Iterator[str]:
    """One line a finding, each with what to do about it where something is missing."""
    from kilotune.evaluators.fixed_point.kernel import load_kernel

    here = Path(sys.executable).parent
    found = shutil.which("tune")
    if found is None:
        yield f"tune       not on the PATH; {here / 'tune'} is this installation's"
    elif Path(found).parent == here:
        yield f"tune       {found}, this installation"
    else:
        yield f"tune       {found} belongs to another installation; call `kilotune`, or {here / 'tune'}"
    kernel = load_kernel()
    if kernel is None:
        yield "simulator  NumPy (slower): install a C compiler, on Debian `apt install gcc libc6-dev`"
    else:
        yield f"simulator  C kernel built by {kernel.compiler}, {kernel.vector_unit}"
    for tool, package in (("avr-gcc", "gcc-avr avr-libc"), ("arm-none-eabi-gcc", "gcc-arm-none-eabi")):
        path = shutil.which(tool)
        yield f"{tool:<10} {path or f'missing: exported C can not be built for that device here (apt install {package})'}"
    missing = [name for name in ("onnx", "islpy", "z3") if importlib.util.find_spec(name) is None]
    lacking = f"missing {', '.join(missing)}: networks are mapped by name only (pip install 'kilotune[cm]')"
    yield f"cm         {lacking if missing else 'onnx, islpy and z3 are here'}"
