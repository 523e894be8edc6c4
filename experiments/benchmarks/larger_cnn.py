"""A convolutional network of 2.2 million multiply-accumulates with many samples: what a search of seconds takes in time and memory.

Images of 32 x 32 in three colours go through three convolutions of 3 x 3 (16, 32 and 32 channels), each with a pool, and a matrix to ten
scores. Weights and images are random; the labels are the network's own.

    python -m kilotune.experiments.benchmarks.larger_cnn                       # 1000 samples, --budget 5s
    python -m kilotune.experiments.benchmarks.larger_cnn --samples 200 --seconds 45
    python -m kilotune.experiments.benchmarks.larger_cnn --write FOLDER        # the bundle, for the tune command
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.float_evaluator import run_float
from kilotune.experiments.notebook.tuning import tune

SIDE, COLOURS, CLASSES = 32, 3, 10
CHANNELS = (16, 32, 32)
MULTIPLY_ACCUMULATES = sum(
    (SIDE >> layer) ** 2 * 9 * given * made
    for layer, (given, made) in enumerate(zip((COLOURS, *CHANNELS), CHANNELS, strict=False))
)


def source() -> tuple[str, dict[str, tuple[int, ...]]]:
    """model.sd, and the shapes of its parameters."""
    shapes: dict[str, tuple[int, ...]] = {}
    layers, given, size, image = [], COLOURS, SIDE, "image"
    for number, channels in enumerate(CHANNELS, 1):
        shapes |= {f"F{number}": (1, 3, 3, given, channels), f"B{number}": (channels,)}
        same = "{s 1 1}, {p 1 1 1 1}, {d 1 1}, {g 1}"
        layers.append(f"let seen{number} = relu(conv2d({image}, F{number}, {same}) <+> B{number}) in")
        layers.append(f"let pool{number} = maxpool(seen{number}, {{k 2 2}}, {{p 0 0 0 0}}, {{s 2 2}}) in")
        given, size, image = channels, size // 2, f"pool{number}"
    flat = size * size * given
    shapes |= {"W": (flat, CLASSES), "Bias": (1, CLASSES)}
    pixels = SIDE * SIDE * COLOURS
    lines = [
        f"let X = ({pixels}, 1) in [-1.0, 1.0] in",
        *(f"let {name} = ({', '.join(map(str, shape))}) in [-1.0, 1.0] in" for name, shape in shapes.items()),
        f"let image = reshape(X, (1, {SIDE}, {SIDE}, {COLOURS}), (1, 2)) in",
        *layers,
        f"let flat = reshape({image}, (1, {flat}), (1, 2, 3, 4)) in",
        "argmax((flat * W) + Bias)",
    ]
    return "\n".join([*lines, ""]), shapes


def write_bundle(folder: Path, samples: int, seed: int = 0) -> Path:
    """The network's bundle in `folder`, with so many images."""
    text, shapes = source()
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.sd").write_text(text)
    for name, shape in shapes.items():
        fan_in = int(np.prod(shape[:-1])) if len(shape) > 1 else 16
        np.save(folder / f"{name}.npy", np.clip(rng.normal(size=shape) * np.sqrt(2 / fan_in), -1, 1))
    images = _images(rng, samples)
    np.save(folder / "train.npy", np.column_stack([np.arange(samples) % CLASSES, images]))
    bundle = load_bundle(folder)
    np.save(
        folder / "train.npy", np.column_stack([run_float(bundle.program, bundle.parameters, images).labels, images])
    )
    return folder


def _images(rng: np.random.Generator, samples: int) -> FloatArray:
    """Smooth images [samples, pixels]: 4 x 4 random colours, enlarged, and a little noise."""
    coarse = rng.uniform(-0.8, 0.8, (samples, 4, 4, COLOURS))
    fine = coarse.repeat(SIDE // 4, axis=1).repeat(SIDE // 4, axis=2)
    return np.clip(fine + rng.normal(0, 0.1, fine.shape), -1, 1).reshape(samples, -1)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1000, help="images with labels (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="the search's budget (default: %(default)s)")
    parser.add_argument("--write", metavar="FOLDER", type=Path, help="write the bundle there, and search nothing")
    options = parser.parse_args()
    if options.write:
        print(write_bundle(options.write, options.samples))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = write_bundle(Path(folder) / "cnn", options.samples)
        written = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began, used = time.perf_counter(), time.process_time()
        study = tune("shiftry", input=path, budget=f"{options.seconds}s")
        ended, spent = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    best = study.best.metrics if study.best else {}
    print(
        f"{MULTIPLY_ACCUMULATES:,} multiply-accumulates, {options.samples} samples: {ended - began:.1f} s ({spent - used:.1f}"
        f" CPU-s) of {options.seconds:g}, {len(study.trials)} candidates, flash {best.get('flash_bytes', float('nan')):.0f} bytes;"
        f" peak {peak:.0f} MB ({written:.0f} MB before the search)"
    )


if __name__ == "__main__":
    main()
