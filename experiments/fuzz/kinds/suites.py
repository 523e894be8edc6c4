"""Suites of comparisons as TOML."""

from __future__ import annotations

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.databases import COMPARISON, DATABASE, database, rows
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


SUITES = Kind(
    "suites",
    _corpus,
    tuple(on_files("*.toml", mutate) for mutate in (mutate_bytes, mutate_text, mutate_text, mutate_text)),
    writes=(DATABASE, f"{DATABASE}-*"),
    contents=rows,
    named=(COMPARISON,),
)
