"""A folder and a store for each test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    return {"cwd": tmp_path, "env": {**os.environ, "KILOTUNE_STORAGE": str(tmp_path / "studies.db")}}
