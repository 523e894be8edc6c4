"""Descriptions of boards: the known ones, JSON of one's own, and what is said about a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.evaluators.architectures.registry import architecture_of, boards
from kilotune.evaluators.cost_model import CostTable
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import cost_table, find_device

MINE = {"name": "mine", "flash_bytes": 8192, "ram_bytes": 512, "clock_hz": 8_000_000, "processor": "atmega88"}


def write(folder: Path, content: object) -> str:
    path = folder / "board.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_known_boards() -> None:
    assert [device.name for device in boards()] == ["uno", "mega", "mkr1000", "nano33", "mps3"]
    uno = find_device("uno")
    assert (uno.flash_bytes, uno.ram_bytes, architecture_of(uno.processor).name) == (32256, 2048, "avr")
    assert architecture_of(find_device("nano33").processor).name == "cortex"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="There is no device 'due'; there are uno, mega, mkr1000, nano33, mps3, or a JSON file"
    ):
        find_device("due")


def test_a_description_of_ones_own(tmp_path: Path) -> None:
    device = find_device(write(tmp_path, MINE))
    assert device == Device("mine", "", 8192, 512, 8_000_000, "atmega88")
    assert Device(**device.as_json()) == device
    table = cost_table(device)
    assert table is not None
    assert table.target == "avr"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert find_device(write(tmp_path, "\ufeff" + json.dumps(MINE))).ram_bytes == 512


def test_a_cost_table_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text(CostTable("mine", {"program": 3.0}, {}).as_json())
    device = find_device(write(tmp_path, {**MINE, "cost_table": "costs.json"}))
    table = cost_table(device)
    assert table is not None
    assert table.cycles == {"program": 3.0}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "board.json:1:2: expected JSON"),
        ([], "expected a JSON object, found list"),
        ({**MINE, "colour": "red"}, "colour: expected one of clock_hz, cost_table, description, flash_bytes"),
        (
            {k: v for k, v in MINE.items() if k != "ram_bytes"},
            "ram_bytes: expected a whole number from 1 to 4294967296, found nothing",
        ),
        ({**MINE, "flash_bytes": 0}, "flash_bytes: expected a whole number from 1 to 4294967296, found 0"),
        ({**MINE, "clock_hz": "16MHz"}, "clock_hz: expected a whole number from 1 to 10000000000, found '16MHz'"),
        ({**MINE, "ram_bytes": True}, "ram_bytes: expected a whole number"),
        (
            {**MINE, "processor": "z80"},
            "processor: expected cortex-m0plus, cortex-m4, cortex-m55, or an AVR such as atmega328p, found 'z80'",
        ),
        ({**MINE, "name": ""}, "name: expected a text, found ''"),
        (
            {**MINE, "cost_table": "warp"},
            "cost_table: expected avr, cortex-m0plus, cortex-m4, cortex-m55, or a .json file, found 'warp'",
        ),
        (
            {**MINE, "cost_table": "../costs/avr"},
            "cost_table: expected avr, cortex-m0plus, cortex-m4, cortex-m55, or a .json file",
        ),
        (
            {**MINE, "cost_table": "a" * 5000},
            "cost_table: expected avr, cortex-m0plus, cortex-m4, cortex-m55, or a .json file",
        ),
        ("[" * 100_000, "board.json: expected JSON"),
        (json.dumps(MINE).replace("8192", "9" * 5000), "board.json: expected JSON"),
        ({**MINE, "cost_table": "missing.json"}, "missing.json: expected a text file, found No such file"),
    ],
)
def test_a_wrong_description_is_named(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(InputError) as error:
        find_device(write(tmp_path, content))
    assert said in str(error.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InputError, match=r"nowhere\.json: expected a text file, found No such file or directory"):
        find_device("nowhere.json")
