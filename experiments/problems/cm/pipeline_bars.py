"""What the picture of a pipeline over time shows, whatever draws it: a row a stage, in it bars of iterations that follow closely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.evaluators.cm.ticks import TickArray
from kilotune.experiments.presentation.canvas import shortened
from kilotune.experiments.presentation.palette import BLUE, GREEN, ORANGE, SKY
from kilotune.experiments.problems.cm.utilisation import Bar, bars_of
from kilotune.spaces.cm.lowered import LoweredPipeline

DRAWN_IMAGES = 3

MOST_BARS = 1000
"""Gaps are left out until an image has no more bars than that."""

MOST_ROWS = 120
RESOLUTION = 550.0
"""Gaps that are drawn are at least the whole time by this."""

NAME_LENGTH = 16


@dataclass(frozen=True)
class ImageStyle:
    """How the bars of an image are drawn. pattern: the shape of the lines over them, as Plotly calls it."""

    colour: str
    pattern: str


IMAGE_STYLES = (ImageStyle(BLUE, ""), ImageStyle(ORANGE, "/"), ImageStyle(SKY, "x"), ImageStyle(GREEN, "."))


@dataclass(frozen=True)
class PipelineRow:
    """A stage by its number. label: its name beside the axis."""

    stage: int
    label: str


@dataclass(frozen=True)
class PipelineBar:
    """Iterations of one image on the stage of a row, from tick `first` to `end`. said: what is to be known of it."""

    row: int
    first: int
    end: int
    opacity: float
    said: str


@dataclass(frozen=True)
class PipelineImage:
    """The bars of an image."""

    title: str
    style: ImageStyle
    bars: tuple[PipelineBar, ...]


@dataclass(frozen=True)
class PipelineChart:
    """end: the tick at which the last iteration is over."""

    rows: tuple[PipelineRow, ...]
    images: tuple[PipelineImage, ...]
    end: int


def pipeline_chart(
    lowered: LoweredPipeline, recorded: Sequence[TickArray], images: int = DRAWN_IMAGES
) -> PipelineChart:
    """recorded: first ticks of the iterations of each stage, of so many images or more. A bar is the paler, the more the stage
    waits between its iterations."""
    stages = lowered.pipeline.stages
    starts = [s[: images * stage.iterations] for s, stage in zip(recorded, stages, strict=True)]
    rows = rows_shown(lowered)
    end = max((int(s[-1]) + t for s, t in zip(starts, lowered.ticks, strict=True) if len(s)), default=1)
    drawn = []
    for image in range(images):
        title = f"image {image + 1}"
        bars = tuple(
            PipelineBar(
                *(row, bar.first, bar.end, 0.3 + 0.7 * bar.busy),
                f"{stages[rows[row]].name}, {title}: ticks {bar.first} to {bar.end}, busy {100 * bar.busy:.0f} %",
            )
            for row, bar in _image_bars(lowered, starts, image, rows, end)
        )
        drawn.append(PipelineImage(title, IMAGE_STYLES[image % len(IMAGE_STYLES)], bars))
    labels = (PipelineRow(stage, shortened(stages[stage].name, NAME_LENGTH)) for stage in rows)
    return PipelineChart(tuple(labels), tuple(drawn), end)


def rows_shown(lowered: LoweredPipeline) -> list[int]:
    """Stages in their order; of very many the busiest."""
    stages = lowered.pipeline.stages
    busiest = sorted(range(len(stages)), key=lambda s: -stages[s].iterations * lowered.ticks[s])
    return sorted(busiest[:MOST_ROWS])


def _image_bars(
    lowered: LoweredPipeline, starts: Sequence[TickArray], image: int, rows: Sequence[int], last: int
) -> list[tuple[int, Bar]]:
    """By row. Gaps are left out until there are few enough."""
    gap = last / RESOLUTION
    while True:
        found = []
        for row, stage in enumerate(rows):
            iterations, ticks = lowered.pipeline.stages[stage].iterations, lowered.ticks[stage]
            own = starts[stage][image * iterations : (image + 1) * iterations]
            found += [(row, bar) for bar in bars_of(own, ticks, max(gap, 2.0 * ticks))]
        if len(found) <= MOST_BARS or gap > last:
            return found
        gap *= 2
