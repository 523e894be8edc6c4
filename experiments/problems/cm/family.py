"""Networks on computational memory: the space cm."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily, SpaceListing


def _accelerators(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For a shell: those that come with kilotune; files where none begins so."""
    from kilotune.codegen.cm.hardware import shipped_hardware

    names = [name for name in shipped_hardware() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


FAMILY = SpaceFamily(
    "Networks on computational memory (cm)",
    (
        SpaceEntry(
            "cm",
            "core, routes, buffers and replicas of every layer of a network (cmnnc, 2020)",
            "anneal",
            ("ticks", "latency", "energy", "cores", "accuracy"),
            drawing="kilotune.experiments.problems.cm.figures.sections",
        ),
    ),
    (
        click.Option(
            ["--hardware"],
            metavar="FILE|NAME",
            shell_complete=_accelerators,
            help="The accelerator: a JSON file, or a shipped one  [default: mesh-8x8]",
        ),
        click.Option(
            ["--image", "image_shape"],
            metavar="CxHxW",
            help="Shape of an image instead of the ONNX file's, e.g. 3x64x64; also HxWxC for a file whose image has its channels last",
        ),
        click.Option(
            ["--host", "host"],
            is_flag=True,
            default=None,
            help="Leave what no accelerator computes, and all that reads it, for the host; what it reads of the rest are outputs",
        ),
        click.Option(
            ["--data", "data"],
            metavar="FILE",
            type=click.Path(),
            help="Real images for an ONNX file, with labels where there are any: an .npz with images (or X) and labels (or y)",
        ),
        click.Option(
            ["--calibration", "calibration"],
            metavar="N",
            type=click.IntRange(min=1),
            help="How many of the images of --data are for calibration  [default: 64, at most half of them]",
        ),
        click.Option(
            ["--noise", "noise"],
            metavar="SECONDS",
            type=click.FloatRange(min=0),
            help="With --data: accuracy on phase-change cells so long after programming, over 10 draws",
        ),
        click.Option(
            ["--converter-bits", "converter_bits"],
            metavar="BITS",
            type=click.IntRange(min=2, max=16),
            help="Bits of the converters behind the columns, for --noise  [default: 8]",
        ),
        click.Option(
            ["--drop", "accuracy_drop"],
            metavar="POINTS",
            type=click.FloatRange(0, 100),
            help="With --data, on hardware that counts bits: activations in as few bits, a layer each, as give no more than so many of a"
            " hundred images for calibration another class  [default: 8 bits each]",
        ),
        click.Option(
            ["--joint", "joint"],
            type=click.Choice(["bits"]),
            help="With --data and --drop (or --limit accuracy=SHARE on the noisy cells of --noise): bits of activations, weights and"
            " converters, a layer each, are decided together with the mapping",
        ),
        click.Option(
            ["--strict", "strict"],
            is_flag=True,
            default=None,
            help="Only placements that put connected layers on linked cores (the paper's problem)",
        ),
    ),
    "kilotune.experiments.problems.cm.problem",
    inputs="ONNX, or a network of `tune list networks`",
    metrics=(
        ("ticks_per_image", "ticks per image"),
        ("latency_ticks", "latency, ticks"),
        ("energy_nj", "energy an image, nJ"),
        ("image_us", "from image to image, us"),
        ("cores", "cores"),
        ("sram_bytes", "SRAM bytes"),
        ("core_sram_bytes", "SRAM bytes of the fullest core"),
        ("compute_ticks", "ticks of the busiest core"),
        ("promised_ticks", "ticks of the busiest core or link"),
        ("longest_route_links", "links of the longest route"),
        ("changed_images", "images of another class"),
        ("expected_changes", "images of another class to be expected"),
        ("lost_points", "lost points"),
        ("noisy_error", "wrong on noisy cells, %"),
        ("noisy_error_high", "wrong on noisy cells, %, upper end"),
    ),
    listings=(
        SpaceListing("networks", "kilotune.experiments.problems.cm.listings:networks"),
        SpaceListing("hardware", "kilotune.experiments.problems.cm.listings:hardware"),
    ),
    model_files=("ONNX",),
    rank=40,
)
