"""What an Arduino sketch prints on a simulated Uno."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path


@cache
def load_serial_port() -> str | None:
    """The compiled program; None without gcc or libsimavr."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    program = Path(tempfile.mkdtemp(prefix="kilotune-serial-")) / "serial_port"
    source = Path(__file__).with_suffix(".c")
    command = [gcc, "-O2", "-o", str(program), str(source), "-lsimavr"]
    done = subprocess.run(command, capture_output=True, check=False)
    return str(program) if done.returncode == 0 else None


def read_serial(elf: Path, marker: str, typed: str = "") -> list[str]:
    """The lines printed until the one with `marker`, or until the answer to what is then typed."""
    program = load_serial_port()
    assert program is not None
    done = subprocess.run([program, str(elf), marker, typed], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout[-1000:]}"
    return done.stdout.splitlines()
