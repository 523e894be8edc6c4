"""Networks on the camera chip: accuracy exact and with the chip's noise, instructions, time and energy a frame, beside published figures.

    python -m kilotune.experiments.benchmarks.chip_networks --data DIGITS.npz [--seconds 8] [--draws 10] [--images 0]

For each bundled network the kernels are compiled and proved, and the whole frame is executed on the array, thresholds and counting
included, on the samples that training did not see. `DIGITS.npz` has images (or X), 28 x 28 grey levels, and labels (or y).
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from kilotune.codegen.diagnostics import InputError
from kilotune.evaluators.scamp5.array import REAL_CHIP
from kilotune.evaluators.scamp5.network import accuracy, frame_cost, noisy_accuracy, run_network
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.problems.labelled_images import read_labelled_images
from kilotune.experiments.problems.reverse_split.networks import NETWORKS, bundled_network
from kilotune.experiments.problems.reverse_split.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

PUBLISHED = (
    "AnalogNet, published (Wong et al. 2020, on the chip, 60 000 training digits): 96.9 %, 2260 frames/s (442 us), 0.7 mJ a frame",
    "AnalogNet, published profile (Guillard 2019): 13 us input, 68 us kernels and thresholds, 273 us read-out, 109 us dense layers",
)


@click.command()
@click.option("--data", required=True, type=click.Path(path_type=Path))
@click.option("--seconds", default=8.0, show_default=True, help="CPU seconds of search a network.")
@click.option("--draws", default=10, show_default=True, type=click.Choice([6, 10, 20]), help="Of the noise.")
@click.option("--images", default=0, show_default=True, help="At most so many of the unseen ones; 0: all.")
@click.option("--seed", default=0, show_default=True)
def main(data: Path, seconds: float, draws: int, images: int, seed: int) -> None:
    """Print a row a network."""
    click.echo(
        f"{'network':20} {'kernels':>7} {'macros':>6} {'transfers':>9} {'frame instr.':>12} {'array us':>8} {'frame us':>8} "
        f"{'array uJ':>8} {'frame uJ':>8} {'digits':>6} {'exact %':>7} {'noisy %':>14}"
    )
    try:
        for name in NETWORKS:
            click.echo(_row(name, data, seconds, draws, images, seed))
    except InputError as error:
        raise click.ClickException(str(error)) from error
    for line in PUBLISHED:
        click.echo(line)


def _row(name: str, data: Path, seconds: float, draws: int, images: int, seed: int) -> str:
    network = bundled_network(name)
    pixels, labels = read_labelled_images(data, network.side)
    unseen = network.unseen(len(pixels))
    pixels, labels = pixels[unseen][: images or None], labels[unseen][: images or None]
    problem = build_problem(TuneRequest("reverse-split", name, "exhaustive"))
    text = problem.space.program(_found(problem.space, seconds, seed)).text
    program = prove(text, problem.wanted.sums, problem.wanted.depth)
    cost = frame_cost(program, network, run_network(text, network, pixels).events)
    exact = accuracy(text, network, pixels, labels)
    noisy = noisy_accuracy(text, network, pixels, labels, REAL_CHIP, draws)
    return (
        f"{name:20} {len(network.thresholds):7} {program.instructions:6} {program.bus_transfers:9} {cost.instructions:12} "
        f"{cost.array_us:8.1f} {cost.frame_us:8.0f} {cost.array_uj:8.1f} {cost.frame_uj:8.0f} {len(pixels):6} {100 * exact:7.2f} "
        f"{100 * noisy.mean:7.2f} +- {100 * noisy.half_width:.2f}"
    )


def _found(space: ReverseSplitSpace, seconds: float, seed: int) -> Assignment:
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
