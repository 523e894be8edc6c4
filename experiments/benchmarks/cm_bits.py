"""What bits buy on computational memory: `--joint bits` beside 8 bits and beside `--drop` alone, at the same permitted losses.

    python -m kilotune.experiments.benchmarks.cm_bits NETWORK.onnx IMAGES.npz [--seconds S] [--calibration N] [--hardware NAME]
        [--drops 0 0.5 1 2] [--seed N]

A row a search: what may be lost, of a hundred calibration images; how many of these have another class; what is right of the images that
no search has seen; ticks, energy and cores of the best mapping; and elements in which the exported runner and onnxruntime differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COLUMNS = ("search", "lost points permitted", "another class", "right, unseen", "ticks", "nJ", "cores", "runner")


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--calibration", type=int, default=200)
    parser.add_argument("--hardware", default="mesh-8x8-sliced")
    parser.add_argument("--drops", type=float, nargs="*", default=[0.0, 0.5, 1.0, 2.0])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print(" | ".join(COLUMNS), flush=True)
    print(" | ".join(row(options, "8 bits", [])), flush=True)
    for drop in options.drops:
        print(" | ".join(row(options, "--drop", ["--drop", f"{drop:g}"])), flush=True)
        print(" | ".join(row(options, "--joint bits", ["--drop", f"{drop:g}", "--joint", "bits"])), flush=True)
    return 0


def row(options: argparse.Namespace, name: str, further: list[str]) -> list[str]:
    """One search, in a process of its own as a user has it."""
    with tempfile.TemporaryDirectory() as folder:
        out, told = Path(folder) / "out", Path(folder) / "result.json"
        asked = ["--space", "cm", "--input", str(options.network), "--data", str(options.images)]
        asked += [
            "--calibration",
            str(options.calibration),
            "--hardware",
            options.hardware,
            "--seed",
            str(options.seed),
        ]
        asked += ["--budget", f"{options.seconds:g}s", "--storage", str(Path(folder) / "s.db"), "--json", str(told)]
        asked += ["--no-cache", "--output", str(out), "--quiet"]  # no row knows what one before has worked out
        command = [sys.executable, "-m", "kilotune.experiments", *asked, *further]
        ended = subprocess.run(command, capture_output=True, text=True)
        permitted = further[1] if further else "-"
        if ended.returncode:
            return [name, permitted, ended.stderr.strip() or f"exit status {ended.returncode}"]
        return [name, permitted, *_figures(json.loads(told.read_text())), _executed(out)]


def _figures(result: dict[str, Any]) -> list[str]:
    best = result["best"]
    metrics, details = best["metrics"], best.get("details", {})
    found = details.get("approximation") or result["approximation"]
    changed = metrics.get("changed_images", found.get("widths", {}).get("changed", 0))
    right = 100 * found.get("accuracy", found["agreement"])
    shown = (f"{changed:g}", f"{right:.2f} %", f"{metrics['ticks_per_image']:g}")
    energy = f"{metrics['energy_nj']:.4g}" if "energy_nj" in metrics else "-"
    return [*shown, energy, f"{metrics['cores']:g}"]


def _executed(folder: Path) -> str:
    ended = subprocess.run([sys.executable, str(folder / "runner.py"), "--onnxruntime"], capture_output=True, text=True)
    return ended.stdout.strip() or "not executed"


if __name__ == "__main__":
    sys.exit(main())
