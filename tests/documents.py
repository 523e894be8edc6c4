"""Code of the pages in docs/: it is run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no block of {language}"
    return found


def printed_by(script: Path, folder: Path) -> str:
    """What a Python file prints that is run in a folder, as a user without studies runs it. AssertionError where it fails."""
    variables = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    variables.pop("KILOTUNE_STORAGE", None)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
