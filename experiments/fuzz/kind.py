"""The protocol of a kind of input: a corpus of cases that work, and mutators that damage them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from importlib import resources
from random import Random
from typing import Any

from kilotune.experiments.fuzz.case import FuzzCase

Mutator = Callable[[FuzzCase, Random], FuzzCase]
"""Makes a damaged case of a case; the same case again where the mutation does not apply."""

MOST_STEPS = 4
"""Mutations of one case: most defects need one, some need two that meet."""


@dataclass(frozen=True)
class Kind:
    """A kind of input. `corpus` makes cases that the command accepts; `mutators` are drawn evenly.

    `writes`: patterns of files that belong to the command, so that it may change them; all others are the user's. `contents`
    says what of such a file must still be there after an input was refused (all of a database's rows, say).
    `named`: texts besides the names of the files that a message may name as the place. `read_first`: what a refusal says of
    something else, which comes only after the input was read and found good; such a case counts as accepted.
    """

    name: str
    corpus: Callable[[], tuple[FuzzCase, ...]]
    mutators: tuple[Mutator, ...]
    writes: tuple[str, ...] = ()
    contents: Callable[[bytes], Any] = field(default=bytes)
    named: tuple[str, ...] = ()
    read_first: str = ""

    def took(self, status: int, stderr: str) -> bool:
        """Whether a command that ended so has accepted the input."""
        return status in (0, 1) or bool(self.read_first and self.read_first in stderr)

    def may_write(self, path: str) -> bool:
        """Whether the command may change a file of the case."""
        return any(fnmatch(path, pattern) for pattern in self.writes)


@dataclass(frozen=True)
class MutationRecipe:
    """How a case is made, in a form that is short and always gives the same case: mutations of the corpus's case number
    `origin`, one a step, each drawn from a seed of its own, so that leaving one out changes no other."""

    kind: str
    origin: int
    steps: tuple[str, ...]


def recipe_of(kind: Kind, seed: int, number: int) -> MutationRecipe:
    """The recipe of a kind's case `number` in the campaign of that seed."""
    name = f"{seed}/{kind.name}/{number}"
    random = Random(name)
    count = 1 + min(int(random.expovariate(1.0)), MOST_STEPS - 1)
    return MutationRecipe(
        kind.name, random.randrange(len(made_corpus(kind))), tuple(f"{name}/{i}" for i in range(count))
    )


def make(kind: Kind, recipe: MutationRecipe) -> FuzzCase:
    """The case of a recipe."""
    case = made_corpus(kind)[recipe.origin]
    for step in recipe.steps:
        random = Random(step)
        case = random.choice(kind.mutators)(case, random)
    return case


@cache
def made_corpus(kind: Kind) -> tuple[FuzzCase, ...]:
    """The kind's corpus, made once."""
    return kind.corpus()


def corpus_files(folder: str) -> dict[str, bytes]:
    """The files of a folder of `corpus/`, by name."""
    place = resources.files("kilotune.experiments.fuzz") / "corpus" / folder
    return {file.name: file.read_bytes() for file in sorted(place.iterdir(), key=lambda f: f.name)}


def on_files(pattern: str, mutate: Callable[[bytes, Random], bytes]) -> Mutator:
    """A mutator of the content of one of the files whose path matches."""

    def mutator(case: FuzzCase, random: Random) -> FuzzCase:
        paths = sorted(path for path in case.files if fnmatch(path, pattern))
        if not paths:
            return case
        path = random.choice(paths)
        return case.with_file(path, mutate(case.files[path], random))

    return mutator
