"""Face detectors of RNNPool's shape (Saha et al., NeurIPS 2020: RNNPool-Face-M4 and smaller) with random weights, as bundles.

A monochrome image of 240 x 320 goes through a convolution; at 29 x 39 places a patch of 8 x 8 is summarised by FastGRNNs that read its
rows and columns, and what they leave in both directions; bottleneck layers (MobileNetV2's) and heads for scores and boxes follow.
Per inference that is 1.9 million operations of recurrences, in two loops around seven.

    python -m kilotune.experiments.benchmarks.face_detectors           # CPU seconds and memory until the first candidate is measured
    python -m kilotune.experiments.benchmarks.face_detectors write FOLDER
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen.bundle import load_bundle
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.spaces.shiftry.space import ShiftrySpace

PATCHES = (29, 39)
STATES = 16
GRID = (30, 40)
SAMPLES = 4
MODULE = "kilotune.experiments.benchmarks.face_detectors"


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck layer: from so many channels through `wide` ones to `out`; `stride` of its window; whether the input is added."""

    given: int
    wide: int
    out: int
    stride: int = 1
    added: bool = False


@dataclass(frozen=True)
class Detector:
    """`blocks`, and behind which of them a head reads; of the head behind the first the scores come as four."""

    blocks: tuple[Bottleneck, ...]
    heads: tuple[int, ...]


DETECTORS = {
    "large": Detector(
        (
            Bottleneck(64, 128, 32),
            *(Bottleneck(32, 64, 32, added=True),) * 7,
            Bottleneck(32, 64, 96, stride=2),
            *(Bottleneck(96, 192, 96, added=True),) * 2,
            Bottleneck(96, 192, 128),
            *(Bottleneck(128, 256, 128, added=True),) * 2,
        ),
        (3, 7, 10, 13),
    ),
    "small": Detector(
        (
            Bottleneck(64, 128, 32),
            Bottleneck(32, 64, 32, added=True),
            Bottleneck(32, 64, 64, stride=2),
            Bottleneck(64, 128, 64, added=True),
        ),
        (0, 1, 2, 3),
    ),
}


class _Writer:
    """The text of a program, and the shapes of its parameters."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def parameter(self, name: str, *shape: int) -> str:
        self.shapes[name] = shape
        self.lines.append(f"let {name} = ({', '.join(map(str, shape))}) in [-1.0, 1.0] in")
        return name

    def let(self, name: str, expression: str) -> str:
        self.lines.append(f"let {name} = {expression} in")
        return name


def _cell(state: str, given: str, number: int, tag: str) -> str:
    """A step of FastGRNN that rebinds `state`."""
    return f"""
        let pre{tag} = (W{number} * {given}) + (U{number} * {state}) in
        let gate{tag} = sigmoid(pre{tag} + Bg{number}) in
        let new{tag} = tanh(pre{tag} + Bh{number}) in
        let {state} = (gate{tag} <*> {state}) + (1.0 - gate{tag}) <*> new{tag} in
        {state}"""


def _lines_of_a_patch(name: str, tag: str, place: str) -> str:
    """States of the first cell after each row (or column) of the patch."""
    return f"""
    let {name} = init([{STATES}, 8], 0.0) in
    let {name}Done = loop(line{tag} = [0:8], {name}) (
      let h{tag} = init([{STATES}, 1], 0.0) in
      let {name}[0:+{STATES}][line{tag}:+1] = loop(at{tag} = [0:8], h{tag}) (
        let pixel{tag} = reshape(patch{place}[0:+4], (4, 1), (1, 2, 3)) in{_cell(f"h{tag}", f"pixel{tag}", 1, tag)}
      ) in
      {name}
    ) in"""


def _pooling() -> str:
    """`pooled`: the recurrences' states of every patch of `features`."""
    directions = "".join(
        f"""
    let ways[{number}:+1][0:+{STATES}][0:+8] = reshape({source}, (1, {STATES}, 8), (1, 2)) in"""
        for number, source in enumerate(("rows", "reverse(rows, 1)", "columns", "reverse(columns, 1)"))
    )
    return f"""let pooled = init([1, {GRID[0]}, {GRID[1]}, {4 * STATES}], 0.0) in
let ended = init([1, 1], 0.0) in
let endedRow = init([1, 1], 0.0) in
let allRows = loop(top = [0:{PATCHES[0]}], ended) (
  let wholeRow = loop(left = [0:{PATCHES[1]}], endedRow) (
    let patch = reshape(features[0:+1][4*top:+8][4*left:+8][0:+4], (8, 8, 4), (1, 2, 3, 4)) in{
        _lines_of_a_patch("rows", "R", "[lineR:+1][atR:+1]")
    }{_lines_of_a_patch("columns", "C", "[atC:+1][lineC:+1]")}
    let ways = init([4, {STATES}, 8], 0.0) in{directions}
    let summary = init([{STATES}, 4], 0.0) in
    let summaryDone = loop(way = [0:4], summary) (
      let states = ways[way] in
      let hS = init([{STATES}, 1], 0.0) in
      let summary[0:+{STATES}][way:+1] = loop(atS = [0:8], hS) (
        let state = states[0:+{STATES}][atS:+1] in{_cell("hS", "state", 2, "S")}
      ) in
      summary
    ) in
    let pooled[0:+1][top:+1][left:+1][0:+{4 * STATES}] = reshape(summary, (1, 1, 1, {4 * STATES}), (2, 1)) in
    let endedRow[0:+1][0:+1] = summaryDone[0:+1][0:+1] in
    endedRow
  ) in
  let ended[0:+1][0:+1] = wholeRow[0:+1][0:+1] in
  ended
) in
let pooled[0:+1][{PATCHES[0]}:+1][0:+{PATCHES[1]}][0:+64] = pooled[0:+1][{PATCHES[0] - 1}:+1][0:+{PATCHES[1]}][0:+64] in
let pooled[0:+1][0:+{GRID[0]}][{PATCHES[1]}:+1][0:+64] = pooled[0:+1][0:+{GRID[0]}][{PATCHES[1] - 1}:+1][0:+64] in"""


def _block(writer: _Writer, number: int, given: str, block: Bottleneck) -> str:
    stages = []
    wanted = ((1, 1, 1, block.given, block.wide), (block.wide, 3, 3, 1, 1), (1, 1, 1, block.wide, block.out))
    for stage, shape in enumerate(wanted):
        channels = block.out if stage == 2 else block.wide
        filters = writer.parameter(f"B{number}F{stage}", *shape)
        scale = writer.parameter(f"B{number}S{stage}", channels)
        stages.append(f"[{filters}, {scale}, {writer.parameter(f'B{number}C{stage}', channels)}]")
    layer = f"mbconv({given}, {', '.join(stages)}, {{s {block.stride} {block.stride}}}, {{p 1 1 1 1}})"
    return writer.let(f"M{number}", f"{given} + {layer}" if block.added else layer)


def _head(writer: _Writer, number: int, given: str, channels: int) -> tuple[str, str]:
    """Scores and boxes."""
    same = "{s 1 1}, {p 1 1 1 1}, {d 1 1}, {g 1}"
    scale = writer.parameter(f"N{number}", channels, 1, 1, 1, 1)
    normal = writer.let(
        f"normal{number}",
        f"conv2d(normaliseL2({given}), {scale}, {{s 1 1}}, {{p 0 0 0 0}}, {{d 1 1}}, {{g {channels}}})",
    )
    made = []
    for what, outputs in (("scores", 4 if number == 0 else 2), ("boxes", 4)):
        filters, bias = (
            writer.parameter(f"{what}W{number}", 1, 3, 3, channels, outputs),
            writer.parameter(f"{what}C{number}", outputs),
        )
        made.append(writer.let(f"{what}{number}", f"conv2d({normal}, {filters}, {same}) <+> {bias}"))
    if number == 0:
        made[0] = _background(writer, made[0])
    return made[0], made[1]


def _background(writer: _Writer, scores: str) -> str:
    """What picks the largest of three scores for the background, beside the one for a face; the name of the result."""
    place = "[0:+1][u:+1][v:+1]"
    writer.lines.append(f"""let largest = init([1, {GRID[0]}, {GRID[1]}, 2], 0.0) in
let seen = init([1, 1], 0.0) in
let seenRow = init([1, 1], 0.0) in
let allSeen = loop(u = [0:{GRID[0]}], seen) (
  let rowSeen = loop(v = [0:{GRID[1]}], seenRow) (
    let which = argmax(reshape({scores}{place}[0:+3], (3, 1), (1, 2, 3, 4))) in
    let largest{place}[0:+1] = {scores}{place}[which:+1] in
    let largest{place}[1:+1] = {scores}{place}[3:+1] in
    let seenRow[0:+1][0:+1] = reshape({scores}{place}[0:+1], (1, 1), (1, 2, 3, 4)) in
    seenRow
  ) in
  let seen[0:+1][0:+1] = rowSeen[0:+1][0:+1] in
  seen
) in""")
    return "largest"


def source(detector: Detector) -> tuple[str, dict[str, tuple[int, ...]]]:
    """model.sd, and the shapes of its parameters."""
    writer = _Writer()
    writer.lines.append("let X = (76800, 1) in [-1.0, 1.0] in")
    for name, shape in (("F", (1, 3, 3, 1, 4)), ("FC", (4,)), ("FS", (4, 1, 1, 1, 1))):
        writer.parameter(name, *shape)
    for number, inputs in ((1, 4), (2, STATES)):
        for name, columns in (("W", inputs), ("U", STATES), ("Bg", 1), ("Bh", 1)):
            writer.parameter(f"{name}{number}", STATES, columns)
    writer.let("image", "reshape(X, (1, 240, 320, 1), (1, 2))")
    writer.let("first", "conv2d(image, F, {s 2 2}, {p 1 1 1 1}, {d 1 1}, {g 1})")
    writer.let("features", "relu6(conv2d(first <+> FC, FS, {s 1 1}, {p 0 0 0 0}, {d 1 1}, {g 4}))")
    writer.lines.append(_pooling())
    given, size = "pooled", GRID[0] * GRID[1]
    heads: list[tuple[str, str]] = []
    sizes: list[int] = []
    for number, block in enumerate(detector.blocks):
        given = _block(writer, number, given, block)
        size //= block.stride**2
        if number in detector.heads:
            place = len(heads)
            heads.append(_head(writer, place, given, block.out))
            sizes.append(size)
    parts = [(score, 2 * n) for (score, _), n in zip(heads, sizes, strict=True)]
    parts += [(box, 4 * n) for (_, box), n in zip(heads, sizes, strict=True)]
    writer.let("answer", f"init([1, {sum(n for _, n in parts)}], 0.0)")
    start = 0
    for part, n in parts:
        writer.let(f"answer[0:+1][{start}:+{n}]", f"reshape({part}, (1, {n}), (1, 2, 3, 4))")
        start += n
    return "\n".join([*writer.lines, "answer", ""]), writer.shapes


def write_bundle(folder: Path, name: str, seed: int = 0, samples: int = SAMPLES) -> Path:
    """A bundle of the detector of that name in `folder`, with random images."""
    text, shapes = source(DETECTORS[name])
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.sd").write_text(text)
    for parameter, shape in shapes.items():
        fan_in = shape[-2] * int(np.prod(shape[1:-2])) if len(shape) == 5 else shape[-1]
        np.save(folder / f"{parameter}.npy", rng.uniform(-1, 1, shape) / np.sqrt(max(fan_in, 1)))
    rows = rng.uniform(-1, 1, (samples, 1 + 240 * 320))
    np.save(folder / "train.npy", rows)
    return folder


def measure(name: str) -> None:
    """Prints what it takes until the first candidate of shiftry is measured, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_bundle(Path(folder) / name, name)
        began = time.process_time()
        bundle = load_bundle(path)
        space = ShiftrySpace(task_of(bundle, bundle.train))
        prepared = time.process_time()
        (found,) = space.evaluate([{decision.name: decision.options[0] for decision in space.decisions}])
        ended = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {prepared - began:.1f} CPU-s to prepare, {ended - prepared:.1f} for the first candidate (error"
        f" {found.metrics['expected_error']:.3g}); peak {peak:.0f} MB",
        flush=True,
    )


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="measure", choices=("measure", "write"))
    parser.add_argument("target", nargs="?", default="", help="measure: one of the detectors; write: a folder")
    options = parser.parse_args()
    if options.what == "write":
        for name in DETECTORS:
            print(write_bundle(Path(options.target) / name, name))
        return
    if options.target:
        measure(options.target)
        return
    for name in DETECTORS:  # a process each has its own peak; the tune command, too, has BLAS use one thread
        alone = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
        subprocess.run([sys.executable, "-m", MODULE, "measure", name], env=alone, check=True)


if __name__ == "__main__":
    main()
