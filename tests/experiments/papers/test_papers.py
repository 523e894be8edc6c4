"""The papers' experiments run, and show what the papers say they do."""

from __future__ import annotations

import shutil

import pytest

from kilotune.evaluators.architectures.avr.machine import load_shim
from kilotune.experiments.papers.seedot_exponentials import measure
from kilotune.experiments.papers.seedot_maxscale import accuracies, figures, measured

pytestmark = pytest.mark.slow


@pytest.mark.skipif(
    shutil.which("avr-gcc") is None or load_shim() is None, reason="needs gcc-avr avr-libc libsimavr-dev"
)
def test_tables_beat_floats_as_in_section_7_2() -> None:
    found = {outcome.name: outcome for outcome in measure(inputs=20)}
    exact, trick, tables = (found[n] for n in ("math.h", "fast float trick", "SeeDot tables, 16 bits"))
    assert exact.cycles / tables.cycles > 23.2
    assert trick.cycles / tables.cycles > 4.1
    assert exact.largest_error < 1e-6
    assert trick.largest_error < 0.03  # 3 % of what is at most 1
    assert found["Shiftry tables, 16 bits"].largest_error < 2**-12


def test_accuracy_depends_on_maxscale_as_in_figure_13() -> None:
    """A peak in the middle, chance at both ends; the figure is the report's, of these points."""
    space, trials = measured("protonn-digits")
    curve = accuracies(trials)
    assert len(curve) == 16
    assert max(curve) > 98
    assert 5 <= curve.index(max(curve)) <= 10
    assert max(curve[0], curve[-1]) < 20
    (drawn,) = figures({"protonn-digits": (space, trials)}, "maxscale")
    assert drawn.stem == "maxscale-protonn-digits"
    (line,) = (trace for trace in drawn.figure.data if trace.name == "16 bits")
    assert list(zip(line.x, line.y, strict=True)) == list(enumerate(curve))
