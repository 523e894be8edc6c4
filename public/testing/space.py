"""`check_space`: whether a space is what strategies, studies and workers rely on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from kilotune.search.space import Space
from kilotune.testing import abilities, measurements, states
from kilotune.testing.probe import Probe

_CHECKS: tuple[tuple[str, Callable[[Probe], None]], ...] = (
    ("members", states.check_members),
    ("picklable", states.check_picklable),
    ("take", states.check_take),
    ("walk", states.check_walk),
    ("answers", states.check_answers),
    ("flat", states.check_flat),
    ("size", states.check_size),
    ("storage", states.check_storage),
    ("measurement", measurements.check_measurement),
    ("batch", measurements.check_batch),
    ("bound", measurements.check_bound),
    ("flat view", abilities.check_flat_view),
    ("flat views", abilities.check_flat_views),
    ("procedure", abilities.check_procedure),
    ("core", abilities.check_core),
    ("opening", abilities.check_opening),
    ("finish", abilities.check_finish),
    ("fallback", abilities.check_fallback),
    ("short search", abilities.check_short_search),
    ("exact search", abilities.check_exact_search),
    ("annealing", abilities.check_annealing),
    ("fingerprint", states.check_fingerprint),
)

SPACE_CHECKS: Mapping[str, str] = MappingProxyType({name: check.__doc__ or "" for name, check in _CHECKS})
"""What `check_space` holds, by the name of the check, in the order of the checks."""


def check_space(space: Space, *, samples: int = 24, most: int = 300, seed: int = 0, skip: Collection[str] = ()) -> None:
    """Check a space on all of its candidates where there are no more than `most`, else on `samples` random walks from `seed`.

    skip: names of SPACE_CHECKS that are left out. ConformanceError, one sentence, for the first check that fails; ValueError for a
    name in `skip` that is none.
    """
    unknown = sorted(set(skip) - set(SPACE_CHECKS))
    if unknown:
        raise ValueError(f"skip: expected names of {', '.join(SPACE_CHECKS)}, found {unknown[0]!r}.")
    probe = Probe(space, samples, most, seed)
    for name, check in _CHECKS:
        if name not in skip:
            check(probe)
