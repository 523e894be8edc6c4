"""A SCAMP-5 program drawn: its graph of values, and which register holds which of them when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import plotly.graph_objects as go

from kilotune.codegen.scamp.kernel import Kernel
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.sums import Sum
from kilotune.experiments.presentation.palette import BLACK, BLUE, GREEN, NEUTRAL, ORANGE, PINK, SKY, VERMILLION
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.reverse_split.figures.layered import LayeredDrawing, layered
from kilotune.experiments.problems.reverse_split.figures.value_graph import Life, ValueEdge, ValueGraph, ValueNode

LAYER_PX, ROW_PX = 60, 22
BESIDE = "\u00a0" * 6
"""As wide as half a mark."""

LABEL_WIDTH = 1.3
"""The width of the longest label, beside the mark, in the layout's units on a phone."""

WIDEST_STENCIL = 15
"""Rows and columns of a stencil in a hover text."""


@dataclass(frozen=True)
class NodeStyle:
    """How the nodes of one kind of operation are drawn."""

    title: str
    colour: str
    ink: str
    symbol: str


_LOOKS: Mapping[str, NodeStyle] = MappingProxyType(
    {
        "image": NodeStyle("the image", SKY, BLACK, "hexagon"),
        "add": NodeStyle("addition", BLUE, "#FFFFFF", "circle"),
        "sub": NodeStyle("subtraction", PINK, BLACK, "circle"),
        "shift": NodeStyle("shift or copy", ORANGE, BLACK, "square"),
        "divide": NodeStyle("halving", GREEN, BLACK, "diamond"),
        "negate": NodeStyle("negation or zero", NEUTRAL, BLACK, "pentagon"),
    }
)


def kind_of(node: ValueNode) -> str:
    """The key of its look."""
    if not node.op:
        return "image"
    if node.op in ("neg", "res", "zero"):
        return "negate"
    return next((kind for kind in ("add", "sub", "div") if node.op.startswith(kind)), "shift").replace("div", "divide")


def graph_figure(graph: ValueGraph) -> go.Figure:
    """Top to bottom: the image, values in layers, results at the bottom. customdata of a node: its number."""
    edges = [(operand.source, operand.target) for operand in graph.operands]
    layout = layered(len(graph.nodes), edges, [node.number for node in graph.nodes if node.results])
    figure = go.Figure()
    _add_operands(figure, graph, layout)
    for kind, look in _LOOKS.items():
        nodes = [node for node in graph.nodes if kind_of(node) == kind]
        if nodes:
            figure.add_trace(_nodes_trace(graph, layout, nodes, look))
    results = [node for node in graph.nodes if node.results]
    figure.add_trace(
        go.Scatter(
            x=[layout.x[node.number] for node in results],
            y=[layout.layer[node.number] for node in results],
            mode="markers",
            marker={"symbol": "circle-open", "size": 36, "color": VERMILLION, "line": {"width": 3}},
            name="result",
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=list(layout.x),
            y=list(layout.layer),
            mode="text",
            text=[_label(node) for node in graph.nodes],
            textposition="middle right",
            textfont={"size": 11, "shadow": "auto"},
            cliponaxis=False,
            showlegend=False,
            hoverinfo="skip",
        )
    )
    left = min(x for path in (*layout.paths, tuple((x, 0.0) for x in layout.x)) for x, _ in path)
    right = max(x for path in (*layout.paths, tuple((x + LABEL_WIDTH, 0.0) for x in layout.x)) for x, _ in path)
    figure.update_xaxes(visible=False, range=[left - 0.3, right + 0.3], fixedrange=True)
    figure.update_yaxes(visible=False, range=[layout.layers - 0.4, -0.6], fixedrange=True)
    figure.update_layout(
        height=LAYER_PX * layout.layers + 110,
        margin={"l": 5, "r": 5, "t": 10, "b": 60},
        hoverlabel={"font": {"family": "monospace"}, "align": "left"},
    )
    return figure


def registers_figure(program: ScampProgram, graph: ValueGraph) -> go.Figure:
    """Registers across, time down as in the program's text. customdata of a bar: register, node, first, last."""
    figure = go.Figure()
    rows = [node.line for node in graph.nodes]
    places = {name: place for place, name in enumerate(program.registers)}
    for kind, look in _LOOKS.items():
        lives = [life for life in graph.lives if kind_of(graph.nodes[life.node]) == kind]
        if lives:
            _add_lives(figure, graph, lives, places, (kind, look))
    _add_lost(figure, graph, places)
    end = len(graph.nodes)
    figure.update_xaxes(
        tickvals=list(places.values()),
        ticktext=list(places),
        side="top",
        range=[-0.5, len(places) - 0.5],
        fixedrange=True,
    )
    figure.update_yaxes(
        tickvals=list(range(end + 1)),
        ticktext=[
            *(f"{number}  {plotly_text(text)}" if number else "image in A" for number, text in enumerate(rows)),
            "end",
        ],
        tickfont={"family": "monospace", "size": 11},
        range=[end + 0.5, -0.7],
        fixedrange=True,
        automargin=True,
    )
    figure.update_layout(
        height=ROW_PX * (end + 1) + 110,
        margin={"l": 5, "r": 10, "t": 30, "b": 60},
        hoverlabel={"align": "left"},
    )
    return figure


def _add_lives(
    figure: go.Figure,
    graph: ValueGraph,
    lives: Sequence[Life],
    places: dict[str, int],
    kind_and_look: tuple[str, NodeStyle],
) -> None:
    """Values of one kind: a bar each from where it is written to its last use."""
    kind, look = kind_and_look
    x, y = [], []
    for life in lives:
        x += [places[life.register], places[life.register], None]
        y += [life.first, max(life.first, life.last - 0.3), None]
    line = {"color": look.colour, "width": 7}
    figure.add_trace(
        go.Scatter(x=x, y=y, mode="lines", line=line, showlegend=False, hoverinfo="skip", legendgroup=kind)
    )
    figure.add_trace(
        go.Scatter(
            x=[places[life.register] for life in lives],
            y=[life.first for life in lives],
            mode="markers+text",
            marker={"symbol": look.symbol, "size": 18, "color": look.colour},
            text=[str(life.node) if life.node else "" for life in lives],
            textfont={"color": look.ink, "size": 10},
            name=look.title,
            legendgroup=kind,
            customdata=[[life.register, life.node, life.first, life.last] for life in lives],
            hovertext=[_life_text(graph, life.register, life.node, life.first, life.last) for life in lives],
            hoverinfo="text",
        )
    )


def _add_lost(figure: go.Figure, graph: ValueGraph, places: dict[str, int]) -> None:
    """Registers that an instruction destroys."""
    if graph.lost:
        figure.add_trace(
            go.Scatter(
                x=[places[name] for name, _ in graph.lost],
                y=[number for _, number in graph.lost],
                mode="markers",
                marker={"symbol": "x-thin", "size": 10, "line": {"width": 2, "color": VERMILLION}},
                name="destroyed",
                hovertext=[f"register {name} is destroyed by instruction {number}" for name, number in graph.lost],
                hoverinfo="text",
            )
        )


def stencil(value: Sum, depth: int) -> str:
    """The weights of a sum of shifted pixels as rows of a Plotly text, north above; the pixel's own in brackets."""
    kernel = Kernel.of_sum(value, depth)
    if max(kernel.rows, kernel.columns) > WIDEST_STENCIL:
        return f"{len(value.terms)} pixels in {kernel.rows} x {kernel.columns}"
    own = (kernel.rows // 2, (kernel.columns - 1) // 2)
    cells = [
        [_bracketed(str(weight) if weight else "·", (down, across) == own) for across, weight in enumerate(row)]
        for down, row in enumerate(kernel.picture())
    ]
    width = max(len(cell) for row in cells for cell in row)
    return "<br>".join("".join(cell.rjust(width) for cell in row).replace(" ", "\u00a0") for row in cells)


def weight_text(weight: Fraction) -> str:
    """For a cell of a heat map: 3/4, or a decimal number where the fraction is long."""
    text = str(weight)
    return text if len(text) <= 5 else f"{float(weight):.3g}"


def _bracketed(text: str, own: bool) -> str:
    return f" [{text}]" if own else f"  {text} "


def _label(node: ValueNode) -> str:
    """The operation, and where it shifts; the kernels whose result it is."""
    if not node.op:
        parts = ["image"]
    elif node.directions and node.directions != (node.op,):
        parts = [f"{node.number} {node.op}", " ".join(node.directions)]
    else:
        parts = [f"{node.number} {node.op}"]
    if node.results:
        parts.append(f"<b>result {' '.join(map(str, node.results))}</b>")
    return "<br>".join(BESIDE + part for part in parts)


def _nodes_trace(graph: ValueGraph, layout: LayeredDrawing, nodes: list[ValueNode], look: NodeStyle) -> go.Scatter:
    return go.Scatter(
        x=[layout.x[node.number] for node in nodes],
        y=[layout.layer[node.number] for node in nodes],
        mode="markers+text",
        marker={"symbol": look.symbol, "size": 26, "color": look.colour, "opacity": 1},
        text=[f"<b>{node.register}</b>" for node in nodes],
        textfont={"color": look.ink, "size": 13},
        name=look.title,
        customdata=[node.number for node in nodes],
        hovertext=[_node_text(graph, node) for node in nodes],
        hoverinfo="text",
    )


def _node_text(graph: ValueGraph, node: ValueNode) -> str:
    head = f"instruction {node.number}: {plotly_text(node.line)}" if node.number else "the image"
    results = "".join(f"<br>result of kernel {kernel}" for kernel in node.results)
    return f"{head}<br>in register {node.register}{results}<br>weights of pixels, north above:<br>{stencil(node.value, graph.depth)}"


def _life_text(graph: ValueGraph, register: str, node: int, first: int, last: int) -> str:
    what = "the image" if not node else f"the value of instruction {node}, {plotly_text(graph.nodes[node].line)}"
    until = (
        "is never read"
        if last == first
        else "is kept to the end"
        if last == len(graph.nodes)
        else f"is last read by {last}"
    )
    return f"register {register}: {what},<br>{until}"


def _add_operands(figure: go.Figure, graph: ValueGraph, layout: LayeredDrawing) -> None:
    """Lines with heads: whole where a value is read in place, dashed where it is read from a neighbour."""
    twins = Counter((operand.source, operand.target) for operand in graph.operands)
    seen: Counter[tuple[int, int]] = Counter()
    drawn = []
    for operand, path in zip(graph.operands, layout.paths, strict=True):
        ends = (operand.source, operand.target)
        points = list(path)
        if twins[ends] > 1:  # a value added to itself: two bows
            seen[ends] += 1
            (x, y), (beyond, below) = points[-2], points[-1]
            points.insert(-1, ((x + beyond) / 2 + 0.18 * (2 * seen[ends] - 3), (y + below) / 2))
        drawn.append((operand, points))
    for shifted, colour, dash in ((False, NEUTRAL, "solid"), (True, ORANGE, "dash")):
        paths = [points for operand, points in drawn if operand.shifted == shifted]
        if not paths:
            continue
        name = "read from a neighbour" if shifted else "read in place"
        xs, ys = _joined(paths)
        line = {"color": colour, "width": 2, "dash": dash}
        figure.add_trace(go.Scatter(x=xs, y=ys, mode="lines", line=line, name=name, hoverinfo="skip"))
        xs, ys = _joined([points[-2:] for points in paths])
        head = {"symbol": "arrow", "angleref": "previous", "standoff": 14, "color": colour, "line": {"width": 0}}
        sizes = [11 if at % 3 == 1 else 0 for at in range(len(xs))]
        marker = {**head, "size": sizes}
        figure.add_trace(go.Scatter(x=xs, y=ys, mode="markers", marker=marker, showlegend=False, hoverinfo="skip"))
    middles = [_middle(points) for _, points in drawn]
    minus = [operand.sign < 0 for operand, _ in drawn]
    figure.add_trace(
        go.Scatter(
            x=[x for x, _ in middles],
            y=[y for _, y in middles],
            mode="markers+text",
            marker={"size": 15, "opacity": [float(one) for one in minus], "color": VERMILLION},
            text=["<b>\u2212</b>" if one else "" for one in minus],
            textfont={"size": 14, "color": "#FFFFFF"},
            customdata=[[operand.source, operand.target, operand.sign, operand.shifted] for operand, _ in drawn],
            hovertext=[_operand_text(graph, operand) for operand, _ in drawn],
            hoverinfo="text",
            showlegend=False,
            meta="operands",
        )
    )


def _joined(paths: list[list[tuple[float, float]]]) -> tuple[list[float | None], list[float | None]]:
    """x and y of lines, with a gap behind each."""
    x, y = list[float | None](), list[float | None]()
    for points in paths:
        x += [*(point[0] for point in points), None]
        y += [*(point[1] for point in points), None]
    return x, y


def _middle(points: list[tuple[float, float]]) -> tuple[float, float]:
    """The middle of an edge's last piece, which no other edge shares."""
    (x, y), (beyond, below) = points[-2:]
    return (x + beyond) / 2, (y + below) / 2


def _operand_text(graph: ValueGraph, operand: ValueEdge) -> str:
    what = f"value {operand.source}" if operand.source else "the image"
    where = f" from the neighbour {' then '.join(graph.nodes[operand.target].directions)}" if operand.shifted else ""
    how = "subtracts" if operand.sign < 0 else "reads"
    return f"instruction {operand.target} {how} {what}{where}"
