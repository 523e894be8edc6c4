"""The whole front, by a search of the space's own: what many limits would each be answered by, from one run."""

from __future__ import annotations

from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import HasFrontSearch, Space, asks_for_front
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps


class FrontSearch:
    """ValueError for a space that has none, or of which one best candidate is asked."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int) -> None:
        asked = asks_for_front(space)
        if not isinstance(space, HasFrontSearch) or not asked:
            raise ValueError(
                "Strategy 'front' needs a space that searches for a whole front, as shiftry does with --front; "
                f"{space.name!r} as asked does not."
            )
        self._space: HasFrontSearch = space
        self._seed = seed

    def steps(self) -> Steps:
        yield from self._space.front_search(self._seed)
        return Outcome.FINISHED


STRATEGY = OwnStrategy(
    "FrontSearch",
    Needs.WHOLE,
    "the space's own search for a whole front, where it has one",
    rank=65,
    ability="HasFrontSearch",
)
