"""The JSON Schema of the result file."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def result_schema() -> dict[str, Any]:
    """What `tune --json` promises, as a JSON Schema (draft 2020-12). Its version is the `schema` key of every result."""
    text = (resources.files("kilotune.experiments.studies") / "result.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
