"""All families, and the one of a space. A folder beside this module that has a `family.py` is one of them: nothing else has
to be told of it."""

from __future__ import annotations

import importlib
import pkgutil

from kilotune.experiments import problems
from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily, SpaceListing
from kilotune.experiments.problems.plugins import find_plug_in, load_plug_in, plug_ins
from kilotune.search.entry_points import EntryPoint
from kilotune.search.suggestion import did_you_mean


def _own_families() -> tuple[SpaceFamily, ...]:
    folders = sorted(module.name for module in pkgutil.iter_modules(problems.__path__) if module.ispkg)
    families = [importlib.import_module(f"{problems.__name__}.{folder}.family").FAMILY for folder in folders]
    return tuple(sorted(families, key=lambda family: (family.rank, family.title)))


FAMILIES: tuple[SpaceFamily, ...] = _own_families()
"""Our own. Those of other packages are asked for by name: see `plugins`."""


def entries() -> tuple[SpaceEntry, ...]:
    """Every space of our own."""
    return tuple(entry for family in FAMILIES for entry in family.entries)


def is_own(space: str) -> bool:
    """Whether a space is our own; no plug-in can take its name."""
    return any(entry.space == space for entry in entries())


def space_names() -> tuple[str, ...]:
    """Every space, those of plug-ins among them (which need not work)."""
    return tuple(dict.fromkeys([*(entry.space for entry in entries()), *(plug_in.name for plug_in in plug_ins())]))


def find_entry(space: str) -> tuple[SpaceFamily, SpaceEntry]:
    """The family of a space and its entry there. ValueError, a sentence: there is none (then it lists the spaces), or its
    plug-in does not work (then it says why)."""
    for family in FAMILIES:
        for entry in family.entries:
            if entry.space == space:
                return family, entry
    plug_in = find_plug_in(space)
    if plug_in is None:
        names = space_names()
        raise ValueError(f"There is no space {space!r}{did_you_mean(space, names)}; there are {', '.join(names)}.")
    return load_plug_in(plug_in)


def plug_in_mistake(plug_in: EntryPoint) -> str | None:
    """Why its space cannot be had, as a sentence; None when it can. It is imported for that."""
    if is_own(plug_in.name):
        return f"{plug_in} is not used: kilotune has a space of that name."
    try:
        find_plug_in(plug_in.name)
        load_plug_in(plug_in)
    except ValueError as error:
        return str(error)
    return None


def families_of(space: str | None) -> tuple[SpaceFamily, ...]:
    """Whose options a command takes: our own families, and the one of the space when that is of a plug-in. ValueError when
    the plug-in does not work."""
    if space is None or is_own(space) or find_plug_in(space) is None:
        return FAMILIES
    return (*FAMILIES, find_entry(space)[0])


def listings() -> tuple[SpaceListing, ...]:
    """What `tune list` shows of our own families."""
    return tuple(listing for family in FAMILIES for listing in family.listings)


def metric_words() -> tuple[tuple[str, str], ...]:
    """The metrics of all our own families in words, each once, in the order in which they are shown."""
    words: dict[str, str] = {}
    for metric, label in (pair for family in FAMILIES for pair in family.metrics):
        words.setdefault(metric, label)
    return tuple(words.items())


def example_space() -> str:
    """The space of the examples in help texts."""
    return FAMILIES[0].entries[-1].space


def objective_help() -> str:
    """What --objective takes, by space."""
    return "; ".join(f"{', '.join(entry.objectives)} ({entry.space})" for entry in entries() if entry.objectives)


def input_help() -> str:
    """What --input takes, by space."""
    known = (family for family in FAMILIES if family.inputs)
    return "; ".join(f"{family.inputs} ({', '.join(entry.space for entry in family.entries)})" for family in known)
