"""Studies from before fingerprints were of content: what their trials measured says whether a space is the one they searched.

Their fingerprints hung on paths and on the names of classes, so no code of today makes them again (`UNKNOWN_FINGERPRINT`).
Some of their trials are measured again; where every metric is what it was, the study gets the space's fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kilotune.search.encoding import Encoding, FlatEncoding
from kilotune.search.space import Decision, Measurement, Space
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow, TrialRow
from kilotune.search.strategy import Outcome

MEASURED_AGAIN = 8
"""Trials, spread over the study: the first one, the last one, and some between."""


def adopt(store: Store, row: StudyRow, space: Space, encoding: Encoding) -> None:
    """Give a study of unknown fingerprint the one of `space`, and its candidates the form that they have there.

    StoreError, naming the trial, when one is no candidate of the space or does not measure what it measured.
    """
    decisions = decisions_table(encoding)
    if decisions is not None and row.decisions != decisions:
        raise _other_space(row, "it was made with other decisions than the space has now")
    trials = list(store.trials(row.name))
    texts = _texts(row, trials, encoding)
    _check_ranked(row, trials, space)
    _check(row, _spread(trials), texts, space, encoding)
    rewritten = {trial.number: texts[trial.number] for trial in trials if texts[trial.number] != trial.candidate}
    column = None if decisions is None else json.dumps(decisions)
    # What was proved or exhausted among the candidates of a flat view is not proved of the whole space.
    claim = (
        {"outcome": Outcome.FINISHED.value, "bound": None} if row.decisions is not None and decisions is None else {}
    )
    store.rewrite(
        row.name, rewritten, fingerprint=space.fingerprint, decisions=column, **(claim if row.outcome else {})
    )


def decisions_table(encoding: Encoding) -> list[Any] | None:
    """The decisions of a flat space as a study stores them: names and options; None for any other space."""
    if not isinstance(encoding, FlatEncoding):
        return None
    return [[decision.name, list(decision.options)] for decision in encoding.decisions]


def _texts(row: StudyRow, trials: Sequence[TrialRow], encoding: Encoding) -> dict[int, str]:
    """The candidates by trial number, as the encoding writes them. A tree's flat view was once a space of its own, whose
    candidates were stored as indices into its decisions."""
    if row.decisions is None or isinstance(encoding, FlatEncoding):
        return {trial.number: trial.candidate for trial in trials}
    flat = FlatEncoding([Decision(str(name), tuple(options)) for name, options in row.decisions])
    candidates = {trial.number: flat.candidate(flat.key_of_text(trial.candidate)) for trial in trials}
    return {number: encoding.text(encoding.key(candidate)) for number, candidate in candidates.items()}


def _check_ranked(row: StudyRow, trials: Sequence[TrialRow], space: Space) -> None:
    """StoreError where trials lack a metric that candidates are ranked by now: the best of old and new ones would be of two orders."""
    ranked_by = [*(o.metric for o in space.objectives), *(c.metric for c in space.constraints)]
    for trial in trials:
        lacking = next((name for name in ranked_by if trial.failure is None and name not in trial.metrics), None)
        if lacking is not None:
            raise _other_space(row, f"its trial {trial.number} has no {lacking}, by which candidates are ranked now")


def _spread(trials: Sequence[TrialRow]) -> list[TrialRow]:
    last = len(trials) - 1
    chosen = sorted({round(k * last / (MEASURED_AGAIN - 1)) for k in range(MEASURED_AGAIN)}) if trials else ()
    return [trials[k] for k in chosen]


def _check(row: StudyRow, trials: Sequence[TrialRow], texts: dict[int, str], space: Space, encoding: Encoding) -> None:
    try:
        candidates = [encoding.candidate(encoding.key_of_text(texts[trial.number])) for trial in trials]
    except (ValueError, KeyError, IndexError) as error:
        raise _other_space(row, f"its candidates are none of this space ({error})") from None
    measurements = space.evaluate(candidates) if candidates else []
    for trial, measurement in zip(trials, measurements, strict=True):
        if not _same(trial, measurement):
            was, now = _shown(Measurement(trial.metrics, trial.failure)), _shown(measurement)
            raise _other_space(row, f"its trial {trial.number} measured {was}, and measures {now} now")


def _same(trial: TrialRow, now: Measurement) -> bool:
    """Whether all that was measured is what it was; metrics that came later say nothing."""
    if trial.failure is not None or now.failure is not None:
        return trial.failure is not None and now.failure is not None
    return all(now.metrics.get(name) == value for name, value in trial.metrics.items())


def _shown(measurement: Measurement) -> str:
    if measurement.failure is not None:
        return "a failure"
    return ", ".join(f"{name} {value:g}" for name, value in list(measurement.metrics.items())[:4])


def _other_space(row: StudyRow, why: str) -> StoreError:
    return StoreError(
        f"Study {row.name!r} is of an older kilotune, and {why}: its input or what it means has changed, so start a new study."
    )
