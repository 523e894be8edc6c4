"""The kill test itself: a few kills of real processes, and that it would see what it looks for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kilotune.experiments.soak.killing import StoredTrials, Subject, differences, killed_study, lost

pytestmark = pytest.mark.slow

ROWS: StoredTrials = {number: (f"[{number}]", f"loss {number}", None) for number in range(5)}


def test_a_study_that_is_killed_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """By two processes; of one alone the studies of `tests/search` are killed."""
    subject = Subject("shiftry", "worked-example", "random")
    url = str(tmp_path / "studies.db")
    made = killed_study(subject, url, 2, 2, random.Random(2), tmp_path, window_s=0.5)
    assert made.faults == ()
    assert made.kills == 2
    assert made.trials >= 20


def test_what_is_gone_or_changed_or_different_is_seen() -> None:
    shorter = {number: row for number, row in ROWS.items() if number != 3}
    changed = {**ROWS, 2: ("[2]", "loss 7", None)}
    assert lost(ROWS, {**ROWS, 5: ROWS[0]}) == differences(ROWS, dict(ROWS)) == []
    assert lost(ROWS, shorter) == ["1 stored trials are gone, the first is 3"]
    assert lost(ROWS, changed) == ["1 stored trials have changed, the first is 2"]
    assert differences(shorter, ROWS) == ["1 trials are not the undisturbed run's, the first is 3"]
    assert differences(changed, ROWS) == ["1 trials are not the undisturbed run's, the first is 2"]
    assert differences(shorter, shorter) == ["numbers are missing"]
