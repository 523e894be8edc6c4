"""What --storage takes: paths and URLs of databases."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind
from kilotune.experiments.fuzz.kinds.databases import DATABASE, database, rows_of_today
from kilotune.experiments.fuzz.text_mutations import mutate_text

URLS = (
    DATABASE,
    f"sqlite:///{DATABASE}",
    "sqlite://",
    "sqlite:///:memory:",
    "sqlite:///new/deep/er.db",
    f"sqlite:///file:{DATABASE}?mode=ro&uri=true",
    f"sqlite:///{DATABASE}?timeout=5&cached_statements=3",
    f"sqlite+pysqlite:///{DATABASE}",
)
PARTS = (
    *(
        "sqlite",
        "postgresql",
        "mysql",
        "oracle+cx",
        "sqlite+aiosqlite",
        "file",
        "",
        "://",
        ":/",
        "/",
        "?",
        "=",
        "&",
        "#",
        "@",
        ":",
    ),
    *(
        "-0",
        "[::1",
        "user:p w@",
        ":99999",
        "%",
        "%zz",
        "%2e",
        "x.db",
        "mode=rw",
        "uri=1",
        "uri=true",
        "timeout=x",
        "vfs=none",
        "\0",
    ),
    *(" ", "ü", "x" * 300, "check_same_thread=0", "isolation_level=NONSENSE", "detect_types=z", DATABASE, "model", "."),
)


def _part(case: FuzzCase, random: Random) -> FuzzCase:
    """A part of a URL put in, over, or in place of a piece."""
    url = case.arguments[-1]
    begin = random.randrange(len(url) + 1)
    end = random.choice((begin, begin, random.randint(begin, len(url))))
    return _with(case, url[:begin] + random.choice(PARTS) + url[end:])


def _letters(case: FuzzCase, random: Random) -> FuzzCase:
    mutated = mutate_text(case.arguments[-1].encode("utf-8", errors="surrogateescape"), random)
    return _with(case, mutated[:4096].decode("utf-8", errors="surrogateescape"))


def _with(case: FuzzCase, url: str) -> FuzzCase:
    return replace(case, arguments=(*case.arguments[:-1], url)) if _is_inside(url) else case


def _is_inside(url: str) -> bool:
    """Whether no file outside of the case's folder can be meant, and no server: a fuzzer must not write to either."""
    leads_out = "//" in url.replace("://", ":", 1) and "///" not in url
    absolute = any(mark in url for mark in ("////", "file:/", "..", "~", "%2f", "%2F", "/dev", "@")) or url[:1] == "/"
    server = url.strip().lower().startswith(("postgres", "mysql", "mssql", "oracle", "maria"))
    return not (leads_out or absolute or server)


def _corpus() -> tuple[FuzzCase, ...]:
    content = database()
    return tuple(FuzzCase("storage-urls", ("list", "studies", "--storage", url), {DATABASE: content}) for url in URLS)


STORAGE_URLS = Kind(
    "storage-urls",
    _corpus,
    (_part, _part, _letters),
    writes=(DATABASE, f"{DATABASE}-*"),
    contents=rows_of_today,
    named=("--storage", "database"),
)
