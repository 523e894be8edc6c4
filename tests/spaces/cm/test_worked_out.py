"""A search of mappings that is repeated works nothing out again, and goes on as if it had never ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.executors.kept_work import KeptWork
from kilotune.experiments.studies.workplace import Workplace
from kilotune.spaces.cm import bit_search, designer, joint
from kilotune.spaces.cm.annealing import Annealer
from kilotune.spaces.cm.bits import BitsSpace
from kilotune.spaces.cm.space import CmSpace
from tests.spaces.cm.test_bits import bits_space
from tests.spaces.cm.test_space import residual_block

Made = Callable[[], CmSpace | BitsSpace]


def plain_space() -> CmSpace:
    return CmSpace.of(residual_block(8), load_hardware("mesh-8x8-bits"))


def measured_space() -> CmSpace:
    return CmSpace.of(residual_block(8), load_hardware("mesh-8x8-bits"), objective="latency")


SPACES: tuple[Made, ...] = (plain_space, measured_space, bits_space)


@pytest.mark.parametrize(("made", "steps"), [*zip(SPACES, (6, 6, 5), strict=True)], ids=["ticks", "latency", "bits"])
def test_a_repeated_search_works_nothing_out_again_and_goes_on(
    made: Made, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (joint, designer):
        monkeypatch.setattr(module, "FIRST_MOVES", 2000)
    monkeypatch.setattr(joint, "LONG_MOVES", 4000)
    monkeypatch.setattr(bit_search, "FIRST_STEPS", 1)
    whole = list(islice(made().anneal(3), steps + 3))
    file = tmp_path / "evaluations.db"

    def remembering() -> CmSpace | BitsSpace:
        space = made()
        space.work_memory = KeptWork(EvaluationCache(file), space)
        return space

    killed = remembering().anneal(3)
    assert list(islice(killed, steps)) == whole[:steps]
    again = remembering()
    with monkeypatch.context() as nothing:
        for owner, name in ((designer, "arranged"), (designer, "crowded"), (Annealer, "run"), (bit_search, "_demand")):
            nothing.setattr(owner, name, _refused)
        if isinstance(again, BitsSpace):
            nothing.setattr(again.networks, "changes", _refused)
        else:
            nothing.setattr(again, "measure", _refused)
        walk = again.anneal(3)
        assert list(islice(walk, steps)) == whole[:steps]
        nothing.undo()
        assert list(islice(walk, 3)) == whole[steps:]


def test_a_study_remembers_unless_it_is_told_not_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path))
    space = plain_space()
    Workplace(cached=False).executor(space).close()
    assert not isinstance(space.work_memory, KeptWork)
    Workplace().executor(space).close()
    assert isinstance(space.work_memory, KeptWork)


def _refused(*_: object, **__: object) -> object:
    raise AssertionError("this has been worked out before")
