"""Numbers and counts as they stand in sentences and tables."""

from __future__ import annotations

from kilotune.codegen.counts import counted as counted

WHOLE_FROM = 10_000
"""Larger numbers are shown without decimals."""

TENTHS_FROM = 1_000
"""From here on four digits would leave none behind the point."""


def number(value: float) -> str:
    """Four digits where there are decimals, and a tenth in any case: 1344.5 is not the bound 1344. Whole numbers whole."""
    if float(value).is_integer() or abs(value) >= WHOLE_FROM:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= TENTHS_FROM else f"{value:.4g}"


def precise(value: float) -> str:
    """A metric where candidates close to one another are told apart: six digits, whole numbers whole."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def gap_text(gap: float) -> str:
    """`2.2 %` of a share; of one that would round to nothing and is none, `under 0.1 %`."""
    return "under 0.1 %" if 0 < gap < 0.0005 else f"{100 * gap:.1f} %"


def rate_text(per_s: float) -> str:
    """`567/s`; slow ones are no 0."""
    return f"{per_s:.0f}/s" if per_s >= 10 else f"{per_s:.2g}/s"
