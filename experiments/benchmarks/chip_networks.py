"""Networks on the camera chip: accuracy exact and with the chip's noise, instructions, time and energy a frame, beside published figures.

    python -m kilotune.experiments.benchmarks.chip_networks --data DIGITS.npz [--folds 5] [--seconds 20] [--draws 10] [--images 0]

For each network the kernels are compiled and proved, and the whole frame is executed on the array, thresholds and counting included, on
the samples that training did not see. The bundled networks have not seen every fifth sample, from the first on; for each further fold
both networks are trained anew without every fifth sample from another one on, so that five folds measure every sample once, none of them
by a network that has seen it. `DIGITS.npz` has images (or X), 28 x 28 grey levels, and labels (or y).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.kernel_files import parse_kernel_file
from kilotune.evaluators.scamp5.array import REAL_CHIP
from kilotune.evaluators.scamp5.network import (
    FrameCost,
    NoisyAccuracy,
    accuracy,
    frame_cost,
    noisy_accuracy,
    run_network,
)
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.papers.analognet_training import HELD_OUT, SIDE, trained_networks
from kilotune.experiments.problems.labelled_images import read_labelled_images
from kilotune.experiments.problems.reverse_split.networks import NETWORKS, bundled_text
from kilotune.experiments.problems.reverse_split.problem import KernelSpace, build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment

PUBLISHED = (
    "AnalogNet, published (Wong et al. 2020, on the chip, 60 000 training digits): 96.9 %, 2260 frames/s (442 us), 0.7 mJ a frame",
    "AnalogNet, published profile (Guillard 2019): 13 us input, 68 us kernels and thresholds, 273 us read-out, 109 us dense layers",
)


COLUMNS = (
    "exact %: of so many unseen digits, classes by the program without noise. noisy %: with the chip's noise, the mean over the draws and",
    "its 95 % interval (Student's t), which holds for these digits. What the exact ones say of all digits, 95 % interval (Wilson):",
)


@dataclass(frozen=True)
class NetworkFold:
    """What a network makes of the samples that it has not seen, and what its program costs."""

    kernels: int
    macros: int
    transfers: int
    cost: FrameCost
    samples: int
    exact: float
    noisy: NoisyAccuracy


@click.command()
@click.option("--data", required=True, type=click.Path(path_type=Path))
@click.option(
    "--folds",
    default=HELD_OUT,
    show_default=True,
    type=click.IntRange(1, HELD_OUT),
    help="1: the bundled networks alone.",
)
@click.option("--seconds", default=20.0, show_default=True, help="CPU seconds of search a network.")
@click.option("--draws", default=10, show_default=True, type=click.Choice([6, 10, 20]), help="Of the noise.")
@click.option("--images", default=0, show_default=True, help="At most so many of the unseen ones of a fold; 0: all.")
@click.option("--seed", default=0, show_default=True)
def main(data: Path, folds: int, seconds: float, draws: int, images: int, seed: int) -> None:
    """Print a row a network and fold, and one over all folds."""
    click.echo(
        f"{'network':20} {'fold':>4} {'kernels':>7} {'macros':>6} {'transfers':>9} {'frame instr.':>12} {'array us':>8} {'frame us':>8} "
        f"{'array uJ':>8} {'frame uJ':>8} {'digits':>6} {'exact %':>7} {'noisy %':>14}"
    )
    try:
        found: dict[str, list[NetworkFold]] = {name: [] for name in NETWORKS}
        for fold, (texts, pixels, labels) in enumerate(_folds(*read_labelled_images(data, SIDE), folds)):
            for name in NETWORKS:
                one = _measured(texts[name], *_some(pixels, labels, images), seconds, draws, seed)
                found[name].append(one)
                click.echo(_row(name, str(fold), [one]))
    except InputError as error:
        raise click.ClickException(str(error)) from error
    for name in NETWORKS if folds > 1 else ():
        click.echo(_row(name, "all", found[name]))
    for line in (
        *COLUMNS,
        *(f"  {name}: {_interval_of_digits(of_name)}" for name, of_name in found.items()),
        *PUBLISHED,
    ):
        click.echo(line)


def _folds(
    images: Array, labels: npt.NDArray[np.int64], folds: int
) -> Iterator[tuple[dict[str, str], Array, npt.NDArray[np.int64]]]:
    """Kernel files by name, and the samples that those networks have not seen."""
    unseen = np.arange(len(images)) % HELD_OUT == 0
    for fold in range(folds):
        moved, moved_labels = np.roll(images, -fold, axis=0), np.roll(labels, -fold)
        texts = trained_networks(moved, moved_labels) if fold else {name: bundled_text(name) for name in NETWORKS}
        within = unseen[: len(images) - fold].nonzero()[0]  # what is rolled round belongs to another fold
        yield texts, moved[within], moved_labels[within]


def _some(pixels: Array, labels: npt.NDArray[np.int64], images: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """So many of them at even distances, since files may be in the order of their classes; 0: all."""
    places = np.linspace(0, len(labels) - 1, min(images, len(labels)) or len(labels)).round().astype(np.int64)
    return pixels[places], labels[places]


def _measured(
    text: str, pixels: Array, labels: npt.NDArray[np.int64], seconds: float, draws: int, seed: int
) -> NetworkFold:
    network = parse_kernel_file(text, "network").network
    assert network is not None
    problem = build_problem(TuneRequest("reverse-split", text, "exhaustive"))
    program_text = problem.space.program(_found(problem.space, seconds, seed)).text
    program = prove(program_text, problem.wanted.sums, problem.wanted.depth)
    return NetworkFold(
        len(network.thresholds),
        program.instructions,
        program.bus_transfers,
        frame_cost(program, network, run_network(program_text, network, pixels).events),
        len(pixels),
        accuracy(program_text, network, pixels, labels),
        noisy_accuracy(program_text, network, pixels, labels, REAL_CHIP, draws),
    )


def _row(name: str, fold: str, folds: list[NetworkFold]) -> str:
    """Means over folds, accuracies over their samples; the interval is that of the draws."""
    samples = np.array([one.samples for one in folds])
    shares = samples / samples.sum()
    half_width = float(
        np.sqrt(sum((share * one.noisy.half_width) ** 2 for share, one in zip(shares, folds, strict=True)))
    )
    means = np.array(
        [
            (one.kernels, one.macros, one.transfers, one.cost.instructions, one.cost.array_us, one.cost.frame_us,
             one.cost.array_uj, one.cost.frame_uj)
            for one in folds
        ]
    ).mean(axis=0)  # fmt: skip
    kernels, macros, transfers, instructions, array_us, frame_us, array_uj, frame_uj = means.tolist()
    exact = float(shares @ [one.exact for one in folds])
    noisy = float(shares @ [one.noisy.mean for one in folds])
    return (
        f"{name:20} {fold:>4} {kernels:7.0f} {macros:6.4g} {transfers:9.4g} {instructions:12.4g} {array_us:8.1f} {frame_us:8.0f} "
        f"{array_uj:8.1f} {frame_uj:8.0f} {samples.sum():6} {100 * exact:7.2f} {100 * noisy:7.2f} +- {100 * half_width:.2f}"
    )


def _interval_of_digits(folds: list[NetworkFold]) -> str:
    """What the exact accuracy of so many digits says of all digits: Wilson's score interval."""
    samples = sum(one.samples for one in folds)
    right = round(sum(one.exact * one.samples for one in folds))
    interval = binomtest(right, samples).proportion_ci(method="wilson")
    return f"{100 * interval.low:.2f} to {100 * interval.high:.2f} % (exact, {samples} digits)"


def _found(space: KernelSpace, seconds: float, seed: int) -> Assignment:
    """The best candidate of a search."""
    start = time.process_time()
    best: Assignment | None = None
    least: tuple[float, ...] = ()
    for step in space.exact_search(seed, lambda: start + seconds - time.process_time()):
        if step.candidate is not None:
            metrics = space.evaluate([step.candidate])[0].metrics
            losses = tuple(objective.loss(metrics) for objective in space.objectives)
            if metrics and (best is None or losses < least):
                best, least = step.candidate, losses
        if step.complete or time.process_time() - start > seconds:
            break
    if best is None:
        raise click.ClickException("No program was found in that time.")
    return best


if __name__ == "__main__":
    main()
