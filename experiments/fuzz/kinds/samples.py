"""Samples as comma-separated text."""

from __future__ import annotations

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.kind import Kind, on_files
from kilotune.experiments.fuzz.kinds.models import model_cases
from kilotune.experiments.fuzz.text_mutations import mutate_text

SAMPLES = Kind(
    "samples",
    lambda: model_cases("samples", ".csv"),
    tuple(on_files("*.csv", mutate) for mutate in (mutate_bytes, mutate_text, mutate_text)),
)
