"""Mutations of text: its numbers, words, brackets, lines and letters."""

from __future__ import annotations

import re
from random import Random

NUMBERS = (
    *("0", "-1", "1", "2", "3", "7", "100", "255", "256", "65536", "2147483647", "2147483648", "4294967296"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "100000000000000",
        "1" + "0" * 30,
        "9" * 5000,
    ),
    *(
        "0.5",
        "-0.0",
        "1e-320",
        "1e308",
        "1e309",
        "-1e400",
        "nan",
        "inf",
        "-Infinity",
        "1e5",
        "0x10",
        "1_000",
        "\u0663",
        "1/0",
    ),
)
"""What stands at the ends of ranges, is no number to some reader, or is one that was not expected."""

LETTERS = (
    "\0",
    "\x1b[31m",
    "\ufeff",
    "\u202e",
    "\U0001f600",
    "\r",
    "\n\n",
    "\t",
    " ",
    '"',
    "'",
    ",",
    ";",
    "#",
    "\\",
    "\x85",
    "%s",
    "{}",
)

TOKEN = re.compile(r"[A-Za-z_]\w*|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\s+|[^\w\s]", re.ASCII)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
OPENING = {"(": ")", "[": "]", "{": "}"}
DEPTHS = (3, 40, 1200, 20_000)
MOST_LETTERS = 1 << 16


def mutate_text(data: bytes, random: Random) -> bytes:
    """One mutation of UTF-8 text; bytes that are none are kept."""
    text = data.decode("utf-8", errors="surrogateescape")
    mutation = random.choice((_number, _number, _token, _line, _letter, _nest, _drop_token, _swap_tokens))
    changed = mutation(text, random)[:MOST_LETTERS]
    if random.random() < 0.02:
        return changed.encode(random.choice(("utf-16", "latin-1", "utf-8-sig")), errors="replace")
    return changed.encode("utf-8", errors="surrogateescape")


def _number(text: str, random: Random) -> str:
    places = list(NUMBER.finditer(text))
    if not places:
        return text + random.choice(NUMBERS)
    place = random.choice(places)
    return text[: place.start()] + random.choice(NUMBERS) + text[place.end() :]


def _token(text: str, random: Random) -> str:
    """A word of the text in another's place."""
    tokens = TOKEN.findall(text)
    if tokens:
        tokens[random.randrange(len(tokens))] = random.choice(tokens)
    return "".join(tokens)


def _drop_token(text: str, random: Random) -> str:
    tokens = TOKEN.findall(text)
    if tokens:
        del tokens[random.randrange(len(tokens))]
    return "".join(tokens)


def _swap_tokens(text: str, random: Random) -> str:
    tokens = TOKEN.findall(text)
    if tokens:
        a, b = random.randrange(len(tokens)), random.randrange(len(tokens))
        tokens[a], tokens[b] = tokens[b], tokens[a]
    return "".join(tokens)


def _line(text: str, random: Random) -> str:
    """A line more, less, or elsewhere."""
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    line = lines[random.randrange(len(lines))]
    match random.randrange(3):
        case 0:
            lines.remove(line)
        case 1:
            lines[random.randrange(len(lines))] = line
        case _:
            at = random.randrange(len(lines))
            lines[at:at] = [line] * random.choice((1, 2, 200))
    return "".join(lines)


def _letter(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(LETTERS) + text[at:]


def _nest(text: str, random: Random) -> str:
    """Brackets around a bracket, many levels deep."""
    places = [place for place, letter in enumerate(text) if letter in OPENING]
    depth = random.choice(DEPTHS)
    if not places:
        return "[" * depth + text + "]" * depth
    begin = random.choice(places)
    end = _closing(text, begin)
    return text[:begin] + text[begin] * depth + text[begin:end] + OPENING[text[begin]] * depth + text[end:]


def _closing(text: str, begin: int) -> int:
    """Behind the bracket that closes the one at `begin`; the end of the text without one."""
    level = 0
    for place in range(begin, len(text)):
        level += (text[place] in OPENING) - (text[place] in OPENING.values())
        if not level:
            return place + 1
    return len(text)
