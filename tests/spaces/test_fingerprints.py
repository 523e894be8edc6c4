"""Studies hang on fingerprints: golden values hold them, a moved input is the same problem, a changed one is not."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.evaluators.cost_model import CostTable, Timing
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.fingerprint import fingerprint
from kilotune.spaces.cm.space import CmSpace
from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.instance import Buffer, Instance
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.space import MemorySpace
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.ir.examples import example, operators
from tests.spaces.cm.test_space import residual_block, small_hardware

EXAMPLE = Path(__file__).parents[2] / "experiments" / "models" / "protonn-cancer"
BUFFERS = (Buffer("a", 0, 2, 8), Buffer("b", 1, 3, 4, alignment=4))


def fixed_point(space: str, place: Path) -> str:
    return build_problem(TuneRequest(space, str(place), "random")).space.fingerprint


def sobel(target: str = "auke") -> ReverseSplitSpace:
    kernels = KernelSet((Kernel.of_rows([[1, 0, -1], [2, 0, -2], [1, 0, -1]]),))
    return ReverseSplitSpace(SplitProblem(kernels.approximate(0).reduced(), target))


def placements(capacity_bytes: int | None = None, name: str = "here") -> MemorySpace:
    return MemorySpace(Instance(name, BUFFERS), capacity_bytes)


def banks(size: int = 64) -> PricedSpace:
    return PricedSpace(Instance("here", BUFFERS), MemoryMap((Bank("fast", size), Bank("slow")), migration_price=None))


def mapping(name: str = "mesh", **changes: int) -> CmSpace:
    return CmSpace.of(residual_block(), dataclasses.replace(small_hardware(), name=name, **changes))


GOLDEN = {
    "seedot": (lambda: fixed_point("seedot", EXAMPLE), "5d6ad320ea5180d0be2c166efcbc814b"),
    "shiftry": (lambda: fixed_point("shiftry", EXAMPLE), "bc889b8aa8c2a4e809aba8070d2935ab"),
    "memory": (lambda: placements().fingerprint, "c9f311fc069e035bbb077f9a2ec7e3ff"),
    "memory in banks": (lambda: banks().fingerprint, "571d72538819bc8b2af6fc10edb6362f"),
    "reverse-split": (lambda: sobel().fingerprint, "616e3bd216c1a2d74783414fd5a8f73f"),
    "cm": (lambda: mapping().fingerprint, "0aa9242f7187ab8f4e63ecec03c61dd6"),
}


@pytest.mark.parametrize("space", GOLDEN)
def test_golden(space: str) -> None:
    """Stored studies hang on these. A change that is meant (other content, or another `SEMANTICS`) changes them here too; one
    that is not belongs into the metadata of the field: see `search.fingerprint`."""
    make, golden = GOLDEN[space]
    assert make() == golden


def test_golden_with_a_device() -> None:
    """The objective latency was an option `fastest` when studies of it were first stored, and limits are where they were."""
    task = build_problem(TuneRequest("shiftry", str(EXAMPLE), "random")).space.task  # type: ignore[attr-defined]
    timing = Timing(CostTable("any", {}, {}), 1)
    limits = {"cycles_limit": 5.0, "latency_limit_ms": 2.0, "flash_limit_bytes": 10, "ram_limit_bytes": 20}
    found = [
        make(task, options(timing=timing, **asked)).fingerprint  # type: ignore[operator]
        for make, options in ((SeeDotSpace, SeeDotOptions), (ShiftrySpace, ShiftryOptions))
        for asked in ({"objective": "latency"}, limits)
    ]
    assert found == [
        *("2aeb601a018dee5b84cdf038909baa62", "2fbbf699ca1164358b1da111da14fad7"),
        *("33cd9fc36ddd82017561e32546812f6c", "b90ad84ed1bf5a410086a70c32e65a92"),
    ]


@pytest.mark.parametrize("space", ["seedot", "shiftry"])
def test_a_moved_bundle_is_the_same_problem_and_a_changed_one_is_not(space: str, tmp_path: Path) -> None:
    moved = shutil.copytree(EXAMPLE, tmp_path / "elsewhere")
    assert fixed_point(space, moved) == fixed_point(space, EXAMPLE)
    source = moved / "model.sd"
    source.write_text("\n\n" + source.read_text())  # every line and column is another one
    assert fixed_point(space, moved) == fixed_point(space, EXAMPLE)
    weights = np.load(moved / "W.npy")
    weights[0, 0] *= 1.5
    np.save(moved / "W.npy", weights)
    assert fixed_point(space, moved) != fixed_point(space, EXAMPLE)


def test_options_and_data_count() -> None:
    task = build_problem(TuneRequest("shiftry", str(EXAMPLE), "random")).space.task  # type: ignore[attr-defined]
    weights = {name: values * 2 for name, values in task.parameters.items()}
    spaces = [
        ShiftrySpace(task),
        SeeDotSpace(task),
        ShiftrySpace(task, ShiftryOptions(accuracy_drop=1.0)),
        ShiftrySpace(task, ShiftryOptions(rounding=Rounding.FLOOR)),
        ShiftrySpace(task, ShiftryOptions(flash_limit_bytes=100)),
        ShiftrySpace(dataclasses.replace(task, features=task.features[:-1], targets=task.targets[:-1])),
        ShiftrySpace(dataclasses.replace(task, parameters=weights)),
    ]
    assert len({space.fingerprint for space in spaces}) == len(spaces)


def test_every_operator_is_told_apart() -> None:
    """Two operators of equal fields, such as a sum and a difference, make two programs."""
    kinds = [kind.content_kind for kind in operators()]
    assert len(set(kinds)) == len(kinds)
    tasks = [Task(*example(kind)[:2], np.zeros((1, 12)), None) for kind in operators()]
    assert len({task.fingerprint for task in tasks}) == len(tasks)


def test_what_decides_a_placement_a_program_or_a_mapping_counts_and_names_do_not() -> None:
    assert placements(name="there").fingerprint == placements().fingerprint
    assert mapping(name="another file").fingerprint == mapping().fingerprint
    different = [
        placements(),
        placements(16),
        banks(),
        banks(32),
        sobel(),
        sobel("scamp5"),
        mapping(),
        mapping(sram_bytes=1 << 15),
    ]
    larger = MemorySpace(Instance("here", (*BUFFERS[:1], dataclasses.replace(BUFFERS[1], size=5))))
    assert len({space.fingerprint for space in (*different, larger)}) == len(different) + 1


def test_a_fingerprint_depends_on_the_semantics() -> None:
    assert fingerprint("shiftry", 1, BUFFERS) != fingerprint("shiftry", 2, BUFFERS)
