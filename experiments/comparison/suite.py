"""Suites: files that name several cases. One is a TOML file; those that come with kilotune are found by name."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.text_files import read_text_file
from kilotune.experiments.comparison.plan import Case, case_title
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.request_parsing import read_keywords, request_from
from kilotune.search.strategy import make_strategy, strategy_names
from kilotune.search.suggestion import did_you_mean

DEFAULT_STRATEGIES = ("greedy", "exhaustive", "cp", "tpe", "local", "random")
"""The paper's procedure, what proves, what samplers there are, and two that no comparison is honest without."""

ALL = "all"
"""In place of names: every strategy that fits."""

ENTRY_KEYS = ("space", "input", "title", "limits", "device", "objective", "also")
"""The keys of a case; everything else is an option of the space."""


def suite_names() -> tuple[str, ...]:
    """Those that come with kilotune."""
    folder = resources.files("kilotune.experiments.comparison") / "suites"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def load_suite(name: str, strategies: Sequence[str] | None = None) -> tuple[Case, ...]:
    """The cases of a file, or of a bundled suite. `strategies` replaces the file's. InputError for a file that is none,
    or a case in it that cannot be run."""
    suite = _read_suite(name)
    wanted = strategies or suite.get("strategies") or DEFAULT_STRATEGIES
    if not _are_names(wanted):
        raise InputError(name, place="strategies", expected="a list of names", found=repr(wanted))
    listed = suite.get("case")
    if not isinstance(listed, list) or not listed:
        raise InputError(name, expected="at least one [[case]]", found="none")
    cases = []
    for number, entry in enumerate(listed, start=1):
        try:
            cases.append(_case(entry, wanted))
        except ValueError as error:
            raise InputError(name, place=f"case {number}", expected="a case", found=str(error)) from None
    titles = [case.title for case in cases]
    for number, title in enumerate(titles, start=1):
        if title in titles[: number - 1]:
            raise InputError(name, expected="titles that differ", found=f"{title} twice: give case {number} a `title`")
    if strategies:
        require_use(cases, strategies)
    return tuple(cases)


def _read_suite(name: str) -> dict[str, Any]:
    """What a file says, or a bundled suite. InputError where there is none, it is no TOML, or it has other keys."""
    path = Path(name)
    if path.is_file():
        content = read_text_file(path, "a TOML file")
    elif name in suite_names():
        content = (resources.files("kilotune.experiments.comparison") / "suites" / f"{name}.toml").read_text("utf-8")
    else:
        raise InputError(
            name,
            expected=f"a TOML file, or one of {', '.join(suite_names())}",
            found=f"neither{did_you_mean(name, suite_names())}",
        )
    try:
        suite = tomllib.loads(content)
    except (ValueError, RecursionError) as error:  # brackets thousands deep, a number of thousands of digits
        raise InputError(name, expected="a TOML file", found=str(error)) from None
    unknown = [key for key in suite if key not in ("strategies", "case")]
    if unknown:
        raise InputError(name, expected="`strategies` and [[case]]", found=f"`{unknown[0]}`")
    return suite


def require_use(cases: Sequence[Case], strategies: Sequence[str]) -> None:
    """ValueError, a sentence, when a strategy that was asked for fits none of the cases."""
    for name in strategies:
        if name != ALL and not any(name in case.strategies for case in cases):
            try:
                require(cases[0].request(), name)
            except ValueError as error:
                raise ValueError(f"The strategy {name} fits none of the cases: {error}") from None


def fitting(request: TuneRequest, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the strategies that the space can be searched with, each once. ValueError: there is no strategy of that name, or
    no such problem."""
    build_problem(request)  # what is wrong with the input is wrong with no strategy
    chosen = []
    listed = [one for name in names for one in (strategy_names() if name == ALL else (name,))]
    for name in dict.fromkeys(listed):
        if name.partition(":")[0] not in (*strategy_names(), "optuna"):
            hint, known = did_you_mean(name, (*strategy_names(), ALL)), ", ".join(strategy_names())
            raise ValueError(f"There is no strategy {name!r}{hint}; there are {known}, optuna:SAMPLER, and {ALL}.")
        try:
            require(request, name)
        except ValueError:
            continue
        chosen.append(name)
    return tuple(chosen)


def require(request: TuneRequest, name: str) -> None:
    """ValueError, a sentence, when the strategy does not fit the space."""
    make_strategy(name, build_problem(dataclasses.replace(request, strategy=name)).space, request.seed)


def case_of(request: TuneRequest, strategies: Sequence[str], title: str | None = None) -> Case:
    """The case of a request, whose own strategy need not be among those that are compared."""
    shown = title or case_title(request.space, Path(request.input).name)
    return Case(shown, request.space, request.input, tuple(strategies), request.options)


def _case(entry: Mapping[str, Any], wanted: Sequence[str]) -> Case:
    """ValueError for an entry that names something that there is not."""
    if not isinstance(entry, Mapping):
        raise ValueError(f"{entry!r}")
    also, title = entry.get("also", ()), entry.get("title")
    if not _are_names(also):
        raise ValueError(f"`also` = {also!r}, which is no list of names")
    if not _are_names(entry.get("limits", ())):
        raise ValueError(f'`limits` = {entry["limits"]!r}, which is no list such as ["flash=400"]')
    if title is not None and not (isinstance(title, str) and re.fullmatch(r"[\w-][\w.-]*", title)):
        raise ValueError(f"`title` = {title!r}, which is not of letters, digits, '_', '-' and '.'")
    options = {key.replace("-", "_"): value for key, value in entry.items() if key not in ENTRY_KEYS}
    if "space" not in entry:
        raise ValueError("no `space`")
    request = request_from(
        entry["space"],
        input=entry.get("input"),
        limits=entry.get("limits", ()),
        device=entry.get("device"),
        objective=entry.get("objective"),
        options=read_keywords(entry["space"], options),
    )
    chosen = fitting(request, (*wanted, *also))
    if not chosen:
        raise ValueError(f"none of the strategies fits the space {request.space}")
    return case_of(request, chosen, title)


def _are_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
