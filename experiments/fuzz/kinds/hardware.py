"""Hardware files: accelerators that networks are mapped onto."""

from __future__ import annotations

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.json_mutations import mutate_json
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.models import TUNE
from kilotune.experiments.fuzz.kinds.onnx_files import NETWORK_NAME, small_network
from kilotune.experiments.fuzz.text_mutations import mutate_text


def _corpus() -> tuple[FuzzCase, ...]:
    network = small_network()
    return tuple(
        FuzzCase(
            "hardware",
            ("--space", "cm", "--input", "n.onnx", "--hardware", name, *TUNE),
            {"n.onnx": network, name: content},
        )
        for name, content in corpus_files("hardware").items()
    )


HARDWARE = Kind(
    "hardware",
    _corpus,
    tuple(on_files("*.json", mutate) for mutate in (mutate_bytes, mutate_text, mutate_json, mutate_json, mutate_json)),
    named=(NETWORK_NAME, "small", "listed"),
)
