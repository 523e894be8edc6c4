"""Optuna's samplers by ask and tell: TPE (multivariate, constraints, several objectives) unless another is named.

They cost milliseconds a trial, and more with every trial they remember. So the study is in memory, its history is
capped at the best and the latest trials, and candidates are asked for in batches.
"""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from kilotune.search.candidates import complete, random_candidate
from kilotune.search.encoding import CandidateKey, encoding_of
from kilotune.search.front import Rank, Ranking
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import Assignment, Decision, Option, Space, Trial
from kilotune.search.strategy import UNKNOWN_BOUND, Steps, batch_generator
from kilotune.search.suggestion import did_you_mean

BATCH = 8
LONGEST_HISTORY = 400
SHORTENED_HISTORY = 200

Asked = tuple[optuna.trial.Trial, dict[str, Option]]


class OptunaSearch:
    """ValueError for an unknown sampler, or one that needs more than a seed."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int, sampler: str = "TPESampler") -> None:
        self._space, self._seed = space, seed
        self._ranking = Ranking.of(space)
        self._sampler = _make_sampler(sampler, seed)
        self._capped = sampler == "TPESampler"  # others may need their own past, such as a population
        self._names: dict[tuple[str, tuple[Option, ...]], str] = {}
        self._told: list[tuple[Rank, FrozenTrial]] = []
        self._study = self._new_study()

    def steps(self) -> Steps:
        encode = encoding_of(self._space).key
        seen: set[CandidateKey] = set()
        while True:
            asked = [self._ask() for _ in range(BATCH)]
            keys = [encode(candidate) for _, candidate in asked]
            trials = yield [candidate for _, candidate in asked]
            self._tell(asked, trials)
            if seen.issuperset(keys):
                # On small spaces the sampler settles on what it knows; an Optuna study would go on repeating it.
                rng = batch_generator(self._seed, len(seen))
                fresh: list[Assignment] = [random_candidate(self._space, rng) for _ in range(BATCH)]
                keys += [encode(candidate) for candidate in fresh]
                self._add((yield fresh))
            seen.update(keys)
            self._forget()

    def _ask(self) -> Asked:
        trial = self._study.ask()

        def choose(decision: Decision) -> Option:
            # Option indices: Optuna compares options by equality, where True is 1. A decision that comes with other
            # options elsewhere in a tree is another parameter, for Optuna's must not change.
            index = trial.suggest_categorical(self._parameter(decision), range(len(decision.options)))
            return decision.options[index]

        return trial, complete(self._space.start(), choose)

    def _tell(self, asked: list[Asked], trials: list[Trial]) -> None:
        for (question, _), trial in zip(asked, trials, strict=True):
            rank = self._ranking.rank(trial.measurement)
            question.set_user_attr("violation", rank[0])
            if math.inf in rank:
                told = self._study.tell(question, state=TrialState.FAIL)
            else:
                told = self._study.tell(question, list(rank[1:]))
                self._told.append((rank, told))

    def _add(self, trials: list[Trial]) -> None:
        """Tell it about candidates that it did not ask for."""
        for trial in trials:
            rank = self._ranking.rank(trial.measurement)
            if math.inf not in rank:
                frozen = self._frozen(trial.assignment, rank)
                self._study.add_trial(frozen)
                self._told.append((rank, frozen))

    def _frozen(self, candidate: Assignment, rank: Rank) -> FrozenTrial:
        parameters: dict[str, Any] = {}
        distributions: dict[str, Any] = {}
        state = self._space.start()
        while (decision := state.decision) is not None:
            name = self._parameter(decision)
            parameters[name] = decision.options.index(candidate[decision.name])
            distributions[name] = CategoricalDistribution(range(len(decision.options)))
            state = state.take(candidate[decision.name])
        return create_trial(
            values=list(rank[1:]),
            params=parameters,
            distributions=distributions,
            user_attrs={"violation": rank[0]},
            system_attrs={"constraints": [rank[0]]},
        )

    def _forget(self) -> None:
        if not self._capped or len(self._told) < LONGEST_HISTORY:
            return
        half = SHORTENED_HISTORY // 2
        older, latest = self._told[:-half], self._told[-half:]
        self._told = sorted(older, key=lambda told: told[0])[:half] + latest
        self._study = self._new_study()
        self._study.add_trials([trial for _, trial in self._told])

    def _new_study(self) -> optuna.Study:
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # it announces every study
        try:
            directions = [optuna.study.StudyDirection.MINIMIZE] * len(self._space.objectives)
            return optuna.create_study(sampler=self._sampler, directions=directions)
        finally:
            optuna.logging.set_verbosity(verbosity)

    def _parameter(self, decision: Decision) -> str:
        key = (decision.name, decision.options)
        if key not in self._names:
            namesakes = sum(1 for name, _ in self._names if name == decision.name)
            self._names[key] = decision.name if not namesakes else f"{decision.name} #{namesakes}"
        return self._names[key]


def _make_sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    names = sorted(n for n in optuna.samplers.__all__ if n.endswith("Sampler") and not n.startswith("Base"))
    if name not in names:
        raise ValueError(f"Optuna has no sampler {name!r}{did_you_mean(name, names)}; it has {', '.join(names)}.")
    sampler = getattr(optuna.samplers, name)
    wished: dict[str, Any] = {
        "seed": seed,
        "constraints_func": _violations,
        "multivariate": True,
        "constant_liar": True,
        "warn_independent_sampling": False,
    }
    parameters = inspect.signature(sampler.__init__).parameters
    given = {key: value for key, value in wished.items() if key in parameters}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # multivariate and constraints are called experimental
            made: optuna.samplers.BaseSampler = sampler(**given)
    except (TypeError, ImportError) as error:
        raise ValueError(f"Optuna's {name} cannot be made from a seed alone: {error}.") from None
    return made


def _violations(trial: FrozenTrial) -> list[float]:
    return [trial.user_attrs["violation"]]


STRATEGY = OwnStrategy(
    "OptunaSearch", Needs.FLAT, "Optuna's TPE; any other sampler as optuna:NAME", rank=40, libraries=("optuna",)
)
