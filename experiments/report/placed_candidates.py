"""What synthesis, place and route found of a study's candidates, beside what was predicted."""

from __future__ import annotations

from kilotune.experiments.presentation.section import Paragraph, Section, Table
from kilotune.experiments.problems.placing import FinalistPlacing, PlacedTrial

SHOWN = (
    ("luts", "LUTs"),
    ("flip_flops", "flip-flops"),
    ("block_rams", "block RAMs"),
    ("multipliers", "multipliers"),
    ("clock_mhz", "MHz"),
    ("latency_us", "us"),
)


def placed_sections(placing: FinalistPlacing | None) -> tuple[Section, ...]:
    """A row a candidate in the order in which they were tried; none where nothing was."""
    if placing is None or not placing.tried:
        return ()
    columns = [name for _, label in SHOWN for name in (label, f"{label}, predicted")]
    table = Table(
        ("trial", *columns, "why it cannot be used"),
        [_row(placed) for placed in placing.tried],
        f"Candidates tried on {placing.board}, up to the first that keeps all limits: `tune export` writes that one.",
        sortable=False,
    )
    return (Section("On the board", (*(Paragraph(said) for said in placing.sentences()), table)),)


def _row(placed: PlacedTrial) -> list[str | float | None]:
    found, predicted = placed.metrics(), placed.trial.measurement.metrics
    cells: list[str | float | None] = [placed.trial.number]
    for metric, _ in SHOWN:
        cells += [_rounded(found.get(metric)), _rounded(predicted.get(metric))]
    return [*cells, placed.reason]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}") if value < 1000 else round(value)
