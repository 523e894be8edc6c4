"""The package in a scratch folder, by links, so that a test can put one more module or folder into it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOORS = ("search", "codegen", "evaluators", "spaces", "experiments")


def linked_package(folder: Path, inside: str) -> Path:
    """A folder `kilotune` in `folder` that holds what the package does; `inside` names the folder of it (`search/strategies`)
    that is a real one, which is returned."""
    package = folder / "kilotune"
    package.mkdir(parents=True)
    links = {path.name: path for path in (ROOT / "public").iterdir()}
    links |= {floor: ROOT / floor for floor in FLOORS}
    made = package
    for name in (*inside.split("/"), None):
        for child, path in links.items():
            if child != name:
                (made / child).symlink_to(path)
        if name is not None:
            made = made / name
            made.mkdir()
            links = {path.name: path for path in links[name].iterdir()}
    return made
