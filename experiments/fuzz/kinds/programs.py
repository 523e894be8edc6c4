"""Programs in the SeeDot language."""

from __future__ import annotations

import re
from random import Random

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.models import model_cases
from kilotune.experiments.fuzz.text_mutations import mutate_text

SIZES = ("0", "1", "5", "4096", "1000000", "4294967296", "100000000000000", "1" + "0" * 25)
WRAPPINGS = (
    *(
        "({})",
        "-{}",
        "{}^T",
        "exp({})",
        "relu({})",
        "tanh({})",
        "sgn({})",
        "argmax({})",
        "normaliseL2({})",
        "({} + {})",
    ),
    *(
        "({} * {})",
        "({} <*> {})",
        "$(q = [0:3]) ({})",
        "reverse({}, 0)",
        "({} >= 0 ? {} : {})",
        "(let q = {} in q)",
        "{}[0]",
    ),
)
REPEATS = (1, 2, 12, 300)
MOST_LETTERS = 1 << 16


def _resize(source: bytes, random: Random) -> bytes:
    """A number in brackets is a size, a bound or an index: another one, at every place where it stands or at one."""
    text = source.decode("utf-8", errors="surrogateescape")
    places = list(re.finditer(r"(?<=[(\[{ :+,])\d+(?=[)\]} :,])", text))
    if not places:
        return source
    place, size = random.choice(places), random.choice(SIZES)
    if random.random() < 0.4:
        changed = re.sub(rf"(?<=[(\[{{ :+,]){place[0]}(?=[)\]}} :,])", size, text)
    else:
        changed = text[: place.start()] + size + text[place.end() :]
    return changed.encode("utf-8", errors="surrogateescape")


def _wrap(source: bytes, random: Random) -> bytes:
    """A name inside of an operator, once or many times."""
    text = source.decode("utf-8", errors="surrogateescape")
    names = list(re.finditer(r"\b[A-Za-z]\w*\b(?! *=)(?!\()", text))
    if not names:
        return source
    place = random.choice(names)
    wrapped, wrapping = place[0], random.choice(WRAPPINGS)
    for _ in range(random.choice(REPEATS)):
        wrapped = wrapping.replace("{}", wrapped)
        if len(wrapped) > MOST_LETTERS:
            break
    return (text[: place.start()] + wrapped + text[place.end() :]).encode("utf-8", errors="surrogateescape")


def _splice(source: bytes, random: Random) -> bytes:
    """A line of another program."""
    lines = source.splitlines(keepends=True)
    other = random.choice(list(corpus_files("programs").values())).splitlines(keepends=True)
    lines.insert(random.randrange(len(lines) + 1), random.choice(other))
    return b"".join(lines)


PROGRAMS = Kind(
    "programs",
    lambda: model_cases("programs", ".csv"),
    tuple(on_files("*.sd", mutate) for mutate in (mutate_bytes, mutate_text, mutate_text, _resize, _wrap, _splice)),
)
