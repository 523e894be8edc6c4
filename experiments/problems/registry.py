"""All families, and the one of a space."""

from __future__ import annotations

from kilotune.experiments.problems.cm.family import CM
from kilotune.experiments.problems.family import Family, Offer
from kilotune.experiments.problems.fixed_point.family import FIXED_POINT
from kilotune.experiments.problems.memory.family import MEMORY
from kilotune.experiments.problems.reverse_split.family import REVERSE_SPLIT
from kilotune.search.suggestion import did_you_mean

FAMILIES: tuple[Family, ...] = (FIXED_POINT, MEMORY, REVERSE_SPLIT, CM)
"""Our own. Those of other packages are asked for by name: see `plugins`."""


def offers() -> tuple[Offer, ...]:
    """Every space of our own."""
    return tuple(offer for family in FAMILIES for offer in family.offers)


def is_own(space: str) -> bool:
    """Whether a space is our own; no plug-in can take its name."""
    return any(offer.space == space for offer in offers())


def space_names() -> tuple[str, ...]:
    """Every space, those of plug-ins among them (which need not work)."""
    from kilotune.experiments.problems.plugins import plug_ins

    return tuple(dict.fromkeys([*(offer.space for offer in offers()), *(plug_in.name for plug_in in plug_ins())]))


def find_offer(space: str) -> tuple[Family, Offer]:
    """The family of a space and its entry there. ValueError, a sentence: there is none (then it lists the spaces), or its
    plug-in does not work (then it says why)."""
    for family in FAMILIES:
        for offer in family.offers:
            if offer.space == space:
                return family, offer
    from kilotune.experiments.problems.plugins import find_plug_in, load_plug_in

    plug_in = find_plug_in(space)
    if plug_in is None:
        names = space_names()
        raise ValueError(f"There is no space {space!r}{did_you_mean(space, names)}; there are {', '.join(names)}.")
    return load_plug_in(plug_in)


def families_of(space: str | None) -> tuple[Family, ...]:
    """Whose options a command takes: our own families, and the one of the space when that is of a plug-in. ValueError when
    the plug-in does not work."""
    from kilotune.experiments.problems.plugins import find_plug_in

    if space is None or is_own(space) or find_plug_in(space) is None:
        return FAMILIES
    return (*FAMILIES, find_offer(space)[0])


def objective_help() -> str:
    """What --objective takes, by space."""
    return "; ".join(f"{', '.join(offer.objectives)} ({offer.space})" for offer in offers() if offer.objectives)
