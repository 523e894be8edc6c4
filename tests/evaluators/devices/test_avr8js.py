"""A second opinion: another AVR simulator takes the same cycles, and computes the same outputs."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kilotune.evaluators.architectures.avr.firmware import DATA_SPACE, Firmware, build_firmware
from kilotune.evaluators.architectures.avr.machine import MOST_CYCLES, AvrMachine
from kilotune.evaluators.simulated import of_emitted, quantised
from tests.evaluators.devices.candidates import ON_AN_UNO, bundled
from tests.evaluators.devices.toolchains import needs_avr, needs_node

pytestmark = [needs_avr, needs_node, pytest.mark.slow]
HERE = Path(__file__).parent / "avr8js"
SAMPLES = 4


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """run.js beside an installed avr8js."""
    folder = tmp_path_factory.mktemp("avr8js")
    for name in ("package.json", "run.js"):
        shutil.copy(HERE / name, folder)
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot install avr8js here: {done.stderr.strip()[-200:]}")
    return folder / "run.js"


def run_in_avr8js(script: Path, firmware: Firmware, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(cycles [samples], outputs [samples, results])."""
    artefact = firmware.artefact
    given = inputs.astype(artefact.input_type)
    image = script.with_name("flash.bin")
    image.write_bytes(firmware.elf.flash)
    address = {name: symbol.address - DATA_SPACE for name, symbol in firmware.elf.symbols.items()}
    request = script.with_name("request.json")
    content = {
        "flash": str(image),
        "flashBytes": 32768,
        "ramBytes": 2048,
        "inputs": [base64.b64encode(sample.tobytes()).decode() for sample in given],
        "input": address.get("kt_input", 256),
        "output": address["kt_output"],
        "outputBytes": artefact.output_bytes,
        "mostCycles": MOST_CYCLES,
    }
    request.write_text(json.dumps(content))
    done = subprocess.run(["node", str(script), str(request)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    raw = b"".join(base64.b64decode(text) for text in answer["outputs"])
    return np.array(answer["cycles"]), np.frombuffer(raw, artefact.result_type).reshape(-1, artefact.results)


@pytest.mark.parametrize("name", ON_AN_UNO)
def test_two_simulators_agree(name: str, script: Path) -> None:
    candidate = bundled(name, SAMPLES, seed=2)
    firmware = build_firmware(of_emitted(candidate.source), "atmega328p")
    inputs = quantised(candidate.source, candidate.features)
    with AvrMachine(firmware) as machine:
        run = machine.run(inputs)
    cycles, outputs = run_in_avr8js(script, firmware, inputs)
    np.testing.assert_array_equal(cycles, run.cycles)
    np.testing.assert_array_equal(outputs, run.outputs)
