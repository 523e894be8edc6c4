"""The images that a program writes, one an instruction, drawn in its order."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.text import format_operation, format_program
from kilotune.evaluators.scamp5.array import FULL_SCALE
from kilotune.evaluators.scamp5.network import margin_of
from kilotune.evaluators.scamp5.stages import images_after
from kilotune.experiments.presentation.palette import BLUE, VERMILLION
from kilotune.experiments.presentation.section import Figure, Section
from kilotune.experiments.problems.reverse_split.chip_network import MeasuredNetwork, first_digit

MOST_IMAGES = 80
COLUMNS = 6
CELL_PX = 120
SIDE = 28


def stages_section(program: ScampProgram, measured: MeasuredNetwork | None) -> Section | None:
    """None for a program that is too long for it."""
    if program.instructions > MOST_IMAGES or not program.operations:
        return None
    digit = None if measured is None else first_digit(measured)
    if digit is None or measured is None:
        image, what = _shapes(), f"a disc and a bar on {SIDE} x {SIDE} pixels"
    else:
        network = measured.network
        image = np.where(digit >= network.binarised_at, float(network.level), 0.0)
        what = f"the first digit that training did not see, black and white at {network.level} grey levels"
    text = format_program(program)
    margin = margin_of(text, len(image))
    images = images_after(text, np.pad(image, margin))
    inner = slice(margin, margin + len(image))
    drawn = [image, *(written[inner, inner] for written in images)]
    largest = max(float(np.abs(one).max()) for one in drawn)
    beyond = (
        f" Values reach {largest:.4g}, beyond the {FULL_SCALE:g} grey levels of a register: the chip clips them there."
        if largest > FULL_SCALE
        else f" The largest value is {largest:.4g} of {FULL_SCALE:g} grey levels."
    )
    words = f"What the array holds of {what}: the image, then what each instruction writes, computed exactly.{beyond}"
    return Section(
        "Images after each instruction", (Figure(_figure(program, drawn, largest), words, "Images on the array"),)
    )


def _figure(program: ScampProgram, drawn: list[FloatArray], largest: float) -> go.Figure:
    lines = [format_operation(program.instruction(operation), operation) for operation in program.operations]
    titles = ["image", *(f"{number}: {line}" for number, line in enumerate(lines, start=1))]
    rows = -(-len(drawn) // COLUMNS)
    gap = 0.22 / max(rows, 2)
    figure = make_subplots(
        rows=rows, cols=COLUMNS, subplot_titles=titles, vertical_spacing=gap, horizontal_spacing=0.01
    )
    for number, image in enumerate(drawn):
        trace = go.Heatmap(
            z=np.round(image, 1).tolist(),
            coloraxis="coloraxis",
            name=titles[number],
            hovertemplate="row %{y}, column %{x}: %{z}<extra>%{fullData.name}</extra>",
        )
        figure.add_trace(trace, row=number // COLUMNS + 1, col=number % COLUMNS + 1)
    figure.update_xaxes(visible=False, constrain="domain", fixedrange=True)
    figure.update_yaxes(visible=False, constrain="domain", fixedrange=True, autorange="reversed")
    for number, axis in enumerate(figure.select_yaxes(), start=1):
        axis.scaleanchor = f"x{number if number > 1 else ''}"
    figure.update_annotations(font_size=9)
    figure.update_layout(
        coloraxis={
            "cmin": -largest,
            "cmax": largest,
            "colorscale": [[0, VERMILLION], [0.5, "#F2F2F2"], [1, BLUE]],
            "colorbar": {"title": {"text": "grey levels"}, "thickness": 12},
        },
        height=60 + CELL_PX * rows,
        margin={"l": 5, "r": 5, "t": 40, "b": 15},
    )
    return figure


def _shapes() -> FloatArray:
    """A disc and a bar, at half of the full scale."""
    row, column = np.mgrid[:SIDE, :SIDE]
    disc = (row - 10) ** 2 + (column - 10) ** 2 <= 36
    bar = (np.abs(row - 22) <= 1) & (column > 5)
    return np.where(disc | bar, FULL_SCALE / 2, 0.0)
