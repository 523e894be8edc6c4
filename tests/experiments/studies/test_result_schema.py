"""Every result keeps its JSON Schema: of all spaces, feasible or not, failed, interrupted, on a device; and the schema is no
blank cheque."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kilotune.experiments.cli import main
from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.experiments.notebook.tuning import tune
from kilotune.experiments.report.report_data import ReportData
from kilotune.experiments.report.result_section import result_section
from kilotune.experiments.studies.outcome_file import RESULT_SCHEMA, as_json
from kilotune.experiments.studies.result_schema import result_schema
from kilotune.search.result import Progress, Status
from kilotune.testing.toy_spaces import ToyTable

CASES: dict[str, str] = {
    "seedot": "--space seedot --input protonn-cancer --budget 8trials",
    "seedot infeasible": "--space seedot --input protonn-cancer --limit flash=1 --budget 8trials",
    "shiftry": "--space shiftry --input worked-example --budget 20trials",
    "shiftry with validation": "--space shiftry --input protonn-cancer --validation 0.2 --budget 8trials",
    "shiftry on a device": "--space shiftry --input worked-example --device uno --objective latency --budget 8trials",
    "memory": "--space memory --budget 10trials",
    "memory that fits": "--space memory --capacity 2KiB --budget 10trials",
    "reverse-split": "--space reverse-split --input sobel --budget 2trials",
    "cm": "--space cm --input lenet5 --budget 1trials",
    "nothing measured": "--space shiftry --input worked-example --budget 0.001s",
}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def written(result: Any) -> Any:
    """As a reader of the file has it."""
    return json.loads(json.dumps(result, allow_nan=False))


@pytest.mark.parametrize("name", CASES)
def test_results_of_commands_keep_it(
    name: str, validator: jsonschema.Draft202012Validator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [*CASES[name].split(), "--storage", "s.db", "--quiet", "--no-cache", "--no-output", "--json", "result.json"]
    with pytest.raises(SystemExit) as status:
        main(given)
    assert status.value.code in (0, 1)
    result = json.loads((tmp_path / "result.json").read_text())
    validator.validate(result)
    assert result["schema"] == RESULT_SCHEMA
    if name.endswith("infeasible"):
        assert not result["best"]["feasible"]
        assert result["front"] == []
    if name.endswith("device"):
        assert "on_device" in result["best"]
    if name.endswith("fits"):
        assert result["capacity"]["answer"] == "fits"


def searched(space: ToyTable, watch: Callable[[Progress], bool | None] | None = None, **given: Any) -> TunedStudy:
    return tune(space, strategy="random", progress=watch or False, **given)


def test_failures_infinities_and_an_interrupted_search_keep_it(validator: jsonschema.Draft202012Validator) -> None:
    failing = searched(ToyTable("failing", (3, 3), fails=1), budget="9trials")
    result = written(as_json(failing.outcome(), {}))
    validator.validate(result)
    assert result["best"] is None or result["best"]["metrics"] == {}
    assert result["evaluations"] == 9
    stopped = searched(ToyTable("stopped", (9,) * 30), watch=lambda progress: True, budget="60s")
    assert stopped.status is Status.INTERRUPTED
    validator.validate(written(as_json(stopped.outcome(), {})))


def test_why_another_one_than_the_searchs_best_was_chosen_is_said(validator: jsonschema.Draft202012Validator) -> None:
    """In the result file and in the report, as on the terminal."""
    study = searched(ToyTable("toy", (3, 3)), budget="9trials")
    outcome = dataclasses.replace(study.outcome(), said_of_finalists="Trial 2 is kept, since it is.")
    result = written(as_json(outcome, {}))
    validator.validate(result)
    assert result["chosen_after_search"] == "Trial 2 is kept, since it is."
    assert "chosen_after_search" not in written(as_json(study.outcome(), {}))
    section = result_section(ReportData(study.problem, study.search, study._row, study.trials, outcome))
    assert "Trial 2 is kept, since it is." in str(section)


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as status:
        main(["schema"])
    assert status.value.code == 0
    assert json.loads(capsys.readouterr().out) == result_schema()


def test_its_version_is_that_of_the_results() -> None:
    assert result_schema()["properties"]["schema"]["const"] == RESULT_SCHEMA
    assert result_schema()["$id"].endswith(f":{RESULT_SCHEMA}")


def changed(result: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    other = copy.deepcopy(result)
    place: Any = other
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return other


def test_what_breaks_it_is_refused(validator: jsonschema.Draft202012Validator) -> None:
    whole = written(as_json(searched(ToyTable("toy", (3, 3)), budget="9trials").outcome(), {}))
    validator.validate(whole)
    assert set(result_schema()["required"]) <= set(whole)
    broken = [
        *({key: value for key, value in whole.items() if key != gone} for gone in whole if gone != "capacity"),
        changed(whole, "schema", to=2),
        changed(whole, "best", "metrics", "loss", to="low"),
        changed(whole, "best", "assignment", "d0", to=[1]),
        changed(whole, "best", "more", to=1),
        changed(whole, "front", 0, "metrics", to=None),
        changed(whole, "objectives", to=[]),
        changed(whole, "objectives", 0, "direction", to="down"),
        changed(whole, "status", to="done"),
        changed(whole, "bound", to="1"),
    ]
    for result in broken:
        assert not validator.is_valid(result), result
