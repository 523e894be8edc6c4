"""Optuna's samplers by ask and tell: TPE (multivariate, constraints, several objectives) unless another is named.

They cost milliseconds a trial, and more with every trial they remember. So the study is in memory, its history is
capped at the best and the latest trials, and candidates are asked for in batches. A batch of TPE follows from its number and what was
told before it, and is kept in the space's memory: a resumed search tells the sampler what it was told, and asks for what comes then.
"""

from __future__ import annotations

import inspect
import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from kilotune.search.candidates import complete, random_candidate
from kilotune.search.encoding import CandidateKey, Encoding, encoding_of
from kilotune.search.front import Rank, Ranking
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import Assignment, Decision, Option, Space, Trial, asks_for_front
from kilotune.search.strategy import UNKNOWN_BOUND, Steps, batch_generator
from kilotune.search.suggestion import did_you_mean
from kilotune.search.work_memory import NoMemory, RecalledSteps, memory_of

BATCH = 8
LONGEST_HISTORY = 400
SHORTENED_HISTORY = 200

SEMANTICS = 1
"""Version of what is asked of Optuna and told to it, under which batches are kept."""

Told = tuple[Rank, FrozenTrial]


class _BatchTPE(optuna.samplers.TPESampler):
    """For one batch: which decisions all trials have in common is found once for a study, and not for every batch again."""

    asked_before: optuna.search_space.IntersectionSearchSpace

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        found = self.asked_before.calculate(study)
        return {name: distribution for name, distribution in found.items() if not distribution.single()}


@dataclass(frozen=True)
class _Batch:
    """Candidates, and Optuna's questions for them where this run has asked it."""

    candidates: list[Assignment]
    questions: list[optuna.trial.Trial]


class OptunaSearch:
    """ValueError for an unknown sampler, or one that needs more than a seed."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int, sampler: str = "TPESampler") -> None:
        self._space, self._seed = space, seed
        self._ranking = Ranking.of(space)
        self._wants_front = asks_for_front(space)
        self._capped = sampler == "TPESampler"  # others may need their own past, such as a population
        self._asked_before = optuna.search_space.IntersectionSearchSpace(include_pruned=True)
        self._names: dict[tuple[str, tuple[Option, ...]], str] = {}
        self._told: list[Told] = []
        self._study = self._new_study(_make_sampler(sampler, seed))

    def steps(self) -> Steps:
        encode, steps = encoding_of(self._space), self._recalled_steps()
        seen: set[CandidateKey] = set()
        for number in itertools.count():
            batch = self._next_batch(steps, encode, number)
            keys = [encode.key(candidate) for candidate in batch.candidates]
            trials = yield batch.candidates
            self._tell(batch.questions, trials)
            if seen.issuperset(keys):
                # On small spaces the sampler settles on what it knows; an Optuna study would go on repeating it.
                rng = batch_generator(self._seed, len(seen))
                fresh: list[Assignment] = [random_candidate(self._space, rng) for _ in range(BATCH)]
                keys += [encode.key(candidate) for candidate in fresh]
                more = yield fresh
                self._add(more)
                trials = [*trials, *more]
            steps.take_in(loss for trial in trials for loss in self._ranking.rank(trial.measurement))
            seen.update(keys)
            self._forget()
        return None

    def _recalled_steps(self) -> RecalledSteps:
        # what a sampler with a past of its own comes to does not follow from the trials
        memory = memory_of(self._space) if self._capped else NoMemory()
        search = ["tpe", SEMANTICS, optuna.__version__, self._space.fingerprint, self._seed]
        return RecalledSteps(memory, search)

    def _next_batch(self, steps: RecalledSteps, encode: Encoding, number: int) -> _Batch:
        """Candidates of an earlier run where these are known, else of Optuna."""
        questions: list[optuna.trial.Trial] = []

        def ask() -> list[str]:
            if self._capped:
                self._study.sampler = self._batch_sampler(number)
            asked = [self._ask() for _ in range(BATCH)]
            questions.extend(question for question, _ in asked)
            return [encode.text(encode.key(candidate)) for _, candidate in asked]

        texts = steps.recalled(number, ask)
        return _Batch([encode.candidate(encode.key_of_text(text)) for text in texts], questions)

    def _batch_sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """TPE that knows nothing but the study, and the number of the batch."""
        seed = int(batch_generator(self._seed, number).integers(1 << 31))
        sampler = _make_sampler("TPESampler", seed)
        assert isinstance(sampler, _BatchTPE)
        sampler.asked_before = self._asked_before
        return sampler

    def _ask(self) -> tuple[optuna.trial.Trial, Assignment]:
        trial = self._study.ask()

        def choose(decision: Decision) -> Option:
            # Option indices: Optuna compares options by equality, where True is 1. A decision that comes with other
            # options elsewhere in a tree is another parameter, for Optuna's must not change.
            index = trial.suggest_categorical(self._parameter(decision), range(len(decision.options)))
            return decision.options[index]

        return trial, complete(self._space.start(), choose)

    def _tell(self, questions: Sequence[optuna.trial.Trial], trials: list[Trial]) -> None:
        """Tell it about candidates that it asked for, in this run or, without `questions`, in an earlier one."""
        if not questions:
            self._add(trials)
            return
        for question, trial in zip(questions, trials, strict=True):
            rank = self._ranking.rank(trial.measurement)
            question.set_user_attr("violation", rank[0])
            if math.inf in rank:
                self._study.tell(question, state=TrialState.FAIL)
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
        best = _along_front(older, half) if self._wants_front else sorted(older, key=lambda told: told[0])[:half]
        self._told = best + latest
        self._asked_before = optuna.search_space.IntersectionSearchSpace(include_pruned=True)
        self._study = self._new_study(self._study.sampler)
        self._study.add_trials([trial for _, trial in self._told])

    def _new_study(self, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # it announces every study
        try:
            directions = [optuna.study.StudyDirection.MINIMIZE] * len(self._space.objectives)
            return optuna.create_study(sampler=sampler, directions=directions)
        finally:
            optuna.logging.set_verbosity(verbosity)

    def _parameter(self, decision: Decision) -> str:
        key = (decision.name, decision.options)
        if key not in self._names:
            namesakes = sum(1 for name, _ in self._names if name == decision.name)
            self._names[key] = decision.name if not namesakes else f"{decision.name} #{namesakes}"
        return self._names[key]


def _along_front(told: Sequence[Told], count: int) -> list[Told]:
    """So many of them: those that no other one is better than in all objectives, from one end to the other, then those of the rest."""
    ordered = sorted(told, key=lambda one: one[0])
    violations, losses = np.array([rank[0] for rank, _ in ordered]), np.array([rank[1:] for rank, _ in ordered])
    no_worse = (losses[:, None] <= losses[None]).all(axis=2) & (violations[:, None] == violations[None])
    dominates = (no_worse & ~no_worse.T) | (violations[:, None] < violations[None])
    chosen: list[int] = []
    left = np.arange(len(ordered))
    while len(chosen) < count and len(left):
        foremost = ~dominates[np.ix_(left, left)].any(axis=0)
        layer = left[foremost]
        places = np.linspace(0, len(layer) - 1, min(len(layer), count - len(chosen)))
        chosen += layer[np.unique(places.astype(np.int64))].tolist()
        left = left[~foremost]
    return [ordered[i] for i in chosen]


def _make_sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    names = sorted(n for n in optuna.samplers.__all__ if n.endswith("Sampler") and not n.startswith("Base"))
    if name not in names:
        raise ValueError(f"Optuna has no sampler {name!r}{did_you_mean(name, names)}; it has {', '.join(names)}.")
    sampler = _BatchTPE if name == "TPESampler" else getattr(optuna.samplers, name)
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
