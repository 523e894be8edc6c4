"""What is installed: the public face and the five floors without benchmarks and the like, which run where there is neither the source
tree nor a C compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "public": "kilotune",
    **{f: f"kilotune/{f}" for f in ("search", "codegen", "evaluators", "spaces", "experiments")},
}
"""Where each folder of the source tree is installed."""

SPACES = {
    "seedot": "--input protonn-cancer --budget 20trials",
    "shiftry": "--input protonn-cancer --budget 20trials",
    "memory": "--budget 20trials",
    "reverse-split": "--input sobel --budget 2trials",
    "cm": "--input lenet5 --budget 1trials",
}
"""Trials, since a busy machine without a compiler makes few a second."""

RUNS = """
import sys
sys.path.insert(0, sys.argv[1])
from kilotune.experiments.cli import main
for line in sys.stdin.read().splitlines():
    try:
        main(line.split())
    except SystemExit as status:
        assert status.code == 0, (line, status.code)
strays = {name: m.__file__ for name, m in sys.modules.items() if name.startswith("kilotune.") and m.__file__}
strays = {name: file for name, file in strays.items() if not file.startswith(sys.argv[1])}
assert not strays, strays
"""
"""Every command line of stdin, with the package in the folder that is the argument. Not in processes of their own: most of
the time would go into imports."""

pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of what git has, so that no left-over of the working tree is in it."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "pyproject.toml", "setup.py", "README.md", "LICENSE", *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            copy = folder / "source" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), "./source"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_but_what_only_developers_run_and_nothing_else(wheel: Path) -> None:
    source = wheel.parent / "source"
    developers = [
        source / "experiments" / folder for folder in ("benchmarks", "faces", "fuzz", "models/train", "papers", "soak")
    ]
    assert all(folder.is_dir() for folder in developers)
    expected = {
        f"{place}/{path.relative_to(source / folder)}"
        for folder, place in FOLDERS.items()
        for path in (source / folder).rglob("*")
        if path.is_file() and not any(path.is_relative_to(developed) for developed in developers)
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_all_spaces_run_report_and_export_without_the_source_tree_and_without_a_compiler(
    wheel: Path, tmp_path: Path
) -> None:
    installed, nothing = tmp_path / "installed", tmp_path / "bin"
    nothing.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    lines = []
    for space, given in SPACES.items():
        lines += [
            f"--space {space} {given} --study {space} --quiet --output {space} --json {space}.json",
            f"report {space} --output {space}.html",
            f"export {space} --output exported-{space}",
        ]
    kept = {
        k: v for k, v in os.environ.items() if k not in ("CC", "PYTHONPATH") and not k.startswith(("XDG_", "KILOTUNE_"))
    }
    done = subprocess.run(
        [sys.executable, "-c", RUNS, str(installed)],
        input="\n".join(lines),
        cwd=tmp_path,
        env={**kept, "PATH": str(nothing), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for space in SPACES:
        result = json.loads((tmp_path / f"{space}.json").read_text())
        assert result["best"]["feasible"], space
        assert "plotly" in (tmp_path / f"{space}.html").read_text(), space
        assert list((tmp_path / f"exported-{space}").iterdir()), space
    assert not list(tmp_path.rglob("*.so")), "something found a compiler"
