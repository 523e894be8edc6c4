"""A run's result as a person reads it in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Table

from kilotune.evaluators.on_device import DeviceMeasurement
from kilotune.experiments.presentation.wording import counted, gap_text, number, rate_text
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.metric_names import shown_metrics
from kilotune.experiments.problems.problem import Explains, PlacesFinalists, bound_reason_of, device_of
from kilotune.experiments.problems.problem_entry import entry_of, procedure_name
from kilotune.experiments.studies.chosen_builds import not_compared
from kilotune.experiments.studies.outcome_file import answer_of
from kilotune.experiments.studies.tuning import TuneOutcome
from kilotune.experiments.terminal.budget_usage import WORTH_SAYING_S, usage_sentence
from kilotune.experiments.terminal.front_table import front_table
from kilotune.experiments.terminal.sample_differences import sample_differences
from kilotune.experiments.terminal.unseen_loss import unseen_loss
from kilotune.experiments.terminal.whole_programs import larger_program
from kilotune.search.candidates import count_candidates
from kilotune.search.result import Result
from kilotune.search.strategy import Outcome


def print_summary(outcome: TuneOutcome, console: Console) -> None:
    """The best program beside the paper's procedure and the float model, and what is known about the optimum.

    `console`: without markup, since names of files and buffers may hold brackets.
    """
    problem = outcome.problem
    console.print(f"{problem.request.space} on {problem.name}, strategy {problem.request.strategy}", soft_wrap=True)
    titles, rows = compared(outcome)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("")
    for title in titles:
        table.add_column(title, justify="right")
    for label, values in rows:
        table.add_row(label, *("" if value is None else number(value) for value in values))
    console.print(table)
    front = front_table(outcome)
    if front is not None:
        console.print(front)
    for line in (*_about_the_best(outcome), *_about_the_run(outcome), conclusion(outcome)):
        console.print(line, soft_wrap=True)


def _about_the_best(outcome: TuneOutcome) -> Iterator[str]:
    """What its problem, the bounds and the device say of it."""
    problem, best = outcome.problem, outcome.result.best
    differences = sample_differences(outcome)
    if differences is not None:
        yield differences
    beyond = unseen_loss(outcome)
    if beyond is not None:
        yield beyond
    if best is not None and isinstance(problem, Explains):
        yield from problem.lines(best)
    reason = bound_reason_of(problem)
    if reason is not None:
        yield f"Bound: {reason['sentence']}."
    if outcome.approximation is not None:
        yield f"{outcome.approximation['sentence']}."
    if outcome.test_not_measured is not None:
        yield f"{outcome.test_not_measured}."
    if outcome.said_of_finalists is not None:
        yield outcome.said_of_finalists
    yield from _on_the_device(outcome)
    if outcome.placing is not None:
        yield from outcome.placing.sentences()
    answer = answer_of(outcome)
    if answer is not None:
        yield answer.sentence()


def _on_the_device(outcome: TuneOutcome) -> Iterator[str]:
    """What the best program did there, or that no time was left for it."""
    check, device = outcome.device_check, device_of(outcome.problem)
    if check is not None:
        yield on_device(check)
        if check.less_ram:
            yield check.less_ram
        uncompared = not_compared(outcome.problem, check)
        if uncompared is not None:
            yield uncompared
        if check.measured is not None and outcome.float_on_device is not None:
            yield against_float(check.measured, outcome.float_on_device)
        larger = larger_program(outcome)
        if larger is not None:
            yield larger
    elif outcome.result.best is not None and device is not None:
        yield f"Not run on a simulated {device.name}, {_why_not_run(outcome)}; cycles are the cost model's."


def _why_not_run(outcome: TuneOutcome) -> str:
    """What the search has left of the budget went into what comes before the run, or did not suffice for compiling and running."""
    if outcome.interrupted:
        return "as the search was interrupted"
    left = -math.inf if outcome.asked is None else outcome.asked.seconds - outcome.used_s
    if not WORTH_SAYING_S <= left < math.inf:
        return "as no time was left for that"
    return (
        f"as the {left:.1f} s of the budget that the search has left did not suffice for compiling and running it (a "
        f"busy machine takes longer): a larger --budget leaves more"
    )


def _about_the_run(outcome: TuneOutcome) -> Iterator[str]:
    """Whether the procedure came to its end, and what the budget was used for."""
    unended = outcome.paper.sentence(procedure_name(outcome.problem))
    if unended is not None and outcome.result.best is not None and not outcome.result.proved:
        yield unended
    if outcome.asked is not None:
        yield usage_sentence(outcome.result, outcome.problem.space.objectives, outcome.asked, outcome.used_s)


def compared(outcome: TuneOutcome) -> tuple[list[str], list[tuple[str, list[float | None]]]]:
    """Titles of columns (float, the space's procedure, the best), and a row a metric: its label, a value a column."""
    problem, result = outcome.problem, outcome.result
    procedure = procedure_name(problem)
    titles: list[str] = []
    columns: list[Mapping[str, float]] = []
    floats, held_out = outcome.float_metrics, outcome.validation
    for title, metrics, validation, test, measured in (
        ("float", floats.get("train", {}), floats.get("validation"), floats.get("test"), outcome.float_on_device),
        (
            procedure,
            outcome.procedure.measurement.metrics if outcome.procedure else {},
            held_out.procedure,
            outcome.procedure_test,
            _found(outcome.procedure_device_check),
        ),
        (
            "best found",
            result.best.measurement.metrics if result.best else {},
            held_out.best,
            outcome.test,
            _found(outcome.device_check),
        ),
    ):
        if (title == "float" and not metrics) or (title == procedure and outcome.procedure is None):
            continue
        titles.append(title)
        elsewhere = _unseen_metrics("validation", validation, metrics) | _unseen_metrics("test", test, metrics)
        columns.append({**metrics, **elsewhere, **_measured(measured)})
    names = dict.fromkeys(metric for column in columns for metric in column)
    labels = dict(shown_metrics(names))
    if not entry_of(problem)[0].metrics:  # nobody has chosen what to show of it, so all is shown
        labels.update((name, name.replace("_", " ")) for name in names if name not in labels)
    return titles, [(label, [column.get(metric) for column in columns]) for metric, label in labels.items()]


def conclusion(outcome: TuneOutcome) -> str:
    """What is known about the optimum, in a sentence or two."""
    result = outcome.result
    leading = outcome.problem.space.objectives[0].metric
    # what places finalists measures them after the search, which has proved what it has by a model
    proved = "Proved by the cost model" if isinstance(outcome.problem, PlacesFinalists) else "Proved"
    if not result.feasible and result.proved:
        text = f"{proved}: no candidate meets the constraints. The nearest one met is shown."
    elif result.best is None:
        text = "No candidate was measured before the end, so nothing is known: expected a larger --budget."
    elif not result.feasible and outcome.problem.space.start().bound() == math.inf:
        text = "No candidate can meet the constraints: the least that any takes is beyond them. The nearest found is shown."
    elif not result.feasible:
        text = "No candidate found meets the constraints yet. The nearest is shown."
    elif result.proved and result.outcome is Outcome.EXHAUSTED:
        text = f"{proved}: every candidate was measured, and none is better."
    elif result.proved:
        text = f"{proved}: no candidate is better in {leading}."
    else:
        text = distance_from_optimum(result, leading)
    rate = result.evaluations / result.elapsed_s if result.elapsed_s > 0 else 0.0
    count = count_candidates(outcome.problem.space)
    measured = counted(result.evaluations, "candidate")
    if count is not None:
        measured = f"{result.evaluations} of {counted(count, 'candidate') if count == 1 else f'{count:.3g} candidates'}"
    return (
        f"{text}\n{measured} in {result.elapsed_s:.1f} s of search "
        f"({rate_text(rate)}; {outcome.problem.measured_by}); {result.status.value}; study {result.study}"
    )


def distance_from_optimum(result: Result, leading: str) -> str:
    """What a bound on the metric `leading` says, a sentence; a bound of 0 says nothing, being one on every latency and size."""
    if result.bound and result.gap is not None:
        return f"No candidate is better than {number(result.bound)} in {leading} (gap {gap_text(result.gap)})."
    return f"How far the best {leading} is from the optimum is not known."


def _unseen_metrics(part: str, unseen: Mapping[str, float] | None, metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics on data that no search sees: those that only these data give, and those that have words of their own there."""
    alone = {name: value for name, value in (unseen or {}).items() if name not in metrics}
    named = {f"{part}_{name}": value for name, value in (unseen or {}).items()}
    return alone | {name: value for name, value in named.items() if shown_metrics([name])}


def on_device(check: DeviceCheck) -> str:
    """What was done on the device, or why nothing was."""
    found, name = check.measured, check.device.name
    smaller = None if check.smaller is check.better else check.smaller
    chosen = _chosen_build(check)
    hint = "".join(_other_build(build) for build in (check.better, smaller) if build is not None)
    if found is None:
        predicted = "" if check.predicted_cycles is None else " Cycles are the cost model's."
        return f"{check.reason}{predicted}{hint}"
    how = "Instructions counted, cycles approximate" if found.approximate else "Cycles counted"
    fits = "" if found.fits else f" It does not fit {name}: too little flash or RAM."
    unknown = check.unknown_shape and f" {check.unknown_shape}"
    return (
        f"{how} on a simulated {name} ({found.build}): the outputs of {counted(found.samples, 'sample')} equal the search's bit for "
        f"bit.{fits}{unknown}{chosen}{hint}"
    )


def _chosen_build(check: DeviceCheck) -> str:
    """Why the build that was measured is delivered, where it was chosen, and what that of the search takes."""
    found = check.measured
    if check.chosen_for is None or found is None:
        return ""
    first = check.levels[0]
    if first is found:
        return f" Of {counted(len(check.levels), 'build')} it takes {check.chosen_for}."
    return (
        f" Of {counted(len(check.levels), 'build')} it takes {check.chosen_for}: {number(round(found.cycles))} cycles and "
        f"{found.sizes.flash_bytes} bytes of flash ({first.build}: {number(round(first.cycles))} and {first.sizes.flash_bytes})."
    )


def _other_build(build: DeviceMeasurement) -> str:
    """What a faster or smaller build takes, and how it is exported."""
    cycles, flash = number(round(build.cycles)), build.sizes.flash_bytes
    asked = f"--level {build.level.lstrip('-')} --shape {build.shape}"
    return f" Built as {build.build} it takes {cycles} cycles and {flash} bytes of flash (`tune export {asked}`)."


def against_float(fixed: DeviceMeasurement, floats: DeviceMeasurement) -> str:
    """How the best program compares with the float one on the same device."""
    share = 100.0 * fixed.sizes.flash_bytes / floats.sizes.flash_bytes
    return f"{floats.cycles / fixed.cycles:.1f} times as fast as the float program there, {share:.0f} % of its flash."


def _found(check: DeviceCheck | None) -> DeviceMeasurement | None:
    return None if check is None else check.measured


def _measured(found: DeviceMeasurement | None) -> dict[str, float]:
    return {} if found is None else {f"device_{name}": value for name, value in found.metrics().items()}
