"""The benchmark of thirty sets of kernels: which sets, what a line says, and that answers are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilotune.experiments.benchmarks.kernel_table import GENERATED, main, table_cases
from kilotune.spaces.reverse_split.programs import load_kernel


def test_there_are_thirty_sets_and_the_generated_ones_are_of_a_seed() -> None:
    cases = table_cases(0)
    assert len({case.name for case in cases}) == 30
    again, other = table_cases(0), table_cases(1)
    differ = [case.name for case, now in zip(cases, other, strict=True) if case.kernels != now.kernels]
    assert again == cases
    assert differ == [row[0] for row in GENERATED]


def test_the_compass_has_both_gradients_and_their_negatives() -> None:
    compass = next(case for case in table_cases(0) if case.name.startswith("Robinson")).kernels
    east, north = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)), ((-1, -2, -1), (0, 0, 0), (1, 2, 1))
    assert len(set(compass)) == 8
    for kernel in (east, north):
        assert kernel in compass
        assert tuple(tuple(-weight for weight in row) for row in kernel) in compass


@pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
def test_answers_are_proved_checked_kept_and_beside_what_cain_has(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    asked = [str(file), "--only", "Sobel", "--target", "scamp5", "--seconds", "30"]
    first = CliRunner().invoke(main, asked)
    assert first.exit_code == 0, first.output
    assert "1 of the 1 sets of at most 8 instructions proved" in first.output
    assert "Cain: 5 on 1 sets, ours 5; longer than it: none" in first.output
    row = json.loads(file.read_text(encoding="utf-8"))
    assert (row["instructions"], row["bound"], row["proved"], row["checked"]) == (5, 5, True, "yes")
    row["instructions"] = 6
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    again = CliRunner().invoke(main, asked)
    assert "ours 6; longer than it: Sobel" in again.output
    assert len(file.read_text(encoding="utf-8").splitlines()) == 1
