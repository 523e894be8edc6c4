"""`tune` as a function."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, SupportsIndex

from kilotune.evaluators.compiled_library import find_compiler
from kilotune.experiments.notebook.blas_threads import one_blas_thread
from kilotune.experiments.notebook.handed_models import handed_over
from kilotune.experiments.notebook.live_line import Watch
from kilotune.experiments.notebook.tuned_study import TunedStudy, budget_of
from kilotune.experiments.notebook.workers import refuse_in_starting_worker
from kilotune.experiments.problems.building import HANDED_OVER
from kilotune.experiments.problems.family import SpaceFamily
from kilotune.experiments.problems.plain_problem import PlainProblem, as_space
from kilotune.experiments.problems.plugins import PLAIN_STRATEGY, plain_family
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies import joining
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.experiments.studies.libraries import load_libraries
from kilotune.experiments.studies.request_parsing import read_keywords, request_from
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.workplace import Workplace
from kilotune.search.budget import Budget, parse_seconds
from kilotune.search.space import Space
from kilotune.search.stopping import SETTLED, StopRule
from kilotune.search.stored_rows import StudyRow
from kilotune.search.strategy import make_strategy
from kilotune.search.study import Study

LARGEST_SEED = 2**63 - 1
MOST_JOBS = 1024


@one_blas_thread()
def tune(
    space: str | Space,
    *,
    input: str | os.PathLike[str] | None = None,
    strategy: str | None = None,
    budget: str | Budget = "60s",
    limits: Mapping[str, str | float] | None = None,
    device: str | os.PathLike[str] | None = None,
    objective: str | None = None,
    seed: int = 0,
    study: str | None = None,
    storage: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    time_limit: str | None = None,
    stop: str | None = None,
    cache: bool | None = None,
    progress: Watch = None,
    **options: Any,
) -> TunedStudy:
    """Search a space and return the study. Its trials are those that the command finds when it is asked for the same.

    space: a name (`tune list spaces`), or an object that meets `kilotune.search.space.Space`.
    input, strategy, limits, device, objective, seed: as the command's, None for the space's default; `limits` such as
        {"flash": "4KiB", "ram": 2048}. `options` are those of the space's family, under the command's names (`drop=1.0`,
        `in_place=False`). An object brings all but strategy and seed itself.
    model, X, y, test: instead of an input, a fitted scikit-learn estimator (by skl2onnx, extra `import`), a PyTorch module or an ONNX
        ModelProto, with samples X [samples, ..], y [samples] (None: the model's own outputs) and test data (X, y). They are kept in the
        user's data folder.
    budget: "60s", "500trials" or "2h,500trials".
    study, storage: with either, trials are kept there (storage: a file or a database URL, by default the user's own; study:
        a name, and the same call goes on with a study that exists). With neither they are in memory, and nothing is written.
    stop: when to end before the budget does, as the command's --stop ("settled", "proved", "stalled=30s", "never").
    jobs, time_limit: worker processes, and how long one evaluation may take ("30s"; what takes longer has failed).
    cache: whether measurements of earlier studies are used and new ones kept for later ones; by default with a stored study.
    progress: True for what the command shows (in a notebook, where it is the default, a line), False for silence, or a function that takes
        every `kilotune.search.result.Progress`, about one a second; when it returns True the search ends.

    Ctrl-C, or the notebook's interrupt, ends the search after the evaluations that are running: the study is returned with
    all its trials and the status INTERRUPTED. The second one raises KeyboardInterrupt.

    ValueError, a sentence, for what cannot be used (InputError, one of them, for an input file); StoreError when the study
    was asked for something else, or the storage fails; ExecutorError when no worker can be had.
    """
    refuse_in_starting_worker()
    rule, wanted = StopRule.parse(stop or str(SETTLED)), budget_of(budget)
    stored = study is not None or storage is not None
    workplace = _workplace(jobs, time_limit, stored if cache is None else cache)
    seed = _whole("seed", seed, 0, LARGEST_SEED)
    input, options = handed_over(input, options)
    problem: Problem
    if isinstance(space, str):
        request = request_from(
            space,
            input=None if input is None else os.fspath(input),
            strategy=strategy,
            seed=seed,
            limits=_limits(limits),
            device=None if device is None else os.fspath(device),
            objective=objective,
            options=read_keywords(space, options),
        )
        request = dataclasses.replace(request, procedure_first=True, stop=str(rule))
        time = _begun(request, wanted)
        problem = time.build(request)
    else:
        given = {"input": input, "limits": limits, "device": device, "objective": objective, **options}
        _refuse_any(given, as_space(space, "tune"))
        family = plain_family(space.name, f"The space {space.name}", type(space))
        made_of = {HANDED_OVER: type(space).__name__}
        request = TuneRequest(space.name, "", strategy or PLAIN_STRATEGY, seed, made_of, True, str(rule))
        time = _begun(request, wanted, family)
        problem = PlainProblem(request, space, (family, family.entries[0]))
    search, row = _stored(study, storage, problem, wanted) if stored else _in_memory(problem, wanted)
    return TunedStudy(problem, search, workplace, row).search_within(time, progress=progress, stop=stop)


def _begun(request: TuneRequest, budget: Budget, family: SpaceFamily | None = None) -> CommandTime:
    """The clock, when it has nothing to import. ValueError when $CC is no compiler."""
    if family is None:
        find_compiler()
    load_libraries(request, family=family)
    return CommandTime(budget)


def _workplace(jobs: int, time_limit: str | None, cached: bool) -> Workplace:
    limit_s = None if time_limit is None else parse_seconds(time_limit)
    return Workplace(jobs=_whole("jobs", jobs, 1, MOST_JOBS), limit_s=limit_s, cached=cached)


def _stored(
    name: str | None, storage: str | os.PathLike[str] | None, problem: Problem, budget: Budget
) -> tuple[Study, StudyRow]:
    store = open_store(None if storage is None else os.fspath(storage))
    search = joining.join(store, name, problem, budget)
    return search, store.study(search.name)


def _in_memory(problem: Problem, budget: Budget) -> tuple[Study, StudyRow]:
    space, request = problem.space, problem.request
    make_strategy(request.strategy, space, request.seed)  # an unknown name is found out before the search
    row = StudyRow(request.space, space.name, space.fingerprint, request.strategy, request.seed, str(budget))
    return Study(space, request.strategy, request.seed, name=row.name, procedure_first=request.procedure_first), row


def _refuse_any(given: Mapping[str, Any], space: Space) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} goes with the name of a space; {type(space).__name__} is one already.")


def _limits(limits: Mapping[str, str | float] | None) -> list[str]:
    """As --limit has them."""
    if limits is not None and not isinstance(limits, Mapping):
        raise ValueError(f'limits={limits!r}: expected a mapping such as {{"flash": "4KiB"}}.')
    return [f"{name}={_amount(amount)}" for name, amount in (limits or {}).items()]


def _amount(amount: str | float) -> str:
    """Without an exponent, which no limit has."""
    return amount if isinstance(amount, str) else format(Decimal(repr(float(amount))), "f")


def _whole(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """A number of any integer type, NumPy's among them."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise ValueError(f"{name}={value!r}: expected a whole number from {least} to {most}.")
    return number
