"""What `tune list` shows."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.console import Console
from rich.table import Table

from kilotune.experiments.problems.family import ListedRows, ListingRequest, SpaceListing
from kilotune.experiments.problems.plugins import load_plug_in, plug_ins
from kilotune.experiments.problems.registry import entries, listings, plug_in_mistake
from kilotune.experiments.studies.request_parsing import NOTHING
from kilotune.search.entry_points import entry_points
from kilotune.search.own_strategies import own_strategies, own_strategy_names
from kilotune.search.result import status_words
from kilotune.search.store import Store
from kilotune.search.strategy_plugins import GROUP, find_strategy_plug_in

if TYPE_CHECKING:
    from kilotune.experiments.dashboard.overview import Entry
    from kilotune.experiments.problems.problem import Problem
    from kilotune.search.entry_points import EntryPoint
    from kilotune.search.space import Trial


def find_listing(what: str) -> SpaceListing | None:
    """What a family of spaces lists under that name; None for what every space has."""
    return next((listing for listing in listings() if listing.name == what), None)


def rows(what: str, open_store: Callable[[], Store], given: Mapping[str, Any] = NOTHING) -> ListedRows:
    """One row a thing; the keys are the columns. `given`: the listing's options by parameter name."""
    listing = find_listing(what)
    if listing is not None:
        found: ListedRows = _function(listing.rows)(ListingRequest(given, lambda study: _best_of(open_store(), study)))
        return found
    general: dict[str, Callable[[], ListedRows]] = {
        "spaces": _spaces,
        "strategies": _strategies,
        "devices": _devices,
        "studies": lambda: _studies(open_store()),
        "comparisons": lambda: _comparisons(open_store()),
    }
    return general[what]()


def text_of(what: str, listed: ListedRows) -> str:
    """The rows as the listing writes them, a table where it does not say."""
    listing = find_listing(what)
    return (
        table(listed) if listing is None or listing.text is None else str(_function(listing.text)(listed)).rstrip("\n")
    )


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _best_of(store: Store, study: str) -> tuple[Problem, Trial | None]:
    from kilotune.experiments.studies import joining
    from kilotune.experiments.studies.measured_finalists import kept_finalist

    problem, stored, _ = joining.resume(store, study)
    return problem, kept_finalist(problem, stored, stored.result()).best


def table(listed: ListedRows) -> str:
    """The rows as aligned text."""
    if not listed:
        return "none"
    drawn = Table(show_edge=False, pad_edge=False, box=None)
    for column in listed[0]:
        numeric = any(isinstance(row[column], int | float) for row in listed)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        drawn.add_column(column.replace("_", " "), justify=justify, overflow="fold", no_wrap=column == "name")
    for row in listed:
        drawn.add_row(*(_cell(value) for value in row.values()))
    text = io.StringIO()
    Console(file=text, width=140, markup=False, force_jupyter=False).print(drawn)
    return text.getvalue().rstrip("\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _spaces() -> ListedRows:
    def row(name: str, decides: str, strategy: str | None, source: str) -> dict[str, Any]:
        return {"name": name, "decides": decides, "default_strategy": strategy, "from": source}

    listed = [row(o.space, o.decides, o.best_strategy, "kilotune") for o in entries()]
    for plug_in in plug_ins():
        wrong = plug_in_mistake(plug_in)
        if wrong is not None:
            listed.append(row(plug_in.name, f"not usable: {wrong}", None, plug_in.package))
            continue
        _, entry = load_plug_in(plug_in)
        listed.append(row(entry.space, entry.decides, entry.best_strategy, plug_in.package))
    return listed


def _strategies() -> ListedRows:
    listed = [{"name": name, "what": own.what, "from": "kilotune"} for name, own in own_strategies().items()]
    return listed + [
        {"name": entry.name, "what": strategy_plug_in_words(entry), "from": entry.package}
        for entry in entry_points(GROUP)
    ]


def strategy_plug_in_words(entry: EntryPoint) -> str:
    """What the strategy of a plug-in does, or why it is not usable."""
    if entry.name in own_strategy_names():
        return f"not usable: {entry} is not used: kilotune has a strategy of that name."
    try:
        plug_in = find_strategy_plug_in(entry.name)
    except ValueError as error:
        return f"not usable: {error}"
    return "" if plug_in is None else plug_in.summary


def _devices() -> ListedRows:
    from kilotune.evaluators.architectures.registry import boards
    from kilotune.evaluators.devices import cost_table

    tables = {d.name: cost_table(d) for d in boards()}
    return [
        {
            "name": d.name,
            "board": d.description,
            "processor": d.processor,
            "flash_bytes": d.flash_bytes,
            "ram_bytes": d.ram_bytes,
            "clock_hz": d.clock_hz,
            "cost_table": getattr(tables[d.name], "target", None),
        }
        for d in boards()
    ]


def _studies(store: Store) -> ListedRows:
    """Oldest first, without the runs of comparisons, which are hundreds. `best` is in the unit of `metric`, the first
    objective; it is None where the study's space cannot be built any more, or nothing has been measured."""
    from kilotune.experiments.dashboard.heartbeats import Heartbeats
    from kilotune.experiments.dashboard.overview import Overview
    from kilotune.search.work_sharing import working

    processes = working(store)
    overview = Overview(store, Heartbeats(store), wanted=lambda row: "comparison" not in row.request)
    with Console(stderr=True).status("reading studies"):  # every different input is loaded for it
        entries = overview.all_entries()
    for sentence in overview.damaged:
        click.echo(sentence, err=True)
    for entry in reversed(entries):
        if entry.trouble:
            click.echo(f"{entry.row.name}: its best is not known. {entry.trouble}", err=True)
    return [
        {
            "name": entry.row.name,
            "space": entry.row.space,
            "strategy": entry.row.strategy,
            "seed": entry.row.seed,
            "trials": entry.row.trials,
            "status": status_words(entry.row.status, processes[entry.row.name]),
            "elapsed_s": round(entry.row.elapsed_s, 1),
            "metric": entry.leading,
            "best": entry.best,
            "gap_percent": None if entry.gap is None else round(100 * entry.gap, 2),
            "proof": _proof(entry),
        }
        for entry in reversed(entries)
    ]


def _proof(entry: Entry) -> str | None:
    """What is known about the best candidate; None where that is nothing."""
    if entry.best is not None and not entry.feasible:
        settled = entry.row.outcome in ("proved", "exhausted")
        return "no candidate keeps the limits" if settled else "breaks a limit"
    return "proved" if entry.gap == 0 else None


def _comparisons(store: Store) -> ListedRows:
    from kilotune.experiments.comparison.records import missing_runs, stored_plan
    from kilotune.search.comparison_store import comparisons

    listed = []
    for row in comparisons(store):
        plan = stored_plan(row)
        runs = sum(1 for _ in plan.runs())
        listed.append(
            {
                "name": row.name,
                "cases": ", ".join(case.title for case in plan.cases),
                "repeats": plan.repeats,
                "budget": plan.budget,
                "runs": runs,
                "finished": runs - len(missing_runs(store, row.name, plan)),
            }
        )
    return listed
