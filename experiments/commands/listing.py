"""What `tune list` shows."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.console import Console
from rich.table import Table

from kilotune.search.store import Store

if TYPE_CHECKING:
    from kilotune.experiments.dashboard.overview import Entry
    from kilotune.search.entry_points import EntryPoint

STRATEGIES = {
    "greedy": "the paper's own procedure",
    "exhaustive": "depth-first branch and bound; proves the optimum when it ends",
    "local": "iterated local search over single decisions",
    "refine": "the paper's procedure, then local search from its best",
    "anneal": "the space's own compiled annealing, where it has one",
    "cp": "CP-SAT on the space's model, with a surrogate refitted to the trials where it needs one",
    "tpe": "Optuna's TPE; any other sampler as optuna:NAME",
    "count_tpe": "TPE over count tables, for evaluations that take less time than Optuna does",
    "random": "the honest baseline",
}


def rows(what: str, open_store: Callable[[], Store]) -> list[dict[str, Any]]:
    """One row a thing; the keys are the columns."""
    listings: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "spaces": _spaces,
        "strategies": _strategies,
        "models": _models,
        "filters": _filters,
        "devices": _devices,
        "networks": _networks,
        "hardware": _hardware,
        "studies": lambda: _studies(open_store()),
        "comparisons": lambda: _comparisons(open_store()),
    }
    return listings[what]()


def table(listed: list[dict[str, Any]]) -> str:
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


def _spaces() -> list[dict[str, Any]]:
    from kilotune.experiments.problems.plugins import load_plug_in, mistake, plug_ins
    from kilotune.experiments.problems.registry import offers

    def row(name: str, decides: str, strategy: str | None, source: str) -> dict[str, Any]:
        return {"name": name, "decides": decides, "default_strategy": strategy, "from": source}

    listed = [row(o.space, o.decides, o.best_strategy, "kilotune") for o in offers()]
    for plug_in in plug_ins():
        wrong = mistake(plug_in)
        if wrong is not None:
            listed.append(row(plug_in.name, f"not usable: {wrong}", None, plug_in.package))
            continue
        _, offer = load_plug_in(plug_in)
        listed.append(row(offer.space, offer.decides, offer.best_strategy, plug_in.package))
    return listed


def _strategies() -> list[dict[str, Any]]:
    from kilotune.search.entry_points import entry_points
    from kilotune.search.strategy import own_strategy_names
    from kilotune.search.strategy_plugins import GROUP

    listed = [{"name": name, "what": STRATEGIES[name], "from": "kilotune"} for name in own_strategy_names()]
    return listed + [
        {"name": entry.name, "what": strategy_plug_in_words(entry), "from": entry.package}
        for entry in entry_points(GROUP)
    ]


def strategy_plug_in_words(entry: EntryPoint) -> str:
    """What the strategy of a plug-in does, or why it is not usable."""
    from kilotune.search.strategy import own_strategy_names
    from kilotune.search.strategy_plugins import find_strategy_plug_in

    if entry.name in own_strategy_names():
        return f"not usable: {entry} is not used: kilotune has a strategy of that name."
    try:
        plug_in = find_strategy_plug_in(entry.name)
    except ValueError as error:
        return f"not usable: {error}"
    return "" if plug_in is None else plug_in.summary


def _models() -> list[dict[str, Any]]:
    """Measured now, with the float evaluator: no figure is copied from anywhere."""
    from kilotune.codegen.bundle import load_bundle
    from kilotune.codegen.float_evaluator import run_float
    from kilotune.experiments.models.catalogue import model_names, model_path

    listed = []
    for name in model_names():
        bundle = load_bundle(model_path(name))
        accuracy: dict[str, float | None] = {"train": None, "test": None}
        for part, data in (("train", bundle.train), ("test", bundle.test)):
            if data is not None and bundle.class_count:
                labels = run_float(bundle.program, bundle.parameters, data.features).labels
                accuracy[part] = round(100.0 * float((labels == data.targets).mean()), 2)
        listed.append(
            {
                "name": name,
                "parameters": sum(int(array.size) for array in bundle.parameters.values()),
                "classes": bundle.class_count,
                "train_samples": None if bundle.train is None else len(bundle.train.features),
                "float_train_accuracy_percent": accuracy["train"],
                "float_test_accuracy_percent": accuracy["test"],
            }
        )
    return listed


def _filters() -> list[dict[str, Any]]:
    from kilotune.experiments.problems.reverse_split.filters import FILTERS

    return [
        {"name": f.name, "size": f.size, "what": f.what, "depth": f.kernels.exact_depth()} for f in FILTERS.values()
    ]


def _devices() -> list[dict[str, Any]]:
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


def _networks() -> list[dict[str, Any]]:
    from kilotune.experiments.models.onnx_networks import MADE
    from kilotune.experiments.problems.cm.problem import SHAPES

    shapes = [{"name": name, "what": "by its shapes, no weights"} for name in SHAPES]
    return shapes + [{"name": name, "what": "ONNX, seeded weights"} for name in MADE]


def _hardware() -> list[dict[str, Any]]:
    from kilotune.codegen.cm.hardware import load_hardware, shipped_hardware

    listed = []
    for name in shipped_hardware():
        hardware = load_hardware(name)
        inner = [link for link in hardware.links if hardware.gmem not in (link.source, link.target)]
        crossbar = f"{hardware.crossbars_per_core} of {hardware.crossbar_rows}x{hardware.crossbar_columns}"
        listed.append(
            {
                "name": name,
                "cores": hardware.cores,
                "links": len(inner),
                "elements_per_tick": max(link.elements_per_tick for link in inner),
                "crossbars": crossbar,
                "sram_bytes": hardware.sram_bytes,
            }
        )
    return listed


def _studies(store: Store) -> list[dict[str, Any]]:
    """Oldest first, without the runs of comparisons, which are hundreds. `best` is in the unit of `metric`, the first
    objective; it is None where the study's space cannot be built any more, or nothing has been measured."""
    from kilotune.experiments.dashboard.overview import Overview
    from kilotune.experiments.dashboard.pulse import Pulse
    from kilotune.search.result import status_words
    from kilotune.search.work_sharing import working

    processes = working(store)
    overview = Overview(store, Pulse(store), wanted=lambda row: "comparison" not in row.request)
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


def _comparisons(store: Store) -> list[dict[str, Any]]:
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
