"""Which folders are installed: the public face, and the floors without what only developers run."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
FLOORS = ("search", "codegen", "evaluators", "spaces", "experiments")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DEVELOPERS = [f"experiments.{folder.replace('/', '.')}" for folder in PROJECT["tool"]["kilotune"]["developers"]]

face = find_packages(str(ROOT / "public"))
floors = find_packages(
    str(ROOT),
    include=[*FLOORS, *(f"{floor}.*" for floor in FLOORS)],
    exclude=[*DEVELOPERS, *(f"{package}.*" for package in DEVELOPERS)],
)
setup(packages=["kilotune", *(f"kilotune.{package}" for package in (*face, *floors))])
