"""Device files: boards, and the tables of cycles that some of them bring."""

from __future__ import annotations

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.json_mutations import mutate_json
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.models import TUNE, model_folder
from kilotune.experiments.fuzz.text_mutations import mutate_text

COSTS = "costs.json"


def _corpus() -> tuple[FuzzCase, ...]:
    listed = corpus_files("devices")
    model = {f"model/{name}": content for name, content in model_folder("linear.sd", ".csv").items()}
    return tuple(
        FuzzCase(
            "devices",
            ("--space", "shiftry", "--input", "model", "--device", name, "--objective", objective, *TUNE),
            {**model, name: content, COSTS: listed[COSTS]},
        )
        for name, content in listed.items()
        if name != COSTS
        for objective in ("memory", "latency")
    )


DEVICES = Kind(
    "devices",
    _corpus,
    tuple(on_files("*.json", mutate) for mutate in (mutate_bytes, mutate_text, mutate_json, mutate_json)),
)
