"""All families, and the one of a space."""

from __future__ import annotations

from kilotune.experiments.families.family import Family, Offer
from kilotune.experiments.families.fixed_point import FIXED_POINT
from kilotune.experiments.families.memory import MEMORY
from kilotune.experiments.families.reverse_split import REVERSE_SPLIT

FAMILIES: tuple[Family, ...] = (FIXED_POINT, MEMORY, REVERSE_SPLIT)


def offers() -> tuple[Offer, ...]:
    """Every space on offer."""
    return tuple(offer for family in FAMILIES for offer in family.offers)


def find_offer(space: str) -> tuple[Family, Offer]:
    """The family of a space and its entry there. ValueError, a sentence that lists the spaces, when there is none."""
    for family in FAMILIES:
        for offer in family.offers:
            if offer.space == space:
                return family, offer
    raise ValueError(f"There is no space {space!r}; there are {', '.join(offer.space for offer in offers())}.")


def objective_help() -> str:
    """What --objective takes, by space."""
    return "; ".join(f"{', '.join(offer.objectives)} ({offer.space})" for offer in offers() if offer.objectives)
