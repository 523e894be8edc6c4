"""AUKE Section 4.4: the Viola-Jones face detector, every Haar feature of OpenCV's frontal-face cascade as a SCAMP-5 program.

    python -m kilotune.experiments.papers.auke_viola_jones [--target auke] [--steps 4] [--ratio 1.2] [--stages 25] [--chip]

Three parts: the distinct shapes and their programs, each proved on sums; instructions in total and by stage, each feature
computed by itself as the paper does, and with every distinct shape once; the detector on a photograph at OpenCV's
scales, feature values from programs executed in the array, compared with the integral image stage by stage and with
OpenCV's windows.

The array computes the features. The host shrinks the image, takes the deviation of every window, compares and adds the
votes. Values are exact, without the chip's range; `--chip` repeats the scales on the noisy chip, each program's image
darkened until nothing saturates. `--programs FOLDER` keeps the programs between runs (they are proved again).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import BoolArray
from kilotune.codegen.scamp.instructions import CLOCK_HZ, INSTRUCTION_SETS, POWER_W
from kilotune.evaluators.scamp5.array import ARRAY_SIZE, FULL_SCALE, REAL_CHIP
from kilotune.experiments.faces.array_values import ArrayValues
from kilotune.experiments.faces.cascade import Cascade, frontal_face_file, read_cascade
from kilotune.experiments.faces.opencv import Box, Scale, opencv_boxes, passed_boxes, pyramid
from kilotune.experiments.faces.programs import FeatureProgram, compile_shapes, load_programs, save_programs, total
from kilotune.experiments.faces.shapes import FeatureWeights, placed, symmetries
from kilotune.experiments.faces.windows import Image, passing, reference_values

PAPER_FEATURES, PAPER_SHAPES, PAPER_STAGES = 2913, 1656, 25
Programs = dict[FeatureWeights, FeatureProgram]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="AUKE Section 4.4: Viola-Jones face detection.")
    parser.add_argument("--target", choices=tuple(INSTRUCTION_SETS), action="append", help="default: all")
    parser.add_argument("--steps", type=int, default=4, help="of improvement of each short program")
    parser.add_argument("--ratio", type=float, default=1.2, help="between the scales of the image")
    parser.add_argument("--stages", type=int, default=PAPER_STAGES, help="that the detector runs")
    parser.add_argument("--chip", action="store_true", help="run the noisy chip as well")
    parser.add_argument("--programs", type=Path, help="a folder that keeps the programs")
    given = parser.parse_args()
    try:
        path = frontal_face_file()
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    cascade = read_cascade(path)
    shapes = tuple(dict.fromkeys(placed(feature).shape for feature in cascade.features))
    turned = len({min(turning for turning, _ in symmetries(shape)) for shape in shapes})
    print(f"{'':<44}{'paper':>8}{'here':>8}")
    for title, paper, ours in (
        ("stages", PAPER_STAGES, len(cascade.stages)),
        ("features", PAPER_FEATURES, len(cascade.features)),
        ("distinct shapes, wherever in the window", PAPER_SHAPES, len(shapes)),
        ("distinct shapes, turned and mirrored ones one", "-", turned),
    ):
        print(f"{title:<44}{paper:>8}{ours:>8}")
    programs = {}
    for target in given.target or tuple(INSTRUCTION_SETS):
        programs[target] = _programs(target, shapes, given.steps, given.programs)
        _print_lengths(cascade, target, programs[target])
    image = photograph()
    for target, compiled in programs.items():
        _detect(cascade, path, image, target, compiled, given.ratio, given.stages, given.chip)


def photograph() -> Image:
    """A grey photograph with a face as large as the array: `astronaut` of scikit-image. Raises `ModuleNotFoundError`."""
    import cv2
    from skimage import data

    grey = cv2.cvtColor(data.astronaut(), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (ARRAY_SIZE, ARRAY_SIZE), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _programs(target: str, shapes: Sequence[FeatureWeights], steps: int, folder: Path | None) -> Programs:
    kept = folder / f"{target}.json" if folder else None
    start = time.process_time()
    if kept is not None and kept.exists():
        found = load_programs(kept)
        if all(shape in found for shape in shapes):
            print(f"\n{target}: {len(found)} programs read, proved again in {time.process_time() - start:.1f} CPU-s")
            return found

    def tell(count: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{count} shapes searched", end="\r", file=sys.stderr, flush=True)

    found = compile_shapes(shapes, target, steps, tell=tell)
    print(f"\n{target}: {len(found)} programs compiled and proved in {time.process_time() - start:.1f} CPU-s")
    if kept is not None:
        save_programs(kept, found)
    return found


def _print_lengths(cascade: Cascade, target: str, programs: Programs) -> None:
    print(f"{'stage':>8}{'features':>10}{'instructions':>14}{'bus transfers':>15}{'bound':>8}{'ms':>9}{'mJ':>9}")
    rows = [(str(n), [s.feature for s in stage.stumps]) for n, stage in enumerate(cascade.stages, start=1)]
    rows.append(("all", [stump.feature for stage in cascade.stages for stump in stage.stumps]))
    first = {placed(feature).shape: number for number, feature in enumerate(cascade.features)}
    rows.append(("shapes", list(first.values())))
    for title, features in rows:
        sum_ = total(cascade, features, programs)
        seconds = sum_.bus_transfers / CLOCK_HZ
        print(
            f"{title:>8}{sum_.features:>10}{sum_.instructions:>14}{sum_.bus_transfers:>15}{sum_.bound:>8}"
            f"{1e3 * seconds:>9.3f}{1e3 * seconds * POWER_W:>9.4f}"
        )
    proved = sum(entry.program.instructions == entry.bound for entry in programs.values())
    print(f"{target}: {proved} of {len(programs)} programs meet the lower bound: no program is shorter")


def _detect(
    cascade: Cascade, path: Path, image: Image, target: str, programs: Programs, ratio: float, stages: int, chip: bool
) -> None:
    print(f"\n{target}: the detector at OpenCV's scales; windows that stand, array = integral image")
    print(
        f"{'factor':>7}{'image':>10}{'stages':>8}{'windows':>9}{'start':>8}{'after 1':>9}{'after 5':>9}{'last':>6}  agreement"
    )
    found: set[Box] = set()
    largest, wrong = 0.0, 0
    start = time.process_time()
    for scale in pyramid(image, cascade, ratio):
        values = ArrayValues(cascade, scale.image, programs)
        stands = list(passing(cascade, scale.image, values, stages))
        reference = list(passing(cascade, scale.image, reference_values(cascade, scale.image), stages))
        apart = _different(stands, reference)
        different, unexplained = int(apart.sum()), int((apart & ~values.blind).sum())
        wrong += unexplained
        largest = max(largest, values.largest)
        found |= passed_boxes(scale, stands, cascade)
        counts = [int(mask.sum()) for mask in stands]
        size = f"{scale.image.shape[1]}x{scale.image.shape[0]}"
        print(
            f"{scale.factor:>7.3f}{size:>10}{len(stands) - 1:>8}{stands[0].size:>9}{counts[0]:>8}{counts[1]:>9}"
            f"{counts[min(5, len(counts) - 1)]:>9}{counts[-1]:>6}  "
            f"{'all masks equal' if not different else f'{different} windows differ'}"
            f"{f', {unexplained} of them not among the {int(values.blind.sum())} at the edge' if values.blind.any() else ''}",
            flush=True,
        )
        if chip:
            _print_chip(cascade, scale, programs, stands, stages)
    print(f"windows that differ in any stage, away from the edge: {wrong}; {time.process_time() - start:.1f} CPU-s")
    print(f"largest value in a register: {largest:.0f} grey levels; the chip holds {FULL_SCALE:g}")
    if stages >= len(cascade.stages):
        theirs = opencv_boxes(path, image, ratio)
        print(
            f"windows reported (OpenCV's steps): here {len(found)}, OpenCV {len(theirs)}, in both {len(found & theirs)};"
            f" OpenCV's groups of three: {sorted(opencv_boxes(path, image, ratio, 3))}"
        )


def _different(stands: Sequence[BoolArray], reference: Sequence[BoolArray]) -> BoolArray:
    """Windows on which two runs disagree after any stage; a run that ended early has none left."""
    none = np.zeros(stands[0].shape, dtype=np.bool_)
    pairs = zip_longest(stands, reference, fillvalue=none)
    return np.asarray(np.any([a != b for a, b in pairs], axis=0), dtype=np.bool_)


def _print_chip(cascade: Cascade, scale: Scale, programs: Programs, exact: Sequence[BoolArray], stages: int) -> None:
    values = ArrayValues(cascade, scale.image, programs, REAL_CHIP)
    noisy = list(passing(cascade, scale.image, values, stages))
    for number in (1, 5, 10, 25):
        if number < min(len(exact), len(noisy)):
            both = int((exact[number] & noisy[number]).sum())
            print(
                f"{'':>15} noisy chip after stage {number}: {int(noisy[number].sum())} stand, {both} of the exact"
                f" {int(exact[number].sum())}; {np.mean(exact[number] == noisy[number]):.1%} of all windows alike"
            )


if __name__ == "__main__":
    main()
