"""A study whose input was moved: the same content at another place goes on, other content is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow


def stored_problem(row: StudyRow) -> Problem:
    """What a study searched, from its request. As `build_problem`; InputError, which says how to go on, when the input is
    gone; ValueError, which names the study, for a request that is damaged."""
    request = stored_request(row)
    try:
        return build_problem(request)
    except (InputError, OSError) as error:
        missing = missing_input(request, row.name)
        if missing is None:
            raise
        raise missing from error
    except ValueError as error:
        raise ValueError(f"Study {row.name!r}: {error}") from error


def missing_input(request: TuneRequest, study: str) -> InputError | None:
    """What is wrong when the input of a stored study is at its place no more, and how to go on; None while something is there."""
    if not Path(request.input).is_absolute() or Path(request.input).exists():
        return None
    hint = f"nothing; if it was moved, `tune resume {study} --input PLACE` goes on"
    return InputError(request.input, subject=f"study {study}", expected="its input there", found=hint)


def stored_request(row: StudyRow) -> TuneRequest:
    """What was asked of a study. ValueError, which names it, for a request that is damaged."""
    try:
        return TuneRequest.from_json(row.request)
    except ValueError as error:
        raise ValueError(f"Study {row.name!r}: {error}") from None


def with_moved_input(store: Store, row: StudyRow, place: str) -> StudyRow:
    """The study with its input at `place`, which the store keeps from now on. StoreError, a sentence that names both, when
    that is not what the study searched; InputError when it cannot be used."""
    if "comparison" in row.request:
        raise ValueError(
            f"{row.name} is a run of the comparison {row.request['comparison']}: its input stays where it is."
        )
    earlier = TuneRequest.from_json(row.request)
    family, _ = find_entry(earlier.space)
    request = dataclasses.replace(earlier, input=str(family.factory.resolve_input(place)))
    space = build_problem(request).space
    if (space.name, space.fingerprint) != (row.space, row.fingerprint):
        raise StoreError(
            f"Study {row.name!r} searched {earlier.input}, and {request.input} has another fingerprint "
            f"({space.fingerprint}, not {row.fingerprint}): expected the same content at another place."
        )
    described = {**row.request, "input": request.input}
    store.change_request(row.name, described)
    return dataclasses.replace(row, request=described)
