"""Values of JSON files in error messages: with the words of the file, not Python's."""

import json

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.json_values import MOST_SHOWN, shown, shown_at
from kilotune.evaluators.cost_model import parse_cost_table
from kilotune.evaluators.devices import device_from_json
from kilotune.evaluators.fpga.boards import board_from_json

DEVICE = {"name": "my-board", "flash_bytes": 32256, "ram_bytes": 2048, "clock_hz": 16000000, "processor": "atmega328p"}
BOARD = {
    "name": "mine",
    "family": "ecp5",
    "part": ["--25k"],
    "luts": 24288,
    "flip_flops": 24288,
    "block_rams": 56,
    "multipliers": 28,
}
WORDS = ["null", "true", "[null, false]", "Infinity"]


@pytest.mark.parametrize("word", [*WORDS, "NaN", "1.5", "-3"])
def test_a_value_is_shown_as_it_was_written(word: str) -> None:
    assert shown(json.loads(word)) == word
    assert shown_at({"key": json.loads(word)}, "key") == word
    assert shown_at({"key": 1}, "other") == "nothing"


def test_a_long_value_is_cut() -> None:
    assert shown(["null"] * 1000).endswith("...")
    assert len(shown(["null"] * 1000)) == MOST_SHOWN


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("read", "place"),
    [
        (lambda value: device_from_json({**DEVICE, "clock_hz": value}, "file.json"), "clock_hz"),
        (lambda value: device_from_json({**DEVICE, "name": value}, "file.json"), "name"),
        (lambda value: board_from_json({**BOARD, "luts": value}, "file.json"), "luts"),
        (lambda value: board_from_json({**BOARD, "family": value}, "file.json"), "family"),
        (lambda value: board_from_json({**BOARD, "part": value}, "file.json"), "part"),
        (
            lambda value: parse_cost_table(json.dumps({"cycles": {"run.MatMul": value}}), "file.json"),
            "cycles.run.MatMul",
        ),
        (lambda value: parse_cost_table(json.dumps({"target": value, "cycles": {}}), "file.json"), "target"),
        (lambda value: parse_cost_table(json.dumps({"schema": value, "cycles": {}}), "file.json"), "schema"),
    ],
)
def test_descriptions_of_hardware_are_refused_in_the_words_of_their_files(read, place: str, word: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as refused:
        read(json.loads(word))
    assert refused.value.place == place
    assert refused.value.found == word
