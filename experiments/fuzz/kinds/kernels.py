"""Convolution kernels as JSON."""

from __future__ import annotations

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.json_mutations import mutate_json
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.models import TUNE
from kilotune.experiments.fuzz.text_mutations import mutate_text


def _corpus() -> tuple[FuzzCase, ...]:
    return tuple(
        FuzzCase(
            "kernels", ("--space", "reverse-split", "--input", name, "--strategy", strategy, *TUNE), {name: content}
        )
        for name, content in corpus_files("kernels").items()
        for strategy in ("exhaustive", "greedy")
    )


KERNELS = Kind(
    "kernels",
    _corpus,
    tuple(on_files("*.json", mutate) for mutate in (mutate_bytes, mutate_text, mutate_json, mutate_json)),
)
