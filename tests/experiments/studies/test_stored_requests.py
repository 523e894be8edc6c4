"""What a database says was asked is checked: a damaged request or plan is one sentence, whatever is wrong with it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.requests.request import TuneRequest

REQUEST = TuneRequest("reverse-split", "roberts", "greedy").as_json()
PLAN = json.loads(
    json.dumps(ComparisonPlan((Case("one", "reverse-split", "roberts", ("greedy",)),), 2, "5s").as_json())
)


@pytest.mark.parametrize("key", ["space", "input", "strategy", "seed", "options"])
@pytest.mark.parametrize("value", [None, 1.5, True, [], [[1]], {"a": 1}, "x"])
def test_a_request_is_checked_field_by_field(key: str, value: Any) -> None:
    kinds = {"seed": int, "options": dict}
    fits = type(value) is kinds.get(key, str)
    if fits:
        assert getattr(TuneRequest.from_json({**REQUEST, key: value}), key) == value
    else:
        with pytest.raises(ValueError, match=rf"the stored request is damaged: expected \w+.* as '{key}', found "):
            TuneRequest.from_json({**REQUEST, key: value})


def test_keys_of_other_versions_are_left_out_and_missing_ones_named() -> None:
    assert TuneRequest.from_json({**REQUEST, "colour": "red"}) == TuneRequest("reverse-split", "roberts", "greedy")
    with pytest.raises(ValueError, match="expected 'input' in it, found none"):
        TuneRequest.from_json({key: value for key, value in REQUEST.items() if key != "input"})
    with pytest.raises(ValueError, match="expected a seed from 0, found -1"):
        TuneRequest.from_json({**REQUEST, "seed": -1})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cases": 7}, "expected a list of cases, found 7"),
        ({"cases": []}, "expected a list of cases"),
        ({"cases": [3]}, "expected a list of cases"),
        ({"cases": [{}]}, "the stored case is damaged: expected 'title' in it, found none"),
        ({"cases": [{**PLAN["cases"][0], "strategies": "greedy"}]}, "as 'strategies', found 'greedy'"),
        ({"cases": [{**PLAN["cases"][0], "options": [1]}]}, "as 'options', found"),
        ({"repeats": "2"}, "expected int as 'repeats', found '2'"),
        ({"repeats": 0}, "expected 1 or more repeats, found 0"),
        ({"seed": None}, "expected int as 'seed', found null"),
    ],
)
def test_a_plan_is_checked(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is what is tested
        ComparisonPlan.from_json({**PLAN, **change})
    assert said in str(error.value)
    assert ComparisonPlan.from_json(PLAN).as_json() == json.loads(json.dumps(PLAN)) | {
        "cases": tuple(dataclasses.asdict(case) for case in ComparisonPlan.from_json(PLAN).cases)
    }


@pytest.mark.parametrize(
    ("space", "options"),
    [
        ("reverse-split", {"depth": "4"}),
        ("reverse-split", {"registers": [6]}),
        ("reverse-split", {"registers": 99}),
        ("reverse-split", {"target": {}}),
        ("reverse-split", {"target": "amiga"}),
        ("memory", {"banks": "fast"}),
        ("memory", {"capacity_bytes": "2KiB"}),
        ("shiftry", {"accuracy_drop": None}),
        ("shiftry", {"device": 5}),
        ("shiftry", {"device": {"name": "x"}}),
        ("shiftry", {"rounding": "up and away"}),
        ("cm", {"hardware": 1}),
        ("cm", {"image_shape": ["a"]}),
    ],
)
def test_options_of_every_family_are_checked(space: str, options: dict[str, Any]) -> None:
    from kilotune.experiments.studies.request_parsing import request_from

    asked = request_from(space)
    with pytest.raises(ValueError):  # noqa: PT011 - a ValueError is what the command turns into a sentence
        build_problem(dataclasses.replace(asked, options={**asked.options, **options}))
