"""What code takes in flash is learnt from programs that are linked, and limits the search."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.code_size import KINDS, CodeSize, LinkedCode, fitted_code_size, kinds_of
from kilotune.evaluators.cost_features import NUMBERS, Terms
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.simulated import DeviceError
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point import linking
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.space import Assignment, Measurement, Trial
from kilotune.spaces.shiftry.pruned_space import UNITS, PrunedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.evaluators.devices.toolchains import needs_avr

BASE, A_VARIABLE, SMALLER_BY = 600, 20, 70


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what is learnt is kept: of programs that are supposed nothing stays with the user."""
    monkeypatch.setattr(linking, "EvaluationCache", lambda: EvaluationCache(tmp_path / "kept.db"))
    return tmp_path / "kept.db"


def wide(batch: FixedBatch) -> int:
    return int((batch.bits[0] > 8).sum())


def supposed(problem: TunedModel, candidate: Assignment) -> int:
    """Programs whose code takes BASE bytes, and so many for each variable of more than 8 bits."""
    space = problem.space
    assert isinstance(space, ShiftrySpace)
    held = space.costs([candidate])[0]["flash_bytes"]
    return int(held) + BASE + A_VARIABLE * wide(space.lower([candidate]))


@needs_avr
@pytest.mark.parametrize(("most", "told"), [(6, True), (-1, False)])
def test_programs_that_the_processor_has_no_room_for_are_left_out(
    most: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where too few are left, the model is refused."""

    def narrow_only(problem: TunedModel, candidate: Assignment) -> int:
        assert isinstance(problem.space, ShiftrySpace)
        if wide(problem.space.lower([candidate])) > most:
            raise DeviceError("The program needs more flash than there is.")
        return supposed(problem, candidate)

    monkeypatch.setattr(linking, "linked_flash_bytes", narrow_only)
    monkeypatch.setattr(linking, "PILOT_TRIALS", 30)
    request = request_from(
        "shiftry", input="protonn-cancer", device="uno", limits=("linked=3000",), options={"narrow": True}
    )
    if not told:
        with pytest.raises(
            InputError, match=r"found none that could be \(The program needs more flash than there is\)"
        ):
            build_problem(request)
        return
    problem = build_problem(request)
    assert isinstance(problem, ModelProblem)
    assert isinstance(problem.space, ShiftrySpace)
    narrow = {decision.name: decision.options[-1] for decision in problem.space.decisions}
    assert problem.space.costs([narrow])[0]["linked_bytes"] == pytest.approx(supposed(problem, narrow), abs=25)


@needs_avr
@pytest.mark.parametrize("front", [None, "linked"])
def test_linked_flash_is_estimated_as_it_was_learnt(front: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "linked_flash_bytes", supposed)
    monkeypatch.setattr(linking, "PILOT_TRIALS", 30)
    options = {"narrow": True} if front is None else {"narrow": True, "front": front}
    limits = ("linked=3000",) if front is None else ()
    request = request_from("shiftry", input="protonn-cancer", device="uno", limits=limits, options=options)
    told: list[str] = []
    problem = build_problem(request, told.append)
    assert told[:2] == [f"learning what code takes: {count} linked" for count in ("0 programs", "1 program")]
    assert isinstance(problem, ModelProblem)
    space = problem.space
    assert isinstance(space, ShiftrySpace)
    random = np.random.default_rng(5)
    for _ in range(10):
        candidate = {d.name: d.options[random.integers(len(d.options))] for d in space.decisions}
        (costs,) = space.costs([candidate])
        assert costs["linked_bytes"] == pytest.approx(supposed(problem, candidate), abs=12)
    limited = {constraint.metric: constraint.limit for constraint in space.constraints}
    timing = space.evaluator.timing
    assert timing is not None
    assert timing.code is not None
    assert limited.get("linked_bytes") == (3000 + round(timing.code.error) if front is None else None)
    assert problem.linked_limit_bytes == (3000 if front is None else None)
    assert problem.linked_limit_bytes is None or space.objectives[0].metric == "expected_flips"
    monkeypatch.setattr(linking, "linked_flash_bytes", lambda *_: pytest.fail("what was learnt is kept"))
    again = build_problem(request)
    assert isinstance(again, ModelProblem)
    assert isinstance(again.space, ShiftrySpace)
    assert again.space.evaluator.timing == timing
    assert again.space.fingerprint == space.fingerprint


@needs_avr
def test_what_is_learnt_from_comes_down_to_the_limit_and_is_last_found_as_the_search_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The most precise programs near a limit are those beyond it, which have other formats than those that keep it."""
    limit, searches = 1300, list[tuple[tuple[str, ...], float, list[float]]]()
    found = linking._found

    def recorded(space: ShiftrySpace, most: float, seed: int) -> list[Assignment]:
        candidates = found(space, most, seed)
        sizes = [space.costs([one])[0]["linked_bytes"] for one in candidates]
        searches.append((tuple(objective.metric for objective in space.objectives), most, sizes))
        return candidates

    monkeypatch.setattr(linking, "_found", recorded)
    monkeypatch.setattr(linking, "linked_flash_bytes", supposed)
    monkeypatch.setattr(linking, "PILOT_TRIALS", 200)
    request = request_from(
        "shiftry", input="protonn-cancer", device="uno", limits=(f"linked={limit}",), options={"narrow": True}
    )
    problem = build_problem(request)
    assert isinstance(problem, ModelProblem)
    assert isinstance(problem.space, ShiftrySpace)
    *fronts, (as_asked, most, _) = searches
    assert as_asked == tuple(objective.metric for objective in problem.space.objectives)
    assert limit <= most <= limit + 20
    assert [share / limit for _, share, _ in fronts] == pytest.approx([1.15, 1.07, 1.0])
    assert all(objectives[0] == "linked_bytes" for objectives, *_ in fronts)
    assert all(sizes and max(sizes) <= share for _, share, sizes in searches)


@needs_avr
@pytest.mark.parametrize("front", [None, "linked"])
def test_code_of_a_smaller_model_is_that_of_the_whole_one_corrected(
    front: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here code takes SMALLER_BY bytes less in smaller models."""
    linked: list[TunedModel] = []

    def supposed_of(problem: TunedModel, candidate: Assignment) -> int:
        linked.append(problem)
        return supposed(problem, candidate) - (SMALLER_BY if problem.space.task.whole is not None else 0)

    monkeypatch.setattr(linking, "linked_flash_bytes", supposed_of)
    monkeypatch.setattr(linking, "PILOT_TRIALS", 30)
    options = {
        "narrow": True,
        "pruned": True,
        "fitted": True,
        "trained": front is None,
        **({} if front is None else {"front": front}),
    }
    request = request_from(
        "shiftry", input="protonn-cancer", device="uno", limits=() if front else ("linked=3000",), options=options
    )
    problem = build_problem(request)
    assert isinstance(problem, ModelProblem)
    space = problem.space
    assert isinstance(space, PrunedSpace)
    assert all(one.space.task.whole is None for one in linked), "smaller models are linked once they are searched"
    option = next(iter(space.models))
    formats = space.of_units(option)
    assert formats.constraints == space.constraints or front
    random = np.random.default_rng(5)
    for _ in range(10):
        decisions = formats.decisions if isinstance(formats, ShiftrySpace) else formats.formats.decisions
        candidate = {UNITS: option} | {d.name: d.options[random.integers(len(d.options))] for d in decisions}
        own = problem.of_candidate(candidate)
        told = supposed_of(dataclasses.replace(own, space=own.space.flat_view()), candidate)  # type: ignore[union-attr]
        assert space.costs([candidate])[0]["linked_bytes"] == pytest.approx(told, abs=15)
    monkeypatch.setattr(linking, "linked_flash_bytes", lambda *_: pytest.fail("what was learnt is kept"))
    again = build_problem(request).space
    assert isinstance(again, PrunedSpace)
    assert again.of_units(option).evaluator.timing == formats.evaluator.timing
    sent = pickle.loads(pickle.dumps(again))
    assert sent.costs([candidate]) == space.costs([candidate])


@needs_avr
@pytest.mark.parametrize(
    "damage", [b"{}", b"null", b'{"base": 1, "wide": {}, "kinds": {"x": "y"}, "error": 0}', b"[1", "text"]
)
def test_what_is_kept_of_another_form_is_learnt_again(
    damage: bytes | str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "linked_flash_bytes", supposed)
    request = request_from("shiftry", input="worked-example", device="uno", options={"narrow": True, "front": "linked"})
    first = build_problem(request).space
    with contextlib.closing(sqlite3.connect(kept)) as connection, connection:
        connection.execute("UPDATE artefacts SET content = ?", [damage])
    assert build_problem(request).space.fingerprint == first.fingerprint


@needs_avr
def test_what_is_linked_is_the_program_that_the_device_runs() -> None:
    problem = build_problem(request_from("shiftry", input="worked-example", device="uno", options={"shape": "compact"}))
    assert isinstance(problem, ModelProblem)
    space = problem.space
    assert isinstance(space, ShiftrySpace)
    trial = Trial(0, {d.name: d.options[0] for d in space.decisions}, Measurement({}), 0.0)
    check = problem.check_on_device(trial)
    assert check is not None
    assert check.measured is not None
    assert problem.linked_bytes(trial) == check.measured.sizes.flash_bytes


def test_each_variable_is_told_from_the_others() -> None:
    """Bytes of code that are a base and so many for each of five variables, one of which takes ten times as many."""
    each = np.array([10.0, 10.0, 100.0, 10.0, 10.0])
    chosen = np.random.default_rng(0).integers(0, 2, (600, 5))
    far = np.zeros(len(chosen), dtype=np.bool_)
    kinds = np.zeros((len(chosen), len(KINDS)), dtype=np.int64)
    linked = LinkedCode(chosen, kinds, (500 + chosen @ each).astype(np.int64), far)
    found = fitted_code_size(list("abcde"), linked)
    assert found.base == pytest.approx(500.0, abs=3.0)
    assert [found.wide[name] for name in "abcde"] == pytest.approx(each, abs=5.0)
    assert (found.kinds, found.error) == ({}, 0.0)


def test_kinds_of_code_are_told_near_the_limit_and_the_error_is_that_of_leaving_one_out() -> None:
    """Near the limit a 32-bit division takes 80 bytes, and programs are noisy; far from it something else holds, which weighs less."""
    random = np.random.default_rng(1)
    wide, kinds = random.integers(0, 2, (40, 4)), random.integers(0, 2, (40, len(KINDS)))
    near = np.arange(40) >= 10
    code = np.where(near, 500, 900) + 80 * kinds[:, KINDS.index("division32")] + random.integers(-9, 10, 40)
    linked = LinkedCode(wide, kinds, code, near)
    found = fitted_code_size(list("abcd"), linked)
    assert max(found.kinds, key=lambda name: found.kinds[name]) == "division32"
    off = []
    for left_out in np.flatnonzero(near):
        rest = np.arange(40) != left_out
        other = fitted_code_size(list("abcd"), LinkedCode(wide[rest], kinds[rest], code[rest], near[rest]))
        told = other.base + wide[left_out] @ list(other.wide.values()) + kinds[left_out] @ list(other.kinds.values())
        off.append(code[left_out] - told)
    assert found.error == pytest.approx(np.sqrt(np.mean(np.square(off))), abs=0.2)


def test_kinds_count_features_that_differ() -> None:
    """Two divisions of 32 bits by one power of two are one kind, a shift by nothing is none."""
    names = ("down.floor.32.4.16", "down.floor.32.4.16", "down.floor.32.5.16", "up.16.3", "down.floor.8.0.8")
    numbers = np.array([[NUMBERS[name] for name in names]])
    told = dict(zip(KINDS, kinds_of(Terms(numbers, np.ones(len(names))))[0].tolist(), strict=True))
    assert {name: count for name, count in told.items() if count} == {"division32": 2, "shift up": 1}


@pytest.mark.parametrize(
    ("space", "device", "options", "said"),
    [
        ("seedot", "uno", {}, "expected the space shiftry"),
        ("shiftry", "uno", {"keep_quantisation": True}, "expected the space shiftry"),
        ("shiftry", None, {}, "expected --device"),
    ],
)
def test_linked_flash_is_limited_where_widths_are_decided_for_a_device(
    space: str, device: str | None, options: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        request_from(space, input="protonn-cancer", device=device, limits=("linked=3000",), options=options)


def test_an_estimate_is_corrected_by_what_similar_programs_are_off() -> None:
    """Other programs take 40 bytes less, 25 more for one of the variables, and have another one."""
    code = CodeSize(500.0, {"a": 10.0, "b": 20.0, "gone": 9.0}, {KINDS[0]: 80.0}, 3.0)
    random = np.random.default_rng(0)
    wide, kinds = random.integers(0, 2, (16, 3)), np.zeros((16, len(KINDS)), dtype=np.int64)
    kinds[:, 0] = random.integers(0, 2, 16)
    taken = 460 + wide @ [35, 20, 10] + 80 * kinds[:, 0]
    near = np.ones(16, dtype=np.bool_)
    found = code.corrected_by(["a", "b", "new"], LinkedCode(wide, kinds, taken, near))
    told = found.base + wide @ [found.wide[name] for name in ("a", "b", "new")] + found.kinds[KINDS[0]] * kinds[:, 0]
    np.testing.assert_allclose(told, taken, atol=12.0)  # ridge: each variable is held back
    assert 0.0 < found.error < 15.0
    none = LinkedCode(wide[:0], kinds[:0], taken[:0], near[:0])
    assert code.corrected_by(["a", "b"], none) == code
