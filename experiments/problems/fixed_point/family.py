"""Fixed-point programs: the spaces seedot and shiftry."""

from __future__ import annotations

import click

from kilotune.codegen.emit.levels import LEVELS
from kilotune.codegen.emit.shape import AUTO, SHAPES
from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily, SpaceListing
from kilotune.experiments.problems.sample_options import data_option, label_option
from kilotune.spaces.objectives import OBJECTIVES, metric_labels

FAMILY = SpaceFamily(
    "Fixed-point programs (seedot, shiftry)",
    (
        SpaceEntry(
            "seedot",
            "bitwidth, maxscale and exponential tables of a whole program (SeeDot, PLDI 2019)",
            "exhaustive",
            OBJECTIVES,
            drawing="kilotune.experiments.problems.fixed_point.figures.seedot",
        ),
        SpaceEntry(
            "shiftry",
            "bitwidth and scale of every variable (Shiftry, OOPSLA 2020)",
            "refine",
            OBJECTIVES,
            instead={"front": "front"},
            drawing="kilotune.experiments.problems.fixed_point.figures.shiftry",
        ),
    ),
    (
        data_option(of="a model of another tool", its="the model's"),
        label_option(),
        click.Option(
            ["--returns", "returns"],
            type=click.Choice(["class", "value"]),
            help="With --data: what the program returns  [default: a class where the labels or the model's end say so]",
        ),
        click.Option(
            ["--keep-quantisation/--no-keep-quantisation"],
            default=None,
            help="With --data: whether a quantised TensorFlow Lite or ONNX file keeps its own integers, so that the program returns exactly"
            " what the integer operators of TensorFlow Lite Micro or ONNX Runtime do; RAM, code and cycles are left to tune  [default: no]",
        ),
        click.Option(
            ["--drop", "accuracy_drop"],
            type=click.FloatRange(0, 100),
            metavar="POINTS",
            help="Without limits: how far training accuracy may fall below the float model's; seedot then looks for the least"
            " memory  [default: 2.0 for shiftry; seedot wants the most precise program]",
        ),
        click.Option(
            ["--metric"],
            type=click.Choice(["accuracy", "balanced", "f1"]),
            help="What --drop is counted in: the share of the samples that are right, its mean over the classes (balanced accuracy), or the"
            " mean of the classes' F1 scores  [default: accuracy]",
        ),
        click.Option(
            ["--loss", "permitted_loss"],
            type=click.FloatRange(0),
            metavar="LOSS",
            help="The same for numerical models: the permitted precision loss  [default: 0.1 for shiftry]",
        ),
        click.Option(
            ["--flips", "permitted_flips"],
            type=click.FloatRange(0),
            metavar="COUNT",
            help="shiftry: besides --drop, how many samples may be expected to change class, of as many new ones as there are"
            " for training  [default: any number]",
        ),
        click.Option(
            ["--narrow/--no-narrow"],
            default=None,
            help="shiftry: whether parameters may be stored in 1, 2, 3, 4 or 6 bits  [default: no]",
        ),
        click.Option(
            ["--truer/--no-truer"],
            default=None,
            help="shiftry: whether weights may be rounded with regard to their inputs on the training data  [default: no]",
        ),
        click.Option(
            ["--finer/--no-finer"],
            default=None,
            help="shiftry: whether each row of a matrix and each channel of a filter may have a scale of its own  [default: no]",
        ),
        click.Option(
            ["--codebook/--no-codebook"],
            default=None,
            help="shiftry: whether parameters may be stored as 4-bit numbers of 16 integers in a table of their own  [default: no]",
        ),
        click.Option(
            ["--offsets/--no-offsets"],
            default=None,
            help="shiftry: whether variables of 16 bits, too, may have other scales than the data's  [default: no]",
        ),
        click.Option(
            ["--wide/--no-wide"],
            default=None,
            help="shiftry: whether temporaries, and parameters that are added, may have 32 bits, too  [default: no]",
        ),
        click.Option(
            ["--equalise/--no-equalise"],
            default=None,
            help="Whether channels between layers are scaled beforehand so that the weights before and behind them span alike, where the"
            " model computes the same  [default: no]",
        ),
        click.Option(
            ["--fitted/--no-fitted"],
            default=None,
            help="shiftry, strategies refine and front: whether the codes of the weights of what they settle at may be moved, each to the"
            " one below or above its weight, until margins between classes are nearest to the float model's  [default: no]",
        ),
        click.Option(
            ["--trained/--no-trained"],
            default=None,
            help="shiftry: whether the weights of what is found may be trained with the labels, for the formats that it has"
            " (quantisation-aware training); delivered is what gives more made-up inputs the class of the sample that they are like"
            "  [default: no]",
        ),
        click.Option(
            ["--pruned/--no-pruned"],
            default=None,
            help="shiftry, strategies front (with --front) and refine (within limits): whether units of hidden layers may be left out,"
            " where the weights behind them make up for it  [default: no]",
        ),
        click.Option(
            ["--front"],
            is_flag=False,
            flag_value="flash",
            metavar="[WHAT,...]",
            help="shiftry: the whole curve of precision against flash, or of flash,ram,cycles; as far as --flips, else --drop per cent of"
            " the samples, are expected to change class (--loss for numerical models)  [default: no curve]",
        ),
        click.Option(
            ["--validation"],
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            metavar="SHARE",
            help="Share of the training samples that the search does not see; its finalists are compared on it",
        ),
        click.Option(
            ["--rounding"],
            type=click.Choice(["toward-zero", "floor", "nearest", "any"]),
            help="How scaling down rounds; any: decided by the search, for the whole program (shiftry)  [default: toward-zero]",
        ),
        click.Option(
            ["--accumulator-bits"],
            type=click.Choice(["auto", "16", "32", "any"]),
            help="Width of sums of products, which wrap there; any: decided by the search, for each sum (shiftry)  [default: auto: twice"
            " the operands' width (shiftry), the bitwidth (seedot)]",
        ),
        click.Option(
            ["--level"],
            type=click.Choice((*LEVELS, "any")),
            help="-O level of the device's compiler; any: the best program is built at several, and the best by objective and limits"
            " is taken  [default: any with --device and no --shape, else Os]",
        ),
        click.Option(
            ["--shape"],
            type=click.Choice((AUTO, *SHAPES, "any")),
            help="Inner loops: plain, unrolled (AVR), compact, or pairs (rows, places: Cortex-M4) or vectors (Cortex-M55) of products"
            " with so many rows of weights at a time; auto: what is fastest on the device for --objective latency, plain otherwise;"
            " any: as --level has it  [default: any with --device and no --level, else auto]",
        ),
        click.Option(
            ["--streaming/--no-streaming"],
            default=None,
            help="Whether the program is called with a frame of its input at a time: RAM holds one frame and the state of a recurrent"
            " network, or of each layer of convolutions along time the columns that the next one's window reaches  [default: no]",
        ),
        click.Option(
            ["--hop"],
            type=click.IntRange(1),
            metavar="FRAMES",
            help="With --streaming: after how many further frames the exported program has the next result, of overlapping windows of"
            " the input (convolutions without padding along time)  [default: windows do not overlap]",
        ),
        click.Option(
            ["--overwrite-input/--no-overwrite-input"],
            default=None,
            help="Whether the sample lies among the temporaries, where results may overwrite it: the program asks for it by a function that"
            " it is given (target c-frames)  [default: no]",
        ),
        click.Option(
            ["--in-place/--no-in-place"],
            default=None,
            help="Whether a result may overwrite an operand that dies there  [default: in place]",
        ),
    ),
    "kilotune.experiments.problems.fixed_point.problem",
    inputs="a model folder, ONNX or TFLite with --data, or a bundled model of `tune list models`",
    metrics=(
        ("accuracy_percent", "train accuracy %"),
        ("validation_accuracy_percent", "validation accuracy %"),
        ("test_accuracy_percent", "test accuracy %"),
        ("balanced_accuracy_percent", "train balanced accuracy %"),
        ("validation_balanced_accuracy_percent", "validation balanced accuracy %"),
        ("test_balanced_accuracy_percent", "test balanced accuracy %"),
        ("f1_percent", "train F1 %"),
        ("validation_f1_percent", "validation F1 %"),
        ("test_f1_percent", "test F1 %"),
        ("disagreements", "disagreements"),
        ("validation_disagreements", "validation disagreements"),
        ("test_disagreements", "test disagreements"),
        ("expected_flips", "expected flips"),
        ("margin_error", "margin error"),
        ("precision_loss", "precision loss"),
        ("validation_precision_loss", "validation precision loss"),
        ("test_precision_loss", "test precision loss"),
        ("expected_error", "expected error"),
        ("room", "range of values, as a share of what new samples need"),
        ("mean_absolute_error", "mean absolute error"),
        ("validation_mean_absolute_error", "validation mean absolute error"),
        ("test_mean_absolute_error", "test mean absolute error"),
        *metric_labels(timed=False),
        ("demoted", "8-bit variables"),
        ("hypervolume_percent", "hypervolume %"),
        *metric_labels(timed=True),
        ("device_cycles", "cycles, measured"),
        ("device_approximate_cycles", "cycles, approximate"),
        ("device_latency_ms", "ms an inference, measured"),
        ("device_approximate_latency_ms", "ms an inference, approximate"),
        ("device_flash_bytes", "flash bytes of the whole program"),
        ("device_ram_bytes", "RAM bytes with input and stack"),
        ("device_most_step_cycles", "cycles a step at most, measured"),
        ("device_most_step_approximate_cycles", "cycles a step at most, approximate"),
    ),
    listings=(
        SpaceListing("models", "kilotune.experiments.problems.fixed_point.listings:models"),
        SpaceListing(
            "buffers",
            "kilotune.experiments.problems.fixed_point.buffers:listed",
            text="kilotune.experiments.problems.fixed_point.buffers:as_csv",
            takes_input=True,
            options=(
                click.Option(
                    ["--bits"],
                    type=click.Choice(["8", "16", "32"]),
                    help="buffers: one width for all [default: 16].",
                ),
            ),
        ),
    ),
    model_files=("ONNX", "TFLITE", "MODEL_FOLDER"),
    rank=10,
)
