"""Suites of comparisons as TOML."""

from __future__ import annotations

from random import Random

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.databases import COMPARISON, DATABASE, database, rows_of_today
from kilotune.experiments.fuzz.kinds.models import model_folder
from kilotune.experiments.fuzz.text_mutations import mutate_text


def _corpus() -> tuple[FuzzCase, ...]:
    """The name is of a comparison of other cases: so it is refused when the suite has been read, and nothing is run."""
    beside = {f"model/{name}": content for name, content in model_folder("linear.sd", ".csv").items()}
    beside |= {"b.csv": corpus_files("buffers")["plain.csv"], DATABASE: database()}
    return tuple(
        FuzzCase(
            "suites",
            ("compare", "--suite", name, "--name", COMPARISON, "--storage", DATABASE),
            {**beside, name: content},
        )
        for name, content in corpus_files("suites").items()
    )


STRATEGIES = ("random", "greedy", "local", "tpe", "exhaustive")
CASE, OPTIONAL = "[[case]]", ("title", "depth", "drop", "in-place", "limits", "device", "objective", "also")


def still_a_suite(content: bytes, random: Random) -> bytes:
    """A change after which a suite is one still: other values, fewer options, cases in another order, comments, line ends. What
    is none already stays as it is."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        return content
    match random.randrange(5):
        case 0:
            at = random.randrange(len(lines) + 1)
            lines.insert(at, random.choice(("", "# of cases", "\t", "   # \u00fc\u4e2d")))
        case 1:
            optional = [k for k, line in enumerate(lines) if line.partition("=")[0].strip() in OPTIONAL]
            if optional:
                del lines[random.choice(optional)]
        case 2:
            lines = [_with_another_value(line, random) for line in lines]
        case 3:
            return "\r\n".join([*lines, ""]).encode()
        case _:
            begins = [k for k, line in enumerate(lines) if line.strip() == CASE]
            cases = [lines[a:b] for a, b in zip(begins, [*begins[1:], len(lines)], strict=True)]
            random.shuffle(cases)
            lines = lines[: begins[0]] + [line for case in cases for line in case] if begins else lines
    return "\n".join([*lines, ""]).encode()


def _with_another_value(line: str, random: Random) -> str:
    key = line.partition("=")[0].strip()
    values = {
        "depth": random.randint(2, 9),
        "drop": random.choice((0, 0.25, 5, 100)),
        "in-place": random.choice(("true", "false")),
        "title": f'"{random.choice(("a", "b-c", "d.e"))}{random.randrange(1000)}"',
        "strategies": str(random.sample(STRATEGIES, random.randint(1, len(STRATEGIES)))),
    }
    return f"{key} = {values[key]}" if key in values else line


SUITES = Kind(
    "suites",
    _corpus,
    tuple(on_files("*.toml", mutate) for mutate in (mutate_bytes, mutate_text, *[still_a_suite] * 5)),
    writes=(DATABASE, f"{DATABASE}-*"),
    contents=rows_of_today,
    named=(COMPARISON,),
    read_first=f"The comparison {COMPARISON!r} was of other cases",
)
