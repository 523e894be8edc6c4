"""All kinds of input."""

from __future__ import annotations

from kilotune.experiments.fuzz.kind import Kind
from kilotune.experiments.fuzz.kinds.arrays import ARRAYS
from kilotune.experiments.fuzz.kinds.buffers import BUFFERS
from kilotune.experiments.fuzz.kinds.databases import DATABASES
from kilotune.experiments.fuzz.kinds.devices import DEVICES
from kilotune.experiments.fuzz.kinds.hardware import HARDWARE
from kilotune.experiments.fuzz.kinds.kernels import KERNELS
from kilotune.experiments.fuzz.kinds.onnx_files import ONNX
from kilotune.experiments.fuzz.kinds.programs import PROGRAMS
from kilotune.experiments.fuzz.kinds.requests import REQUESTS
from kilotune.experiments.fuzz.kinds.samples import SAMPLES
from kilotune.experiments.fuzz.kinds.storage_urls import STORAGE_URLS
from kilotune.experiments.fuzz.kinds.suites import SUITES
from kilotune.experiments.fuzz.kinds.trained_models import TRAINED

KINDS = (
    PROGRAMS,
    ARRAYS,
    SAMPLES,
    BUFFERS,
    KERNELS,
    HARDWARE,
    DEVICES,
    ONNX,
    TRAINED,
    DATABASES,
    REQUESTS,
    STORAGE_URLS,
    SUITES,
)


def find_kind(name: str) -> Kind:
    """ValueError, which lists the kinds, when there is none of that name."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise ValueError(f"There is no kind {name!r}; there are {', '.join(kind.name for kind in KINDS)}.")
