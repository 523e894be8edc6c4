"""A run's result as a person reads it in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from kilotune.experiments.tuning import TuneOutcome
from kilotune.search.strategy import Outcome

SHOWN = (
    ("accuracy_percent", "train accuracy %"),
    ("test_accuracy_percent", "test accuracy %"),
    ("disagreements", "disagreements"),
    ("precision_loss", "precision loss"),
    ("mean_absolute_error", "mean absolute error"),
    ("flash_bytes", "flash bytes"),
    ("ram_bytes", "RAM bytes"),
    ("demoted", "8-bit variables"),
    ("peak_bytes", "peak bytes"),
    ("gap_percent", "% above the largest live sum"),
    ("bytes_migrated", "bytes migrated"),
    ("ticks_per_image", "ticks per image"),
    ("latency_ticks", "latency, ticks"),
    ("cores", "cores"),
    ("sram_bytes", "SRAM bytes"),
    ("core_sram_bytes", "SRAM bytes of the fullest core"),
    ("compute_ticks", "ticks of the busiest core"),
    ("promised_ticks", "ticks of the busiest core or link"),
    ("longest_route_links", "links of the longest route"),
)


def print_summary(outcome: TuneOutcome, console: Console) -> None:
    """The best program beside the paper's procedure and the float model, and what is known about the optimum."""
    problem, result = outcome.problem, outcome.result
    console.print(f"{problem.request.space} on {problem.name}, strategy {problem.request.strategy}", soft_wrap=True)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("")
    columns: list[Mapping[str, float]] = []
    for title, metrics, test in (
        ("float", outcome.float_metrics.get("train", {}), outcome.float_metrics.get("test")),
        (
            "paper's procedure",
            outcome.procedure.measurement.metrics if outcome.procedure else {},
            problem.test_metrics(outcome.procedure.assignment) if outcome.procedure else None,
        ),
        ("best found", result.best.measurement.metrics if result.best else {}, outcome.test),
    ):
        if title == "float" and not metrics:
            continue
        table.add_column(title, justify="right")
        columns.append({**metrics, **_test_accuracy(test)})
    for metric, label in SHOWN:
        if any(metric in column for column in columns):
            table.add_row(label, *(_number(column[metric]) if metric in column else "" for column in columns))
    console.print(table)
    certificate = problem.certificate()
    if certificate is not None:
        console.print(f"Bound: {certificate['sentence']}.", soft_wrap=True)
    console.print(conclusion(outcome), soft_wrap=True)


def conclusion(outcome: TuneOutcome) -> str:
    """What is known about the optimum, in a sentence or two."""
    result = outcome.result
    leading = outcome.problem.space.objectives[0].metric
    if not result.feasible and result.proved:
        text = "Proved: no candidate meets the constraints. The nearest one met is shown."
    elif result.best is None:
        text = "No candidate was measured."
    elif not result.feasible:
        text = "No candidate found meets the constraints yet. The nearest is shown."
    elif result.proved and result.outcome is Outcome.EXHAUSTED:
        text = "Proved: every candidate was measured, and none is better."
    elif result.proved:
        text = f"Proved: no candidate has a better {leading}."
    elif result.bound is not None and result.gap is not None:
        text = f"No candidate can have a {leading} better than {_number(result.bound)} (gap {100 * result.gap:.1f} %)."
    else:
        text = f"How far the best {leading} is from the optimum is not known."
    rate = result.evaluations / result.elapsed_s if result.elapsed_s > 0 else 0.0
    size = "" if outcome.problem.size is None else f" of {outcome.problem.size:.3g}"
    return (
        f"{text}\n{result.evaluations} candidates{size} in {result.elapsed_s:.1f} s "
        f"({rate:.0f}/s; {outcome.problem.measured_by}); {result.status.value}; study {result.study}"
    )


def _test_accuracy(test: Mapping[str, float] | None) -> dict[str, float]:
    return {"test_accuracy_percent": test["accuracy_percent"]} if test and "accuracy_percent" in test else {}


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"
