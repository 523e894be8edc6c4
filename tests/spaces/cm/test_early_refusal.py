"""A change of the compiled walk is refused as soon as it is too bad, and undone from what was noted down: the walk is that of all of it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.streams import streams_of
from kilotune.evaluators.compiled_library import load_library
from kilotune.experiments.problems.cm.networks import chain, weightless
from kilotune.spaces.cm import annealing
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer, load_kernel
from kilotune.spaces.cm.sharing import StageNeeds

CHANGES = {
    "if (worse > most) return 0;": "if (k + 1 == w->changed_count && worse > most) return 0;",
    ".price = undo->price;": ".price = price(w, &w->link[undo->link], undo->load);",
}
"""What decides when all streams are on their new routes, and works out again what links cost that are put back."""


@pytest.fixture(scope="module")
def plain_kernel(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The same walk without either."""
    kernel = load_kernel()
    if kernel is None:
        pytest.skip("no C compiler")
    source, folder = Path(annealing.__file__).parent, tmp_path_factory.mktemp("plain")
    for path in [source / "annealing.c", *source.glob("*.h")]:
        text = path.read_text()
        if path.name == "moved_streams.h":
            for before, after in CHANGES.items():
                assert text.count(before) == 1
                text = text.replace(before, after)
        (folder / path.name).write_text(text)
    loaded = load_library(folder / "annealing.c")
    assert loaded is not None
    plain = loaded.library.kilotune_anneal
    plain.argtypes, plain.restype = kernel.kilotune_anneal.argtypes, kernel.kilotune_anneal.restype
    return loaded.library


@pytest.mark.parametrize(
    ("hardware", "strict", "hot"),
    [("mesh-8x8-16", False, 1.0), ("mesh-8x8-16", False, 0.01), ("mesh-8x8", True, 1.0), ("ring-64", False, 1.0)],
)
def test_a_walk_is_the_one_that_looks_at_all_of_a_change(
    hardware: str, strict: bool, hot: float, plain_kernel: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerator = load_hardware(hardware)
    graph = chain(20, 8) if strict else weightless("resnet20")
    pipeline = lower(partition(graph), Crossbar()).pipeline
    streams, stages = streams_of(pipeline, accelerator), len(pipeline.stages)
    annealer = Annealer(streams, StageNeeds.unshared(stages), accelerator, strict)
    cores = tuple(np.random.default_rng(0).permutation(64)[:stages].tolist())
    start = AnnealedPlacement(cores, (0,) * len(streams), 1 << 60)

    def walks() -> list[AnnealedPlacement | None]:
        return [
            annealer.run(start, 1 << 60, 60_000, target, 1, seed, hot=hot) for seed, target in ((1, 900), (2, 1500))
        ]

    found = walks()
    monkeypatch.setattr(annealing, "load_kernel", lambda: plain_kernel)
    assert found == walks()
    assert found[0] is not None
    assert found[0] != found[1]
    assert found[0].cores != start.cores
