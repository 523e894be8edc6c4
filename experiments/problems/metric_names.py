"""Metrics in words, as the families of spaces call them, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterable

from kilotune.experiments.problems.registry import metric_words


def metric_label(metric: str) -> str:
    """A metric in words, with its unit; its name where nobody has put it into words."""
    return dict(metric_words()).get(metric, metric.replace("_", " "))


def shown_metrics(metrics: Iterable[str]) -> list[tuple[str, str]]:
    """Those of the metrics that a family has put into words, with the words; the `*` of a family's pattern filled in."""
    there, words = dict.fromkeys(metrics), dict(metric_words())
    shown = {}
    for pattern, label in words.items():
        before, star, after = pattern.partition("*")
        for metric in there if star else [pattern] if pattern in there else []:
            if not star:
                shown[metric] = label
            elif metric not in words and metric.startswith(before) and metric.endswith(after):
                shown[metric] = label.replace("*", metric[len(before) : len(metric) - len(after)])
    return list(shown.items())
