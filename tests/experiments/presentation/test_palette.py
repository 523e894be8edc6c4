"""Styles of series: told apart without colour, readable on white and on dark, and names that show as they are."""

from __future__ import annotations

import pytest

from kilotune.experiments.presentation.palette import LINE_COLOURS, NEUTRAL, strategy_style
from kilotune.experiments.presentation.text import plotly_text
from kilotune.search.strategy import strategy_names


def luminance(colour: str) -> float:
    """WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("paper", ["#ffffff", "#14171c"])
def test_lines_stand_out_on_both_papers(paper: str) -> None:
    assert all(contrast(colour, paper) > 2 for colour in (*LINE_COLOURS, NEUTRAL))


def test_every_strategy_has_a_look_of_its_own_without_colour() -> None:
    looks = [strategy_style(name) for name in strategy_names()]
    assert len({look.symbol for look in looks}) == len(looks)
    assert len({(look.colour, look.dash) for look in looks}) == len(looks)
    assert strategy_style("optuna:cmaes") == strategy_style("optuna:cmaes")


def test_a_name_is_no_markup() -> None:
    assert plotly_text("<b>a & 'b'</b>") == "&lt;b&gt;a &amp; 'b'&lt;/b&gt;"
