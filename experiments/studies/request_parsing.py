"""From what a user asks for, by command or in Python, to the request that a study stores."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.problems.family import CommandOptions, SpaceFamily
from kilotune.experiments.problems.registry import FAMILIES, families_of, find_entry
from kilotune.experiments.requests.request import TuneRequest, parse_limit
from kilotune.search.suggestion import did_you_mean

NOTHING: Mapping[str, Any] = MappingProxyType({})


def request_from(
    space: str,
    *,
    input: str | None = None,
    strategy: str | None = None,
    seed: int = 0,
    limits: Sequence[str] = (),
    device: str | None = None,
    objective: str | None = None,
    options: Mapping[str, Any] = NOTHING,
) -> TuneRequest:
    """What stands behind None is the space's default.

    `limits` are texts such as `flash=4KiB`. `options` are those of the families, by parameter name (`given_options` takes them
    from a command's); None or () is one that is not given. ValueError, a sentence, for what cannot be used together;
    InputError for an input or a device that is not there.
    """
    from kilotune.evaluators.devices import find_device

    family, entry = find_entry(space)
    given = _of_family(family, space, options)
    if objective is not None and objective not in entry.objectives:
        known = ", ".join(entry.objectives) or "no choice"
        raise ValueError(f"--objective {objective}: for the space {space} there is {known}.")
    board = find_device(device) if device else None
    amounts: dict[str, float] = {} if board is None else {"flash": board.flash_bytes, "ram": board.ram_bytes}
    stated = dict(parse_limit(text) for text in limits)
    amounts.update(stated)
    asked = CommandOptions(given, amounts, objective, None if board is None else board.as_json(), frozenset(stated))
    factory = family.factory
    return TuneRequest(
        space=space,
        input=_resolved(family, input),
        strategy=strategy or entry.strategy(given),
        seed=seed,
        options=factory.read_options(space, asked),
    )


def _resolved(family: SpaceFamily, input: str | None) -> str:
    """What --input says, as a request has it. InputError where it is nothing of the kind; one that other spaces read is named."""
    from kilotune.experiments.problems.input_formats import refuse_other_formats

    try:
        found = str(family.factory.resolve_input(input))
    except InputError:
        if input is not None:
            refuse_other_formats(family, input)
        raise
    if os.path.isabs(found):  # others are names
        refuse_other_formats(family, found)
    return found


def given_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command's parameters that are options of a family and were given."""
    names = [str(option.name) for family in families_of(parameters.get("space")) for option in family.options]
    return {name: parameters[name] for name in names if parameters.get(name) not in (None, ())}


def read_keywords(space: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Options under the command's names, `in_place=False` for --no-in-place, as `request_from` takes them. ValueError for one
    that the space does not have, and for a value that the option does not take."""
    family, _ = find_entry(space)
    known = {keyword_of(option): option for option in family.options}
    read = {}
    for keyword, value in keywords.items():
        if keyword not in known:
            others = [o.space for other in FAMILIES for o in other.entries if keyword in map(keyword_of, other.options)]
            hint = f" (it is an option of {', '.join(others)})" if others else did_you_mean(keyword, known)
            raise ValueError(
                f"There is no option {keyword!r} of the space {space}{hint}; there {'are' if known else 'is'} "
                f"{', '.join(sorted(known)) or 'none'}."
            )
        if value is not None:
            read[str(known[keyword].name)] = _converted(keyword, known[keyword], value)
    return read


def keyword_of(option: click.Option) -> str:
    """Its name in Python: `in_place` for --in-place."""
    return option.opts[0].lstrip("-").replace("-", "_")


def _converted(keyword: str, option: click.Option, value: Any) -> Any:
    """As the command would have read it; None for a flag that is off and has no word for that."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise ValueError(f"{keyword}={value!r}: expected True or False.")
        return value if value or option.secondary_opts else None
    several = option.multiple and not isinstance(value, str)
    try:
        values = tuple(option.type.convert(str(one), option, None) for one in (value if several else (value,)))
    except click.BadParameter as error:
        raise ValueError(f"{keyword}={value!r}: {error.message}") from None
    return values if option.multiple else values[0]


def _of_family(family: SpaceFamily, space: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given. ValueError for one of another family, or of none, and for a number that is infinite or none: ranges
    let those through."""
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    own = {str(option.name) for option in family.options}
    for name in (name for name in given if name not in own):
        for other in FAMILIES:
            for option in other.options:
                if option.name == name:
                    spaces = ", ".join(entry.space for entry in other.entries)
                    raise ValueError(f"{option.opts[0]} does not go with the space {space}: it is for {spaces}.")
        raise ValueError(f"There is no option {name!r} of the space {space}.")
    for option in family.options:
        value = given.get(str(option.name))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{option.opts[0]} {value}: expected a finite number.")
    return given
