"""What a shell offers behind an option: names of spaces, strategies, inputs, studies. Click asks these functions.

A completion says nothing and makes nothing: what cannot be read now has no names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from kilotune.experiments.problems.family import NamesInputs
from kilotune.experiments.problems.registry import FAMILIES, find_entry, space_names

if TYPE_CHECKING:
    from kilotune.search.store import Store


def spaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Every space, those of plug-ins among them, without importing any."""
    return _beginning(incomplete, space_names())


def strategies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Every strategy by name."""
    from kilotune.search.strategy import strategy_names

    return _beginning(incomplete, strategy_names())


def strategy_lists(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The last of several strategies, which commas separate, behind those that are there."""
    from kilotune.search.strategy import strategy_names

    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{item.value}")
        for item in _beginning(last, [name for name in strategy_names() if name not in taken])
    ]


def inputs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What is bundled for the --space that is given, the models without one; files where nothing bundled begins so."""
    names: tuple[str, ...] = ()
    space = context.params.get("space")
    with contextlib.suppress(ValueError):
        factory = (find_entry(space)[0] if space else FAMILIES[0]).factory
        if isinstance(factory, NamesInputs):
            names = factory.input_names()
    return _beginning(incomplete, names) or [CompletionItem(incomplete, type="file")]


def devices(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The boards; files where no board begins so."""
    from kilotune.evaluators.architectures.registry import boards

    names = [board.name for board in boards()]
    return _beginning(incomplete, names) or [CompletionItem(incomplete, type="file")]


def suites(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The suites that come with kilotune; files where none begins so."""
    from kilotune.experiments.comparison.suite import suite_names

    return _beginning(incomplete, suite_names()) or [CompletionItem(incomplete, type="file")]


def storages(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files."""
    return [CompletionItem(incomplete, type="file")]


def studies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The studies of the --storage that is given, newest first, without the runs of comparisons."""
    with _store(context) as store:
        return _beginning(incomplete, [] if store is None else _study_names(store))


def comparisons(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The comparisons of the --storage that is given."""
    with _store(context) as store:
        return _beginning(incomplete, [] if store is None else _comparison_names(store))


def reported(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What `tune report` takes: studies and comparisons."""
    with _store(context) as store:
        names = [] if store is None else [*_study_names(store), *_comparison_names(store)]
        return _beginning(incomplete, names)


def _beginning(incomplete: str, names: Sequence[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@contextlib.contextmanager
def _store(context: click.Context) -> Iterator[Store | None]:
    """The database that the command would use, where there is one that can be opened."""
    from kilotune.experiments.studies.storage import default_storage
    from kilotune.search.store import Store, StoreError

    place = context.params.get("storage") or default_storage()
    store = None
    if "://" in place or Path(place).is_file():  # a new file is not made for a completion
        with contextlib.suppress(StoreError):
            store = Store(place)
    try:
        yield store
    finally:
        if store is not None:
            store.close()


def _study_names(store: Store) -> list[str]:
    readable = store.studies(damaged=lambda error: None)
    return [row.name for row in reversed(readable) if "comparison" not in row.request]


def _comparison_names(store: Store) -> list[str]:
    from kilotune.search.comparison_store import comparisons as rows_of

    return [row.name for row in rows_of(store)]
