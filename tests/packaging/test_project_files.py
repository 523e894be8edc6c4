"""The files around the project say the same as it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_names_the_version_and_the_licence() -> None:
    cited = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert cited["version"] == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]
    assert cited["cff-version"] == "1.2.0"


def test_the_changelog_begins_with_what_is_unreleased_and_has_this_version() -> None:
    versions = re.findall(r"^## \[?([\w.]+)\]?", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert PROJECT["version"] in versions


def test_all_that_the_five_spaces_need_is_plainly_required() -> None:
    required = {re.split(r"[><=\[]", line)[0] for line in PROJECT["dependencies"]}
    assert {"islpy", "onnx", "z3-solver", "ortools", "optuna", "numpy", "ray"} <= required


def test_links_of_contributing_lead_somewhere() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", text, re.M)}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        place, _, anchor = target.partition("#")
        assert (ROOT / place).exists() if place else anchor in headings, target


def test_hooks_fetch_nothing() -> None:
    repositories = re.findall(r"repo: (\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert repositories == ["local"]
