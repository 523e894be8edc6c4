"""Findings as files: JSON with the input, the seed that led to it, and what was wrong."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import MutationRecipe
from kilotune.experiments.fuzz.verdict import Finding


def save_finding(folder: Path, case: FuzzCase, recipe: MutationRecipe, finding: Finding) -> Path:
    """Write a finding under a name of its own; the same one again is the same file. Its path."""
    content = {
        **case.as_json(),
        "finding": {"fault": finding.fault, "detail": finding.detail, "place": finding.place},
        "recipe": asdict(recipe),
    }
    digest = hashlib.sha256(finding.signature.encode(errors="replace")).hexdigest()[:8]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.kind}-{finding.fault.replace(' ', '-').replace(chr(39), '')}-{digest}.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def load_case(path: Path) -> FuzzCase:
    """The case of a stored finding. InputError for a file that holds none."""
    try:
        return FuzzCase.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise InputError(str(path), expected="a finding of the fuzzer", found=found) from None
